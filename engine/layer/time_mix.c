/* The time mix of RWKV-7 (Peng et al. 2025, section 4; the author's package `rwkv`): token shift, a
 * state matrix a head, in place of attention. See layer.h. A sequence keeps the last normed row and
 * the matrices. */
#include "engine/layer/ops.h"
#include "engine/model/model_tensors.h"

/* How the shift mixes rows, as a file has them; parts of f->own.gate: results of the small
 * products. */
enum { WAY_r, WAY_w, WAY_k, WAY_v, WAY_a, WAY_g, WAYS };
enum { PART_w, PART_a, PART_v, PART_g, N_PARTS };

static void load_rank(struct model_loader *l, struct low_rank *r, char part, int32_t dim)
{
	char name[32] = "time_mix_?1.weight";

	name[9] = part;
	layer_matrix(l, &r->down, name, r->rank, dim);
	name[10] = '2';
	layer_matrix(l, &r->up, name, dim, r->rank);
	name[10] = '0';
	r->bias = part == 'g' ? NULL : layer_vector(l, name, dim, true);
}

static void load_vectors(struct model_loader *l, struct time_mix *a)
{
	a->shift = layer_floats(l, "time_mix_lerp_fused.weight", a->dim, WAYS);
	a->key_scale = layer_vector(l, "time_mix_k_k.weight", a->dim, true);
	a->key_rate = layer_vector(l, "time_mix_k_a.weight", a->dim, true);
	a->bonus = layer_floats(l, "time_mix_r_k.weight", a->dim, 1);
	a->out_norm = layer_vector(l, "time_mix_ln.weight", a->dim, true);
	a->out_bias = layer_vector(l, "time_mix_ln.bias", a->dim, true);
}

static void time_mix_load(struct model_loader *l, void *params)
{
	struct time_mix *a = params;

	residual_load(l, &a->on, 0);
	load_vectors(l, a);
	layer_matrix(l, &a->r, "time_mix_receptance.weight", a->dim, a->dim);
	layer_matrix(l, &a->k, "time_mix_key.weight", a->dim, a->dim);
	layer_matrix(l, &a->v, "time_mix_value.weight", a->dim, a->dim);
	load_rank(l, &a->decay, 'w', a->dim);
	load_rank(l, &a->rate, 'a', a->dim);
	if (!a->first)
		load_rank(l, &a->share, 'v', a->dim);
	load_rank(l, &a->gate, 'g', a->dim);
	layer_matrix(l, &a->out, "time_mix_output.weight", a->dim, a->dim);
}

static int time_mix_memory(void *params, struct memory_specs *m, struct err *e)
{
	struct time_mix *a = params;

	return memory_join_state(
		m, (size_t)a->dim + (size_t)a->dim * (size_t)a->head_dim, &a->group, &a->at, e);
}

static void rank_need(const struct low_rank *r, struct forward_needs *n)
{
	n->ops += 3;
	forward_widen(&n->wide, r->rank);
	forward_reads(&n->mixed, &r->down);
	forward_reads(&n->act, &r->up);
}

static void time_mix_need(const void *params, struct forward_needs *n)
{
	const struct time_mix *a = params;

	n->ops += 8;
	residual_need(&a->on, 0, n);
	n->first = true;
	n->mixed.x = n->act.x = true; /* products by floats may read them */
	forward_widen(&n->q, a->dim);
	forward_widen(&n->kv, a->dim);
	forward_widen(&n->wide, N_PARTS * a->dim);
	forward_widen(&n->room, a->dim * a->head_dim);
	forward_reads(&n->mixed, &a->r);
	forward_reads(&n->mixed, &a->k);
	forward_reads(&n->mixed, &a->v);
	forward_widen(&n->mixed.dim, WAYS * a->dim);
	forward_reads(&n->act, &a->out);
	rank_need(&a->decay, n);
	rank_need(&a->rate, n);
	if (!a->first)
		rank_need(&a->share, n);
	rank_need(&a->gate, n);
}

/* The rows as the shift mixed them in one of its ways. */
static struct k_acts way(const struct forward *f, const struct time_mix *a, int32_t of)
{
	return program_acts_from(program_acts_of(f->own.mixed, a->dim), of * f->n_rows);
}

static float *part(float *x, const struct forward *f, const struct time_mix *a, int32_t of)
{
	return x + (size_t)of * (size_t)f->n_rows * (size_t)a->dim;
}

static void add_product(
	struct forward *f, const struct time_mix *a, int32_t of, const struct k_matrix *w, float *out)
{
	layer_product(f, K_STAGE_qkv, way(f, a, of), w, NULL, out);
}

/* Two products of small rank with an activation between them, by f->own.up and f->own.act. */
static void add_rank(struct forward *f, const struct time_mix *a, int32_t of,
	const struct low_rank *r, enum k_act act, float *out)
{
	struct k_acts inner = program_acts_of(f->own.act, r->rank);

	add_product(f, a, of, &r->down, f->own.up);
	layer_activate(f, K_STAGE_act, f->own.up, inner, act);
	layer_product(f, K_STAGE_qkv, inner, &r->up, r->bias, out);
}

/* Of the first layer the values stay in f->own.first: the others mix theirs with them. */
static void add_products(struct forward *f, const struct time_mix *a)
{
	add_product(f, a, WAY_r, &a->r, f->own.q);
	add_product(f, a, WAY_k, &a->k, f->own.k);
	add_product(f, a, WAY_v, &a->v, a->first ? f->own.first : f->own.v);
	add_rank(f, a, WAY_w, &a->decay, K_ACT_tanh, part(f->own.gate, f, a, PART_w));
	add_rank(f, a, WAY_a, &a->rate, K_ACT_none, part(f->own.gate, f, a, PART_a));
	if (!a->first)
		add_rank(f, a, WAY_v, &a->share, K_ACT_none, part(f->own.gate, f, a, PART_v));
	add_rank(f, a, WAY_g, &a->gate, K_ACT_sigmoid, part(f->own.gate, f, a, PART_g));
}

static void add_erase(struct forward *f, const struct time_mix *a)
{
	program_add(&f->program, K_OP_erase, K_STAGE_scan)->u.erase =
		(struct k_erase){ .w = part(f->own.gate, f, a, PART_w),
			.a = part(f->own.gate, f, a, PART_a),
			.k = f->own.k,
			.v = a->first ? f->own.first : f->own.v,
			.share = a->first ? NULL : part(f->own.gate, f, a, PART_v),
			.first = f->own.first,
			.key_scale = a->key_scale,
			.key_rate = a->key_rate,
			.away = part(f->own.up, f, a, 1),
			.back = part(f->own.up, f, a, 2),
			.heads = a->dim / a->head_dim,
			.size = a->head_dim,
			.n = f->n_rows };
}

/* To f->own.up. */
static void add_states(struct forward *f, const struct time_mix *a)
{
	program_add(&f->program, K_OP_wkv, K_STAGE_scan)->u.wkv = (struct k_wkv){ .q = f->own.q,
		.k = f->own.k,
		.v = a->first ? f->own.first : f->own.v,
		.decay = part(f->own.gate, f, a, PART_w),
		.away = part(f->own.up, f, a, 1),
		.back = part(f->own.up, f, a, 2),
		.out = f->own.up,
		.room = f->own.room,
		.heads = a->dim / a->head_dim,
		.size = a->head_dim,
		LAYER_STATE(f, a->group),
		.at = a->at + (size_t)a->dim };
}

static void add_bonus(struct forward *f, const struct time_mix *a, struct k_acts out)
{
	program_add(&f->program, K_OP_bonus, K_STAGE_scan)->u.bonus = (struct k_bonus){ .x = f->own.up,
		.q = f->own.q,
		.k = f->own.k,
		.v = a->first ? f->own.first : f->own.v,
		.gate = part(f->own.gate, f, a, PART_g),
		.w = a->out_norm,
		.b = a->out_bias,
		.weight = a->bonus,
		.eps = 64e-5f,
		.heads = a->dim / a->head_dim,
		.size = a->head_dim,
		.n = f->n_rows,
		.out = out };
}

static void time_mix_write(struct forward *f, const void *params)
{
	const struct time_mix *a = params;
	struct k_acts out = program_acts_of(f->own.act, a->dim);

	residual_shift(f, &a->on,
		(struct k_shift){ .mix = a->shift,
			.out = program_acts_of(f->own.mixed, a->dim),
			.ways = WAYS,
			LAYER_STATE(f, a->group),
			.at = a->at });
	add_products(f, a);
	add_erase(f, a);
	add_states(f, a);
	add_bonus(f, a, out);
	residual_leave(f, &a->on, K_STAGE_out, out, &a->out, NULL);
}

const struct block_kind layer_time_mix = BLOCK(time_mix, "time mix", .memory = time_mix_memory);
