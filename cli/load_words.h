/* Options of a load as words, for the verbs load and simulate. Thread: main's. */
#ifndef CUTAWAY_CLI_LOAD_WORDS_H
#define CUTAWAY_CLI_LOAD_WORDS_H

#include <stdbool.h>

#include "base/err.h"
#include "sessions/load/workload.h"

/* The number up to the next comma, above 0; *at: after that. option: for the error. */
int words_number(const char **at, const char *option, double *out, struct err *e);
/* "chat,edit": a set of 1 << enum workload_kind. */
int words_kinds(const char *text, uint32_t *kinds, struct err *e);
/* "gamma:2"; users: a closed loop was asked for. w->trace then points into text. */
int words_arrivals(const char *text, bool users, struct workload_options *w, struct err *e);

#endif
