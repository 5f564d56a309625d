/* Part of the timeline: tokens, and the drafts that were verified where they stand. */
#include "base/cycle.h"
#include "fold/timeline_fold.h"

/* Of the step that is open: drafts may come before or after the token at their position. */
static int32_t draft_verified_at(const struct timeline *t, int64_t request, int64_t pos)
{
	for (int32_t i = t->n_drafts; i-- > t->open.draft_at;) {
		const struct tl_draft *d = &t->draft[i];

		if (d->request == request && d->pos == pos && d->verdict != EV_VERDICT_discarded)
			return i;
	}
	return -1;
}

static void unpack_candidates(struct tl_token *k, struct ev_span s)
{
	k->n_candidates = (uint8_t)ev_items(s, k->candidate, sizeof *k->candidate, TL_CANDIDATES);
	for (struct ev_candidate *c = k->candidate; c < k->candidate + k->n_candidates; c++) {
		c->p = tl_part((double)c->p);
		c->cut = c->cut < EV_N_cut ? c->cut : EV_CUT_kept;
	}
}

static void unpack_stages(struct tl_token *k, struct ev_span s)
{
	const size_t n = s.size / sizeof *k->stage;

	k->staged = s.data && s.size % sizeof *k->stage == 0 && n >= EV_N_STAGES && n <= EV_MOST_STAGES;
	if (!k->staged)
		return;
	ev_items(s, k->stage, sizeof *k->stage, n);
	for (size_t i = 0; i < n; i++)
		k->stage[i].mass = tl_part((double)k->stage[i].mass);
}

void tl_unpack_token(struct tl_token *k, const struct ev_token *e, int64_t seq)
{
	*k = (struct tl_token){ .step = e->step,
		.seq = seq,
		.pos = e->pos,
		.hash = e->hash,
		.rows = e->rows,
		.pairs = e->pairs,
		.ns = e->ns,
		.price = { EV_NULL_I, EV_NULL_I, EV_NULL_I, -1, -1, -1 },
		.id = (int32_t)e->id,
		.p = tl_part(e->p),
		.p_draw = tl_part(e->p_draw),
		.entropy = e->entropy >= 0 && e->entropy < 64 ? (float)e->entropy : NAN,
		.source = (uint8_t)e->source,
		.is_end = e->is_end == 1,
		.survivors = tl_int32(e->survivors),
		.rank = tl_int32(e->rank),
		.draft = -1 };
	unpack_candidates(k, e->candidates);
	unpack_stages(k, e->stages);
}

bool tl_token_fits(const struct timeline *t, const struct tl_token *last, const struct tl_token *k)
{
	return k->pos >= 0 && k->pos <= TL_POS_MAX && k->step >= 0 && is_index(k->id, t->n_vocab) &&
		   k->source < EV_N_source && (!last || (k->pos > last->pos && k->step >= last->step));
}

bool tl_fold_token(struct timeline *t, const struct event *ev)
{
	const struct ev_token *e = &ev->u.token;
	struct tl_request *r = tl_request_find(t, e->request);
	struct tl_token *k;

	if (!r || r->state == TL_FINISHED || e->id < 0 || e->id > INT32_MAX ||
		!is_index(e->source, EV_N_source) ||
		!tl_token_fits(t, r->n_tokens ? &r->token[r->n_tokens - 1] : NULL,
			&(struct tl_token){ .step = e->step,
				.pos = e->pos,
				.id = (int32_t)e->id,
				.source = (uint8_t)e->source }))
		return false;
	k = tl_add(t, &r->token, &r->n_tokens, &r->cap_tokens, sizeof *k);
	if (!k)
		return true;
	tl_unpack_token(k, e, ev->seq);
	r->period = cycle_add(&r->cycle, k->id);
	k->draft = draft_verified_at(t, r->id, k->pos);
	r->computed = (int32_t)k->pos; /* a token's own row is computed in the next step */
	/* made, and counted, in a branch of a search, or in another session */
	if (k->source == EV_SOURCE_taken || ev_is_earlier(k->source))
		return true;
	tl_note_token(t, r, k, ev->t_ns);
	t->n_tokens++;
	return true;
}

/* A divergence of 0 may be a rounding below it. */
static int64_t nano(double nats)
{
	return nats >= -1e-6 && nats < 1e6 ? llround(fmax(nats, 0) * 1e9) : EV_NULL_I;
}

bool tl_fold_price(struct timeline *t, const struct event *ev)
{
	const struct ev_price *e = &ev->u.price;
	struct tl_request *r = tl_request_find(t, e->request);

	if (!r || e->pos < 0 || !tl_step_is_open(t, e->step))
		return false;
	/* in the step of its token: a keyframe has those of the steps before as they were */
	for (int32_t i = r->n_tokens; i-- > 0 && r->token[i].step == e->step;)
		if (r->token[i].pos == e->pos && r->token[i].id == e->id)
			r->token[i].price =
				(struct tl_price){ nano(e->kl), nano(-e->logp), nano(-e->exact_logp),
					tl_int32(e->best), tl_int32(e->exact_best), tl_int32(e->rank) };
	return true; /* of a score or a verification there is no token */
}

static void count_draft(struct timeline *t, struct tl_request *r, const struct tl_draft *d)
{
	bool accepted = d->verdict == EV_VERDICT_accepted;

	t->n_drafted++;
	r->n_drafted++;
	if (d->verdict == EV_VERDICT_discarded)
		return;
	t->n_accepted += accepted;
	t->n_rejected += !accepted;
	r->n_accepted += accepted;
}

/* Its token, if that came first in the step. */
static void link_token(
	const struct timeline *t, struct tl_request *r, const struct tl_draft *d, int32_t index)
{
	int64_t before = t->n_steps ? t->step[t->n_steps - 1].seq : t->slid_seq;

	for (int32_t i = r->n_tokens; i-- > 0 && r->token[i].pos >= d->pos && r->token[i].seq > before;)
		if (r->token[i].pos == d->pos && d->verdict != EV_VERDICT_discarded)
			r->token[i].draft = index;
}

bool tl_fold_draft(struct timeline *t, const struct event *ev)
{
	const struct ev_draft *e = &ev->u.draft;
	struct tl_request *r = tl_request_find(t, e->request);
	struct tl_draft *d;

	if (!r || !is_index(e->verdict, EV_N_verdict) || !is_index(e->rule, EV_N_rule) || e->pos < 0 ||
		e->nth < 1 || !tl_step_is_open(t, e->step))
		return false;
	d = tl_add(t, &t->draft, &t->n_drafts, &t->cap_drafts, sizeof *d);
	if (!d)
		return true;
	*d = (struct tl_draft){ .step = e->step,
		.request = e->request,
		.pos = e->pos,
		.nth = tl_int32(e->nth),
		.id = tl_int32(e->id),
		.winner = tl_int32(e->winner),
		.top = tl_int32(e->top),
		.parent = is_index(e->parent, e->nth) ? (int32_t)e->parent : tl_int32(e->nth) - 1,
		/* of old: a chain */
		.depth = e->depth >= 1 ? tl_int32(e->depth) : tl_int32(e->nth),
		.other = is_index(e->other, EV_N_verdict) ? (int32_t)e->other : -1,
		.other_arrival = (float)e->other_arrival,
		.other_winner_arrival = (float)e->other_winner_arrival,
		.verdict = (enum ev_code_verdict)e->verdict,
		.rule = (enum ev_code_rule)e->rule,
		.q = tl_part(e->q),
		.p = tl_part(e->p),
		.arrival = (float)e->arrival,
		.winner_arrival = (float)e->winner_arrival };
	ev_copy(d->drafter, sizeof d->drafter, e->drafter);
	count_draft(t, r, d);
	link_token(t, r, d, t->n_drafts - 1);
	return true;
}

bool tl_fold_ahead(struct timeline *t, const struct event *ev)
{
	const struct ev_ahead *e = &ev->u.ahead;
	struct ev_ahead *a;

	if (!tl_request_find(t, e->request) || !is_index(e->came, EV_N_ahead) ||
		!tl_step_is_open(t, e->step))
		return false;
	a = tl_add(t, &t->ahead, &t->n_aheads, &t->cap_aheads, sizeof *a);
	if (a)
		*a = *e;
	return true;
}

/* ---- windows ---- */

enum { MOST_IDS = 4096 }; /* of a window that makes sense */

static bool is_sound(const struct ev_window *e)
{
	const int64_t size = sizeof(int32_t);

	if (e->levels < 1 || e->levels > MOST_IDS || e->columns < 1 || e->columns > MOST_IDS ||
		e->pos < 0)
		return false;
	return e->levels * e->columns <= MOST_IDS &&
		   (int64_t)e->cells.size == e->levels * e->columns * size &&
		   (int64_t)e->next.size == e->columns * size &&
		   (int64_t)e->entered.size <= MOST_IDS * size;
}

static bool add_ids(struct timeline *t, struct ev_span s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int32_t *id = tl_add(t, &t->window_id, &t->n_window_ids, &t->cap_window_ids, sizeof *id);

		if (!id)
			return false;
		ev_item(s, i, id, sizeof *id);
	}
	return true;
}

bool tl_fold_window(struct timeline *t, const struct event *ev)
{
	const struct ev_window *e = &ev->u.window;
	int32_t gram = e->gram > 0 && e->gram <= MOST_IDS ? (int32_t)e->gram : 0;
	struct tl_window w, *added;

	if (!tl_request_find(t, e->request) || !is_sound(e) || !tl_step_is_open(t, e->step))
		return false;
	w = (struct tl_window){ .step = e->step,
		.request = e->request,
		.pos = e->pos,
		.levels = (int32_t)e->levels,
		.columns = (int32_t)e->columns,
		.gram = gram,
		.n_entered = gram ? (int32_t)(e->entered.size / 4) / gram : 0,
		.pool = tl_int32(e->pool),
		.ids_at = t->n_window_ids };
	w.own = e->own >= 0 && e->own <= w.n_entered ? (int32_t)e->own : 0;
	if (!add_ids(t, e->cells, e->cells.size / 4) || !add_ids(t, e->next, e->next.size / 4) ||
		!add_ids(t, e->entered, (size_t)(w.n_entered * gram)))
		return true;
	added = tl_add(t, &t->window, &t->n_windows, &t->cap_windows, sizeof *added);
	if (added)
		*added = w;
	return true;
}

void tl_find_cycle(struct tl_request *r)
{
	const int32_t look = CYCLE_MAX * (CYCLE_TIMES + 1); /* no repetition of those before matters */

	r->cycle = (struct cycle){ 0 };
	r->period = 0;
	for (int32_t i = r->n_tokens > look ? r->n_tokens - look : 0; i < r->n_tokens; i++)
		r->period = cycle_add(&r->cycle, r->token[i].id);
}
