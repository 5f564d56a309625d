/* A live session (sessions/session.h) and its conversation, opened on a thread of their own while
 * the first screen is already up. Internal to tui/.
 *
 * live_open() starts the thread; live_fd() becomes readable when it is done, and then live_ready()
 * returns the result. Before that nothing else may be called. Thread: the UI's, except for the
 * opening itself. */
#ifndef CUTAWAY_TUI_LIVE_H
#define CUTAWAY_TUI_LIVE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "sessions/session.h"
#include "tui/state/breaks.h"
#include "tui/chat/conversation.h"
#include "fold/timeline.h"
#include "tui/app/tui.h"

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
/* The ring was overrun (the terminal had stopped, say): what is missing comes from the log, if
 * there is one. Otherwise the timeline counts it as lost. */
void live_catch_up(struct writer *w, struct timeline *t, int64_t from);

#endif
