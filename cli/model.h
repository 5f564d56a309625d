/* Which model file. Thread: main's. */
#ifndef CUTAWAY_CLI_MODEL_H
#define CUTAWAY_CLI_MODEL_H

#include "base/err.h"
#include "cli/cli.h"

struct history;

/* The path that --model names, or of the fetched model (base/models.h). malloc'd. -1: there is
 * none, and the error says how to get it. */
int model_find(const struct cli *c, char **path, struct err *e);
/* The model of a recording: given (if not NULL), else where it was, else what model_find() finds,
 * whichever has the recorded SHA-256. malloc'd. */
int model_find_recorded(
	const struct cli *c, const struct history *h, const char *given, char **path, struct err *e);

#endif
