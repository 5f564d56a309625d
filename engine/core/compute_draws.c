/* The draws of the model's steps. See compute.h.
 *
 * Where the kernels' memory is the host's, a draw reads its row of logits. On a device the rows
 * stay there: with the step the host requests what its draws will need (struct k_draw_request), and
 * a row is fetched only where that is not enough, before anything is drawn, so that a device lost
 * on the way is a step that failed. The tokens and their events are the same.
 *
 * Draws that stand alone are done by all threads, before the step's requests take them in turn.
 * Thread: the engine's. */
#include <math.h>
#include <stdlib.h>

#include "engine/core/compute.h"
#include "engine/core/engine_impl.h"

_Static_assert((int)K_DRAW_TARGET == (int)PURPOSE_TARGET, "the device draws for the target");

/* ---- what draws need ---- */

static float *row_of(const struct engine *e, int32_t out)
{
	return e->forward.logits + (size_t)out * (size_t)e->info.vocab;
}

void compute_ask(struct engine *e, const struct plan_item *item)
{
	struct forward *f = &e->forward;
	const struct request *r = item->r;
	const bool score = r->kind == EV_REQUEST_KIND_score;

	if (!f->draw.ask)
		return;
	for (int32_t i = 0; i < item->n_out; i++) {
		const int32_t out = item->out + i, row = f->out_row[out];
		/* the depth of a drafted token gives its row's position */
		const struct sample_key key = { .pos = f->rows[row].pos + 1, .sample = r->sample };

		f->draw.whole[out] =
			!sampler_request(e->sampler, &r->params, key, item->n_drafts > 0, &f->draw.ask[out]) ||
			(e->draft.rejection && item->n_drafts) || request_is_chosen(r) || r->bound;
		if (score) {
			f->draw.whole[out] = false;
			f->draw.ask[out].id = r->ids[key.pos];
		}
		if (r->top > f->draw.ask[out].best)
			f->draw.ask[out].best = r->top;
		f->draw.whole[out] = f->draw.whole[out] || e->whole_rows;
	}
}

static bool must_fetch(const struct engine *e, const struct request *r, int32_t out)
{
	const struct forward *f = &e->forward;

	if (r->kind == EV_REQUEST_KIND_score)
		return f->draw.whole[out] || (r->top && f->draw.reply[out].n > K_DRAW_LIST);
	return f->draw.whole[out] || !sampler_can_do(e->sampler, &r->params, &f->stats[out],
									 &f->draw.reply[out], f->draw.list + (size_t)out * K_DRAW_LIST);
}

int compute_fetch(struct engine *e, struct err *err)
{
	struct forward *f = &e->forward;
	/* rows still to be fetched: neighbours are fetched in one copy */
	int32_t first = 0, end = 0;

	if (!f->draw.ask)
		return 0;
	for (int32_t i = 0; i < e->plan.n_items; i++) {
		const struct plan_item *item = &e->plan.item[i];

		for (int32_t out = item->out; out < item->out + item->n_out; out++) {
			f->draw.whole[out] = must_fetch(e, item->r, out);
			if (!f->draw.whole[out])
				continue;
			if (out != end) {
				if (forward_fetch(f, first, end - first, err))
					return -1;
				first = out;
			}
			end = out + 1;
		}
	}
	return forward_fetch(f, first, end - first, err);
}

/* ---- draws ---- */

static void pick(struct engine *e, struct sampler *s, const struct request *r, int32_t pos,
	int32_t out, struct sample_result *drawn)
{
	struct forward *f = &e->forward;
	const struct sample_key key = { .pos = pos, .sample = r->sample };

	if (f->draw.ask && !f->draw.whole[out])
		sampler_pick_listed(s, &f->stats[out], &f->draw.reply[out],
			f->draw.list + (size_t)out * K_DRAW_LIST, &r->params, key, drawn);
	else
		sampler_pick(s, row_of(e, out), &f->stats[out], &r->params, r->ids, pos, key, drawn);
}

bool compute_draw(struct engine *e, const struct request *r, int32_t pos, int32_t out)
{
	const struct engine_ahead *a = &e->ahead;

	for (int32_t i = 0; i < a->n; i++)
		if (a->draw[i].out == out) {
			e->drawn = a->draw[i].drawn;
			return true;
		}
	if (!engine_allow(e, r, pos))
		return false;
	pick(e, e->sampler, r, pos, out, &e->drawn);
	return true;
}

/* ---- several at once ---- */

/* With fewer draws than this, threads would cost what they save. Each that draws has memory for a
 * vocabulary. */
enum { AHEAD_LEAST = 4, AHEAD_THREADS = 16 };

int compute_open_ahead(struct engine *e, int32_t slots, struct err *err)
{
	struct engine_ahead *a = &e->ahead;
	const int32_t most = slots < AHEAD_THREADS ? slots : AHEAD_THREADS;
	const int32_t n = e->info.threads < most ? e->info.threads : most;

	if (n < 2 || slots < AHEAD_LEAST)
		return 0;
	a->draw = malloc((size_t)slots * sizeof *a->draw);
	a->sampler = calloc((size_t)n, sizeof *a->sampler);
	if (!a->draw || !a->sampler)
		return err_no_memory(err, "draws");
	for (; a->n_samplers < n; a->n_samplers++)
		if (sampler_open(&a->sampler[a->n_samplers], e->info.vocab, err))
			return -1;
	return 0;
}

void compute_close_ahead(struct engine *e)
{
	struct engine_ahead *a = &e->ahead;

	for (int32_t i = 0; i < a->n_samplers; i++)
		sampler_close(a->sampler[i]);
	free(a->sampler);
	free(a->draw);
}

/* Whether the draw depends on nothing else that the step draws, nor anything on more of it than its
 * result. */
static bool stands_alone(const struct engine *e, const struct plan_item *item)
{
	const struct request *r = item->r;

	return item->n_out == 1 && !item->n_drafts && r->how == &request_next &&
		   !request_is_chosen(r) && !r->bound && !r->top && isfinite(e->stats[item->out].max);
}

static void draw_some(void *arg, int64_t i, void *scratch)
{
	struct engine *e = arg;
	struct engine_ahead *a = &e->ahead;

	(void)scratch;
	for (int n; (n = atomic_fetch_add(&a->taken, 1)) < a->n;) {
		struct draw_ahead *d = &a->draw[n];

		pick(e, a->sampler[i], d->r, d->r->n_ids, d->out, &d->drawn);
	}
}

void compute_draw_ahead(struct engine *e)
{
	struct engine_ahead *a = &e->ahead;

	a->n = 0;
	for (int32_t i = 0; a->n_samplers && i < e->plan.n_items; i++) {
		const struct plan_item *item = &e->plan.item[i];

		if (stands_alone(e, item))
			a->draw[a->n++] = (struct draw_ahead){ .r = item->r, .out = item->out };
	}
	if (a->n < AHEAD_LEAST) {
		a->n = 0;
		return;
	}
	atomic_store(&a->taken, 0);
	k_deal(e->kernels, a->n_samplers, draw_some, e);
}

/* ---- of given tokens ---- */

static float logit_of(const struct engine *e, int32_t out, int32_t given)
{
	return e->forward.draw.ask ? e->forward.draw.reply[out].logit : row_of(e, out)[given];
}

double compute_share(const struct k_logit_stats *s, float logit)
{
	return (double)(logit - s->max) - log(ldexp((double)s->mass, -40));
}

double compute_logp(const struct engine *e, int32_t out, int32_t id)
{
	return compute_share(&e->stats[out], logit_of(e, out, id));
}

int32_t compute_top(
	const struct engine *e, int32_t out, int32_t most, int32_t given, struct k_draw_entry *top)
{
	const struct forward *f = &e->forward;
	int32_t n = f->draw.ask && !f->draw.whole[out]
					? sampler_top_listed(
						  f->draw.list + (size_t)out * K_DRAW_LIST, f->draw.reply[out].n, most, top)
					: sampler_top(row_of(e, out), e->info.vocab, most, top);

	for (int32_t i = 0; i < n; i++)
		if (top[i].id == given)
			return n;
	if (given >= 0)
		top[n++] = (struct k_draw_entry){ given, logit_of(e, out, given) };
	return n;
}
