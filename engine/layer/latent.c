/* Latent attention (DeepSeek-AI 2024, section 2.1; rule 13). See layer.h. Heads are slots of a
 * mixture whose rows all use all of them: the products by head are the op of experts. */
#include <stdio.h>

#include "engine/layer/ops.h"
#include "engine/model/model_tensors.h"

/* The columns of a head that the rotation leaves. */
static int32_t plain_dim(const struct latent *a)
{
	return a->key - a->rope_dim;
}

static void load_heads(struct model_loader *l, struct k_matrix *w, const char *part,
	const struct latent *a, int64_t rows, int64_t cols)
{
	char name[64];

	snprintf(name, sizeof name, "blk.%d.%s", l->layer, part);
	for (int32_t i = 0; i < a->n_heads && !l->e->code; i++)
		model_rows(l, &w[i], name, (struct row_slice){ i * rows, rows, a->n_heads * rows }, cols);
}

static void load_query(struct model_loader *l, struct latent *a, int64_t dim)
{
	const int64_t all = (int64_t)a->n_heads * a->key;

	if (!a->q_rank) {
		layer_matrix(l, &a->q, "attn_q.weight", all, dim);
		return;
	}
	layer_matrix(l, &a->q_a, "attn_q_a.weight", a->q_rank, dim);
	a->q_norm = layer_vector(l, "attn_q_a_norm.weight", a->q_rank, true);
	layer_matrix(l, &a->q, "attn_q_b.weight", all, a->q_rank);
}

static void latent_load(struct model_loader *l, void *params)
{
	struct latent *a = params;
	const int64_t dim = l->config->dim;

	a->absorb = calloc((size_t)a->n_heads * 2, sizeof *a->absorb);
	if (!a->absorb) {
		err_no_memory(l->e, "%d heads", a->n_heads);
		return;
	}
	a->expand = a->absorb + a->n_heads;
	residual_load(l, &a->on, 0);
	load_query(l, a, dim);
	LAYER_PARTS(l, "attn_kv_a_mqa.weight", dim, { &a->c, a->rank }, { &a->pe, a->rope_dim });
	a->c_norm = layer_vector(l, "attn_kv_a_norm.weight", a->rank, true);
	load_heads(l, a->absorb, "attn_k_b.weight", a, a->rank, plain_dim(a));
	load_heads(l, a->expand, "attn_v_b.weight", a, a->value, a->rank);
	layer_matrix(l, &a->out, "attn_output.weight", dim, (int64_t)a->n_heads * a->value);
}

static int latent_memory(void *params, struct memory_specs *m, struct err *e)
{
	struct latent *a = params;
	const struct memory_spec spec = { .kind = &memory_paged,
		.kv = { .n_kv_heads = 1, .head_dim = a->rank + a->rope_dim, .value_dim = a->rank } };

	return memory_join(m, &spec, &a->group, &a->kv_layer, NULL, e);
}

static void latent_need(const void *params, struct forward_needs *n)
{
	const struct latent *a = params;
	const int32_t h = a->n_heads, all = a->rank + a->rope_dim;

	n->ops += 17;
	residual_need(&a->on, 0, n);
	forward_widen(&n->heads, h);
	forward_widen(&n->kv_heads, 1);
	forward_widen(&n->q, h * all);
	forward_widen(&n->kv, all > h ? all : h);
	forward_widen(&n->q_normed, a->rank);
	forward_widen(&n->k_normed, a->rope_dim);
	forward_widen(&n->wide, h * (a->key > a->rank ? a->key : a->rank));
	forward_widen(&n->wide, h * a->value > a->q_rank ? h * a->value : a->q_rank);
	forward_sees(n, 0);
	forward_reads(&n->normed, a->q_rank ? &a->q_a : &a->q);
	forward_reads(&n->normed, &a->c);
	if (a->q_rank)
		forward_reads(&n->act, &a->q);
	forward_reads(&n->act, &a->absorb[0]);
	forward_widen(&n->act.dim, h * plain_dim(a));
	forward_reads(&n->mixed, &a->expand[0]);
	forward_widen(&n->mixed.dim, h * a->rank);
	n->mixed.x = true; /* attention writes floats in any case */
	forward_reads(&n->act, &a->out);
}

/* Activations of this width, in the form alone that w reads. */
static struct k_acts acts_for(struct k_acts acts, const struct k_matrix *w, int32_t dim)
{
	acts.dim = dim;
	if (program_wants_floats(w))
		acts.q = NULL;
	else
		acts.x = NULL;
	return acts;
}

/* Columns from … from + width - 1 of heads of `stride` columns of x, to column `to` of out. */
static struct k_slice *add_slice(struct forward *f, const float *x, int32_t heads, int32_t stride,
	int32_t from, int32_t width, struct k_acts out, int32_t to)
{
	struct k_slice *s = &program_add(&f->program, K_OP_slice, K_STAGE_qkv)->u.slice;

	*s = (struct k_slice){ .x = x,
		.out = out,
		.stride = stride,
		.from = from,
		.width = width,
		.to = to,
		.heads = heads,
		.n = f->n_rows };
	return s;
}

static void add_heads(struct forward *f, const struct latent *a, enum k_stage stage,
	struct k_acts in, const struct k_matrix *w, float *out)
{
	program_add(&f->program, K_OP_experts, stage)->u.experts = (struct k_experts){ .in = in,
		.w = w,
		.ids = (const int32_t *)(const void *)f->own.v, /* no values are needed */
		.out = out,
		.n_experts = a->n_heads,
		.k = a->n_heads,
		.n = f->n_rows,
		.each = true };
}

/* The projections: queries to f->own.gate, the key [rope_dim, rank] to f->own.k. */
static void add_inputs(struct forward *f, const struct latent *a)
{
	const struct k_acts key = { .x = f->own.k, .dim = a->rope_dim + a->rank };
	const float eps = f->model->config.norm_eps;

	LAYER_PRODUCTS(f, K_STAGE_qkv, f->own.normed,
		{ a->q_rank ? &a->q_a : &a->q, a->q_rank ? f->own.up : f->own.gate }, { &a->c, f->own.v },
		{ &a->pe, f->own.k_normed });
	if (a->q_rank) {
		struct k_acts in = acts_for(f->own.act, &a->q, a->q_rank);

		program_norm(&f->program, f->own.up, NULL, a->q_norm, eps, in, f->n_rows);
		layer_product(f, K_STAGE_qkv, in, &a->q, NULL, f->own.gate);
	}
	program_norm(&f->program, f->own.v, NULL, a->c_norm, eps,
		(struct k_acts){ .x = f->own.q_normed, .dim = a->rank }, f->n_rows);
	add_slice(f, f->own.k_normed, 1, a->rope_dim, 0, a->rope_dim, key, 0);
	add_slice(f, f->own.q_normed, 1, a->rank, 0, a->rank, key, a->rope_dim);
}

/* The absorbed queries, [heads, rope_dim + rank], to f->own.q. */
static void add_queries(struct forward *f, const struct latent *a)
{
	const struct k_acts q = { .x = f->own.q, .dim = a->rope_dim + a->rank };
	const int32_t plain = plain_dim(a);
	struct k_acts in = acts_for(f->own.act, a->absorb, plain);

	add_slice(f, f->own.gate, a->n_heads, a->key, 0, plain, in, 0)->ids =
		(int32_t *)(void *)f->own.v;
	add_heads(f, a, K_STAGE_qkv, in, a->absorb, f->own.up);
	add_slice(f, f->own.gate, a->n_heads, a->key, plain, a->rope_dim, q, 0);
	add_slice(f, f->own.up, a->n_heads, a->rank, 0, a->rank, q, a->rope_dim);
}

static void add_attention(struct forward *f, const struct latent *a, struct k_acts out)
{
	struct k_attention *op;

	/* the value is not stored */
	layer_rope(f, a->group, a->kv_layer, a->n_heads, &f->model->rope[a->rope], f->own.q, f->own.k,
		f->own.k)
		->scale = a->scale;
	op = layer_attend(
		f, a->group, a->kv_layer, a->n_heads, f->own.q, out, forward_mask(f, 0)->ranges);
	op->n_ranges = forward_n_ranges(f, 0);
	op->stride_mask = visible_policy_of(&f->visible)->stride_mask ? f->choice.stride_mask : NULL;
}

static void latent_write(struct forward *f, const void *params)
{
	const struct latent *a = params;
	const int32_t wide = a->n_heads * a->value;
	struct k_acts mixed = program_acts_of(f->own.mixed, a->n_heads * a->rank);
	struct k_acts out = acts_for(f->own.act, &a->out, wide);

	if (program_wants_floats(a->expand))
		mixed.q = NULL;
	residual_enter(f, &a->on, false);
	add_inputs(f, a);
	add_queries(f, a);
	add_attention(f, a, mixed);
	mixed.dim = a->rank; /* a head a row */
	add_heads(f, a, K_STAGE_out, mixed, a->expand, f->own.gate);
	add_slice(f, f->own.gate, 1, wide, 0, wide, out, 0);
	residual_leave(f, &a->on, K_STAGE_out, out, &a->out, NULL);
}

const struct block_kind layer_latent = BLOCK(
	latent, "latent attention", .memory = latent_memory, .owns = offsetof(struct latent, absorb));
