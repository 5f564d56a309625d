/* A session (sessions/session.h) as the command line specifies it. Thread: main's. */
#ifndef CUTAWAY_CLI_OPEN_H
#define CUTAWAY_CLI_OPEN_H

#include "base/err.h"
#include "cli/cli.h"
#include "sessions/session.h"

/* Opens and begins it with the command line's model and recording. If the default recording cannot
 * be created, warns on standard error and goes on. */
int cli_open(struct session *s, const struct cli *c, ev_sink *sink, void *arg, struct err *e);
/* -1 if the recording failed and --record named it; a failure of the default one is a warning on
 * standard error. */
int cli_close(struct session *s, const struct cli *c, struct err *e);

#endif
