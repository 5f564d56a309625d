/* Draws of a step. Where the kernels' memory is the host's, a draw reads its row of logits. On a device
 * rows stay where they are: the host asks with the step for what its draws will need (struct k_draw_ask),
 * and only where that turns out not to be enough the row is fetched, before anything is drawn, so that a
 * device lost on the way is a step that failed. The tokens, and all that is told of them, are the same.
 * Thread: the engine's. */
#include "engine/engine_impl.h"

_Static_assert((int)K_DRAW_TARGET == (int)PURPOSE_TARGET, "the device draws for the target");

static float *row_of(const struct engine *e, int32_t out)
{
	return e->forward.logits + (size_t)out * (size_t)e->info.vocab;
}

void engine_ask(struct engine *e, const struct plan_item *item)
{
	struct forward *f = &e->forward;
	const struct request *r = item->r;
	const bool score = r->kind == EV_REQUEST_KIND_score;

	if (!f->ask)
		return;
	for (int32_t i = 0; i < item->n_out; i++) {
		const int32_t out = item->out + i, row = f->out_row[out];
		/* of a drafted token's row the depth says the position */
		const struct sample_key key = { .pos = f->rows[row].pos + 1, .sample = r->sample };

		f->whole[out] = !sampler_ask(e->sampler, &r->params, key, item->n_drafts > 0, &f->ask[out]) ||
						(e->draft.rejection && item->n_drafts) || request_is_chosen(r);
		if (score) {
			f->whole[out] = false;
			f->ask[out].id = r->ids[key.pos];
		}
	}
}

static bool must_fetch(const struct engine *e, const struct request *r, int32_t out)
{
	const struct forward *f = &e->forward;

	if (r->kind == EV_REQUEST_KIND_score)
		return false;
	return f->whole[out] || !sampler_can_do(e->sampler, &r->params, &f->stats[out], &f->told[out],
											f->list + (size_t)out * K_DRAW_LIST);
}

int engine_fetch_rows(struct engine *e, struct err *err)
{
	struct forward *f = &e->forward;
	int32_t first = 0, end = 0; /* what must be fetched and is not yet: rows side by side go in one piece */

	if (!f->ask)
		return 0;
	for (int32_t i = 0; i < e->plan.n_items; i++) {
		const struct plan_item *item = &e->plan.item[i];

		for (int32_t out = item->out; out < item->out + item->n_out; out++) {
			f->whole[out] = must_fetch(e, item->r, out);
			if (!f->whole[out])
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

void engine_draw(struct engine *e, const struct request *r, int32_t pos, int32_t out)
{
	struct forward *f = &e->forward;
	const struct sample_key key = { .pos = pos, .sample = r->sample };

	if (f->ask && !f->whole[out])
		sampler_pick_listed(e->sampler, &f->stats[out], &f->told[out], f->list + (size_t)out * K_DRAW_LIST,
							&r->params, key, &e->drawn);
	else
		sampler_pick(e->sampler, row_of(e, out), &f->stats[out], &r->params, r->ids, pos, key, &e->drawn);
}

float engine_given_logit(const struct engine *e, int32_t out, int32_t id)
{
	return e->forward.ask ? e->forward.told[out].logit : row_of(e, out)[id];
}
