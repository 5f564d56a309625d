/* A step of the model: rows, kernels, draws (compute.h).
 *
 * Draws: Where the kernels' memory is the host's, a draw reads its row of logits. On a device the
 * rows stay there: with the step the host requests what its draws will need (struct
 * k_draw_request), and a row is fetched only where that is not enough, before anything is drawn, so
 * that a device lost on the way is a step that failed. The tokens and their events are the same.
 * Thread: the engine's. */
#include "engine/core/compute.h"
#include "engine/core/engine_impl.h"

_Static_assert((int)K_DRAW_TARGET == (int)PURPOSE_TARGET, "the device draws for the target");

/* ---- what draws need ---- */

static float *row_of(const struct engine *e, int32_t out)
{
	return e->forward.logits + (size_t)out * (size_t)e->info.vocab;
}

static void ask(struct engine *e, const struct plan_item *item)
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

static int fetch_rows(struct engine *e, struct err *err)
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

/* ---- rows ---- */

static void fill_rows(struct engine *e, struct plan_item *item, int32_t *n_seqs)
{
	struct forward *f = &e->forward;
	const struct request *r = item->r;
	int32_t known = item->n_rows - item->n_drafts, seq = (*n_seqs)++;
	const int32_t first =
		r->how->first_row ? r->how->first_row(item) : item->row + item->n_rows - item->n_out;

	for (int32_t g = 0; g < e->memory.spec.n; g++) {
		f->pages[g][seq] = r->table.page[g];
		if (f->store[g].is_state)
			memory_chain(
				e->memory.page_size, r->table.page[g], item->pos, known, f->state[g] + item->row);
	}
	for (int32_t i = 0; i < known; i++) {
		f->ids[item->row + i] = r->ids[item->pos + i];
		f->rows[item->row + i] = (struct k_row){ .pos = item->pos + i,
			.seq = seq,
			.observe = -1,
			.input = r->n_input,
			.adapter = r->adapter };
	}
	if (item->n_drafts)
		engine_draft_rows(e, item, seq, n_seqs);
	for (int32_t i = 0; i < item->n_out; i++)
		f->out_row[item->out + i] = first + i;
	f->item_row[f->n_items++] = item->row;
	for_hooks(e, h, row) h->ops->row(e, h->state, item);
	ask(e, item);
}

int compute_rows(struct engine *e, struct err *err)
{
	struct forward *f = &e->forward;
	int32_t n_seqs = 0;
	int64_t start;

	f->n_rows = e->plan.n_rows;
	f->n_out = e->plan.n_out;
	f->n_observed = 0;
	f->n_also = 0;
	f->n_items = 0;
	e->draft.n_branches = 0;
	memory_begin_step(&e->memory);
	for (int32_t i = 0; i < e->plan.n_items; i++)
		fill_rows(e, &e->plan.item[i], &n_seqs);
	start = stream_now(&e->stream);
	if (forward_run(f, e->observe.on, err) || fetch_rows(e, err))
		return -1;
	e->kernel_ns = stream_now(&e->stream) - start;
	engine_ranks_emit_step(e);
	return 0;
}

/* ---- draws ---- */

bool compute_draw(struct engine *e, const struct request *r, int32_t pos, int32_t out)
{
	struct forward *f = &e->forward;
	const struct sample_key key = { .pos = pos, .sample = r->sample };

	if (!engine_allow(e, r, pos))
		return false;
	if (f->draw.ask && !f->draw.whole[out])
		sampler_pick_listed(e->sampler, &f->stats[out], &f->draw.reply[out],
			f->draw.list + (size_t)out * K_DRAW_LIST, &r->params, key, &e->drawn);
	else
		sampler_pick(
			e->sampler, row_of(e, out), &f->stats[out], &r->params, r->ids, pos, key, &e->drawn);
	return true;
}

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
