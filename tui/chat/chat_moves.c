/* Moving the engine to an earlier position: rewinding running requests, forking ended ones, forcing
 * a token.
 *
 * A move keeps one request's tokens up to a position and continues from there. If the request runs,
 * has these tokens, and has the user's present settings, it is rewound in place, and only the
 * newest row is recomputed. Otherwise it is forked: a new request with these tokens as its prompt,
 * whose pages come from the prefix cache or are shared with the running request. The abandoned
 * tokens stay in the log, in the timeline as a branch, and in chat.left. */

#include "tui/chat/chat.h"

enum { MOVES_MAX = 64, LEAVE_MAX = 64 };

struct move {
	/* where its tokens are read: the present, or the step shown */
	const struct timeline *from;
	struct tl_branch branch; /* .pos: tokens that are kept */
	int32_t forced;          /* id to put after them, or -1 */
	bool beside;             /* the other branch continues, too */
	/* made by prepare() */
	int32_t *ids, n_ids;
	bool in_place;
	int64_t made; /* the request that continues */
};

struct journey {
	struct move move[MOVES_MAX];
	int n;
	struct engine_request request[MOVES_MAX];
	int64_t leave[LEAVE_MAX]; /* requests to cancel */
	int n_leave;
	struct err err;
};

/* --- on the engine's thread, between two steps --- */

static void travel(struct engine *engine, void *arg)
{
	struct journey *j = arg;

	for (int i = 0; i < j->n_leave; i++)
		engine_cancel(engine, j->leave[i]);
	for (int i = 0; i < j->n && !j->err.code; i++) {
		struct move *m = &j->move[i];

		m->made = m->branch.request;
		if (m->in_place)
			engine_rewind(engine, m->branch.request, m->branch.pos, m->forced, &j->err);
		else
			m->made = engine_submit(engine, &j->request[i], &j->err);
	}
}

/* --- preparing --- */

void chat_feed(struct app *a)
{
	live_feed(&a->chat->live, &a->timeline, INT64_MAX / 2);
}

void chat_hold(struct app *a)
{
	actor_pause(a->chat->live.session.actor);
	actor_call(a->chat->live.session.actor, NULL, NULL);
	chat_feed(a);
}

static int copy_ids(struct move *m, struct err *e)
{
	m->n_ids = m->branch.pos + (m->forced >= 0);
	m->ids = malloc(((size_t)m->n_ids + 1) * sizeof *m->ids);
	if (!m->ids)
		return err_set(e, ERR_MEMORY, "no memory to go back");
	for (int32_t i = 0; i < m->branch.pos; i++) {
		m->ids[i] = timeline_branch_id(m->from, m->branch, i);
		if (m->ids[i] < 0)
			return err_set(e, ERR_USAGE, "position %d of request %s was not seen: events were lost",
				i, view_label(m->branch.request).text);
	}
	if (m->forced >= 0)
		m->ids[m->branch.pos] = m->forced;
	return 0;
}

/* Whether the running request can be rewound in place. */
static bool fits_in_place(struct app *a, const struct move *m, int32_t open)
{
	const struct tl_request *r = timeline_request(&a->timeline, m->branch.request);
	struct tl_branch now = { m->branch.request, -1, 0 };
	char changed[8];

	/* a waiting request has computed nothing that could be kept */
	if (m->beside || !r || (r->state != TL_RUNNING && r->state != TL_PREEMPTED) ||
		m->branch.pos < r->n_prompt || m->branch.pos > timeline_branch_length(&a->timeline, now) ||
		travel_changed(r, open, &a->chat->settings, engine_info(a->chat->live.session.engine)->ctx,
			changed, sizeof changed))
		return false;
	for (int32_t i = r->n_prompt; i < m->branch.pos; i++)
		if (timeline_branch_id(&a->timeline, now, i) != m->ids[i])
			return false;
	return true;
}

static int fill_fork(
	struct app *a, const struct move *m, int32_t open, struct engine_request *out, struct err *e)
{
	const struct tl_request *r = timeline_request(m->from, m->branch.request);
	struct conversation_prompt p = {
		.ids = m->ids, .n_ids = m->n_ids, .text = r && r->text ? r->text : ""
	};

	*out = chat_request(a->chat, EV_REQUEST_KIND_fork, &p, r ? r->sample : 0);
	out->parent = m->branch.request;
	out->fork_pos = m->branch.pos;
	out->forced = m->forced >= 0;
	out->bound_from = open;
	if (out->max_tokens) /* the limit is for the whole answer */
		out->max_tokens -= m->n_ids - open;
	if (a->chat->settings.max_tokens && out->max_tokens < 1)
		return err_set(e, ERR_USAGE,
			"the answer has its %d tokens there already: /max-tokens N allows more",
			a->chat->settings.max_tokens);
	return 0;
}

static int prepare(struct app *a, struct journey *j, struct move *m, struct err *e)
{
	int32_t open = conversation_open_pos(a->chat->live.conversation, m->branch.request);

	if (open < 0)
		return err_set(e, ERR_USAGE, "request %s is not part of the conversation",
			view_label(m->branch.request).text);
	if (m->branch.pos < open || m->branch.pos > timeline_branch_length(m->from, m->branch))
		return err_set(e, ERR_USAGE, "the answer of request %s has positions %d to %d, not %d",
			view_label(m->branch.request).text, open, timeline_branch_length(m->from, m->branch),
			m->branch.pos);
	if (copy_ids(m, e) < 0)
		return -1;
	m->in_place = fits_in_place(a, m, open);
	return m->in_place ? 0 : fill_fork(a, m, open, &j->request[m - j->move], e);
}

/* Cancels running answers that are not rewound themselves: the conversation leaves them. */
static void leave_others(struct app *a, struct journey *j)
{
	int64_t id[LEAVE_MAX];
	int n = conversation_running(a->chat->live.conversation, id, LEAVE_MAX);

	for (int i = 0; i < n && i < LEAVE_MAX; i++) {
		bool stays = false;

		for (int k = 0; k < j->n; k++)
			stays |=
				j->move[k].branch.request == id[i] && (j->move[k].in_place || j->move[k].beside);
		if (!stays)
			j->leave[j->n_leave++] = id[i];
	}
}

/* --- what was left --- */

/* A branch without a drawn token is not kept. */
static void push_left(struct chat *c, const struct timeline *t, struct tl_branch b)
{
	const struct tl_request *r = timeline_request(t, b.request);

	if (b.abandoned < 0 && (!r || !r->n_tokens))
		return;
	b.pos = timeline_branch_length(t, b);
	if (c->n_left == CHAT_LEFT)
		memmove(c->left, c->left + 1, (size_t)--c->n_left * sizeof *c->left);
	c->left[c->n_left++] = b;
}

const struct tl_request *chat_newest(struct app *a, const struct timeline *t)
{
	struct conversation *own = a->chat->live.conversation;

	for (int32_t i = t->n_requests; i-- > 0;)
		if (conversation_open_pos(own, t->request[i].id) >= 0)
			return &t->request[i];
	return NULL;
}

int64_t chat_goes_on_from(struct app *a)
{
	const int64_t request = a->state.request ? a->state.request : a->state.branch;
	bool other;
	int64_t from = conversation_goes_on(a->chat->live.conversation, request, &other);

	return other ? from : 0;
}

int64_t chat_stands_at(struct app *a)
{
	const struct tl_request *r = timeline_request(&a->timeline, a->state.branch);

	r = r ? r : chat_newest(a, &a->timeline);
	return r ? r->id : 0;
}

/* --- going --- */

/* ", with ' dog' there" */
static struct view_text forced_words(const struct timeline *t, const struct move *m)
{
	return m->forced >= 0 ? view_form(", with %s there", view_quote(t, m->forced).text)
						  : (struct view_text){ "" };
}

static void say_in_place(
	struct app *a, const struct move *m, const struct tl_request *r, bool goes_on)
{
	const struct ev_rewind *w = &r->rewind;

	app_say(a, SAY_INFO,
		"request %s went back to position %" PRId64 "%s: %" PRId64 " token%s and %" PRId64
		" page%s let go of, %" PRId64 " row%s to compute%s",
		view_label(r->id).text, w->kept, forced_words(&a->timeline, m).text, w->had - w->kept,
		plural(w->had - w->kept), w->pages, plural(w->pages), w->recompute, plural(w->recompute),
		goes_on ? "" : " · F5 goes on, /undo returns");
}

static void say_fork(struct app *a, const struct move *m, const char *changed, bool goes_on)
{
	app_say(a, SAY_INFO, "request %s goes on from position %d of %s%s%s%s%s",
		view_label(m->made).text, m->branch.pos, view_label(m->branch.request).text,
		forced_words(&a->timeline, m).text, *changed ? ", changed: " : "", changed,
		goes_on ? "" : " · F5 goes on, /undo returns");
}

static void say_move(struct app *a, const struct move *m, bool goes_on)
{
	const struct tl_request *r = timeline_request(&a->timeline, m->branch.request);
	char changed[200] = "";

	if (!r)
		return;
	if (m->in_place) {
		say_in_place(a, m, r, goes_on);
		return;
	}
	travel_changed(r, conversation_open_pos(a->chat->live.conversation, r->id), &a->chat->settings,
		engine_info(a->chat->live.session.engine)->ctx, changed, sizeof changed);
	say_fork(a, m, changed, goes_on);
}

static void say_moves(struct app *a, const struct journey *j, bool goes_on)
{
	size_t n;

	say_move(a, &j->move[0], goes_on);
	for (int i = 1; i < j->n && (n = strlen(a->message)) + 1 < sizeof a->message; i++)
		snprintf(a->message + n, sizeof a->message - n, "; so does %.16s from %d of %.16s",
			view_label(j->move[i].made).text, j->move[i].branch.pos,
			view_label(j->move[i].branch.request).text);
}

/* Sets the conversation to the turn of the forks, and expects them as its answers. */
static int await(struct app *a, struct journey *j, struct err *e)
{
	struct conversation_prompt p;
	int n_forks = 0;

	for (int i = 0; i < j->n; i++) {
		const struct move *m = &j->move[i];

		n_forks += !m->in_place;
		if (!m->in_place && !conversation_has(a->chat->live.conversation, m->branch.request) &&
			conversation_resume(
				a->chat->live.conversation, m->branch.request, m->ids, m->n_ids, &p, e) < 0)
			return -1;
	}
	conversation_expect(a->chat->live.conversation, n_forks);
	return 0;
}

static int depart(struct app *a, struct journey *j, struct err *e)
{
	struct chat *c = a->chat;
	int32_t n_abandoned = a->timeline.n_abandoned;
	int64_t stood;

	chat_search_stop(a); /* another branch continues */
	stood = chat_stands_at(a);
	for (int i = 0; i < j->n; i++)
		if (prepare(a, j, &j->move[i], e) < 0)
			return -1;
	leave_others(a, j);
	if (await(a, j, e) < 0)
		return -1;
	actor_call(c->live.session.actor, travel, j);
	conversation_expect(c->live.conversation, 0);
	chat_feed(a);
	if (j->err.code)
		return err_set(e, j->err.code, "%s", j->err.text);
	if (!j->move[0].in_place && stood)
		push_left(c, &a->timeline, (struct tl_branch){ stood, -1, 0 });
	for (; n_abandoned < a->timeline.n_abandoned; n_abandoned++)
		push_left(c, &a->timeline,
			(struct tl_branch){ a->timeline.abandoned[n_abandoned].request, n_abandoned, 0 });
	a->state.branch = j->move[0].made;
	return 0;
}

static int go(struct app *a, struct journey *j, bool goes_on, struct err *e)
{
	int result = depart(a, j, e);

	if (!result) {
		chat_past_leave(a);
		a->state.request = 0;
		a->state.token = -1;
		a->chat->standing = !goes_on;
		say_moves(a, j, goes_on);
		if (goes_on)
			actor_resume(a->chat->live.session.actor);
	}
	for (int i = 0; i < j->n; i++)
		free(j->move[i].ids);
	a->dirty = true;
	return result;
}

int chat_move(struct app *a, const struct timeline *from, struct tl_branch to, int32_t forced,
	bool beside, bool goes_on, struct err *e)
{
	struct journey *j = calloc(1, sizeof *j);
	int result;

	if (!j)
		return err_set(e, ERR_MEMORY, "no memory to go back");
	j->n = 1;
	j->move[0] = (struct move){ .from = from, .branch = to, .forced = forced, .beside = beside };
	result = go(a, j, goes_on, e);
	free(j);
	return result;
}

int chat_stand_at(struct app *a, const struct timeline *from, struct tl_branch b, struct err *e)
{
	struct move m = { .from = from, .branch = b, .forced = -1 };
	struct conversation_prompt p;
	int64_t stood = chat_stands_at(a);
	int result = copy_ids(&m, e);

	chat_cancel(a);
	chat_feed(a);
	if (!result)
		result = conversation_resume(a->chat->live.conversation, b.request, m.ids, m.n_ids, &p, e);
	free(m.ids);
	if (result < 0)
		return -1;
	if (stood)
		push_left(a->chat, &a->timeline, (struct tl_branch){ stood, -1, 0 });
	a->state.branch = b.request;
	a->state.request = 0;
	a->state.token = -1;
	app_say(a, SAY_INFO,
		"the conversation stands after position %d of request %s: say what comes next, or /undo",
		b.pos - 1, view_label(b.request).text);
	return 0;
}

static bool runs_there(const struct tl_request *r)
{
	return (r->kind == EV_REQUEST_KIND_chat || r->kind == EV_REQUEST_KIND_fork) && !r->finished;
}

int chat_move_all(struct app *a, const struct timeline *t, struct err *e)
{
	struct journey *j = calloc(1, sizeof *j);
	int result;

	if (!j)
		return err_set(e, ERR_MEMORY, "no memory to go back");
	chat_hold(a);
	for (int32_t i = t->n_requests; i-- > 0 && j->n < MOVES_MAX;) {
		const struct tl_request *r = &t->request[i];

		if (runs_there(r))
			j->move[j->n++] =
				(struct move){ .from = t, .branch = timeline_branch_whole(t, r->id), .forced = -1 };
	}
	result = j->n ? go(a, j, true, e) : chat_stand_here(a, e);
	free(j);
	return result;
}
