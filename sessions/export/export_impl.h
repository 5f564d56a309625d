/* Inside sessions/export/: what a format is, and words that several use. */
#pragma once

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/lossy.h"
#include "event/texts.h"
#include "sessions/export/export.h"
#include "trace/times.h"

struct reader;

struct exporter {
	FILE *out;
	const char *path; /* of the recording */
	const struct export_options *o;
	struct ev_texts texts;
	struct lossy_settings settings; /* as they stand */
	/* the sets of lossy settings that steps ran with, in order: "window:512; window:64"; "": none
	 */
	char lossy[256];
	bool no_memory;
	void *own; /* the format's state */
	/* csv: a table whose blobs are packed */
	bool packed;
	struct times_buf unpacked;
	int64_t n;      /* rows written, for commas */
	int64_t n_rows; /* and events: all that were looked at */
};

struct export_ops {
	const char *name;
	bool engine;    /* it draws what an engine of ours tells: steps, pages, kernels */
	uint64_t kinds; /* of the events that it needs one by one; 0: all */
	/* Each may be NULL. -1 with the error. end is called whatever happened; r NULL: that failed. */
	int (*begin)(struct exporter *x, struct err *e);
	void (*event)(struct exporter *x, const struct event *ev);
	int (*end)(struct exporter *x, struct reader *r, struct err *e);
};
extern const struct export_ops export_csv, export_jsonl, export_perfetto, export_html;

/* csv: the rows of one of the schema's tables or views. */
int export_table(struct exporter *x, struct err *e);

/* A query whose rows become JSON. In it ?1 and ?2 are number and time of the last event that
 * there was, and code_name(list, value) is the name of a code. An alias is the key of an object's
 * member and, after a colon, how a value is written: see export_query.c. */
enum export_form { EXPORT_ARRAY, EXPORT_OBJECT, EXPORT_EVENT /* of perfetto */ };
struct export_list {
	const char *key; /* of the list of them, or NULL */
	enum export_form form;
	int64_t most;  /* rows */
	int64_t bytes; /* of blobs in them */
	const char *sql;
};
/* Writes the rows, with commas between them (x->n). *left: those for which there was no room. */
int export_rows(struct exporter *x, struct reader *r, const struct export_list *l, int64_t *left,
	struct err *e);
/* A JSON string in which nothing can end an element of HTML. */
void export_text(struct exporter *x, const char *bytes, size_t size);

/* -1: not all could be written. */
int export_flush(struct exporter *x, struct err *e);
/* After a row or an event: -1: somebody stops it, or memory or disk are full. */
int export_goes_on(struct exporter *x, int64_t done, int64_t last, struct err *e);
/* A JSON string, quoted; valid whatever the bytes are. */
void export_json_text(struct exporter *x, const void *text, size_t size);
void export_json_token(struct exporter *x, int64_t id);
/* A finite number, else null; before: what is written first. */
void export_json_real(FILE *out, const char *before, double v);
void export_hex(FILE *out, struct ev_span bytes);
/* A packed column as JSON: what the event table documents is unpacked, anything else is hex. */
void export_json_blob(
	struct exporter *x, enum ev_kind kind, const char *field, struct ev_span blob);
