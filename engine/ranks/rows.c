/* Some rows of an op. See ranks.h. */
#include "engine/ranks/ranks.h"

/* Rows from `first` on of a buffer with `width` values a row. */
#define ROWS_FROM(p, first, width) ((p) = (p) ? (p) + (size_t)(first) * (size_t)(width) : (p))

/* Rows of the op for each row of the step: an op may have one for each head, or slot. */
static int32_t each_of(int32_t n, const struct ranks_rows *r)
{
	return r->all ? n / r->all : 1;
}

static void cut_norm(struct k_norm *a, const struct ranks_rows *r)
{
	const int32_t each = each_of(a->n, r), first = r->first * each;

	ROWS_FROM(a->x, first, a->out.dim);
	ROWS_FROM(a->residual, first, a->out.dim);
	a->out = program_acts_from(a->out, first);
	a->n = r->n * each;
}

static void cut_matmul(struct k_matmul *a, const struct ranks_rows *r)
{
	const int32_t each = each_of(a->n, r), first = r->first * each;

	a->in = program_acts_from(a->in, first);
	for (int32_t i = 0; i < a->n_parts; i++) {
		ROWS_FROM(a->part[i].residual, first, a->part[i].w->n_rows);
		ROWS_FROM(a->part[i].out, first, a->part[i].w->n_rows);
	}
	a->n = r->n * each;
}

static void cut_rope(struct k_rope *a, const struct ranks_rows *r)
{
	const int32_t dim = a->kv->head_dim;

	ROWS_FROM(a->q, r->first, a->n_heads * dim);
	ROWS_FROM(a->k, r->first, a->kv->n_kv_heads * dim);
	ROWS_FROM(a->v, r->first, a->kv->n_kv_heads * dim);
	a->rows += r->first;
	a->also = r->also;
	a->n_also = r->n_also;
	a->n = r->n;
}

static void cut_attention(struct k_attention *a, const struct ranks_rows *r)
{
	const int32_t q = a->n_heads * a->kv->head_dim;

	ROWS_FROM(a->q, r->first, q);
	ROWS_FROM(a->sink_q, r->first, q);
	a->out = program_acts_from(a->out, r->first);
	a->rows += r->first;
	ROWS_FROM(a->ranges, r->first, a->n_ranges);
	ROWS_FROM(a->selected, r->first, a->kv->n_kv_heads * a->selected_stride);
	ROWS_FROM(a->stride_mask, r->first, 1);
	ROWS_FROM(a->attn_score, r->first, a->n_heads * a->attn_score_stride);
	a->n = r->n;
}

static void cut_experts(struct k_experts *a, const struct ranks_rows *r)
{
	a->in = program_acts_from(a->in, a->each ? r->first * a->k : r->first);
	ROWS_FROM(a->ids, r->first, a->k);
	ROWS_FROM(a->out, r->first * a->k, a->w->n_rows);
	a->n = r->n;
}

static void cut_glu(struct k_glu *a, const struct ranks_rows *r)
{
	const int32_t each = each_of(a->n, r), first = r->first * each;

	ROWS_FROM(a->gate, first, a->out.dim);
	ROWS_FROM(a->up, first, a->out.dim);
	a->out = program_acts_from(a->out, first);
	a->n = r->n * each;
}

static void cut_gated(struct k_gated *a, const struct ranks_rows *r)
{
	ROWS_FROM(a->x, r->first, a->x_stride);
	ROWS_FROM(a->z, r->first, a->z_stride);
	a->out = program_acts_from(a->out, r->first);
	a->n = r->n;
}

static void cut_route(struct k_route *a, const struct ranks_rows *r)
{
	ROWS_FROM(a->logits, r->first, a->n_experts);
	ROWS_FROM(a->ids, r->first, a->k);
	ROWS_FROM(a->weights, r->first, a->k);
	a->n = r->n;
}

static void cut_combine(struct k_combine *a, const struct ranks_rows *r)
{
	ROWS_FROM(a->y, r->first, a->k * a->dim);
	ROWS_FROM(a->weights, r->first, a->k);
	ROWS_FROM(a->shared, r->first, a->dim);
	ROWS_FROM(a->gate, r->first, 1);
	ROWS_FROM(a->x, r->first, a->dim);
	a->n = r->n;
}

static void cut_pick(struct k_pick *a, const struct ranks_rows *r)
{
	ROWS_FROM(a->q, r->first, a->n_heads * a->kv->head_dim);
	ROWS_FROM(a->out, r->first, a->kv->n_kv_heads * a->stride);
	a->rows += r->first;
	a->budget += r->first;
	a->n = r->n;
}

static void cut_sparse(struct k_sparse *a, const struct ranks_rows *r)
{
	a->a = program_acts_from(a->a, r->first);
	a->rows += r->first;
	ROWS_FROM(a->mask, r->first, a->a.dim / 32);
	a->n = r->n;
}

static void cut_columns(struct k_columns *a, const struct ranks_rows *r)
{
	a->in = program_acts_from(a->in, r->first);
	ROWS_FROM(a->residual, r->first, a->n_rows);
	ROWS_FROM(a->out, r->first, a->n_rows);
	ROWS_FROM(a->mask, r->first, a->n_cols / 32);
	a->n = r->n;
}

/* ---- recurrent layers: their rows are cut between requests alone ---- */

static void cut_conv(struct k_conv *a, const struct ranks_rows *r)
{
	ROWS_FROM(a->x, r->first, a->out.dim);
	ROWS_FROM(a->in, r->first, a->out.dim);
	ROWS_FROM(a->end, r->first, a->out.dim);
	a->out = program_acts_from(a->out, r->first);
	a->rows += r->first;
	a->n = r->n;
}

static void cut_scan(struct k_scan *a, const struct ranks_rows *r)
{
	ROWS_FROM(a->x, r->first, a->out.dim);
	ROWS_FROM(a->z, r->first, a->out.dim);
	ROWS_FROM(a->delta, r->first, a->out.dim);
	ROWS_FROM(a->b, r->first, a->n_states);
	ROWS_FROM(a->c, r->first, a->n_states);
	a->out = program_acts_from(a->out, r->first);
	a->rows += r->first;
	a->n = r->n;
}

static void cut_linear(struct k_linear *a, const struct ranks_rows *r)
{
	ROWS_FROM(a->q.x, r->first, a->q.stride);
	ROWS_FROM(a->k.x, r->first, a->k.stride);
	ROWS_FROM(a->v.x, r->first, a->v.stride);
	ROWS_FROM(a->rate, r->first, 2 * a->heads);
	ROWS_FROM(a->out, r->first, a->heads * a->values);
	a->rows += r->first;
	a->n = r->n;
}

static void cut_activate(struct k_activate *a, const struct ranks_rows *r)
{
	ROWS_FROM(a->x, r->first, a->out.dim);
	a->out = program_acts_from(a->out, r->first);
	a->n = r->n;
}

static void cut_place(struct k_place *a, const struct ranks_rows *r)
{
	ROWS_FROM(a->x, r->first, a->dim);
	a->rows += r->first;
	a->n = r->n;
}

static void cut_rotary(struct k_rotary *a, const struct ranks_rows *r)
{
	ROWS_FROM(a->x, r->first, a->n_heads * a->head_dim);
	a->rows += r->first;
	a->n = r->n;
}

static void cut_turn(struct k_turn *a, const struct ranks_rows *r)
{
	ROWS_FROM(a->q, r->first, a->n_heads * a->head_dim);
	ROWS_FROM(a->out, r->first, a->n_heads * a->head_dim);
	a->pos += r->first;
	a->n = r->n;
}

static void cut_add(struct k_add *a, const struct ranks_rows *r)
{
	ROWS_FROM(a->y, r->first, a->dim);
	ROWS_FROM(a->x, r->first, a->dim);
	a->n = r->n;
}

static void cut_round(struct k_round *a, const struct ranks_rows *r)
{
	ROWS_FROM(a->x, r->first, a->dim);
	ROWS_FROM(a->q, r->first, a->dim);
	ROWS_FROM(a->d, r->first, a->dim / K_QBLOCK);
	ROWS_FROM(a->sx, r->first, a->dim / K_QBLOCK);
	a->n = r->n;
}

static void cut_centre(struct k_centre *a, const struct ranks_rows *r)
{
	ROWS_FROM(a->x, r->first, a->out.dim);
	a->out = program_acts_from(a->out, r->first);
	a->n = r->n;
}

static void cut_slice(struct k_slice *a, const struct ranks_rows *r)
{
	ROWS_FROM(a->x, r->first, a->heads * a->stride);
	a->out = program_acts_from(a->out, r->first * a->heads);
	ROWS_FROM(a->ids, r->first, a->heads);
	a->n = r->n;
}

static void cut_key_range(struct k_key_range *a, const struct ranks_rows *r)
{
	a->rows += r->first;
	a->also = r->also;
	a->n_also = r->n_also;
	a->n = r->n;
}

static void cut_encode(struct k_encode *a, const struct ranks_rows *r)
{
	a->rows += r->first;
	a->also = r->also;
	a->n_also = r->n_also;
	a->n = r->n;
}

static void cut_taylor(struct k_taylor *a, const struct ranks_rows *r)
{
	ROWS_FROM(a->x, r->first, a->heads * a->dim);
	ROWS_FROM(a->out, r->first, a->heads * k_taylor_features(a->dim));
	a->n = r->n;
}

static void cut_rates(struct k_rates *a, const struct ranks_rows *r)
{
	ROWS_FROM(a->x, r->first, a->stride);
	ROWS_FROM(a->beta, r->first, a->stride);
	ROWS_FROM(a->out, r->first, 2 * a->heads);
	a->n = r->n;
}

static void cut_embed(struct k_embed *a, const struct ranks_rows *r)
{
	a->ids += r->first;
	ROWS_FROM(a->x, r->first, a->w->n_cols);
	a->n = r->n;
}

/* Not shift, whose rows lie way by way, and not heads' own choices, which count rows. */
#define CUT_KINDS(X)                                                                               \
	X(norm)                                                                                        \
	X(matmul)                                                                                      \
	X(rope)                                                                                        \
	X(attention)                                                                                   \
	X(experts)                                                                                     \
	X(glu)                                                                                         \
	X(gated)                                                                                       \
	X(route)                                                                                       \
	X(combine)                                                                                     \
	X(pick)                                                                                        \
	X(sparse)                                                                                      \
	X(columns)                                                                                     \
	X(conv)                                                                                        \
	X(scan)                                                                                        \
	X(linear)                                                                                      \
	X(activate)                                                                                    \
	X(place)                                                                                       \
	X(rotary)                                                                                      \
	X(turn)                                                                                        \
	X(add)                                                                                         \
	X(round)                                                                                       \
	X(centre)                                                                                      \
	X(slice)                                                                                       \
	X(key_range)                                                                                   \
	X(encode)                                                                                      \
	X(taylor)                                                                                      \
	X(rates)                                                                                       \
	X(embed)

bool ranks_cut_rows(struct k_op *op, const struct ranks_rows *r)
{
	switch (op->kind) {
#define X(name)                                                                                    \
	case K_OP_##name: cut_##name(&op->u.name, r); return true;
		CUT_KINDS(X)
#undef X
	default: return false;
	}
}
