/* See keyframe.h: a timeline from a keyframe. A keyframe of a foreign file may lie, but what comes
 * of it obeys the bounds of timeline.h, or nothing does. */
#include "base/find.h"
#include "fold/keyframe.h"
#include "fold/keyframe_form.h"
#include "fold/timeline_fold.h"

static struct key_in in_span(struct ev_span s)
{
	const unsigned char *data = s.data;

	return (struct key_in){ data, data ? data + s.size : NULL, !data };
}

bool keyframe_is_known(struct ev_span state)
{
	struct key_in in = in_span(state);

	return key_get(&in) == KEY_FORMAT && !in.bad;
}

/* ---- what is sound ---- */

static bool origin_is_sound(const struct timeline *t, struct tl_branch s)
{
	if (s.pos < 0 || s.pos > TL_POS_MAX || s.abandoned >= t->n_abandoned ||
		(s.abandoned >= 0 && t->abandoned[s.abandoned].request != s.request))
		return false;
	return s.request ? timeline_request(t, s.request) != NULL : s.abandoned < 0;
}

static bool request_is_sound(const struct timeline *t, const struct tl_request *r)
{
	if (r->id < 1 || r->kind >= EV_N_request_kind || r->state >= TL_N_STATES || r->period < 0 ||
		r->n_drafted < 0 || r->n_accepted < 0 || r->n_accepted > r->n_drafted ||
		r->origin.request >= r->id || !origin_is_sound(t, r->origin) ||
		(r->state == TL_FINISHED) != (r->finish_seq > 0))
		return false;
	for (int32_t i = 0; i < r->n_pages; i++)
		if (r->pages[i] >= t->n_pages)
			return false;
	return true;
}

static bool counts_are_sound(const struct timeline *t)
{
	const struct tl_slo *s = &t->slo;

	return s->met <= s->ended && s->late <= s->ended && s->slow <= s->ended &&
		   t->n_accepted <= t->n_drafted && t->n_rejected <= t->n_drafted &&
		   t->n_hit_tokens <= t->n_prompt_tokens;
}

static bool requests_are_sound(const struct timeline *t)
{
	for (int32_t i = 1; i < t->n_requests; i++)
		if (t->request[i].id <= t->request[i - 1].id)
			return false;
	for (int32_t i = 0; i < t->n_requests; i++)
		if (!request_is_sound(t, &t->request[i]))
			return false;
	return true;
}

static bool futures_are_sound(const struct timeline *t)
{
	for (int32_t i = 0; i < t->n_abandoned; i++) {
		const struct tl_abandoned *u = &t->abandoned[i];

		if (u->seq < 1 || (i && u->seq <= u[-1].seq) || u->at < 0 ||
			u->origin.request != u->request || !u->request ||
			(u->origin.abandoned >= 0 && u->origin.abandoned <= i) ||
			!origin_is_sound(t, u->origin))
			return false;
	}
	return true;
}

/* ---- what lies in the events ---- */

static void fold_past(struct timeline *t, const struct event *ev)
{
	t->last_seq = ev->seq - 1;
	timeline_fold(t, ev);
}

static void fold_text(struct timeline *t, const struct event *ev)
{
	fold_past(t, ev);
	t->vocab_seq = ev->seq;
}

/* Events among which the newest TL_BOUNDS of a grammar are: a token brings less than so many. */
enum { BOUNDS_LIE_IN = 64 * TL_BOUNDS };

/* What a view does not ask of any step: the session, and the texts that are not known yet. */
static int fold_begin(struct timeline *t, int64_t seq)
{
	const struct tl_older *o = &t->older;

	return o->rows(o->arg,
			   EV_BIT(session) | EV_BIT(memory) | EV_BIT(product) | EV_BIT(adapter) |
				   EV_BIT(outliers) | EV_BIT(importance) | EV_BIT(roof) | EV_BIT(setting) |
				   EV_BIT(cost) | EV_BIT(lesson) | EV_BIT(answer) | EV_BIT(attached) |
				   EV_BIT(polled) | EV_BIT(slot) | EV_BIT(rank) | EV_BIT(handover) |
				   EV_BIT(training) | EV_BIT(trained) | EV_BIT(changed),
			   1, seq, fold_past, t) ||
		   o->rows(o->arg, EV_BIT(bound), seq > BOUNDS_LIE_IN ? seq - BOUNDS_LIE_IN : 1, seq,
			   fold_past, t) ||
		   o->rows(o->arg, EV_BIT(vocab), t->vocab_seq + 1, INT64_MAX, fold_text, t);
}

/* 1, 0: there is no such event; -1. */
static int one_row(struct timeline *t, enum ev_kind kind, int64_t seq, struct event *ev)
{
	int got = t->older.row(t->older.arg, kind, seq, ev);

	return got == 1 && (!tl_time_in_bounds(ev) || !tl_ints_in_bounds(ev)) ? 0 : got;
}

/* Takes what an event of this request has; false: it makes no sense. */
static bool take_row(struct timeline *t, struct tl_request *r, const struct event *ev)
{
	switch (ev->kind) {
	case EV_request: tl_take_request(t, r, ev); return ev->u.request.request == r->id;
	case EV_lookup:
		tl_take_lookup(r, ev);
		return ev->u.lookup.request == r->id && tl_lookup_is_sound(&ev->u.lookup);
	case EV_rewind: r->rewind = ev->u.rewind; return r->rewind.request == r->id;
	default:
		tl_take_finish(t, r, ev);
		return r->finish.request == r->id && is_index(r->finish.reason, EV_N_finish);
	}
}

static int read_request(struct timeline *t, struct tl_request *r)
{
	const struct {
		enum ev_kind kind;
		int64_t seq;
	} row[] = { { EV_request, r->request_seq }, { EV_lookup, r->lookup_seq },
		{ EV_rewind, r->rewind_seq }, { EV_finish, r->finish_seq } };
	struct event ev;
	int got = 1;

	for (size_t i = 0; got == 1 && i < sizeof row / sizeof *row; i++)
		if (row[i].kind == EV_request || row[i].seq > 0) {
			got = one_row(t, row[i].kind, row[i].seq, &ev);
			got = got == 1 ? take_row(t, r, &ev) : got;
		}
	return got;
}

static int read_requests(struct timeline *t)
{
	int got = 1;

	for (int32_t i = 0; got == 1 && i < t->n_requests; i++) {
		struct tl_request *r = &t->request[i];

		got = read_request(t, r);
		if (r->state != TL_FINISHED) /* it may get more tokens */
			tl_find_cycle(r);
	}
	return got;
}

static int read_group(struct timeline *t, struct tl_group *g)
{
	struct event ev;
	int got = one_row(t, EV_request, g->seq, &ev);

	if (got == 1)
		tl_name_group(t, g, &ev.u.request);
	return got;
}

/* Who waits, and whose requests waited. */
static int read_waits(struct timeline *t)
{
	struct event ev;
	int got = t->queue.seq > 0 ? one_row(t, EV_queue, t->queue.seq, &ev) : 1;

	if (got == 1 && t->queue.seq > 0)
		got = tl_take_queue(t, &ev);
	for (int32_t i = 0; got == 1 && i < t->n_users; i++)
		got = read_group(t, &t->user[i]);
	for (int32_t i = 0; got == 1 && i < t->n_priorities; i++)
		got = read_group(t, &t->priority[i]);
	return got;
}

/* The newest searches, each from its beginning to the last event that changed it. */
static int fold_searches(struct timeline *t, int64_t seq)
{
	const struct tl_older *o = &t->older;
	struct tl_search kept[TL_SEARCHES];
	int32_t n = t->n_searches;
	int64_t done = 0;

	memcpy(kept, t->search, sizeof kept);
	memset(t->search, 0, sizeof t->search);
	t->n_searches = 0;
	for (int32_t i = 0; i < n; i++) {
		int64_t first = kept[i].begin_seq > done ? kept[i].begin_seq : done + 1;
		int64_t last = kept[i].over && kept[i].last_seq < seq ? kept[i].last_seq : seq;

		if (first <= last && o->rows(o->arg, TL_SEARCH_KINDS, first, last, tl_fold_search_again, t))
			return -1;
		done = at_least(last, done);
	}
	for (int32_t i = 0; i < t->n_searches && i < n; i++)
		if (t->search[i].id == kept[i].id)
			t->search[i].taken = kept[i].taken;
	return 0;
}

/* ---- tokens ---- */

struct tokens {
	struct timeline *t;
	bool bad;
};

/* Adds the items that follow to a list; list NULL: they are of something that is no longer kept. */
static void get_tokens(
	struct key_in *in, struct timeline *t, struct tl_token **list, int32_t *n, int32_t *cap)
{
	struct tl_token spare[2];
	int64_t more = key_get(in);

	in->bad |= more < 0;
	for (int64_t i = 0; i < more && !in->bad; i++) {
		struct tl_token *k = list ? tl_add(t, list, n, cap, sizeof *k) : &spare[i % 2];

		in->bad |= !k;
		if (k)
			key_get_struct(in, &tl_shape_token, k, !i ? NULL : list ? k - 1 : &spare[(i + 1) % 2]);
		if (!list || in->bad)
			continue;
		k->light = true;
		k->survivors = k->draft = -1;
		k->p = tl_part((double)k->p);
		in->bad |= k->seq < 1 || !tl_token_fits(t, *n > 1 ? k - 1 : NULL, k);
	}
}

/* Its first tokens were the request's at the keyframe before. */
static void get_abandoned(struct key_in *in, struct timeline *t, struct tl_abandoned *u)
{
	const struct tl_request *r = u ? timeline_request(t, u->request) : NULL;
	int64_t older = key_get(in);
	int32_t cap = 0;

	in->bad |= older < 0 || (r && (u->token || (older > 0 && older > r->n_tokens - u->at)));
	for (int64_t i = 0; r && i < older && !in->bad; i++) {
		struct tl_token *k = tl_add(t, &u->token, &u->n_tokens, &cap, sizeof *k);

		in->bad |= !k;
		if (k)
			*k = r->token[u->at + i];
	}
	get_tokens(in, t, r ? &u->token : NULL, r ? &u->n_tokens : NULL, &cap);
}

static void get_request(struct key_in *in, struct timeline *t, struct tl_request *r)
{
	int64_t older = key_get(in);

	in->bad |= older < 0 || (r && older > r->n_tokens);
	if (r && !in->bad)
		r->n_tokens = (int32_t)older;
	get_tokens(in, t, r ? &r->token : NULL, r ? &r->n_tokens : NULL, r ? &r->cap_tokens : NULL);
}

static bool add_tokens(void *to, const struct key_row *row)
{
	struct tokens *s = to;
	struct timeline *t = s->t;
	struct key_in in = in_span(row->tokens);
	int64_t number;

	while ((number = key_get(&in)) > 0)
		get_abandoned(
			&in, t, find_number(number, t->abandoned, t->n_abandoned, sizeof *t->abandoned));
	in.bad |= number != 0;
	while ((number = key_get(&in)) > 0)
		get_request(&in, t, tl_request_find(t, number));
	s->bad |= in.bad || number != 0 || in.at != in.end;
	return !s->bad;
}

static bool has_empty_abandoned(const struct timeline *t)
{
	for (int32_t i = 0; i < t->n_abandoned; i++)
		if (!t->abandoned[i].n_tokens)
			return true;
	return false;
}

/* ---- all ---- */

/* The state alone: numbers, requests, futures, pages; of searches where they lie. */
static bool get_state(struct timeline *t, const struct key_row *row, int64_t *oldest)
{
	struct key_in in = in_span(row->state);
	int32_t n_pages = t->n_pages, n_ranks = t->n_ranks;

	in.bad |= key_get(&in) != KEY_FORMAT;
	*oldest = key_get(&in);
	if (!in.bad)
		key_get_struct(&in, &tl_shape_timeline, t, NULL);
	for (int32_t i = 0; i < t->n_requests; i++) {
		t->request[i].finished_ns = EV_NULL_I;
		t->request[i].attention =
			(struct tl_attention){ .step = EV_NULL_I, .head_layer = -1, .head = -1 };
		t->request[i].sparsity.step = t->request[i].experts.step = t->request[i].states.step =
			EV_NULL_I;
	}
	return !in.bad && in.at == in.end && t->n_pages == n_pages && t->n_ranks == n_ranks &&
		   t->last_seq == row->seq && t->last_step == row->step && counts_are_sound(t) &&
		   requests_are_sound(t) && futures_are_sound(t);
}

int timeline_restore(struct timeline *t, const struct key_row *row)
{
	struct tokens tokens = { .t = t };
	int64_t oldest;
	int got = keyframe_is_known(row->state);

	timeline_empty(t);
	if (got)
		got = fold_begin(t, row->seq) ? -1 : get_state(t, row, &oldest);
	if (got == 1 && oldest <= row->seq)
		got = t->older.keys(t->older.arg, oldest, row->seq, add_tokens, &tokens) ? -1 : 1;
	if (got == 1)
		got = !tokens.bad && !has_empty_abandoned(t);
	if (got == 1)
		got = read_requests(t);
	if (got == 1)
		got = read_waits(t);
	if (got == 1 && fold_searches(t, row->seq))
		got = -1;
	if (got != 1 || t->full)
		timeline_empty(t);
	return got == 1 && t->full ? 0 : got;
}
