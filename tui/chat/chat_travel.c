/* The commands that rewind, fork and continue; chat_moves.c carries them out. */
#include "tui/chat/chat.h"

int chat_stand_here(struct app *a, struct err *e)
{
	const struct timeline *t = app_timeline(a);
	const struct tl_request *r;

	chat_hold(a);
	a->chat->standing = false;
	r = a->past ? NULL : timeline_request(t, a->state.branch);
	r = r ? r : chat_newest(a, t);
	if (!r)
		return a->past ? chat_begin_anew(a, e) : 0;
	if (chat_stand_at(a, t, timeline_branch_whole(t, r->id), e) < 0)
		return -1;
	chat_past_leave(a);
	return 0;
}

static int go_on_from_past(struct app *a, struct err *e)
{
	if (!a->chat->search.running)
		return chat_move_all(a, a->past, e);
	chat_past_leave(a);
	actor_resume(a->chat->live.session.actor);
	app_say(a, SAY_INFO, "a search goes on from where it stands: its branches do not go back");
	return 0;
}

/* After /rewind and a change of settings, forks the running request where it is, with the new
 * settings. */
static int apply_changes(struct app *a, bool goes_on, struct err *e)
{
	struct chat *c = a->chat;
	const struct tl_request *r = view_active(&a->timeline, &a->state);
	char changed[200];

	c->standing = false;
	if (r && !r->finished &&
		travel_changed(r, conversation_open_pos(c->live.conversation, r->id), &c->settings,
			engine_info(c->live.session.engine)->ctx, changed, sizeof changed))
		return chat_move(
			a, &a->timeline, timeline_branch_whole(&a->timeline, r->id), -1, false, goes_on, e);
	if (goes_on)
		actor_resume(c->live.session.actor);
	return 0;
}

int chat_step(struct app *a, int n, struct err *e)
{
	if (a->past)
		return chat_past_by(a, n, e);
	actor_pause(a->chat->live.session.actor);
	if (a->chat->standing && apply_changes(a, false, e) < 0)
		return -1;
	actor_step(a->chat->live.session.actor, n);
	return 0;
}

int chat_go_on(struct app *a, struct err *e)
{
	if (a->past)
		return go_on_from_past(a, e);
	if (a->chat->standing)
		return apply_changes(a, true, e);
	actor_resume(a->chat->live.session.actor);
	return 0;
}

/* --- the commands --- */

const struct tl_request *chat_focused(struct app *a, struct err *e)
{
	const struct tl_request *r;

	/* the search's answer is not part of the conversation yet, and the previous turn is not
	 * meant */
	if (a->chat->search.running) {
		err_set(e, ERR_USAGE,
			"a search runs, whose branches do not go back: Esc stops it, and its best answer "
			"stands");
		return NULL;
	}
	chat_hold(a);
	r = a->state.request || a->state.branch || a->state.token >= 0
			? view_request(app_timeline(a), &a->state)
			: chat_newest(a, app_timeline(a));
	if (r && view_is_chat(r))
		return r;
	err_set(e, ERR_USAGE, "nothing is said yet: there is nowhere to go back to");
	return NULL;
}

static int focused(struct app *a, struct travel_from *out, struct err *e)
{
	const struct tl_request *r = chat_focused(a, e);

	if (!r)
		return -1;
	*out = (struct travel_from){ .t = app_timeline(a),
		.request = r->id,
		.open = conversation_open_pos(a->chat->live.conversation, r->id),
		.cursor = a->state.token };
	return 0;
}

int chat_rewind(struct app *a, const char *where, struct err *e)
{
	struct travel_from f;
	struct tl_branch to;

	if (focused(a, &f, e) < 0 || travel_where(&f, "rewind", where, &to, e) < 0)
		return -1;
	return chat_move(a, f.t, to, -1, false, false, e);
}

int chat_fork_at(struct app *a, const char *where, struct err *e)
{
	bool paused = actor_steps(a->chat->live.session.actor);
	struct travel_from f;
	struct tl_branch to;

	if (focused(a, &f, e) < 0 || travel_where(&f, "fork", where, &to, e) < 0 ||
		chat_move(a, f.t, to, -1, true, true, e) < 0)
		return -1;
	if (paused)
		actor_pause(a->chat->live.session.actor);
	return 0;
}

int chat_try(struct app *a, const char *token, struct err *e)
{
	struct travel_from f;
	struct tl_branch to;
	int32_t id;

	if (focused(a, &f, e) < 0 || travel_where(&f, "try", "", &to, e) < 0 ||
		travel_token(engine_tokenizer(a->chat->live.session.engine), &f, to, token, &id, e) < 0)
		return -1;
	return chat_move(a, f.t, to, id, false, true, e);
}

/* Continues an answer that was interrupted; an answer that had ended is followed by the next
 * turn. */
static int switch_to(struct app *a, struct tl_branch b, struct err *e)
{
	const struct tl_request *r;
	bool paused = actor_steps(a->chat->live.session.actor);

	chat_hold(a);
	r = timeline_request(&a->timeline, b.request);
	b.pos = timeline_branch_length(&a->timeline, b);
	if (!r)
		return err_set(e, ERR_USAGE, "this branch is not known");
	if (b.abandoned < 0 && !r->finished) {
		a->state.branch = b.request;
		conversation_choose(a->chat->live.conversation, b.request);
	} else if (b.abandoned < 0 && r->finish.reason != EV_FINISH_cancelled) {
		if (chat_stand_at(a, &a->timeline, b, e) < 0)
			return -1;
	} else if (chat_move(a, &a->timeline, b, -1, false, !paused, e) < 0) {
		return -1;
	}
	chat_past_leave(a);
	if (!paused)
		actor_resume(a->chat->live.session.actor);
	return 0;
}

/* In a long session the oldest branches leave the timeline, and the others move down. */
static bool find_again(const struct timeline *t, struct tl_branch *b)
{
	int32_t length = b->pos;

	if (b->abandoned < 0)
		return timeline_request(t, b->request) != NULL;
	for (b->abandoned = b->abandoned < t->n_abandoned ? b->abandoned : t->n_abandoned - 1;
		 b->abandoned >= 0; b->abandoned--)
		if (t->abandoned[b->abandoned].request == b->request &&
			timeline_branch_length(t, *b) == length)
			return true;
	return false;
}

int chat_undo(struct app *a, struct err *e)
{
	struct tl_branch b;

	if (!a->chat->n_left)
		return err_set(e, ERR_USAGE, "no branch was left yet: there is nothing to return to");
	b = a->chat->left[--a->chat->n_left];
	if (!find_again(&a->timeline, &b))
		return err_set(e, ERR_USAGE, "that branch is so long ago that only the recording has it");
	return switch_to(a, b, e);
}

void chat_action(struct app *a, const struct view_action *w)
{
	struct actor *actor = a->chat->live.session.actor;
	bool paused = actor_paused(actor);
	struct err e = { 0 };
	int result = 0;

	if (w->what == ACTION_BRANCH) {
		result = switch_to(a, w->branch, &e);
	} else if (w->what == ACTION_TRY) {
		const struct timeline *t = app_timeline(a);

		chat_hold(a);
		result = chat_move(a, t, w->branch, w->token, false, true, &e);
	}
	if (result < 0 && !paused)
		actor_unpause(actor);
	app_complain(a, &e);
}
