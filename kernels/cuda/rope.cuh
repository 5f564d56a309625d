/* RoPE and the appending of keys and values to the cache: rules 9 and 10. It is a stage of its own,
 * or part of attention for the keys of a span (attention.cuh): the arithmetic of both is here. */
#pragma once

#include "kernels/cuda/bodies.cuh"
#include "kernels/format/codes.h"

/* A head is worked on in pairs: first those that are rotated, then neighbours. */
struct rope_pair {
	int32_t d0, d1; /* indexes of its elements */
};
CU_FN struct rope_pair rope_pair_at(const struct k_rope *a, int32_t i)
{
	const int32_t half = a->rope_dim / 2;
	struct rope_pair p = { 2 * i, 2 * i + 1 };

	if (a->neox && i < half) {
		p.d0 = i;
		p.d1 = i + half;
	}
	return p;
}

/* Rotates pair i of a head by the table row of position `pos`. */
CU_FN void cu_rotate(const struct k_rope *a, int32_t pos, int32_t i, float y[2])
{
	const int32_t half = a->rope_dim / 2;
	const float x0 = y[0], x1 = y[1];
	float c, s;

	if (i >= half)
		return;
	c = a->cos[(uint32_t)pos * (uint32_t)half + (uint32_t)i];
	s = a->sin[(uint32_t)pos * (uint32_t)half + (uint32_t)i];
	y[0] = k_fma(x0, c, -(x1 * s));
	y[1] = k_fma(x0, s, x1 * c);
}

/* Rule 10: the code that the cache stores; 0 for a NaN, which is recorded: nan_row keeps the first
 * row. */
CU_FN uint32_t cu_cached(const struct k_rope *a, int32_t format, float x, int32_t r)
{
	int32_t seen;

	if (x == x)
		return format == K_CACHE_f16 ? cu_to_f16(k_clamp(x, 65504.0f)) : k_cache_code(format, x);
	seen = cu_swap_if((int32_t *)a->nan_row, 0, r + 1);
	while (seen > r + 1) {
		int32_t was = cu_swap_if((int32_t *)a->nan_row, seen, r + 1);

		if (was == seen)
			break;
		seen = was;
	}
	return 0;
}

/* k_kv_at() of kernels.h, for the device. */
CU_FN unsigned char *cu_kv_at(
	const struct k_kv *kv, int32_t page, int32_t layer, int32_t v, int32_t head)
{
	size_t kinds = kv->value_dim ? 1 : 2;
	size_t index = k_index(layer, kv->n_kv_heads, head) * kinds + (size_t)v;
	size_t head_bytes =
		(size_t)kv->page_size * (size_t)kv->head_dim * (size_t)k_cache_bytes(kv->format);

	return kv->base + (size_t)page * kv->page_bytes + index * head_bytes;
}

/* Pair i of row r's key (v = 0) or value of the head from element `from` on, as it is stored. */
CU_FN void cu_new_kv(const struct k_rope *a, int32_t format, int32_t r, int32_t pos, int32_t v,
	int32_t from, int32_t i, uint32_t y[2])
{
	const struct rope_pair at = rope_pair_at(a, i);
	const float *in = v ? a->v : a->k;
	float x[2] = { in[from + at.d0], in[from + at.d1] };

	if (!v)
		cu_rotate(a, pos, i, x);
	y[0] = cu_cached(a, format, x[0], r);
	y[1] = cu_cached(a, format, x[1], r);
}

/* Offset of element d of a token of a page, in elements from cu_kv_at(). */
CU_FN size_t cu_kv_place(int32_t head_dim, int32_t token, int32_t v, int32_t d)
{
	if (v)
		return k_index(token, head_dim, d);
	return k_index(token / K_GROUP, head_dim * K_GROUP, d * K_GROUP) + (size_t)(token % K_GROUP);
}

/* Stores a pair of row r, whose page is given. */
CU_FN void cu_store_kv(const struct k_rope *a, const struct k_kv *kv, int32_t page, int32_t pos,
	int32_t v, int32_t head, int32_t i, const uint32_t y[2])
{
	const struct rope_pair at = rope_pair_at(a, i);
	void *to = cu_kv_at(kv, page, a->layer, v, head);

	k_cache_put(kv->format, to, cu_kv_place(kv->head_dim, pos % kv->page_size, v, at.d0), y[0]);
	k_cache_put(kv->format, to, cu_kv_place(kv->head_dim, pos % kv->page_size, v, at.d1), y[1]);
}

/* Stores pair i of row r's key (v = 0) or value of one head in the cache, in the pages of `seq`. */
CU_FN void cu_append(const struct k_rope *a, const struct k_kv *kv, int32_t r, int32_t seq,
	int32_t v, int32_t head, int32_t i)
{
	const int32_t from = (r * kv->n_kv_heads + head) * kv->head_dim;
	const int32_t pos = a->rows[r].pos;
	uint32_t y[2];

	cu_new_kv(a, kv->format, r, pos, v, from, i, y);
	cu_store_kv(a, kv, a->pages[seq][pos / kv->page_size], pos, v, head, i, y);
}

/* Stores into further pages: these are few, so each rotates again. */
CU_FN void cu_append_also(const struct cu_part *p, const struct k_rope *a, const struct k_kv *kv)
{
	const int32_t pairs = kv->head_dim / 2, kinds = kv->value_dim ? 1 : 2;
	const int32_t per_place = kinds * kv->n_kv_heads * pairs;
	const int64_t n = (int64_t)a->n_also * per_place;

	for (int64_t task = (int64_t)p->block * CU_THREADS + cu_thread(); task < n;
		 task += (int64_t)p->n_blocks * CU_THREADS) {
		const struct k_also to = a->also[task / per_place];
		const int32_t i = (int32_t)(task % pairs), head = (int32_t)(task % per_place) / pairs;

		cu_append(a, kv, to.row, to.seq, head / kv->n_kv_heads, head % kv->n_kv_heads, i);
	}
}

/* Element d of row r's rotated key, or of its value, of one head. */
CU_FN float cu_new_element(
	const struct k_rope *a, const struct k_kv *kv, int32_t r, int32_t v, int32_t head, int32_t d)
{
	const size_t from = k_index(r, kv->n_kv_heads, head) * (size_t)kv->head_dim;
	const int32_t half = a->rope_dim / 2;
	const int32_t i = a->neox && d < a->rope_dim ? d % half : d / 2;
	const struct rope_pair at = rope_pair_at(a, i);
	float y[2];

	if (v)
		return a->v[from + (size_t)d];
	y[0] = a->k[from + (size_t)at.d0];
	y[1] = a->k[from + (size_t)at.d1];
	cu_rotate(a, a->rows[r].pos, i, y);
	return d == at.d1 ? y[1] : y[0];
}

/* Block `block` of a key or value in q8, a warp: k_q8_round(). */
CU_FN void cu_append_q8(const struct k_rope *a, const struct k_kv *kv, int32_t r, int32_t seq,
	int32_t v, int32_t head, int32_t block)
{
	const int32_t pos = a->rows[r].pos, token = pos % K_GROUP, lane = cu_thread() % CU_WARP;
	const int32_t d = block * K_Q8_DIMS + lane;
	const float x = d < kv->head_dim ? cu_new_element(a, kv, r, v, head, d) : 0.0f;
	const float y = k_clamp(x == x ? x : 0.0f, 65504.0f);
	const float most = k_float(cu_warp_max(k_bits(y) & 0x7fffffffu));
	const uint16_t scale = k_f32_to_f16(most / 127.0f);
	void *group = k_kv_group(
		kv, a->pages[seq][pos / kv->page_size], a->layer, v, head, pos % kv->page_size / K_GROUP);

	cu_cached(a, K_CACHE_f16, x, r); /* which tells of a NaN */
	if (lane == 0)
		k_q8_scales(group, kv->head_dim, block)[token] = scale;
	if (d < kv->head_dim)
		((int8_t *)group)[v ? token * kv->head_dim + d : d * K_GROUP + token] =
			(int8_t)k_code(y, k_inverse(scale), -127, 127);
}

/* All keys and values of a step in q8, also those for further pages. */
CU_FN void cu_append_all_q8(const struct cu_part *p, const struct k_rope *a, const struct k_kv *kv)
{
	const int32_t blocks = k_pieces(kv->head_dim, K_Q8_DIMS);
	const int32_t per_row = 2 * kv->n_kv_heads * blocks;

	for (int64_t task = (int64_t)p->block * CU_WARPS + cu_thread() / CU_WARP;
		 task < (int64_t)(a->n + a->n_also) * per_row; task += (int64_t)p->n_blocks * CU_WARPS) {
		const int32_t i = (int32_t)(task / per_row), head = (int32_t)(task % per_row) / blocks;
		const int32_t r = i < a->n ? i : a->also[i - a->n].row;
		const int32_t seq = i < a->n ? a->rows[i].seq : a->also[i - a->n].seq;

		cu_append_q8(
			a, kv, r, seq, head / kv->n_kv_heads, head % kv->n_kv_heads, (int32_t)(task % blocks));
	}
}

/* One task for each thread: a pair of a query, in place, of a key or of a value. */
static __device__ void cu_rope(const struct cu_part *p)
{
	const struct k_rope *a = &p->stage->op.u.rope;
	const struct k_kv kv = *a->kv;
	const int32_t q8 = kv.format == K_CACHE_q8, kinds = q8 ? 0 : kv.value_dim ? 1 : 2;
	const int32_t pairs = kv.head_dim / 2, per_row = (a->n_heads + kinds * kv.n_kv_heads) * pairs;
	const int64_t n = (int64_t)a->n * per_row;

	if (q8)
		cu_append_all_q8(p, a, &kv);
	else
		cu_append_also(p, a, &kv);
	for (int64_t task = (int64_t)p->block * CU_THREADS + cu_thread(); task < n;
		 task += (int64_t)p->n_blocks * CU_THREADS) {
		const int32_t r = (int32_t)(task / per_row), i = (int32_t)(task % pairs);
		const int32_t head = (int32_t)(task % per_row) / pairs, other = head - a->n_heads;

		if (head < a->n_heads) {
			float *q = a->q + (r * a->n_heads + head) * kv.head_dim;
			const struct rope_pair at = rope_pair_at(a, i);
			float y[2] = { q[at.d0], q[at.d1] };

			cu_rotate(a, a->rows[r].pos, i, y);
			q[at.d0] = y[0] * a->scale;
			q[at.d1] = y[1] * a->scale;
		} else {
			cu_append(a, &kv, r, a->rows[r].seq, other / kv.n_kv_heads, other % kv.n_kv_heads, i);
		}
	}
}
