/* See session.h. */
#include "sessions/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "trace/recording.h"

static int make_temporary(struct session *s, struct err *e)
{
	const char *tmp = getenv("TMPDIR");
	int fd = -1;

	if (snprintf(s->temporary, sizeof s->temporary, "%s/cutaway-XXXXXX.db",
			tmp && *tmp ? tmp : "/tmp") < (int)sizeof s->temporary)
		fd = mkstemps(s->temporary, 3);
	if (fd < 0) {
		s->temporary[0] = '\0';
		return err_set(e, ERR_IO, "no temporary file for a recording can be made; see TMPDIR");
	}
	close(fd);
	return 0;
}

/* The ring is the first sink, so that no other sees an event before the recording gets it. */
static int open_events(struct session *s, const struct session_options *o, struct err *e)
{
	const char *record = o->temporary ? s->temporary : o->record;

	if (!record && !o->viewer)
		return 0;
	if (ring_open(&s->ring, o->ring_bytes ? o->ring_bytes : RING_BYTES, e) ||
		(o->viewer && ring_cursor_open(&s->viewer, s->ring, false, e)))
		return -1;
	if (record && writer_open(&s->writer, record, s->ring, o->record_or_not ? &s->record_err : e) &&
		!o->record_or_not)
		return -1;
	if (o->sink_pushes || !(o->stream ? stream_add(o->stream, ring_push, s->ring)
									  : engine_add_sink(s->engine, ring_push, s->ring)))
		return 0;
	return err_no_memory(e, "the way of the events");
}

static int open_parts(struct session *s, const struct session_options *o, struct err *e)
{
	if (o->stream)
		return open_events(s, o, e);
	if (engine_open(&s->engine, &o->engine, e))
		return -1;
	/* takes seconds for a large model the first time */
	if (o->record && engine_hash_model(s->engine, o->engine.abandon, s->sha256, &s->hash_err))
		s->sha256[0] = '\0';
	if (o->engine.abandon && atomic_load(o->engine.abandon))
		return err_set(e, ERR_INTERRUPTED, "the session was ended before it began");
	if ((o->temporary && make_temporary(s, e)) || open_events(s, o, e))
		return -1;
	if (o->sink && engine_add_sink(s->engine, o->sink, o->arg))
		return err_no_memory(e, "the way of the events");
	return 0;
}

int session_open(struct session *s, const struct session_options *o, struct err *e)
{
	*s = (struct session){ 0 };
	if (!open_parts(s, o, e))
		return 0;
	session_close(s, NULL);
	return -1;
}

int session_begin(
	struct session *s, void (*on_stop)(void *arg, const struct err *err), void *arg, struct err *e)
{
	engine_begin(s->engine, s->sha256[0] ? s->sha256 : NULL);
	return on_stop ? actor_start(&s->actor, s->engine, on_stop, arg, e) : 0;
}

int session_close(struct session *s, struct err *e)
{
	int rc;

	actor_stop(s->actor);
	engine_close(s->engine);
	rc = writer_close(s->writer, e);
	ring_cursor_close(s->viewer);
	ring_close(s->ring);
	if (*s->temporary)
		recording_delete(s->temporary);
	*s = (struct session){ 0 };
	return rc;
}
