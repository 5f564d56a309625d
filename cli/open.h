/* The model file and the session (sessions/session.h) that the command line specifies. Thread:
 * main's. */
#pragma once

#include "cli/cli.h"
#include "sessions/session.h"

struct history;

/* The path that --model names, or of the fetched model (base/models.h). malloc'd. -1: there is
 * none, and the error says how to get it. */
int model_find(const struct cli *c, char **path, struct err *e);
/* The model of a recording: given (if not NULL), else where it was, else what model_find() finds,
 * whichever has the recorded SHA-256. malloc'd. */
int model_find_recorded(
	const struct cli *c, const struct history *h, const char *given, char **path, struct err *e);

/* Opens and begins it with the command line's model and recording. If the default recording cannot
 * be created, warns on standard error and goes on. */
int cli_open(struct session *s, const struct cli *c, ev_sink *sink, void *arg, struct err *e);
/* -1 if the recording failed and --record named it; a failure of the default one is a warning on
 * standard error. */
int cli_close(struct session *s, const struct cli *c, struct err *e);
