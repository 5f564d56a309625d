/* Some rows of an op. See ranks.h. */
#include "engine/ranks/ranks.h"

/* What an op has of each row, from row `first` on: so many values, NULL stays; activations; the
 * further pages that its rows are stored in. */
#define ROWS(p, width) ((p) = (p) ? (p) + (size_t)first * (size_t)(width) : (p))
#define ACTS(acts, each) ((acts) = program_acts_from((acts), first * (each)))
#define ALSO() (a->also = r->also, a->n_also = r->n_also)

static void cut_parts(struct k_matmul *a, int32_t first)
{
	for (int32_t i = 0; i < a->n_parts; i++) {
		ROWS(a->part[i].residual, a->part[i].w->n_rows);
		ROWS(a->part[i].out, a->part[i].w->n_rows);
	}
}

/* All that has rows, of each kind but shift, whose rows lie way by way, and heads' own choices,
 * which count rows. Rows of conv, scan and linear are cut between requests alone. */
#define CUT_KINDS(X)                                                                               \
	X(norm, ROWS(a->x, a->out.dim), ROWS(a->residual, a->out.dim), ACTS(a->out, 1))                \
	X(matmul, ACTS(a->in, 1), cut_parts(a, first))                                                 \
	X(rope, ROWS(a->q, a->n_heads * a->kv->head_dim),                                              \
		ROWS(a->k, a->kv->n_kv_heads * a->kv->head_dim),                                           \
		ROWS(a->v, a->kv->n_kv_heads * a->kv->head_dim), ROWS(a->rows, 1), ALSO())                 \
	X(attention, ROWS(a->q, a->n_heads * a->kv->head_dim),                                         \
		ROWS(a->sink_q, a->n_heads * a->kv->head_dim), ACTS(a->out, 1), ROWS(a->rows, 1),          \
		ROWS(a->ranges, a->n_ranges), ROWS(a->selected, a->kv->n_kv_heads * a->selected_stride),   \
		ROWS(a->stride_mask, 1), ROWS(a->attn_score, a->n_heads * a->attn_score_stride))           \
	X(experts, ACTS(a->in, a->each ? a->k : 1), ROWS(a->ids, a->k),                                \
		ROWS(a->out, a->k * a->w->n_rows))                                                         \
	X(glu, ROWS(a->gate, a->out.dim), ROWS(a->up, a->out.dim), ACTS(a->out, 1))                    \
	X(gated, ROWS(a->x, a->x_stride), ROWS(a->z, a->z_stride), ACTS(a->out, 1))                    \
	X(route, ROWS(a->logits, a->n_experts), ROWS(a->ids, a->k), ROWS(a->weights, a->k))            \
	X(combine, ROWS(a->y, a->k * a->dim), ROWS(a->weights, a->k), ROWS(a->shared, a->dim),         \
		ROWS(a->gate, 1), ROWS(a->x, a->dim))                                                      \
	X(pick, ROWS(a->q, a->n_heads * a->kv->head_dim), ROWS(a->out, a->kv->n_kv_heads * a->stride), \
		ROWS(a->rows, 1), ROWS(a->budget, 1))                                                      \
	X(sparse, ACTS(a->a, 1), ROWS(a->rows, 1), ROWS(a->mask, a->a.dim / 32))                       \
	X(columns, ACTS(a->in, 1), ROWS(a->residual, a->n_rows), ROWS(a->out, a->n_rows),              \
		ROWS(a->mask, a->n_cols / 32))                                                             \
	X(place, ROWS(a->x, a->dim), ROWS(a->rows, 1))                                                 \
	X(rotary, ROWS(a->x, a->n_heads * a->head_dim), ROWS(a->rows, 1))                              \
	X(turn, ROWS(a->q, a->n_heads * a->head_dim), ROWS(a->out, a->n_heads * a->head_dim),          \
		ROWS(a->pos, 1))                                                                           \
	X(add, ROWS(a->y, a->dim), ROWS(a->x, a->dim))                                                 \
	X(round, ROWS(a->x, a->dim), ROWS(a->q, a->dim), ROWS(a->d, a->dim / K_QBLOCK),                \
		ROWS(a->sx, a->dim / K_QBLOCK))                                                            \
	X(centre, ROWS(a->x, a->out.dim), ACTS(a->out, 1))                                             \
	X(slice, ROWS(a->x, a->heads * a->stride), ACTS(a->out, a->heads), ROWS(a->ids, a->heads))     \
	X(key_range, ROWS(a->rows, 1), ALSO())                                                         \
	X(encode, ROWS(a->rows, 1), ALSO())                                                            \
	X(activate, ROWS(a->x, a->out.dim), ACTS(a->out, 1))                                           \
	X(embed, ROWS(a->ids, 1), ROWS(a->x, a->w->n_cols))                                            \
	X(conv, ROWS(a->x, a->out.dim), ROWS(a->in, a->out.dim), ROWS(a->end, a->out.dim),             \
		ACTS(a->out, 1), ROWS(a->rows, 1))                                                         \
	X(scan, ROWS(a->x, a->out.dim), ROWS(a->z, a->out.dim), ROWS(a->delta, a->out.dim),            \
		ROWS(a->b, a->n_states), ROWS(a->c, a->b ? a->n_states : 0), ACTS(a->out, 1),              \
		ROWS(a->rows, 1))                                                                          \
	X(linear, ROWS(a->q.x, a->q.stride), ROWS(a->k.x, a->k.stride), ROWS(a->v.x, a->v.stride),     \
		ROWS(a->rate, 2 * a->heads), ROWS(a->out, a->heads * a->values), ROWS(a->rows, 1))         \
	X(taylor, ROWS(a->x, a->heads * a->dim), ROWS(a->out, a->heads *k_taylor_features(a->dim)))    \
	X(shrink, ACTS(a->in, 1), ROWS(a->t, a->n_of * a->most), ROWS(a->rows, 1))                     \
	X(expand, ROWS(a->t, a->n_of * a->most), ROWS(a->y[0], a->of[0].width),                        \
		ROWS(a->y[1], a->of[1].width), ROWS(a->y[2], a->of[2].width), ROWS(a->rows, 1))            \
	X(rates, ROWS(a->x, a->stride), ROWS(a->beta, a->stride), ROWS(a->out, 2 * a->heads))

/* An op may have several rows for each one of the step: of each head, or slot. */
bool ranks_cut_rows(struct k_op *op, const struct ranks_rows *r)
{
	switch (op->kind) {
#define X(name, ...)                                                                               \
	case K_OP_##name: {                                                                            \
		struct k_##name *a = &op->u.name;                                                          \
		const int32_t each = r->all ? a->n / r->all : 1, first = r->first * each;                  \
		__VA_ARGS__;                                                                               \
		a->n = r->n * each;                                                                        \
		return true;                                                                               \
	}
		CUT_KINDS(X)
#undef X
	default: return false;
	}
}
