/* Part of the timeline: searches, their trees and what sharing saves. It stands on five kinds of
 * events alone (TL_SEARCH_KINDS), so that a player can fold the newest searches from their
 * beginnings when it goes to a step. */
#include "base/find.h"
#include "fold/timeline_fields.h"
#include "fold/timeline_fold.h"

/* ---- finding, making, letting go ---- */

static struct tl_search *search_of(const struct timeline *t, int64_t id)
{
	return find_number(id, t->search, t->n_searches, sizeof *t->search);
}

static struct tl_search *newest(const struct timeline *t)
{
	return t->n_searches ? (struct tl_search *)&t->search[t->n_searches - 1] : NULL;
}

const struct tl_search *timeline_search(const struct timeline *t, int64_t search)
{
	return search ? search_of(t, search) : newest(t);
}

/* By number, which grows from node to node. */
static struct tl_node *node_of(const struct tl_search *s, int64_t node)
{
	return find_number(node, s->node, s->n_nodes, sizeof *s->node);
}

const struct tl_node *timeline_search_node(const struct tl_search *s, int32_t node)
{
	return node_of(s, node);
}

static struct tl_member *member_of(struct tl_search *s, int64_t request)
{
	for (int32_t i = 0; i < s->n_members; i++)
		if (s->member[i].request == request)
			return &s->member[i];
	return NULL;
}

static bool add_id(struct timeline *t, int32_t **ids, int32_t n, int32_t *cap, int32_t id)
{
	int32_t *more = tl_add(t, ids, &n, cap, sizeof *more);

	if (more)
		*more = id;
	return more != NULL;
}

/* Room for one more node: of those that were given up, and that nobody goes on from, the oldest
 * quarter goes. */
static void forget_dropped(struct tl_search *s)
{
	int32_t n = 0, most = TL_NODES / 4, gone = 0;

	for (int32_t i = 0; i < s->n_nodes; i++) {
		struct tl_node *k = &s->node[i];

		if (gone < most && k->state == TL_NODE_DROPPED && !k->n_answers) {
			free(k->id);
			gone++;
		} else {
			s->node[n++] = *k;
		}
	}
	s->n_nodes = n;
}

static bool begin(struct timeline *t, const struct ev_search *e, int64_t seq)
{
	struct tl_search *s = newest(t);

	if (e->search < 1 || e->tokens < 1 || e->tokens > INT32_MAX || (s && e->search <= s->id))
		return false;
	if (t->n_searches == TL_SEARCHES) {
		tl_free(&tl_shape_search, &t->search[0]);
		memmove(t->search, t->search + 1, (TL_SEARCHES - 1) * sizeof *t->search);
		t->n_searches--;
	}
	s = &t->search[t->n_searches++];
	*s = (struct tl_search){ .id = e->search,
		.step = e->step,
		.last_step = e->step,
		.begin_seq = seq,
		.last_seq = seq,
		.n_prompt = (int32_t)e->tokens,
		.least = INFINITY,
		.most = -INFINITY,
		.won_score = NAN,
		.won_logp = NAN };
	s->method = tl_text(t, e->method);
	s->judge = tl_text(t, e->judge);
	return true;
}

/* ---- branches ---- */

static void take_request(struct timeline *t, const struct ev_request *e)
{
	struct tl_member *m = &t->search_new;
	struct tl_search *last = newest(t);
	int32_t id;

	for (struct tl_search *s = t->search; s < t->search + t->n_searches; s++)
		if (e->kind != EV_REQUEST_KIND_search && s->winner && s->winner == e->parent && !s->taken)
			s->taken = e->request;
	m->request = 0;
	if (e->kind != EV_REQUEST_KIND_search || !last || last->over)
		return;
	m->n = 0;
	m->logp = 0;
	for (; m->n < INT32_MAX && ev_item(e->prompt, (size_t)m->n, &id, sizeof id); m->n++)
		if (!add_id(t, &m->id, m->n, &m->cap, id))
			return;
	m->request = e->request;
	if (!last->text)
		last->text = tl_text(t, e->text);
}

static double logp_of(double p)
{
	return p > 0 && p <= 1 ? log(p) : 0;
}

static void take_token(struct timeline *t, const struct ev_token *e)
{
	int32_t id = tl_int32(e->id);

	if (t->search_new.request && t->search_new.request == e->request) {
		if (add_id(t, &t->search_new.id, t->search_new.n, &t->search_new.cap, id))
			t->search_new.n++;
		return;
	}
	for (int32_t i = 0; i < t->n_searches; i++) {
		struct tl_search *s = &t->search[i];
		struct tl_member *m = s->over ? NULL : member_of(s, e->request);
		struct tl_node *k = m ? node_of(s, m->node) : NULL;

		if (!m)
			continue;
		m->logp += logp_of(e->p);
		if (add_id(t, &m->id, m->n, &m->cap, id))
			m->n++;
		if (!k || k->visits >= 0 || k->request != e->request)
			return; /* of a tree search: its text is a simulation's until a node comes of it */
		if (add_id(t, &k->id, k->tokens - k->from, &k->cap, id)) {
			k->tokens++;
			k->logp += logp_of(e->p);
			k->last = e->step;
		}
		return;
	}
}

static void let_go(struct tl_search *s, struct tl_member *m)
{
	free(m->id);
	memmove(m, m + 1, (size_t)(s->member + --s->n_members - m) * sizeof *m);
}

static void take_finish(struct timeline *t, int64_t request)
{
	for (int32_t i = 0; i < t->n_searches; i++) {
		struct tl_search *s = &t->search[i];
		struct tl_member *m = member_of(s, request);
		struct tl_node *k = m ? node_of(s, m->node) : NULL;

		if (!m)
			continue;
		if (k && k->request == request && k->visits < 0 && k->state == TL_NODE_LIVE)
			k->state = TL_NODE_ENDED;
		if (k && k->visits >= 0 && !s->over)
			m->ended = true;
		else
			let_go(s, m);
		return;
	}
}

/* The new branch is this search's; it runs from `node`. */
static struct tl_member *admit(struct timeline *t, struct tl_search *s, const struct ev_search *e)
{
	struct tl_member *m = member_of(s, e->request), *new = &t->search_new;

	if (m || new->request != e->request || !e->request || new->n < s->n_prompt)
		return m;
	for (int32_t i = 0; s->n_members == TL_MEMBERS && i < TL_MEMBERS; i++)
		if (s->member[i].ended) {
			let_go(s, &s->member[i]); /* it brought nothing */
			break;
		}
	if (s->n_members == TL_MEMBERS)
		return NULL;
	m = &s->member[s->n_members++];
	*m = *new;
	m->node = tl_int32(e->node);
	m->n -= s->n_prompt;
	memmove(m->id, m->id + s->n_prompt, (size_t)m->n * sizeof *m->id);
	*new = (struct tl_member){ 0 };
	return m;
}

/* ---- nodes ---- */

static struct tl_node *add_node(
	struct timeline *t, struct tl_search *s, const struct ev_search *e, int32_t from)
{
	const struct tl_member *m = member_of(s, e->request);
	struct tl_node *k;

	if (s->n_nodes == TL_NODES)
		forget_dropped(s);
	if (s->n_nodes == TL_NODES || (s->n_nodes && s->node[s->n_nodes - 1].node >= e->node))
		return NULL;
	k = tl_add(t, &s->node, &s->n_nodes, &s->cap_nodes, sizeof *k);
	if (!k)
		return NULL;
	*k = (struct tl_node){ .node = e->node,
		.parent = e->parent >= 0 ? tl_int32(e->parent) : -1,
		.from = from,
		.tokens = from,
		.request = e->request,
		.born = e->step,
		.visits = -1,
		.score = NAN,
		.answer_score = NAN,
		.answer_logp = NAN };
	s->n_made++;
	for (int32_t i = from; m && i < e->tokens && i < m->n; i++, k->tokens++)
		if (!add_id(t, &k->id, k->tokens - from, &k->cap, m->id[i]))
			break;
	return k;
}

static void update_node(struct tl_node *k, const struct ev_search *e)
{
	k->last = e->step;
	if (e->visits >= 0)
		k->visits = tl_int32(e->visits);
	if (isfinite(e->logp))
		k->logp = e->logp;
	if (isfinite(e->score))
		k->score = e->score;
}

/* The root has the sum of all values: what it grew by is the newest simulation's. */
static void note_value(struct tl_search *s, const struct tl_node *root)
{
	double sum = root->visits * root->score;

	if (!isfinite(sum) || sum == s->value)
		return;
	s->least = fmin(s->least, sum - s->value);
	s->most = fmax(s->most, sum - s->value);
	s->value = sum;
}

static bool fold_node(struct timeline *t, struct tl_search *s, const struct ev_search *e)
{
	const struct tl_node *parent = e->parent >= 0 ? node_of(s, e->parent) : NULL;
	struct tl_node *k;
	int32_t from;

	if (e->node < 0 || e->node > INT32_MAX || e->tokens < 0 || e->tokens > INT32_MAX ||
		e->parent >= e->node)
		return false;
	admit(t, s, e);
	k = node_of(s, e->node);
	/* a beam parts at its newest token; a tree's node goes on after the one above */
	from = e->parent < 0 || !e->tokens ? 0
		   : e->visits < 0             ? (int32_t)e->tokens - 1
		   : parent                    ? parent->tokens
									   : 0;
	if (!k)
		k = add_node(t, s, e, from);
	if (!k)
		return true;
	update_node(k, e);
	if (e->action == EV_SEARCH_node && k->visits >= 0 && member_of(s, e->request))
		let_go(s, member_of(s, e->request)); /* its value went up */
	if (k->node == 0 && k->visits > 0)
		note_value(s, k);
	return true;
}

static bool fold_answer(struct tl_search *s, const struct ev_search *e)
{
	struct tl_node *k = node_of(s, e->node);

	s->n_answers++;
	if (!k)
		return true;
	k->n_answers++;
	if (k->n_answers > 1 && !(e->score > k->answer_score))
		return true;
	k->answer = e->request;
	k->answer_score = e->score;
	k->answer_logp = e->logp;
	k->answer_tokens = tl_int32(e->tokens);
	k->answer_own = at_most(k->answer_tokens, k->tokens);
	return true;
}

static bool fold_drop(struct tl_search *s, const struct ev_search *e)
{
	struct tl_node *k = node_of(s, e->node);

	s->n_dropped++;
	if (k && k->request == e->request && k->visits < 0) {
		k->state = TL_NODE_DROPPED;
		k->last = e->step;
	}
	return true;
}

/* Nothing runs for it any more. From here on only events that name it change it, and the request
 * that tells its answer: what lies between two searches need not be folded to have them again. */
static void end(struct timeline *t, struct tl_search *s)
{
	while (s->n_members)
		let_go(s, &s->member[s->n_members - 1]);
	s->over = true;
	t->search_new.request = 0;
}

static bool fold_won(struct timeline *t, struct tl_search *s, const struct ev_search *e)
{
	end(t, s);
	s->winner = at_least(e->request, 0);
	s->won_score = e->score;
	s->won_logp = e->logp;
	s->won_tokens = tl_int32(e->tokens);
	return true;
}

static bool fold_search(struct timeline *t, const struct ev_search *e, int64_t seq)
{
	struct tl_search *s;

	if (e->action == EV_SEARCH_begin)
		return begin(t, e, seq);
	s = search_of(t, e->search);
	if (!s)
		return e->search > 0 && (!t->n_searches || e->search < t->search[0].id); /* one that was let
																					go of */
	s->last_step = e->step;
	s->last_seq = seq;
	switch (e->action) {
	case EV_SEARCH_node:
	case EV_SEARCH_visit: return fold_node(t, s, e);
	case EV_SEARCH_answer: return fold_answer(s, e);
	case EV_SEARCH_drop: return fold_drop(s, e);
	case EV_SEARCH_won: return fold_won(t, s, e);
	case EV_SEARCH_stopped:
		free(s->why);
		s->why = tl_text(t, e->method);
		end(t, s);
		return s->stopped = true;
	default: return false;
	}
}

static bool fold_sharing(struct timeline *t, const struct ev_sharing *e, int64_t seq)
{
	struct tl_search *s = search_of(t, e->search);

	if (e->pages < 0 || e->unshared < e->pages)
		return false;
	if (!s)
		return true;
	s->last_seq = seq;
	s->pages = tl_int32(e->pages);
	s->unshared = tl_int32(e->unshared);
	s->steps++;
	s->sum_pages += s->pages;
	s->sum_unshared += s->unshared;
	s->last_step = e->step;
	*(uint8_t *)tl_push(s->share, &s->n_shares, TL_SHARES, sizeof *s->share) =
		(uint8_t)(s->unshared > 0 ? 255 * (int64_t)(s->unshared - s->pages) / s->unshared : 0);
	if (s->unshared > s->most_unshared) {
		s->most_unshared = s->unshared;
		s->most_pages = s->pages;
	}
	return true;
}

/* tl_fold_searches() has them, with the requests and tokens that it reads. */
bool tl_fold_search(struct timeline *t, const struct event *ev)
{
	(void)t;
	(void)ev;
	return true;
}

bool tl_fold_sharing(struct timeline *t, const struct event *ev)
{
	return tl_fold_search(t, ev);
}

bool tl_fold_searches(struct timeline *t, const struct event *ev)
{
	switch (ev->kind) {
	case EV_search: return fold_search(t, &ev->u.search, ev->seq);
	case EV_sharing: return fold_sharing(t, &ev->u.sharing, ev->seq);
	case EV_request: take_request(t, &ev->u.request); return true;
	case EV_token: take_token(t, &ev->u.token); return true;
	case EV_finish: take_finish(t, ev->u.finish.request); return true;
	default: return true;
	}
}
