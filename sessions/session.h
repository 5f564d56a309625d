/* The one way to open a session: an engine, the ring that carries its events, the recording and, if
 * the engine steps on a thread of its own, an actor.
 *
 * Opening and beginning are two calls. Between them the caller adds sinks and settings;
 * session_begin() emits the first events, which every sink and the recording get. Closing goes in
 * this order: actor, engine, writer (which writes what is left), ring. Thread: any one; with an
 * actor, calls of the engine after session_begin() go through that. */
#pragma once

#include "base/err.h"
#include "engine/core/actor.h"
#include "engine/core/engine.h"
#include "event/stream.h"
#include "trace/ring.h"
#include "trace/writer.h"

struct session_options {
	struct engine_options engine;
	/* in place of an engine, which is then NULL, whose events there are; or NULL */
	struct stream *stream;
	ev_sink *sink; /* or NULL; more are added with engine_add_sink() before session_begin() */
	void *arg;     /* the sink's */
	/* path of the recording; NULL: none. The session event then has the model's SHA-256 */
	const char *record;
	/* recorded into a file under TMPDIR that session_close() deletes, in place of `record` */
	bool temporary;
	bool record_or_not; /* a recording that cannot be begun is reported in record_err, not as a
						   failure */
	/* only the caller's sink pushes to the ring: for measurements */
	bool sink_pushes;
	bool viewer;       /* a ring and a cursor for a viewer, recorded or not */
	size_t ring_bytes; /* 0: RING_BYTES */
};

struct session {
	struct engine *engine;
	struct actor *actor;        /* NULL: the caller steps */
	struct ring *ring;          /* NULL: neither recorded nor viewed */
	struct ring_cursor *viewer; /* or NULL */
	struct writer *writer;      /* NULL: not recorded */
	struct err record_err;      /* why it is not recorded */
	struct err hash_err;        /* why the recording lacks the model's SHA-256 */
	char sha256[SHA256_HEX];    /* of the model; "": not known */
	char temporary[256];        /* file to delete; "": none */
};

/* -1: nothing is left open. ERR_INTERRUPTED once options->engine.abandon is set. */
int session_open(struct session *s, const struct session_options *o, struct err *e);
/* Emits the session event and the settings. on_stop not NULL: starts the actor, which calls it on
 * the engine's thread if a step fails. */
int session_begin(
	struct session *s, void (*on_stop)(void *arg, const struct err *err), void *arg, struct err *e);
/* Closes what is open; a session that was never opened (all zero) is fine. -1: the recording had
 * failed. */
int session_close(struct session *s, struct err *e);
