/* An engine with its recording, as the verbs without a screen use it. Thread: main's. */
#ifndef CUTAWAY_CLI_SESSION_H
#define CUTAWAY_CLI_SESSION_H

#include "base/err.h"
#include "cli/cli.h"
#include "engine/engine.h"

struct session {
	struct engine *engine;
	struct ring *ring; /* NULL: nothing is recorded */
	struct writer *writer;
	char *model; /* path */
	bool wanted; /* the recording was asked for by name: its failure is the session's failure */
};

/* Opens the engine, adds sink (or NULL) and the recording as the command line says, and begins.
 * Where the default recording cannot be made, says so on standard error and goes on. */
int session_open(struct session *s, const struct cli *c, ev_sink *sink, void *arg, struct err *e);
/* The recording into a new file of this name, for verbs that record on their own account. Before
 * engine_begin(). */
int session_record(struct session *s, const char *path, struct err *e);
/* Closes engine and recording in order. -1 if a recording that was asked for by name failed. */
int session_close(struct session *s, struct err *e);

#endif
