/* See live.h. */
#include "tui/live.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "trace/reader.h"

enum { EVENTS_BETWEEN_LOOKS = 64 };

/* On the engine's thread; the UI learns of it through the fd, which orders the memory, too. */
static void on_stop(void *arg, const struct err *err)
{
	struct live *s = arg;
	uint64_t one = 1;

	s->stop_err = *err;
	if (write(s->fd, &one, sizeof one) < 0)
		return; /* an eventfd refuses only when it is readable already */
}

/* A recording that cannot be made is said, and the session goes on without. */
static void open_recording(struct live *s)
{
	if (s->options->record)
		writer_open(&s->writer, s->options->record, s->ring, &s->record_err);
}

static int open_all(struct live *s, struct err *e)
{
	struct engine_options o = s->options->engine;
	const struct engine_info *info;
	char sha256[SHA256_HEX];
	bool hashed;

	o.abandon = &s->abandon;
	if (engine_open(&s->engine, &o, e) < 0)
		return -1;
	/* of a large model the first time this takes seconds: not before the first screen */
	hashed = s->options->record && engine_hash_model(s->engine, &s->abandon, sha256, NULL) == 0;
	if (atomic_load(&s->abandon))
		return err_set(e, ERR_INTERRUPTED, "the session was ended before it began");
	info = engine_info(s->engine);
	if (ring_open(&s->ring, s->options->ring_bytes ? s->options->ring_bytes : RING_BYTES, e) < 0 ||
		ring_cursor_open(&s->cursor, s->ring, false, e) < 0 ||
		conversation_open(&s->conversation, info->chat, engine_tokenizer(s->engine), info->ctx,
						  s->system ? s->system : info->default_system, e) < 0)
		return -1;
	open_recording(s);
	s->event = malloc(RING_EVENT_MAX);
	if (!s->event || engine_add_sink(s->engine, ring_push, s->ring) ||
		engine_add_sink(s->engine, conversation_sink, s->conversation) ||
		(s->breaks && engine_add_sink(s->engine, breaks_feed, s->breaks)))
		return err_set(e, ERR_MEMORY, "no memory for the way of the events");
	engine_begin(s->engine, hashed ? sha256 : NULL);
	return actor_start(&s->actor, s->engine, on_stop, s, e);
}

static void *opening(void *arg)
{
	struct live *s = arg;
	uint64_t one = 1;

	open_all(s, &s->open_err);
	if (write(s->fd, &one, sizeof one) < 0)
		return NULL;
	return NULL;
}

/* On the engine's thread, within the step: it is the last before the pause. */
static void pause_engine(void *arg)
{
	actor_pause(((struct live *)arg)->actor);
}

int live_open(struct live *s, const struct tui_options *o, const char *system, struct breaks *breaks,
			  struct err *e)
{
	memset(s, 0, sizeof *s);
	s->options = o;
	s->system = system;
	s->breaks = breaks;
	if (breaks)
		breaks_on_stop(breaks, pause_engine, s);
	s->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (s->fd < 0)
		return err_set(e, ERR_IO, "eventfd: %s", strerror(errno));
	if (pthread_create(&s->thread, NULL, opening, s))
		return err_set(e, ERR_IO, "the system refused a thread to open the model");
	s->thread_started = true;
	return 0;
}

static void join(struct live *s)
{
	if (s->thread_started)
		pthread_join(s->thread, NULL);
	s->thread_started = false;
}

bool live_ready(struct live *s)
{
	uint64_t count;

	if (read(s->fd, &count, sizeof count) == sizeof count) {
		join(s);
		s->ready = s->open_err.code == 0;
		s->stopped = s->stop_err.code != 0;
	}
	return s->ready;
}

int live_close(struct live *s, struct err *e)
{
	int result;

	atomic_store(&s->abandon, true);
	join(s);
	actor_stop(s->actor);
	if (s->engine)
		engine_close(s->engine);
	result = writer_close(s->writer, e);
	if (s->cursor)
		ring_cursor_close(s->cursor);
	if (s->ring)
		ring_close(s->ring);
	conversation_close(s->conversation);
	free(s->event);
	if (s->fd >= 0)
		close(s->fd);
	return result;
}

/* The ring was overrun (the terminal had stopped, say): what is missing comes from the log, if there is one.
 * Otherwise the timeline counts it as lost. */
static void catch_up(struct live *s, struct timeline *t, int64_t from)
{
	struct writer_status status = { 0 };
	struct reader *r = NULL;
	struct event ev;

	if (s->writer)
		writer_status(s->writer, &status);
	if (!status.recording || writer_flush(s->writer) < 0 ||
		reader_open(&r, writer_path(s->writer), NULL) < 0)
		return;
	if (reader_seek(r, from, NULL) == 0)
		while (reader_next(r, &ev, NULL) == 1)
			if (ev.seq > t->last_seq)
				timeline_fold(t, &ev);
	reader_close(r);
}

bool live_feed(struct live *s, struct timeline *t, int64_t budget_ns)
{
	int64_t until = now_ns() + budget_ns, lost_from;
	bool any = false;
	struct event ev;
	uint64_t count;
	int got;

	if (read(ring_fd(s->ring), &count, sizeof count) < 0)
		count = 0;
	for (int i = 1; (got = ring_next(s->cursor, &ev, s->event, RING_EVENT_MAX, &lost_from)) != 0; i++) {
		any = true;
		if (got < 0)
			catch_up(s, t, lost_from);
		else if (ev.seq > t->last_seq)
			timeline_fold(t, &ev);
		if (i % EVENTS_BETWEEN_LOOKS == 0 && now_ns() > until) {
			ring_cursor_postpone(s->cursor);
			break;
		}
	}
	return any;
}
