/* What the verbs share that write changed models: a progress bar, which Ctrl-C ends, and formats
 * and groups by name. Thread: main's. */
#pragma once

#include <stdint.h>

#include "cli/cli.h"
#include "lab/quant.h"
#include "sessions/study/study.h"

struct bar {
	char title[64]; /* in front of what is being done; "": nothing */
	int64_t began_ns, reported_ns;
	bool quiet; /* only Ctrl-C is asked for */
};

/* From here on Ctrl-C makes bar_progress() say false. */
void bar_begin(struct bar *b);
/* A quant_progress: drawn on a terminal, after the first second. */
bool bar_progress(void *bar, const char *what, int64_t done, int64_t all);
/* Wipes what is drawn, as out_progress_end() does between pieces of work. */
void bar_end(void);

/* What a changed model is made by: the text of --calibrate, the recording of --record. */
struct change_run {
	struct bar bar;
	struct study *study; /* NULL: nothing is recorded */
	char *text;
	int64_t began_ns;
	double seconds; /* set by change_end() */
};

/* Fills in *o. To be ended also after an error. */
int change_begin(
	struct change_run *r, const struct cli *c, struct change_options *o, struct err *e);
/* -1 also if the work had failed (rc). */
int change_end(struct change_run *r, int rc, struct err *e);

/* By which text it was made, on a line, if by one; after that what both say at the end. */
void change_print_text(const struct cli *c, const struct change_result *r);
void change_print_end(const struct change_run *run, const struct change_result *r);

/* A format by its name; `option` is for the error. */
int format_by_name(const char *name, const char *option, enum k_type *out, struct err *e);
/* --group: a number of columns, row or tensor. */
int group_by_name(const char *name, int32_t *out, struct err *e);
