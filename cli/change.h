/* What the verbs share that write changed models: a progress bar, which Ctrl-C ends, and formats
 * and groups by name. Thread: main's. */
#ifndef CUTAWAY_CLI_CHANGE_H
#define CUTAWAY_CLI_CHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/cli.h"
#include "engine/model/form.h"
#include "sessions/study/study.h"

struct bar {
	char title[64]; /* in front of what is being done; "": nothing */
	int64_t began_ns, reported_ns;
	bool reported;
	bool quiet; /* only Ctrl-C is asked for */
};

/* From here on Ctrl-C makes bar_progress() say false. */
void bar_begin(struct bar *b);
/* A quant_progress: drawn on a terminal, after the first second. */
bool bar_progress(void *bar, const char *what, int64_t done, int64_t all);
/* Wipes what is drawn. */
void bar_wipe(struct bar *b);
void bar_end(struct bar *b);

/* The recording of --record; NULL: it was not given. A quant_told that writes to it, and its end:
 * -1 also if the work had failed (rc). */
int change_record(const struct cli *c, struct study **s, struct err *e);
void change_told(void *study, struct event *ev);
int change_recorded(struct study *s, int rc, struct err *e);

/* A format by its name; `option` is for the error. */
int format_by_name(const char *name, const char *option, enum k_type *out, struct err *e);
/* --group: a number of columns, row or tensor. */
int group_by_name(const char *name, int32_t *out, struct err *e);

#endif
