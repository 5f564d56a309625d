/* Pipeline parallelism: each stage has some layers, and passes the residual stream of its rows on.
 * A step's rows go through in micro-batches (Huang et al. 2019, "GPipe"), so that stages compute at
 * once; what they wait at its begin and end is the bubble. See ranks.h. */

#include "engine/ranks/ranks.h"

static size_t op_weights(const struct ranks *k, const struct k_op *op)
{
	size_t n = 0;

	for (int32_t m = 0; op->kind == K_OP_matmul && m < op->u.matmul.n_parts; m++)
		n += k_matrix_bytes(k->kernels, op->u.matmul.part[m].w);
	if (op->kind == K_OP_experts)
		n += (size_t)op->u.experts.k * k_matrix_bytes(k->kernels, op->u.experts.w);
	return n;
}

/* A layer that reads keys, or values of another layer, cannot be apart from it. */
static const char *whole_because(const struct forward *f)
{
	const struct k_program *p = &f->program;
	int32_t stored = -1;

	if (f->model->n_encoder)
		return "its decoder reads what its encoder keeps";
	if (f->needs.first)
		return "its layers read values of the first one";
	for (int32_t i = 0; i < p->n_ops; i++) {
		stored = p->op[i].kind == K_OP_rope ? p->op[i].layer : stored;
		if (p->op[i].kind == K_OP_attention && p->op[i].layer != stored)
			return "some layers read the keys and values of others";
	}
	return NULL;
}

int ranks_plan_stages(struct ranks *k, const struct forward *f, struct err *e)
{
	const struct k_program *p = &f->program;
	const int32_t n_layers = f->model->config.n_layers;
	size_t all = 0, before = 0;
	int32_t s = 1;

	k->layer[k->n_stages] = n_layers;
	if (k->n_stages < 2)
		return 0;
	if (n_layers < k->n_stages)
		return err_set(
			e, ERR_USAGE, "pipeline-parallel %d: the model has %d layers", k->n_stages, n_layers);
	if (whole_because(f))
		return err_set(e, ERR_USAGE, "pipeline-parallel %d: this model cannot be cut, since %s",
			k->n_stages, whole_because(f));
	for (int32_t i = 0; i < p->n_ops; i++)
		all += op_weights(k, &p->op[i]);
	for (int32_t i = 0; i < p->n_ops && s < k->n_stages; i++) {
		const int32_t layer = p->op[i].layer;

		before += op_weights(k, &p->op[i]);
		if (layer >= 0 && i + 1 < p->n_ops && p->op[i + 1].layer != layer &&
			(before * (size_t)k->n_stages >= all * (size_t)s ||
				n_layers - layer - 1 == k->n_stages - s))
			k->layer[s++] = layer + 1;
	}
	return 0;
}

void ranks_find_stage(struct ranks *k, const struct k_program *p)
{
	int32_t i = 0;

	while (i < p->n_ops && p->op[i].layer < 0)
		i++;
	k->embed_end = i;
	while (i < p->n_ops && p->op[i].layer >= 0 && p->op[i].layer < k->layer[k->stage])
		i++;
	k->layers_at = i;
	while (i < p->n_ops && p->op[i].layer >= 0 && p->op[i].layer < k->layer[k->stage + 1])
		i++;
	k->layers_end = i;
	while (i < p->n_ops && p->op[i].layer >= 0)
		i++;
	k->head_at = k->head_end = i;
	for (; i < p->n_ops; i++)
		if (p->op[i].kind == K_OP_matmul)
			k->head_end = i + 1;
}

bool ranks_has_op(const struct ranks *k, int32_t at)
{
	return k->n_stages < 2 || at < k->embed_end || (at >= k->layers_at && at < k->layers_end) ||
		   (at >= k->head_at && k->stage == k->n_stages - 1);
}

/* ---- a step ---- */

/* States go from row to row, and so do heads' own choices: such steps are cut between requests, or
 * not at all. All stages ask the same program. */
static bool can_cut(const struct ranks *k, const struct forward *f, bool *between)
{
	struct ranks_rows r = { .all = f->n_rows, .n = f->n_rows };

	*between = f->ahead;
	for (int32_t i = k->embed_end; i < k->head_at; i++) {
		struct k_op op = f->program.op[i];

		if (!ranks_cut_rows(&op, &r))
			return false;
		*between |= op.kind == K_OP_conv || op.kind == K_OP_scan || op.kind == K_OP_linear;
	}
	return true;
}

/* Where the micro-batch that begins at row `first` ends. */
static int32_t cut_at(const struct forward *f, int32_t first, int32_t most, bool between)
{
	int32_t end = first + most, at = f->n_rows;

	if (end >= f->n_rows || !between)
		return end < f->n_rows ? end : f->n_rows;
	for (int32_t i = f->n_items - 1; i >= 0; i--)
		if (f->item_row[i] > first && (f->item_row[i] >= end || at == f->n_rows))
			at = f->item_row[i];
	return at;
}

static struct ranks_rows rows_of(
	struct ranks *k, const struct forward *f, int32_t first, int32_t end)
{
	struct ranks_rows r = { .all = f->n_rows, .first = first, .n = end - first, .also = k->also };

	for (int32_t i = 0; i < f->n_also; i++)
		if (f->also[i].row >= first && f->also[i].row < end) {
			k->also[r.n_also] = f->also[i];
			k->also[r.n_also++].row -= first;
		}
	return r;
}

static int run_micro_batch(
	struct ranks *k, struct forward *f, int32_t first, int32_t end, struct err *e)
{
	const size_t dim = (size_t)f->model->config.dim,
				 bytes = (size_t)(end - first) * dim * sizeof *f->x;
	const int32_t self = k->transport->rank;
	float *x = f->x + (size_t)first * dim;
	const bool whole = end - first == f->n_rows;
	struct ranks_rows rows = rows_of(k, f, first, end);
	int nan;

	if (k->stage && ranks_receive(k, f, self - k->n, x, bytes, e))
		return -1;
	nan = atomic_load(f->nan_row);
	atomic_store(f->nan_row, 0);
	if (ranks_run_ops(k, f, k->layers_at, k->layers_end, whole ? NULL : &rows, e))
		return -1;
	atomic_store(f->nan_row, atomic_load(f->nan_row) ? atomic_load(f->nan_row) + first : nan);
	return k->stage + 1 < k->n_stages ? ranks_send(k, f, self + k->n, x, bytes, e) : 0;
}

/* What follows the layers: drafters and probes of rank 0 read the stream, its draws the logits. */
static int run_head(struct ranks *k, struct forward *f, struct err *e)
{
	const size_t bytes = (size_t)f->n_rows * (size_t)f->model->config.dim * sizeof *f->x;
	const int32_t last = (k->n_stages - 1) * k->n, self = k->transport->rank;

	if (self == last && ranks_send(k, f, 0, f->x, bytes, e))
		return -1;
	if (!self && ranks_receive(k, f, last, f->x, bytes, e))
		return -1;
	if (k->stage == k->n_stages - 1)
		return ranks_run_ops(k, f, k->head_at, k->head_end, NULL, e);
	if (self || !f->n_out)
		return 0;
	return ranks_run_exchanges(k, f, k->head_end, e) ||
				   ranks_run_ops(k, f, k->head_end, f->program.n_ops, NULL, e)
			   ? -1
			   : 0;
}

int ranks_run_stages(struct ranks *k, struct forward *f, struct err *e)
{
	const int32_t n = k->micro_batches ? k->micro_batches : 2 * k->n_stages;
	bool between;
	const int32_t most = can_cut(k, f, &between) ? (f->n_rows + n - 1) / n : f->n_rows;

	for (int32_t i = 0; i < f->program.n_ops; i++)
		f->program.op[i].ns = 0;
	if (ranks_run_ops(k, f, 0, k->embed_end, NULL, e))
		return -1;
	for (int32_t first = 0; first < f->n_rows;) {
		const int32_t end = cut_at(f, first, most, between);

		if (run_micro_batch(k, f, first, end, e))
			return -1;
		first = end;
	}
	return run_head(k, f, e);
}
