/* A recording in the formats of other tools: a fold of its events, written as they are read, in
 * memory that does not grow with the session.
 *
 * The file may come from anywhere; what is written is valid in its format whatever the file says.
 * Thread: any one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

struct export_options {
	const char *to;    /* name of a format */
	const char *table; /* csv: which kind of events, or a view of the schema; NULL: token */
	/* Told while it runs: events read, and the last there is; false stops (ERR_INTERRUPTED). May be
	 * NULL. */
	bool (*progress)(void *arg, int64_t done, int64_t all);
	void *arg;
};

/* Reads the recording at `path` and writes it to out; the caller closes that. */
int export_session(const char *path, const struct export_options *o, FILE *out, struct err *e);
