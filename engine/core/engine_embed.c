/* Requests of kind embed: the vector of a text. Its rows are computed as a prompt's are, without
 * logits; the final states of those that count are summed by the host, each dimension a chain of
 * its own over ascending positions. So the vector is a function of the tokens (docs/arithmetic.md,
 * rule 25). Thread: the engine's. */
#include "engine/core/compute.h"
#include "engine/core/engine_impl.h"
#include "kernels/arith.h"

/* As llama.cpp counts them in files. */
enum { FILE_NONE, FILE_MEAN, FILE_CLS, FILE_LAST };

int engine_check_pooling(const struct engine *e, struct engine_request *q, struct err *err)
{
	const int32_t says = e->model ? e->model->pooling : FILE_NONE;

	if (q->kind != EV_REQUEST_KIND_embed || q->pooling)
		return 0;
	q->pooling = 1 + (says == FILE_MEAN ? EV_POOLING_mean : EV_POOLING_last);
	if (says == FILE_NONE || says == FILE_MEAN || says == FILE_LAST)
		return 0;
	return err_set(err, ERR_USAGE,
		"pooling: the model's file asks for %s, which is not here; last and mean are",
		says == FILE_CLS ? "the first token's state" : "the head of a ranker");
}

/* Adds the final states of the item's rows that count, but for those that were added before it was
 * preempted. */
static int add_rows(struct engine *e, const struct plan_item *item, struct err *err)
{
	struct request *r = item->r;
	const int32_t dim = e->info.dim, end = item->pos + item->n_rows;
	int32_t pos = request_wants_rows(r) ? r->n_pooled : r->n_ids - 1;

	if (!r->pooled && !(r->pooled = calloc((size_t)dim, sizeof *r->pooled)))
		return err_no_memory(err, "the vector of a text");
	for (pos = pos > item->pos ? pos : item->pos; pos < end; pos += FORWARD_FINAL) {
		const int32_t n = end - pos < FORWARD_FINAL ? end - pos : FORWARD_FINAL;
		const float *x = forward_final(&e->forward, item->row + (pos - item->pos), n, err);

		for (int32_t i = 0; x && i < n; i++, x += dim)
			for (int32_t d = 0; d < dim; d++)
				r->pooled[d] += (double)x[d];
		if (!x)
			return -1;
	}
	r->n_pooled = end > r->n_pooled ? end : r->n_pooled;
	return 0;
}

/* What the sum is divided by has no part in the direction: only the length is made 1. */
static int emit_vector(struct engine *e, const struct request *r, struct err *err)
{
	float *v = e->forward.final;
	const int32_t dim = e->info.dim;
	double length = 0;
	uint64_t hash = 0;

	for (int32_t d = 0; d < dim; d++)
		length += r->pooled[d] * r->pooled[d];
	length = sqrt(length);
	if (!isfinite(length))
		return err_set(err, ERR_INPUT, "%s", engine_not_a_number);
	for (int32_t d = 0; d < dim; d++) {
		v[d] = length > 0 ? (float)(r->pooled[d] / length) : 0;
		hash += k_hash_term(k_bits(v[d]), (uint32_t)d);
	}
	STREAM_EMIT(&e->stream, embedding, .request = r->id, .pooling = r->pooling,
		.hash = (int64_t)hash, .vector = { v, (size_t)dim * sizeof *v });
	return 0;
}

static void after_embed(struct engine *e, const struct plan_item *item)
{
	struct request *r = item->r;
	struct err err = { 0 };

	r->computed += item->n_rows;
	if (e->model &&
		(add_rows(e, item, &err) || (r->computed == r->n_ids && emit_vector(e, r, &err))))
		engine_finish(e, r, EV_FINISH_failed, err.text);
	else if (r->computed == r->n_ids)
		engine_finish(e, r, EV_FINISH_end, NULL);
	else
		sched_register(&e->sched, r);
}

const struct request_kind request_embed = { .after = after_embed };
