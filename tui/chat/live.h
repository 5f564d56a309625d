/* A live session (sessions/session.h) and its conversation, opened on a thread of their own while
 * the first screen is already up. Internal to tui/.
 *
 * live_open() starts the thread; live_fd() becomes readable when it is done, and then live_ready()
 * returns the result. Before that nothing else may be called. Thread: the UI's, except for the
 * opening itself. */
#pragma once

#include "sessions/session.h"
#include "tui/app/app.h"
#include "tui/chat/conversation.h"

struct live {
	const struct tui_options *options;
	struct session session;
	struct conversation *conversation;
	void *event; /* [RING_EVENT_MAX] the event being folded */
	struct err open_err, stop_err;
	struct tui_says guest_says;
	bool guest_began;
	bool stopped; /* the engine cannot go on: stop_err */
	bool ready;
	struct breaks *breaks; /* fed on the engine's thread, and stops it; may be NULL */
	/* cancels the opening; not in this struct, which may move until it begins */
	atomic_bool *abandon;
	int (*later)(void *arg, struct live *s, struct err *e); /* see live_open() */
	void *later_arg;
	int fd;
	bool thread_started;
	pthread_t thread;
};

int live_open(struct live *s, const struct tui_options *o, struct breaks *breaks, struct err *e);
/* The same, but the session does not begin: no event is emitted until live_begin(), and the struct
 * may be copied before it. later: called at the end of the opening, on its thread; -1 is its error.
 */
int live_open_later(struct live *s, const struct tui_options *o, struct breaks *breaks,
	int (*later)(void *arg, struct live *s, struct err *e), void *arg, struct err *e);
int live_begin(struct live *s, struct err *e);
/* Cancels the opening, if it still runs, within about 100 ms, then closes everything; the recording
 * is complete afterwards. -1: the recording had failed. */
int live_close(struct live *s, struct err *e);
/* After live_fd() was readable: joins the thread if it is done. True while the session can be
 * used. */
bool live_ready(struct live *s);
/* Moves events into the timeline, at most for budget_ns. True if there were any. */
bool live_feed(struct live *s, struct timeline *t, int64_t budget_ns);
/* The same of any session; event: [RING_EVENT_MAX]. */
bool live_follow(struct ring *ring, struct ring_cursor *viewer, struct writer *w, void *event,
	struct timeline *t, int64_t budget_ns);
/* Says once that the recording has stopped. */
void live_look_at_recording(struct app *a, struct writer *w, bool *failed);

/* Turns that wait: entered while an answer runs, and not submitted yet. Every line that was typed
 * is in the prompt's history already (the up key), whatever becomes of its turn. */

/* Copies the line; when VIEW_WAITING wait, it is said, and the line is in the history alone. */
void waiting_push(struct app *a, struct view_waiting *w, const char *line);
/* The oldest, malloc'd; NULL: none waits. */
char *waiting_take(struct view_waiting *w);
/* Puts the newest back into the prompt; false: none waits. */
bool waiting_take_back(struct view_waiting *w);
/* Returns how many there were. */
int waiting_forget(struct view_waiting *w);
/* Forgets them and says so, and whether an answer was stopped with them (Ctrl-C). */
void waiting_stop(struct app *a, struct view_waiting *w, bool stopped, bool recorded);
