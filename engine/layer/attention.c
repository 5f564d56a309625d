/* Attention over the cached keys and values. See layer.h. */
#include "engine/layer/ops.h"
#include "engine/model/model_tensors.h"

static void load_biases(struct model_loader *l, struct attention *a, int64_t q, int64_t kv)
{
	const float *all = a->fused ? layer_vector(l, "attn_qkv.bias", q + 2 * kv, false) : NULL;

	a->q_bias = all ? all : layer_vector(l, "attn_q.bias", a->gated ? 2 * q : q, false);
	a->k_bias = all ? all + q : layer_vector(l, "attn_k.bias", kv, false);
	a->v_bias = all ? all + q + kv : layer_vector(l, "attn_v.bias", kv, false);
}

/* Where a layer reads another's keys and values there are none. */
static void load_key_value(struct model_loader *l, struct attention *a, int64_t kv, int64_t dim)
{
	const bool whole = a->norms == ATTENTION_WHOLE_NORMS;

	if (a->norms)
		a->k_norm = layer_vector(l, "attn_k_norm.weight", whole ? kv : a->head_dim, true);
	if (a->fused)
		return;
	layer_matrix(l, &a->k, "attn_k.weight", kv, dim);
	if (!a->value_norm || layer_has(l, "attn_v.weight"))
		layer_matrix(l, &a->v, "attn_v.weight", kv, dim);
}

static void attention_load(struct model_loader *l, void *params)
{
	struct attention *a = params;
	int64_t dim = l->config->dim, q = (int64_t)a->n_heads * a->head_dim;
	int64_t kv = (int64_t)a->n_kv_heads * a->head_dim;
	bool whole = a->norms == ATTENTION_WHOLE_NORMS;

	residual_load(l, &a->on, q);
	if (a->norms)
		a->q_norm = layer_vector(l, "attn_q_norm.weight", whole ? q : a->head_dim, true);
	if (a->fused)
		LAYER_PARTS(l, "attn_qkv.weight", dim, { &a->q, q }, { &a->k, kv }, { &a->v, kv });
	else
		layer_matrix(l, &a->q, "attn_q.weight", a->gated ? 2 * q : q, dim);
	if (!a->from)
		load_key_value(l, a, kv, dim);
	layer_matrix(l, &a->out, "attn_output.weight", dim, q);
	load_biases(l, a, q, kv);
	a->out_bias = layer_vector(l, "attn_output.bias", dim, false);
	a->sink = a->sinks ? layer_vector(l, "attn_sinks.weight", a->n_heads, true) : NULL;
}

static int attention_memory(void *params, struct memory_specs *m, struct err *e)
{
	struct attention *a = params;
	const struct memory_spec spec = { .kind = a->window ? &memory_window : &memory_paged,
		.window = a->window,
		.kv = { .n_kv_heads = a->n_kv_heads, .head_dim = a->head_dim } };

	if (a->from) { /* which joined before */
		a->group = a->from->group;
		a->kv_layer = a->from->kv_layer;
		return 0;
	}
	if (!a->n_kv_heads)
		return err_set(e, ERR_INPUT, "a layer of attention has no key-value heads");
	return memory_join(m, &spec, &a->group, &a->kv_layer, NULL, e);
}

static void attention_need(const void *params, struct forward_needs *n)
{
	const struct attention *a = params;

	n->ops += 13 + (a->norms ? 2 : 0) + (a->norms == ATTENTION_LATE_NORMS ? 2 : 0);
	residual_need(&a->on, a->n_heads * a->head_dim, n);
	if (a->gated) {
		n->ops += 2;
		forward_widen(&n->wide, 2 * a->n_heads * a->head_dim);
	}
	forward_widen(&n->heads, a->n_heads);
	forward_widen(&n->kv_heads, a->n_kv_heads);
	forward_widen(&n->q, a->n_heads * a->head_dim);
	forward_widen(&n->kv, a->n_kv_heads * a->head_dim);
	forward_sees(n, a->window);
	forward_reads(&n->normed, &a->q);
	if (!a->from)
		forward_reads(&n->normed, &a->k);
	if (a->v.data)
		forward_reads(&n->normed, &a->v);
	forward_reads(&n->mixed, &a->out);
	n->mixed.x = true; /* attention writes floats in any case */
	if (a->norms) {
		forward_widen(&n->q_normed, a->n_heads * a->head_dim);
		forward_widen(&n->k_normed, a->n_kv_heads * a->head_dim);
	}
}

/* RMS norms of rows of width dim: heads, or all heads as one. */
static float *add_norms(
	struct forward *f, const float *w, float *x, float *to, int32_t n, int32_t dim)
{
	if (!w)
		return x;
	program_norm(&f->program, x, NULL, w, f->model->config.norm_eps,
		(struct k_acts){ .x = to, .dim = dim }, n);
	return to;
}

static float *add_head_norms(struct forward *f, const struct attention *a, const float *w, float *x,
	float *to, int32_t heads)
{
	const bool whole = a->norms == ATTENTION_WHOLE_NORMS;

	return add_norms(f, w, x, to, whole ? f->n_rows : f->n_rows * heads,
		whole ? heads * a->head_dim : a->head_dim);
}

/* Norms of values, to f->own.v. */
static void add_value_norm(struct forward *f, const struct attention *a)
{
	const struct k_acts out = { .x = f->own.v, .dim = a->n_kv_heads * a->head_dim };

	layer_gated_norm(layer_gated(f, K_STAGE_norm, a->v.data ? f->own.v : f->own.k, a->n_kv_heads,
						 a->head_dim, out),
		NULL, 0);
}

/* Where the op rope does not rotate: before a norm, or where there is no key to store. */
static void add_rotation(struct forward *f, const struct attention *a, float *x, int32_t heads)
{
	const struct model_rope *t = &f->model->rope[a->rope];

	program_add(&f->program, K_OP_rotary, K_STAGE_rope)->u.rotary = (struct k_rotary){ .x = x,
		.cos = t->cos,
		.sin = t->sin,
		.rope_dim = t->dim,
		.head_dim = a->head_dim,
		.n_heads = heads,
		.n = f->n_rows,
		.neox = t->halves,
		.rows = f->rows };
}

/* Where the keys and values of the newest tokens are stored: in their group, or, where that is of
 * codes by channel, in the one beside it. */
static int32_t stored_in(const struct forward *f, const struct attention *a)
{
	const int32_t recent = f->store[a->group].recent;

	return recent ? recent : a->group;
}

/* Rotates what is left to rotate. */
static void add_rope(struct forward *f, const struct attention *a, float *q, const float *k)
{
	const bool none = a->rope == ATTENTION_NO_ROPE || a->norms == ATTENTION_LATE_NORMS;

	layer_rope(f, stored_in(f, a), a->kv_layer, a->n_heads, none ? NULL : &f->model->rope[a->rope],
		q, k, f->own.v)
		->scale = a->scale;
}

static void add_encode(struct forward *f, const struct attention *a)
{
	const int32_t from = stored_in(f, a);

	if (from == a->group)
		return;
	program_add(&f->program, K_OP_encode, K_STAGE_rope)->u.encode =
		(struct k_encode){ .layer = a->kv_layer,
			LAYER_KV(f, a->group),
			.also = f->also,
			.n_also = f->n_also,
			.recent_pages = f->pages[from],
			.recent = &f->store[from].kv };
}

/* A second query for the first positions, made of q before it is rotated; NULL: there is none. */
static const float *add_turn(struct forward *f, const struct attention *a, const float *q)
{
	const struct model_rope *t = &f->model->rope[a->rope == ATTENTION_NO_ROPE ? 0 : a->rope];

	if (!visible_policy_of(&f->visible)->rotated || a->rope == ATTENTION_NO_ROPE)
		return NULL;
	program_add(&f->program, K_OP_turn, K_STAGE_rope)->u.turn = (struct k_turn){ .q = q,
		.out = f->own.sink_q,
		.cos = t->cos,
		.sin = t->sin,
		.pos = f->choice.rotated,
		.rope_dim = t->dim,
		.n_heads = a->n_heads,
		.head_dim = a->head_dim,
		.n = f->n_rows,
		.neox = t->halves,
		.scale = a->scale };
	return f->own.sink_q;
}

/* Where there is no op rope, which does it too. */
static void add_scale(struct forward *f, const struct attention *a, float *q)
{
	if (a->scale == 1)
		return;
	layer_gated_self(f, K_STAGE_rope, q, 1, a->n_heads * a->head_dim)->factor = a->scale;
}

/* Rotates the query, and the key, which is stored with its value. */
static void add_key_value(struct forward *f, const struct attention *a, float *q, const float *k)
{
	if (!a->from) {
		if (a->value_norm)
			add_value_norm(f, a);
		add_rope(f, a, q, k);
		add_encode(f, a);
		return;
	}
	if (a->rope != ATTENTION_NO_ROPE)
		add_rotation(f, a, q, a->n_heads);
	add_scale(f, a, q);
}

/* What this layer's heads keep by their attention. */
static struct k_heavy heavy_of(const struct forward *f, const struct attention *a)
{
	const int32_t group = f->store[a->group].kept, most = f->store[group].most_kept;
	const size_t layer = (size_t)a->n_kv_heads * k_heavy_floats(most);

	return (struct k_heavy){ .rows = f->rows,
		.states = f->state[group],
		.state = &f->store[group].state,
		.at = (size_t)a->kv_layer * layer,
		.n_kv_heads = a->n_kv_heads,
		.most = most,
		.n = f->n_rows };
}

static bool keeps(const struct forward *f, const struct attention *a)
{
	return visible_policy_of(&f->visible)->keeps && !a->window;
}

/* Where the choice of a layer will be. */
static uint8_t *selected_of(const struct forward *f, int32_t layer)
{
	const size_t row = (size_t)f->needs.kv_heads * (size_t)f->choice.selected_stride;

	return f->choice.selected + (size_t)layer * (size_t)f->n_rows * row;
}

static const uint8_t *add_h2o_lookup(struct forward *f, const struct attention *a)
{
	uint8_t *out = selected_of(f, f->program.layer);

	program_add(&f->program, K_OP_h2o_lookup, K_STAGE_attention)->u.h2o_lookup =
		(struct k_h2o_lookup){ .of = heavy_of(f, a),
			.begins = f->choice.begins,
			.out = out,
			.stride = f->choice.selected_stride };
	return out;
}

static void add_attn_score(struct forward *f, const struct attention *a)
{
	program_add(&f->program, K_OP_attn_score, K_STAGE_attention)->u.attn_score =
		(struct k_attn_score){ .of = heavy_of(f, a),
			.share = f->choice.attn_score,
			.room = f->choice.attn_score_scratch,
			.share_stride = f->max_groups,
			.keep = f->choice.budget,
			.n_heads = a->n_heads };
}

/* Returns where the choice will be; NULL: rows read all that they see. */
static const uint8_t *add_pick(struct forward *f, const struct attention *a, const float *q)
{
	uint8_t *out;

	if (keeps(f, a)) /* a layer that reads another's keys reads those that this one keeps */
		return a->from ? selected_of(f, a->from_layer) : add_h2o_lookup(f, a);
	if (!visible_picks(&f->visible) || a->window)
		return NULL;
	out = selected_of(f, f->program.layer);
	if (!a->from)
		program_add(&f->program, K_OP_key_range, K_STAGE_rope)->u.key_range = (struct k_key_range){
			.layer = a->kv_layer, LAYER_KV(f, a->group), .also = f->also, .n_also = f->n_also
		};
	program_add(&f->program, K_OP_pick, K_STAGE_attention)->u.pick = (struct k_pick){ .q = q,
		.out = out,
		.stride = f->choice.selected_stride,
		.n_heads = a->n_heads,
		.layer = a->kv_layer,
		LAYER_KV(f, a->group),
		.budget = f->choice.budget };
	return out;
}

static void add_attention(struct forward *f, const struct attention *a, const float *q,
	const float *sink_q, struct k_acts out)
{
	const uint8_t *selected = add_pick(f, a, q);
	struct k_attention *op = layer_attend(
		f, a->group, a->kv_layer, a->n_heads, q, out, forward_mask(f, a->window)->ranges);

	op->n_ranges = forward_n_ranges(f, a->window);
	op->selected = selected;
	op->selected_stride = f->choice.selected_stride;
	op->stride_mask = visible_policy_of(&f->visible)->stride_mask ? f->choice.stride_mask : NULL;
	op->sink_q = sink_q;
	op->n_sinks = f->visible.arg[0];
	op->softcap = a->softcap;
	op->sinks = a->sink;
	op->attn_score = keeps(f, a) && !a->from ? f->choice.attn_score : NULL;
	op->attn_score_stride = f->max_groups;
	if (stored_in(f, a) != a->group) {
		op->recent = &f->store[stored_in(f, a)].kv;
		op->recent_pages = f->pages[stored_in(f, a)];
	}
	if (keeps(f, a) && !a->from)
		add_attn_score(f, a);
}

/* The query and the key as the op rope takes them; *q also as a second query begins. */
static const float *add_query_key(struct forward *f, const struct attention *a, float **q)
{
	if (a->norms == ATTENTION_LATE_NORMS) {
		add_rotation(f, a, f->own.q, a->n_heads);
		add_rotation(f, a, f->own.k, a->n_kv_heads);
	}
	*q = add_head_norms(f, a, a->q_norm, f->own.q, f->own.q_normed, a->n_heads);
	if (a->from)
		return NULL;
	return add_head_norms(f, a, a->k_norm, f->own.k, f->own.k_normed, a->n_kv_heads);
}

/* Queries apart from the gates beside them, in f->own.gate. */
static void add_parting(struct forward *f, const struct attention *a)
{
	const struct k_acts out = { .x = f->own.q, .dim = a->n_heads * a->head_dim };
	struct k_gated *g = layer_gated(f, K_STAGE_qkv, f->own.gate, a->n_heads, a->head_dim, out);

	g->x_stride *= 2;
	g->x_pitch *= 2;
}

static void add_gates(struct forward *f, const struct attention *a, struct k_acts out)
{
	struct k_gated *g = layer_gated(f, K_STAGE_attention, out.x, a->n_heads, a->head_dim, out);

	layer_gated_by(g, f->own.gate + a->head_dim, K_GATE_sigmoid);
	g->z_stride *= 2;
	g->z_pitch *= 2;
}

static void attention_write(struct forward *f, const void *params)
{
	const struct attention *a = params;
	struct k_acts mixed = program_acts_of(f->own.mixed, a->n_heads * a->head_dim);
	struct k_matmul *m;
	const float *sink_q, *k;
	float *q;

	forward_keep_sparse(f, &mixed, false);
	residual_enter(f, &a->on, false);
	m = program_matmul(&f->program, K_STAGE_qkv, f->own.normed, f->n_rows);
	program_part(m, &a->q, a->q_bias, NULL, a->gated ? f->own.gate : f->own.q);
	if (!a->from)
		program_part(m, &a->k, a->k_bias, NULL, f->own.k);
	if (a->v.data)
		program_part(m, &a->v, a->v_bias, NULL, f->own.v);
	if (a->gated)
		add_parting(f, a);
	k = add_query_key(f, a, &q);
	sink_q = add_turn(f, a, q);
	add_key_value(f, a, q, k);
	add_attention(f, a, q, sink_q, mixed);
	if (a->gated)
		add_gates(f, a, mixed);
	if (f->n_observed)
		forward_add_sparse(f, mixed, 0, false);
	residual_leave(f, &a->on, K_STAGE_out, residual_inner(f, &a->on, mixed), &a->out, a->out_bias);
}

const struct block_kind layer_attention = BLOCK(attention, "attention", .memory = attention_memory);
