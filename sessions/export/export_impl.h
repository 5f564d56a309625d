/* Inside sessions/export/: what a format is, and words that several use. */
#pragma once

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/lossy.h"
#include "event/texts.h"
#include "sessions/export/export.h"

struct exporter {
	FILE *out;
	const struct export_options *o;
	struct ev_texts texts;
	struct lossy_settings settings; /* as they stand */
	/* the sets of lossy settings that steps ran with, in order: "window:512; window:64"; "": none
	 */
	char lossy[256];
	bool no_memory;
	void *own; /* the format's state */
	int64_t n; /* rows written, for commas */
};

struct export_ops {
	const char *name;
	bool engine; /* it draws what an engine of ours tells: steps, pages, kernels */
	/* Each may be NULL. begin: -1 with the error. end is called whatever happened. */
	int (*begin)(struct exporter *x, struct err *e);
	void (*event)(struct exporter *x, const struct event *ev);
	void (*end)(struct exporter *x);
};
extern const struct export_ops export_csv, export_jsonl, export_perfetto, export_html;

/* csv: the rows of one of the schema's views. 1: there is none of that name. */
int export_view(struct exporter *x, const char *path, struct err *e);

/* A JSON string, quoted; valid whatever the bytes are. */
void export_json_text(struct exporter *x, const void *text, size_t size);
void export_json_token(struct exporter *x, int64_t id);
/* A finite number, else null; before: what is written first. */
void export_json_real(FILE *out, const char *before, double v);
void export_hex(FILE *out, struct ev_span bytes);
/* A packed column as JSON: what the event table documents is unpacked, anything else is hex. */
void export_json_blob(
	struct exporter *x, enum ev_kind kind, const char *field, struct ev_span blob);
