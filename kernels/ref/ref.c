/* The reference: every op in plain scalar form. It is the definition (docs/arithmetic.md, rule by
 * rule); any other kernel must give the same bits. It is also the back end of processors without
 * kernels of their own. This file has norm, RoPE, SwiGLU and statistics; ref_matmul.c has matrix
 * products and embedding, ref_attention.c attention. Thread: called by all threads of a pool; no
 * state. */
#include <stdlib.h>

#include "kernels/arith.h"
#include "kernels/format/codes.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/rope_walk.h"

const char *k_cache_name(int format)
{
	static const char *const names[] = {
#define X(name, bytes, doc) #name,
		K_CACHES(X) K_CODED(X)
#undef X
	};

	return format >= 0 && format < K_N_CACHES ? names[format] : NULL;
}

const struct k_type_info k_types[K_N_TYPES] = {
#define X(name, id, n, bytes, ...) { #name, id, n, bytes },
	K_TYPES(X)
#undef X
};

/* Rule 7. */
K_UNITS(norm, a->n)

static void k_norm_unit(const struct k_norm *a, int64_t r)
{
	const int32_t dim = a->out.dim;
	const float *x = a->x + k_index(a->pick ? a->pick[r] : r, dim, 0);
	float lane[32] = { 0 }, y[32], scale;

	for (int32_t k = 0; k < dim; k++)
		lane[k % 32] = k_fma(x[k], x[k], lane[k % 32]);
	scale = 1.0f / sqrtf(k_tree_sum(lane, 32) / (float)dim + a->eps);
	for (int32_t at = 0; at < dim; at += 32) {
		int32_t count = k_min(dim - at, 32);

		for (int32_t i = 0; i < count; i++)
			y[i] = (x[at + i] * scale) * a->w[at + i];
		for (int32_t i = 0; a->residual && i < count; i++)
			y[i] += a->residual[k_index(r, dim, at + i)];
		k_put(&a->out, (int32_t)r, at, y, count);
	}
}

K_BY_UNITS(k_ref_norm, norm)

K_RESULT(glu, a->out)

static float k_glu_value(const struct k_glu *a, int32_t r, int32_t i)
{
	const size_t at = k_index(r, a->out.dim, i);

	return k_gate(a->act, a->gate[at], a->up[at]);
}

K_VALUE_UNITS(glu, a->n, a->out.dim)
K_BY_UNITS(k_ref_glu, glu)

#ifndef K_REF_PLAIN /* a test compiles a second set of them */
#define K_REF_PLAIN(name) k_ref_##name
#endif
#define X(name)                                                                                    \
	k_fn K_REF_PLAIN(name);                                                                        \
	K_BY_UNITS(K_REF_PLAIN(name), name)
K_PLAIN_KINDS(X)
#undef X

/* Distributes the slots over threads; each is a product of one row, by one thread. */
void k_ref_experts(struct k_op *op, int tid, int n_threads, void *scratch)
{
	const struct k_experts *a = &op->u.experts;
	int64_t lo, hi;

	k_split((int64_t)a->n * a->k, tid, n_threads, &lo, &hi);
	for (int64_t slot = lo; slot < hi; slot++) {
		const struct k_matrix *w = &a->w[a->ids[slot]];
		struct k_op one = { .kind = K_OP_matmul };

		if (!w->data)
			continue;
		one.u.matmul.in = k_acts_row(&a->in, (int32_t)(a->each ? slot : slot / a->k));
		one.u.matmul.part[0].w = w;
		one.u.matmul.part[0].bias = a->bias ? a->bias + (int64_t)a->ids[slot] * w->n_rows : NULL;
		one.u.matmul.part[0].out = a->out + slot * w->n_rows;
		one.u.matmul.n_parts = one.u.matmul.n = 1;
		k_ref_matmul(&one, 0, 1, scratch);
	}
}

/* Rule 9. */
void k_ref_rotate(
	const struct k_rope *a, const float *cos, const float *sin, const float *in, float *out)
{
	const int32_t half = a->rope_dim / 2, head_dim = a->kv->head_dim;

	for (int32_t i = 0; i < half; i++)
		k_rotate(cos, sin, i, half, a->neox, 1.0f, in, out);
	for (int32_t i = a->rope_dim; i < head_dim; i++)
		out[i] = in[i];
}

void k_ref_note_nan(k_atomic_int *nan_row, int32_t r)
{
	int seen = atomic_load(nan_row);

	while ((seen == 0 || seen > r + 1) && !atomic_compare_exchange_weak(nan_row, &seen, r + 1))
		;
}

/* A head's codes of q8, of which those of neighbours are `stride` apart; true: x has a NaN, for
 * which 0 is stored. */
static bool append_q8(
	const float *x, int32_t n, void *group, int32_t token, int32_t from, int32_t stride)
{
	bool nan = false;

	for (int32_t first = 0; first < n; first += K_Q8_DIMS) {
		const int32_t size = k_min(n - first, K_Q8_DIMS);
		int8_t code[K_Q8_DIMS];
		float y[K_Q8_DIMS];

		for (int32_t i = 0; i < size; i++) {
			const float z = x[first + i];

			nan = nan || z != z;
			y[i] = z != z ? 0 : z;
		}
		k_q8_scales(group, n, first / K_Q8_DIMS)[token] = k_q8_round(y, size, code);
		for (int32_t i = 0; i < size; i++)
			((int8_t *)group)[from + (first + i) * stride] = code[i];
	}
	return nan;
}

void k_ref_append(
	const struct k_rope *a, int32_t r, const struct k_rope_slot *at, const float *rotated)
{
	const enum k_cache format = a->kv->format;
	const int32_t n = a->kv->head_dim, token = (int32_t)at->k_at;
	bool nan = false;

	if (format == K_CACHE_q8) {
		nan = append_q8(rotated, n, at->k_out, token, token, K_GROUP);
		nan = append_q8(at->v, n, at->v_out, token, token * n, 1) || nan;
	}
	for (int32_t i = 0; i < n && format < K_N_UNCODED; i++) {
		const float k = rotated[i], v = at->v[i];

		nan = nan || k != k || v != v;
		k_cache_put(format, at->k_out, at->k_at + (size_t)i * K_GROUP,
			k != k ? 0 : k_cache_code(format, k));
		if (!a->kv->value_dim)
			k_cache_put(
				format, at->v_out, at->v_at + (size_t)i, v != v ? 0 : k_cache_code(format, v));
	}
	if (nan)
		k_ref_note_nan(a->nan_row, r);
}

static void store_kv(const struct k_rope *a, int32_t r, int32_t seq, int32_t head, const float *cos,
	const float *sin, float *rotated)
{
	const struct k_rope_slot at = k_rope_slot(a, r, seq, head);

	k_ref_rotate(a, cos, sin, at.k, rotated);
	k_ref_append(a, r, &at, rotated);
}

static void turn_query(const struct k_rope *a, const float *cos, const float *sin, float *q)
{
	k_ref_rotate(a, cos, sin, q, q);
	for (int32_t i = 0; i < a->kv->head_dim; i++)
		q[i] *= a->scale;
}

void k_ref_rope(struct k_op *op, int tid, int n_threads, void *scratch)
{
	k_rope_walk(op, tid, n_threads, scratch, turn_query, store_kv);
}

/* The sums of hash and mass do not depend on the order; the entropy is log S - W / S with S the sum
 * of p and W that of p * (l - max), in double: within a block of K_STATS_BLOCK ids lane i chains
 * over ids = i mod 8, then tree(8); blocks are added in ascending order. */
void k_ref_stats_row(const float *logits, int32_t vocab, struct k_logit_stats *out)
{
	double s = 0, w = 0;

	*out = (struct k_logit_stats){ .max = -INFINITY };
	for (int32_t i = 0; i < vocab; i++) {
		out->hash += k_hash_term(k_bits(logits[i]), (uint32_t)i);
		if (logits[i] > out->max) {
			out->max = logits[i];
			out->argmax = i;
		}
	}
	for (int32_t first = 0; first < vocab; first += K_STATS_BLOCK) {
		int32_t end = vocab - first < K_STATS_BLOCK ? vocab : first + K_STATS_BLOCK;
		double ls[8] = { 0 }, lw[8] = { 0 };

		for (int32_t i = first; i < end; i++) {
			float depth = k_logit_depth(logits[i], out->max), p = k_exp(depth);

			out->mass += k_mass(p);
			ls[i % 8] += (double)p;
			lw[i % 8] += (double)p * (double)depth;
		}
		for (int h = 4; h > 0; h /= 2)
			for (int i = 0; i < h; i++) {
				ls[i] += ls[i + h];
				lw[i] += lw[i + h];
			}
		s += ls[0];
		w += lw[0];
	}
	out->entropy = k_ref_entropy(s, w);
}

double k_ref_entropy(double s, double w)
{
	double entropy = (k_log64(s) - w / s) * 0x1.71547652b82fep0;

	return entropy > 0 ? entropy : 0;
}

static int descending(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* The key that ends the list: that of the `best`-th greatest maximum of K_DRAW_IDS values. *nan:
 * there is a NaN. */
static uint32_t draw_floor(
	const float *logits, int32_t vocab, const struct k_draw_request *ask, uint32_t *key, bool *nan)
{
	int32_t n = 0;

	for (int32_t i = 0; i < vocab; i++) {
		const uint32_t k = k_order_key(logits[i] * ask->factor);

		if (i % K_DRAW_IDS == 0)
			key[n++] = k_order_key(-INFINITY);
		key[n - 1] = k > key[n - 1] ? k : key[n - 1];
	}
	qsort(key, (size_t)n, sizeof *key, descending);
	*nan = key[0] == UINT32_MAX;
	return n < ask->best ? k_order_key(-INFINITY) : key[ask->best - 1];
}

static void draw_race(const float *logits, int32_t vocab, const struct k_draw_request *ask,
	float max, struct k_draw_reply *reply)
{
	for (int32_t i = 0; i < vocab; i++) {
		const float u = k_draw_u(ask->seed, (uint32_t)i, ask->pos, ask->sample, K_DRAW_TARGET);
		const float arrival = k_arrival(u, logits[i] * ask->factor, max);

		if (reply->winner < 0 ? arrival <= INFINITY : arrival < reply->arrival) {
			reply->winner = i;
			reply->winner_logit = logits[i];
			reply->arrival = arrival;
		}
	}
	for (int32_t i = 0; i < vocab && reply->winner >= 0; i++)
		reply->ahead += k_goes_before(
			logits[i] * ask->factor, i, reply->winner_logit * ask->factor, reply->winner);
}

void k_ref_draw_row(const float *logits, int32_t vocab, float max_logit,
	const struct k_draw_request *ask, struct k_draw_reply *reply, struct k_draw_entry *list,
	uint32_t *scratch)
{
	const float max = max_logit * ask->factor;
	bool nan;
	const uint32_t floor = draw_floor(logits, vocab, ask, scratch, &nan);

	*reply =
		(struct k_draw_reply){ .floor = k_order_float(floor), .winner = -1, .arrival = INFINITY };
	reply->logit = ask->id < 0 ? 0.0f : logits[ask->id];
	if (ask->race)
		draw_race(logits, vocab, ask, max, reply);
	for (int32_t i = 0; i < vocab; i++) {
		const float y = logits[i] * ask->factor;

		reply->mass += k_mass(k_exp(k_logit_depth(y, max)));
		reply->n += k_order_key(y) >= floor;
	}
	if (nan)
		reply->n = INT32_MAX;
	for (int32_t i = 0, n = 0; i < vocab && reply->n <= K_DRAW_LIST; i++)
		if (k_order_key(logits[i] * ask->factor) >= floor)
			list[n++] = (struct k_draw_entry){ i, logits[i] };
}

void k_ref_stats(struct k_op *op, int tid, int n_threads, void *scratch)
{
	const struct k_stats *a = &op->u.stats;
	int64_t lo, hi;

	k_split(a->n, tid, n_threads, &lo, &hi);
	for (int64_t r = lo; r < hi; r++) {
		const float *logits = a->logits + (size_t)r * (size_t)a->vocab;

		k_ref_stats_row(logits, a->vocab, a->out + r);
		if (a->ask)
			k_ref_draw_row(logits, a->vocab, a->out[r].max, a->ask + r, a->reply + r,
				a->list + r * K_DRAW_LIST, scratch);
	}
}
