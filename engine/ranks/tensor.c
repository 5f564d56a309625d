/* Tensor parallelism (Shoeybi et al. 2019, "Megatron-LM", section 3) by outputs alone: queries,
 * keys and values by heads, every other product by rows of its matrix. Where Megatron-LM adds up
 * partial sums (all-reduce), ranks gather whole outputs (all-gather), so no sum is cut. See
 * ranks.h.
 *
 * An op that is not known here is computed by every rank, from whole inputs: that is right for any
 * architecture, and saves nothing. */
#include <assert.h>

#include "engine/ranks/split.h"
#include "kernels/format/formats.h"

struct ranks_span ranks_span(int32_t units, int32_t rank, int32_t n)
{
	return (struct ranks_span){ (int32_t)((int64_t)units * rank / n),
		(int32_t)((int64_t)units * (rank + 1) / n) };
}

static int32_t split_width(struct ranks_span s)
{
	return s.end - s.first;
}

static const struct k_matrix *part_of(
	struct ranks *k, const struct k_matrix *of, struct ranks_span rows)
{
	return ranks_part_of(k, of, 1, rows, false);
}

/* ---- exchanges ---- */

struct ranks_exchange *split_exchange(struct splitting *s, int32_t at, int32_t n)
{
	struct ranks *k = s->k;
	struct ranks_exchange *x;

	assert(k->n_exchanges < k->cap_exchanges);
	x = &k->exchange[k->n_exchanges++];
	*x = (struct ranks_exchange){ .at = at, .n = n, .of = n, .local = s->local };
	return x;
}

/* So many rows or columns as units of `unit`, of which the last may be short. */
struct ranks_span split_span(int32_t n, int32_t unit, int32_t rank, int32_t ranks)
{
	struct ranks_span s = ranks_span((n + unit - 1) / unit, rank, ranks);

	s.first *= unit;
	s.end = s.end * unit < n ? s.end * unit : n;
	return s;
}

void split_columns(const struct ranks *k, struct ranks_exchange *x, int32_t unit)
{
	for (int32_t r = 0; r < k->n; r++)
		x->columns[r] = split_span(x->to.dim, unit, r, k->n);
}

/* Room in k->local for what is sent; of all ranks the same, so that messages have one place. */
void split_keep_local(struct splitting *s, const struct ranks_exchange *x)
{
	size_t most = 0;

	for (int32_t r = 0; r < s->k->n; r++) {
		const size_t bytes = ranks_bytes(x, split_width(x->columns[r]));

		most = bytes > most ? bytes : most;
	}
	s->local += 2 * most; /* f16 is made of floats that lie there */
	assert(s->local <= s->k->local_bytes);
}

/* Does op `at`, or another before the product that reads these activations, read their floats? */
static bool floats_are_read(const struct k_program *p, int32_t at, const struct k_acts *a)
{
	const struct k_op *op = &p->op[at];

	if (at == p->n_ops)
		return true;
	if (op->kind == K_OP_matmul && (op->u.matmul.in.q == a->q || op->u.matmul.in.x == a->x))
		return op->u.matmul.as_floats || op->u.matmul.above > 0 ||
			   !k_is_quantised(op->u.matmul.part[0].w->type);
	if (op->kind == K_OP_experts && op->u.experts.each)
		return !k_is_quantised(op->u.experts.w->type);
	return true;
}

/* The activations that op `at` writes are sent in the form in which they are read. Returns where
 * the op writes its own. */
struct k_acts split_acts(struct splitting *s, int32_t at, struct k_acts a, int32_t n, int32_t unit)
{
	struct ranks_exchange *x = split_exchange(s, at + 1, n);
	const bool floats = floats_are_read(s->p, at + 1, &a);
	struct k_acts own;

	x->to = a;
	x->q = a.q && s->k->form != RANKS_f32;
	x->x = a.x && (floats || !x->q);
	x->requantise = a.q && !x->q;
	if (x->requantise)
		x->x = true;
	if (!floats)
		x->to.x = NULL;
	split_columns(s->k, x, unit);
	own = ranks_local(s->k, x);
	split_keep_local(s, x);
	return own;
}

/* ---- products ---- */

static void cut_part(struct k_matmul *m, int32_t i, const struct k_matrix *w, int32_t first)
{
	m->part[i].w = w;
	if (m->part[i].bias)
		m->part[i].bias += first;
}

/* What each rank computes in full and adds to the stream, rounded as what others send is. Returns
 * where it is computed. */
static float *split_alone(struct splitting *s, int32_t n, struct k_acts to, const float *residual)
{
	struct ranks_exchange *x = split_exchange(s, s->at + 1, n);
	float *out;

	x->x = x->half = x->alone = true;
	x->to = to;
	x->residual = residual;
	x->columns[s->k->rank] = (struct ranks_span){ 0, to.dim };
	out = ranks_local(s->k, x).x;
	split_keep_local(s, x);
	return out;
}

/* Products of other kinds: each rank has rows of the matrix, and all get all outputs at once. */
static void split_outputs(struct splitting *s, struct k_matmul *m, bool root)
{
	for (int32_t i = 0; i < m->n_parts; i++) {
		const struct k_matrix *w = m->part[i].w, *own;
		const bool half = s->k->form == RANKS_f16 && !root && m->part[i].residual;
		const bool few = w->n_rows < s->k->n * UNIT; /* outputs: each rank computes all */
		struct ranks_span span = split_span(w->n_rows, UNIT, s->k->rank, s->k->n);
		struct ranks_exchange *x;

		if (few && half) {
			m->part[i].out =
				split_alone(s, m->n, k_floats(m->part[i].out, w->n_rows), m->part[i].residual);
			m->part[i].residual = NULL;
		}
		if (few && !(root && s->k->n_stages > 1))
			continue;
		own = split_width(span) ? part_of(s->k, w, span) : NULL;
		if (!own && split_width(span))
			continue;
		x = split_exchange(s, s->at + 1, m->n);
		x->x = true;
		x->half = half;
		x->root = root;
		x->to = k_floats(m->part[i].out, w->n_rows);
		x->residual = m->part[i].residual;
		split_columns(s->k, x, UNIT);
		m->part[i].residual = NULL;
		if (own) {
			m->part[i].out = ranks_local(s->k, x).x;
			cut_part(m, i, own, span.first);
		}
		split_keep_local(s, x);
	}
}

/* Gate and up by rows, so that what is made of them is split by columns. The op that makes it;
 * NULL: the product is of another kind. */
static struct k_acts *expanded(
	struct k_program *p, int32_t at, const struct k_matmul *m, int32_t *n)
{
	struct k_op *op = &p->op[at + 1];

	if (m->part[0].residual) /* a layer's last: what follows reads the stream */
		return NULL;
	if (at + 1 >= p->n_ops)
		return NULL;
	if (op->kind == K_OP_glu && m->n_parts == 2 && op->u.glu.gate == m->part[0].out &&
		op->u.glu.up == m->part[1].out) {
		*n = op->u.glu.n;
		return &op->u.glu.out;
	}
	if (op->kind == K_OP_activate && m->n_parts == 1 && op->u.activate.x == m->part[0].out) {
		*n = op->u.activate.n;
		return &op->u.activate.out;
	}
	return NULL;
}

static bool split_expansion(struct splitting *s, struct k_matmul *m)
{
	int32_t n = 0;
	struct k_acts *act = expanded(s->p, s->at, m, &n);
	const struct ranks_span rows = split_span(act ? act->dim : 0, UNIT, s->k->rank, s->k->n);

	if (!act || act->dim < s->k->n * UNIT || act->dim % UNIT)
		return false;
	for (int32_t i = 0; i < m->n_parts; i++) {
		const struct k_matrix *own = part_of(s->k, m->part[i].w, rows);

		if (!own)
			return false;
		cut_part(m, i, own, rows.first);
	}
	*act = split_acts(s, s->at + 1, *act, n, UNIT);
	return true;
}

/* ---- attention, by heads ---- */

/* The op that reads the queries that product `at` makes; -1: there is none. */
static int32_t attention_of(const struct k_program *p, int32_t at)
{
	const int32_t layer = p->op[at].layer;

	for (at++; at < p->n_ops && p->op[at].layer == layer; at++) {
		if (p->op[at].kind == K_OP_attention)
			return at;
		if (p->op[at].kind == K_OP_matmul || p->op[at].kind == K_OP_experts)
			return -1;
	}
	return -1;
}

static bool splits_by_heads(const struct k_op *op, int32_t head_dim)
{
	switch (op->kind) {
	case K_OP_norm:
	case K_OP_rotary:
	case K_OP_turn:
	case K_OP_rope:
	case K_OP_encode:
	case K_OP_key_range:
	case K_OP_pick:
	case K_OP_h2o_lookup: return true;
	case K_OP_gated: return !op->u.gated.w || op->u.gated.weights == head_dim;
	default: return false;
	}
}

bool ranks_can_split(const struct k_program *p, int32_t at, int32_t unit)
{
	const struct k_attention *a = &p->op[at].u.attention;
	int32_t first = at - 1;

	if (a->relative || a->kv->value_dim || a->kv->head_dim % UNIT || a->kv->head_dim % unit)
		return false;
	while (first >= 0 && p->op[first].layer == p->op[at].layer && p->op[first].kind != K_OP_matmul)
		if (!splits_by_heads(&p->op[first--], a->kv->head_dim))
			return false;
	if (first < 0 || p->op[first].kind != K_OP_matmul || attention_of(p, first) != at)
		return false;
	for (int32_t i = 0; i < p->op[first].u.matmul.n_parts; i++)
		if (p->op[first].u.matmul.part[i].w->n_rows % (a->kv->n_kv_heads * unit))
			return false;
	return true;
}

/* n heads of all ranks are how many of this one? */
static int32_t own_of(const struct splitting *s, int32_t n)
{
	return n / s->kv_heads * s->own_kv_heads;
}

/* A norm of all heads as one needs them all. */
static void split_whole_norm(struct splitting *s, int32_t at, struct k_norm *norm)
{
	struct ranks_exchange *x;

	for (int i = 0; i < 2; i++) {
		x = split_exchange(s, at + i, norm->n);
		x->x = true;
		x->take = i;
		x->from = i ? NULL : norm->x;
		x->to = i ? norm->out : k_floats((float *)(uintptr_t)norm->x, norm->out.dim);
		split_columns(s->k, x, norm->out.dim / s->kv_heads);
		split_keep_local(s, x);
	}
}

static void split_gated(const struct splitting *s, struct k_gated *g)
{
	g->x_stride = own_of(s, g->x_stride);
	g->z_stride = own_of(s, g->z_stride);
	if (g->groups == 1)
		g->group = own_of(s, g->group);
	else
		g->groups = own_of(s, g->groups);
	g->out.dim = own_of(s, g->out.dim);
}

static void split_heads_op(struct splitting *s, int32_t at, int32_t head_dim)
{
	struct k_op *op = &s->p->op[at];

	switch (op->kind) {
	case K_OP_norm:
		if (op->u.norm.out.dim == head_dim)
			op->u.norm.n = own_of(s, op->u.norm.n);
		else
			split_whole_norm(s, at, &op->u.norm);
		break;
	case K_OP_gated: split_gated(s, &op->u.gated); break;
	case K_OP_rotary: op->u.rotary.n_heads = own_of(s, op->u.rotary.n_heads); break;
	case K_OP_turn: op->u.turn.n_heads = s->own_heads; break;
	case K_OP_rope: op->u.rope.n_heads = s->own_heads; break;
	case K_OP_pick: op->u.pick.n_heads = s->own_heads; break;
	case K_OP_h2o_lookup:
	case K_OP_attn_score: {
		struct k_heavy *h =
			op->kind == K_OP_h2o_lookup ? &op->u.h2o_lookup.of : &op->u.attn_score.of;

		if (op->kind == K_OP_attn_score)
			op->u.attn_score.n_heads = s->own_heads;
		h->at = h->at / (size_t)s->kv_heads * (size_t)s->own_kv_heads;
		h->n_kv_heads = s->own_kv_heads;
		break;
	}
	default: break; /* these go by the heads that the cache has */
	}
}

static void split_attention(struct splitting *s, int32_t at)
{
	struct k_op *op = &s->p->op[at], *next = op + 1;
	const int32_t last = s->p->n_ops - 1;
	struct k_attention *a = &op->u.attention;
	const int32_t unit = a->out.dim / s->kv_heads;

	a->n_heads = s->own_heads;
	if (a->sinks)
		a->sinks += s->first_head;
	if (at < last && next->kind == K_OP_attn_score) {
		split_heads_op(s, at + 1, a->kv->head_dim);
		next++;
		at++;
	}
	if (at < last && next->kind == K_OP_gated && next->u.gated.x == a->out.x) {
		split_gated(s, &next->u.gated);
		a->out.dim = unit * s->own_kv_heads;
		next->u.gated.out = split_acts(s, at + 1, next->u.gated.out, a->n, unit);
		next->u.gated.out.dim = a->out.dim;
		return;
	}
	{
		struct k_acts own = split_acts(s, at, a->out, a->n, unit);

		own.x = own.x ? own.x : a->out.x; /* never NULL */
		a->out = own;
	}
}

/* The product of queries, keys and values, and what follows up to attention. Returns its place. */
static int32_t split_heads(struct splitting *s, struct k_matmul *m, int32_t end, int32_t whole_kv)
{
	const struct k_attention *a = &s->p->op[end].u.attention;
	const struct ranks_span kv = ranks_span(whole_kv, s->k->rank, s->k->n);

	s->kv_heads = whole_kv;
	s->own_kv_heads = split_width(kv);
	s->own_heads = own_of(s, a->n_heads);
	s->first_head = a->n_heads / whole_kv * kv.first;
	for (int32_t i = 0; i < m->n_parts; i++) {
		const int32_t each = m->part[i].w->n_rows / whole_kv;
		const struct ranks_span rows = { kv.first * each, kv.end * each };
		const struct k_matrix *own = part_of(s->k, m->part[i].w, rows);

		assert(own);
		cut_part(m, i, own, rows.first);
	}
	for (int32_t at = s->at + 1; at < end; at++)
		split_heads_op(s, at, a->kv->head_dim);
	split_attention(s, end);
	return end;
}

/* The memory group whose heads an op of attention reads, if these are split; else -1. */
static int32_t group_of(const struct ranks *k, const struct forward *f, const struct k_attention *a)
{
	for (int32_t g = 0; g < MEMORY_GROUPS; g++)
		if (a->kv == &f->store[g].kv && k->whole_kv[g])
			return g;
	return -1;
}

static void note_heads(struct ranks *k, const struct forward *f, int32_t at)
{
	const struct k_attention *a = &f->program.op[at].u.attention;
	const int32_t group = group_of(k, f, a);

	assert(k->n_heads < k->cap_heads);
	k->heads[k->n_heads++] = (struct ranks_heads){ .op = at,
		.layer = f->program.op[at].layer,
		.group = group,
		.whole = a->n_heads,
		.whole_kv = group < 0 ? 0 : k->whole_kv[group] };
	if (group < 0)
		return;
	k->whole_store[group] = f->store[group].kv;
	k->whole_store[group].n_kv_heads = k->whole_kv[group];
}

/* ---- all of it ---- */

static void split_product(struct splitting *s, struct forward *f)
{
	struct k_op *op = &s->p->op[s->at];
	const bool head = op->stage == K_STAGE_head && op->layer < 0;
	const int32_t attention = attention_of(s->p, s->at);
	const int32_t group = attention < 0 ? -1 : group_of(s->k, f, &s->p->op[attention].u.attention);

	if (s->k->n < 2 && !head)
		return;
	if (group >= 0)
		s->at = split_heads(s, &op->u.matmul, attention, s->k->whole_kv[group]);
	else if (split_expansion(s, &op->u.matmul))
		s->at++;
	else
		split_outputs(s, &op->u.matmul, head);
}

/* A product by columns, of which zeros are left out: each rank computes all. */
static void round_columns(struct splitting *s, struct k_columns *c)
{
	if (s->k->form != RANKS_f16 || !c->residual)
		return;
	c->out = split_alone(s, c->n, k_floats(c->out, c->n_rows), c->residual);
	c->residual = NULL;
}

void ranks_split(struct ranks *k, struct forward *f)
{
	struct splitting s = { .k = k, .p = &f->program };

	k->n_exchanges = k->n_heads = 0;
	for (int32_t i = 0; i < f->program.n_ops; i++)
		if (f->program.op[i].kind == K_OP_attention)
			note_heads(k, f, i);
	for (; s.at < f->program.n_ops; s.at++) {
		s.local = 0;
		if (f->program.op[s.at].kind == K_OP_matmul)
			split_product(&s, f);
		else if (f->program.op[s.at].kind == K_OP_columns)
			round_columns(&s, &f->program.op[s.at].u.columns);
		else if (k->n > 1)
			split_mixture(&s);
	}
	if (k->transport->rank && f->n_out)
		while (f->program.n_ops && f->program.op[f->program.n_ops - 1].kind != K_OP_matmul)
			f->program.n_ops--;
	ranks_find_stage(k, &f->program);
}
