/* How much of an observed row is near zero (event sparsity): what attention gives, the inner values
 * of the feed-forwards, and how far the ones that matter are those of the row before and of the
 * other rows of the step. The rows are those whose attention is observed; the counts are the op
 * sparse's (kernels/op/sparse.h). Thread: the engine's. */
#include "engine/core/engine_impl.h"

enum { ABSENT = 65535, MOST = 65534 };

/* The bits of a request's newest observed row, of all layers. */
struct last_row {
	int64_t request; /* 0: free */
	int32_t pos;
	uint32_t *mask; /* [layers][words] */
};
struct sparsity {
	struct last_row *last; /* [n] */
	uint32_t *masks;       /* of all of them */
	int32_t n, next;
	struct last_row *now; /* of the row that is told */
	uint16_t *share;      /* [layers][EV_N_sparse] */
	uint32_t *any;        /* [layers][words] of all observed rows of the step */
	int32_t n_any;        /* so many rows */
};

static size_t mask_words(const struct engine *e)
{
	return (size_t)e->info.n_layers * (size_t)(e->forward.needs.masked / 32);
}

static int sparsity_open(struct engine *e, void **state, struct err *err)
{
	struct sparsity *s = *state;
	const size_t layers = (size_t)e->info.n_layers, words = e->model ? mask_words(e) : 0;

	if (!e->model)
		return 0;
	s->n = e->set.slots;
	s->last = calloc((size_t)s->n, sizeof *s->last);
	s->share = calloc(layers * EV_N_sparse, sizeof *s->share);
	s->any = calloc(words + 1, sizeof *s->any);
	s->masks = calloc((size_t)s->n * words + 1, sizeof *s->masks);
	for (int32_t i = 0; s->last && i < s->n; i++)
		s->last[i].mask = s->masks + (size_t)i * words;
	return s->last && s->share && s->any && s->masks
			   ? 0
			   : err_set(err, ERR_MEMORY, "no memory to count near-zero values");
}

static void sparsity_close(struct engine *e, void *state)
{
	struct sparsity *s = state;

	(void)e;
	free(s->last);
	free(s->masks);
	free(s->share);
	free(s->any);
}

static uint16_t share_of(int64_t part, int64_t whole)
{
	return whole ? (uint16_t)((part * MOST + whole / 2) / whole) : 0;
}

static int64_t count_bits(const uint32_t *a, size_t n)
{
	int64_t bits = 0;

	for (size_t i = 0; i < n; i++)
		bits += __builtin_popcount(a[i]);
	return bits;
}

/* Intersection over union (Jaccard 1912). */
static uint16_t overlap_of(const uint32_t *a, const uint32_t *b, size_t n)
{
	int64_t both = 0, either = 0;

	for (size_t i = 0; i < n; i++) {
		both += __builtin_popcount(a[i] & b[i]);
		either += __builtin_popcount(a[i] | b[i]);
	}
	return share_of(both, either);
}

static struct last_row *last_of(struct sparsity *s, int64_t request)
{
	for (int32_t i = 0; i < s->n; i++)
		if (s->last[i].request == request)
			return &s->last[i];
	for (int32_t i = 0; i < s->n; i++)
		if (!s->last[i].request)
			return &s->last[i];
	s->next = (s->next + 1) % s->n; /* more wait than run: the next one is forgotten */
	return &s->last[s->next];
}

/* Row `row` of an op's masks. */
static const uint32_t *row_mask(const struct k_sparse *a, int32_t row)
{
	return a->mask + (size_t)row * (size_t)(a->a.dim / 32);
}

static int32_t row_of(const struct forward *f, const struct plan_item *item)
{
	int32_t row = item->row;

	while (f->rows[row].observe != item->observed)
		row++;
	return row;
}

typedef void layer_fn(struct engine *e, struct sparsity *s, const struct k_sparse *a, int32_t layer,
	const struct plan_item *item);

static void each_layer(
	struct engine *e, struct sparsity *s, const struct plan_item *item, layer_fn *fn)
{
	for (int32_t i = 0; i < e->forward.program.n_ops; i++) {
		const struct k_op *op = &e->forward.program.op[i];

		for (int32_t l = 0; op->kind == K_OP_sparse && l < op->u.sparse.layers; l++) {
			const struct k_sparse of = k_sparse_layer(&op->u.sparse, l);

			fn(e, s, &of, op->layer + l, item);
		}
	}
}

static void unite(struct engine *e, struct sparsity *s, const struct k_sparse *a, int32_t layer,
	const struct plan_item *item)
{
	const size_t words = (size_t)(e->forward.needs.masked / 32);
	const uint32_t *mask = a->mask ? row_mask(a, row_of(&e->forward, item)) : NULL;

	for (int32_t i = 0; mask && i < a->a.dim / 32; i++)
		s->any[(size_t)layer * words + (size_t)i] |= mask[i];
}

static void measure(struct engine *e, struct sparsity *s, const struct k_sparse *a, int32_t layer,
	const struct plan_item *item)
{
	const size_t words = (size_t)(a->a.dim / 32),
				 at = (size_t)layer * (size_t)(e->forward.needs.masked / 32);
	const int32_t row = row_of(&e->forward, item);
	uint16_t *share = s->share + layer * EV_N_sparse;
	struct last_row *last = s->now;
	const uint32_t *mask;

	for (int k = 0; k < K_NEAR; k++)
		share[(a->mask ? EV_SPARSE_inner_1 : EV_SPARSE_output_1) + k] =
			share_of(a->near_zero[item->observed * K_NEAR + k], a->a.dim);
	if (!a->mask)
		return;
	mask = row_mask(a, row);
	share[EV_SPARSE_kept] = share_of(count_bits(mask, words), a->a.dim);
	share[EV_SPARSE_together] = share_of(count_bits(s->any + at, words), a->a.dim);
	if (last->request == item->r->id && last->pos < e->forward.rows[row].pos)
		share[EV_SPARSE_overlap] = overlap_of(mask, last->mask + at, words);
	memcpy(last->mask + at, mask, words * sizeof *mask);
}

static void emit(struct engine *e, struct sparsity *s, const struct plan_item *item)
{
	const int32_t pos = e->forward.rows[row_of(&e->forward, item)].pos;
	const size_t n = (size_t)e->info.n_layers * EV_N_sparse;
	struct last_row *last = s->now = last_of(s, item->r->id);
	const bool before = last->request == item->r->id && last->pos < pos;

	for (size_t i = 0; i < n; i++)
		s->share[i] = ABSENT;
	each_layer(e, s, item, measure);
	STREAM_EMIT(&e->stream, sparsity, .step = e->n_steps, .request = item->r->id, .pos = pos,
		.since = before ? pos - last->pos : EV_NULL_I, .rows = s->n_any,
		.mark = (double)forward_mark(e->forward.least),
		.share = { s->share, n * sizeof *s->share });
	last->request = item->r->id;
	last->pos = pos;
}

static void sparsity_computed(struct engine *e, void *state)
{
	struct sparsity *s = state;

	if (!s->share || !e->forward.n_observed)
		return;
	memset(s->any, 0, mask_words(e) * sizeof *s->any);
	s->n_any = e->forward.n_observed;
	for (int32_t i = 0; i < e->plan.n_items; i++)
		if (e->plan.item[i].observed >= 0)
			each_layer(e, s, &e->plan.item[i], unite);
	for (int32_t i = 0; i < e->plan.n_items; i++)
		if (e->plan.item[i].observed >= 0)
			emit(e, s, &e->plan.item[i]);
}

static void sparsity_forget(struct engine *e, void *state, int64_t request)
{
	struct sparsity *s = state;

	(void)e;
	for (int32_t i = 0; i < s->n; i++)
		if (s->last[i].request == request)
			s->last[i].request = 0;
}

const struct step_hooks sparsity_hooks = {
	.name = "sparsity",
	.size = sizeof(struct sparsity),
	.open = sparsity_open,
	.close = sparsity_close,
	.computed = sparsity_computed,
	.forget = sparsity_forget,
};
