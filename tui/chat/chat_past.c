/* Shows an earlier step in a chat: the recording so far, on the same screens, while the engine is
 * paused.
 *
 * The views show chat.past_timeline then, which is what a replay of the file would show. New events
 * are still folded into the live timeline. Leaving changes nothing; continuing from an earlier step
 * is in chat_travel.c. */

#include "tui/chat/chat.h"

/* The engine is paused meanwhile. */
static int open_past(struct app *a, struct err *e)
{
	struct chat *c = a->chat;
	const char *path;

	if (!c->past)
		c->past_ran = !actor_paused(c->live.session.actor);
	chat_hold(a);
	if (c->past)
		return 0;
	if (!c->live.session.writer)
		return err_set(e, ERR_USAGE,
			"this session is not recorded, and earlier steps are looked at in the recording; "
			"/rewind goes back all the same");
	path = a->mode->recording(a, e);
	if (!path || player_open(&c->past, path, e) < 0)
		return -1;
	timeline_init(&c->past_timeline);
	return 0;
}

void chat_past_leave(struct app *a)
{
	struct chat *c = a->chat;

	if (!c->past)
		return;
	player_close(c->past);
	timeline_free(&c->past_timeline);
	c->past = NULL;
	a->past = NULL;
	a->state.token = -1;
	a->dirty = true;
}

void chat_past_return(struct app *a)
{
	const bool runs = a->chat->past && a->chat->past_ran;

	chat_past_leave(a);
	if (runs)
		actor_unpause(a->chat->live.session.actor);
}

int chat_past_go(struct app *a, int64_t step, struct err *e)
{
	struct chat *c = a->chat;

	if (open_past(a, e) < 0)
		return -1;
	if (step >= player_n_steps(c->past)) {
		if (step > player_n_steps(c->past))
			app_say(a, SAY_INFO, "the newest step is %lld", (long long)player_n_steps(c->past));
		chat_past_return(a);
		return 0;
	}
	if (player_go(c->past, &c->past_timeline, step, e) < 0) {
		chat_past_leave(a);
		return -1;
	}
	a->past = &c->past_timeline;
	a->state.token = -1;
	a->dirty = true;
	return 0;
}

int chat_past_by(struct app *a, int64_t steps, struct err *e)
{
	if (open_past(a, e) < 0)
		return -1;
	return chat_past_go(
		a, (a->past ? player_at(a->chat->past) : player_n_steps(a->chat->past)) + steps, e);
}

static void go(struct app *a, int64_t step)
{
	struct err e = { 0 };

	chat_past_go(a, step, &e);
	app_complain(a, &e);
}

/* Also from the present: the marks of the recording so far are known only when it is open. */
static void go_to_mark(struct app *a, bool forward)
{
	struct err e = { 0 };
	int64_t step;

	if (!a->past && (forward || chat_past_by(a, -1, &e) < 0)) {
		app_say(a, e.code ? SAY_ERROR : SAY_INFO, "%s", e.code ? e.text : "this is the present");
		return;
	}
	step = a->past ? player_next_mark(a->chat->past, forward) : -1;
	if (step < 0)
		app_say(a, SAY_INFO, forward ? "no mark after this step" : "no mark before this step");
	else
		go(a, step);
}

bool chat_past_key(struct app *a, int key)
{
	if (!a->chat->live.ready)
		return false;
	if (key == 'n' || key == 'N') {
		go_to_mark(a, key == 'n');
	} else if (a->past && (key == KEY_END_ || key == 'G')) {
		chat_past_return(a);
	} else if (a->past && key == KEY_HOME_) {
		go(a, 0);
	} else {
		return false;
	}
	return true;
}
