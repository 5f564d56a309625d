/* See live.h. */
#include "tui/chat/live.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "trace/reader.h"

enum { EVENTS_BETWEEN_LOOKS = 64 };

/* On the engine's thread; the fd wakes the UI and also orders the memory accesses. */
static void on_stop(void *arg, const struct err *err)
{
	struct live *s = arg;
	uint64_t one = 1;

	s->stop_err = *err;
	if (write(s->fd, &one, sizeof one) < 0)
		return; /* writing to an eventfd fails only when it is readable already */
}

/* On the engine's thread, within the step, which is the last before the pause. */
static void pause_engine(void *arg)
{
	actor_pause(((struct live *)arg)->session.actor);
}

int live_begin(struct live *s, struct err *e)
{
	const struct tui_guest *guest = s->options->guest;

	if (s->breaks)
		breaks_on_stop(s->breaks, pause_engine, s);
	if (engine_add_sink(s->session.engine, conversation_sink, s->conversation) ||
		(s->breaks && engine_add_sink(s->session.engine, breaks_feed, s->breaks)) ||
		(guest && engine_add_sink(s->session.engine, guest->sink, guest->sink_arg)))
		return err_no_memory(e, "the way of the events");
	if (session_begin(&s->session, on_stop, s, e))
		return -1;
	s->guest_began = guest && !guest->begin(guest->arg, &s->session, &s->guest_says, e);
	return guest && !s->guest_began ? -1 : 0;
}

static int open_all(struct live *s, struct err *e)
{
	struct session_options o = { .engine = s->options->engine,
		.record = s->options->record,
		.record_or_not = true,
		.viewer = true,
		.ring_bytes = s->options->ring_bytes };
	const struct engine_info *info;

	o.engine.abandon = s->abandon;
	if (session_open(&s->session, &o, e))
		return -1;
	info = engine_info(s->session.engine);
	const struct chat_input chat = engine_chat(s->session.engine);

	if (conversation_open(&s->conversation, &chat, info->ctx,
			answer_system(&s->options->answer, info->default_system), e) < 0)
		return -1;
	s->event = malloc(RING_EVENT_MAX);
	if (!s->event)
		return err_no_memory(e, "the way of the events");
	return s->later ? s->later(s->later_arg, s, e) : live_begin(s, e);
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

int live_open_later(struct live *s, const struct tui_options *o, struct breaks *breaks,
	int (*later)(void *arg, struct live *s, struct err *e), void *arg, struct err *e)
{
	*s =
		(struct live){ .options = o, .breaks = breaks, .later = later, .later_arg = arg, .fd = -1 };
	s->abandon = calloc(1, sizeof *s->abandon);
	if (!s->abandon)
		return err_no_memory(e, "a session");
	s->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (s->fd < 0)
		return err_set(e, ERR_IO, "eventfd: %s", strerror(errno));
	if (pthread_create(&s->thread, NULL, opening, s))
		return err_set(e, ERR_IO, "the system refused a thread to open the model");
	s->thread_started = true;
	return 0;
}

int live_open(struct live *s, const struct tui_options *o, struct breaks *breaks, struct err *e)
{
	return live_open_later(s, o, breaks, NULL, NULL, e);
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

	if (s->abandon)
		atomic_store(s->abandon, true);
	join(s);
	if (s->guest_began)
		s->options->guest->end(s->options->guest->arg);
	result = session_close(&s->session, e);
	conversation_close(s->conversation);
	free(s->event);
	free(s->abandon);
	if (s->fd >= 0)
		close(s->fd);
	return result;
}

static void fold_new(void *arg, const struct event *ev)
{
	struct timeline *t = arg;

	if (ev->seq > t->last_seq)
		timeline_fold(t, ev);
}

/* The ring was overrun (the terminal had stopped, say): what is missing comes from the log, if
 * there is one. Otherwise the timeline counts it as lost. */
static void catch_up(struct writer *w, struct timeline *t, int64_t from)
{
	struct writer_status status = { 0 };

	if (w)
		writer_status(w, &status);
	if (status.recording && !writer_flush(w))
		reader_each(writer_path(w), UINT64_MAX, from, fold_new, t, NULL);
}

bool live_follow(struct ring *ring, struct ring_cursor *viewer, struct writer *w, void *event,
	struct timeline *t, int64_t budget_ns)
{
	int64_t until = now_ns() + budget_ns, lost_from;
	bool any = false;
	struct event ev;
	uint64_t count;
	int got;

	if (read(ring_fd(ring), &count, sizeof count) < 0)
		count = 0;
	for (int i = 1; (got = ring_next(viewer, &ev, event, RING_EVENT_MAX, &lost_from)) != 0; i++) {
		any = true;
		if (got < 0)
			catch_up(w, t, lost_from);
		else if (ev.seq > t->last_seq)
			timeline_fold(t, &ev);
		if (i % EVENTS_BETWEEN_LOOKS == 0 && now_ns() > until) {
			ring_cursor_postpone(viewer);
			break;
		}
	}
	return any;
}

bool live_feed(struct live *s, struct timeline *t, int64_t budget_ns)
{
	return live_follow(
		s->session.ring, s->session.viewer, s->session.writer, s->event, t, budget_ns);
}

void live_look_at_recording(struct app *a, struct writer *w, bool *failed)
{
	struct writer_status status;

	if (!w || *failed)
		return;
	writer_status(w, &status);
	if (status.recording)
		return;
	*failed = true;
	app_say(a, SAY_ERROR, "recording stopped: %s (the chat goes on)", status.err.text);
}

/* --- turns that wait --- */

void waiting_push(struct app *a, struct view_waiting *w, const char *line)
{
	if (w->n == VIEW_WAITING || !(w->text[w->n] = strdup(line)))
		app_say(a, SAY_ERROR, "%d turns are waiting already: the up key has this one", w->n);
	else
		w->n++;
	a->dirty = true;
}

char *waiting_take(struct view_waiting *w)
{
	char *oldest = w->n ? w->text[0] : NULL;

	if (oldest)
		memmove(w->text, w->text + 1, (size_t)--w->n * sizeof *w->text);
	return oldest;
}

bool waiting_take_back(struct view_waiting *w)
{
	if (!w->n)
		return false;
	prompt_set(w->text[--w->n]);
	free(w->text[w->n]);
	return true;
}

int waiting_forget(struct view_waiting *w)
{
	const int n = w->n;

	while (w->n)
		free(w->text[--w->n]);
	return n;
}

void waiting_stop(struct app *a, struct view_waiting *w, bool stopped, bool recorded)
{
	if (waiting_forget(w))
		app_say(a, SAY_INFO, "%s (the up key has it); ^C again quits",
			stopped ? "stopped, and what waited with it" : "what waited is not sent");
	else if (stopped)
		app_say(a, SAY_INFO, "stopped; ^C again quits");
	else
		app_say(a, SAY_INFO, "^C again quits; %s",
			recorded ? "the session is saved" : "nothing was recorded");
}
