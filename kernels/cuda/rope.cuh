/* RoPE and the appending of keys and values to the cache: rules 9 and 10. As a stage of its own, or
 * by attention for the keys of a span (attention.cuh): the arithmetic of both is here. */
#ifndef CUTAWAY_KERNELS_CUDA_ROPE_CUH
#define CUTAWAY_KERNELS_CUDA_ROPE_CUH

#include "kernels/cuda/bodies.cuh"

/* Element `d` of the head at `in`, rotated by the table row of position `pos`. */
CU_FN float cu_rotated(const struct k_rope *a, int32_t pos, const float *in, int32_t d)
{
	const int32_t half = a->rope_dim / 2;
	int32_t i, second;
	float x0, x1, c, s;

	if (d >= a->rope_dim)
		return in[d];
	i = a->neox ? (d < half ? d : d - half) : d / 2;
	second = a->neox ? d >= half : d & 1;
	x0 = in[a->neox ? i : 2 * i];
	x1 = in[a->neox ? i + half : 2 * i + 1];
	c = a->cos[(size_t)pos * (size_t)half + (size_t)i];
	s = a->sin[(size_t)pos * (size_t)half + (size_t)i];
	return second ? k_fma(x0, s, x1 * c) : k_fma(x0, c, -(x1 * s));
}

/* Rule 10: what the cache stores; 0 for a NaN, which is noted: nan_row keeps the first row. */
CU_FN uint16_t cu_cached(const struct k_rope *a, float x, int32_t r)
{
	int32_t seen;

	if (x == x)
		return cu_to_f16(k_clamp_f16(x));
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
CU_FN uint16_t *cu_kv_at(const struct k_kv *kv, int32_t page, int32_t layer, int32_t v, int32_t head)
{
	size_t index = ((size_t)layer * 2 + (size_t)v) * (size_t)kv->n_kv_heads + (size_t)head;
	size_t head_bytes = (size_t)kv->page_size * (size_t)kv->head_dim * 2;

	return (uint16_t *)(kv->base + (size_t)page * kv->page_bytes + index * head_bytes);
}

/* Element d of row r's key (v = 0) or value of one head, as it is stored. */
CU_FN uint16_t cu_new_kv(const struct k_rope *a, int32_t head_dim, int32_t n_kv_heads, int32_t r,
						 int32_t pos, int32_t v, int32_t head, int32_t d)
{
	const size_t from = ((size_t)r * (size_t)n_kv_heads + (size_t)head) * (size_t)head_dim;

	return cu_cached(a, v ? a->v[from + (size_t)d] : cu_rotated(a, pos, a->k + from, d), r);
}

/* Its place, in elements from cu_kv_at(). */
CU_FN size_t cu_kv_place(int32_t head_dim, int32_t token, int32_t v, int32_t d)
{
	if (v)
		return (size_t)token * (size_t)head_dim + (size_t)d;
	return (size_t)(token / K_GROUP) * (size_t)(head_dim * K_GROUP) + (size_t)(d * K_GROUP) +
		   (size_t)(token % K_GROUP);
}

CU_FN void cu_rope_store(const struct k_rope *a, const struct k_kv *kv, int32_t r, int32_t v,
						 int32_t head, int32_t d)
{
	const struct k_row row = a->rows[r];
	const int32_t page = a->pages[row.seq][row.pos / kv->page_size];

	cu_kv_at(kv, page, a->layer, v,
			 head)[cu_kv_place(kv->head_dim, row.pos % kv->page_size, v, d)] =
		cu_new_kv(a, kv->head_dim, kv->n_kv_heads, r, row.pos, v, head, d);
}

/* In place, so a pair is one thread's; behind the pairs come the elements that are only scaled. */
CU_FN void cu_rope_query(const struct k_rope *a, int32_t head_dim, int32_t r, int32_t head, int32_t i)
{
	const int32_t half = a->rope_dim / 2;
	float *q = a->q + ((size_t)r * (size_t)a->n_heads + (size_t)head) * (size_t)head_dim;
	int32_t d0 = a->neox ? i : 2 * i, d1 = a->neox ? i + half : 2 * i + 1;
	float y0, y1;

	if (i >= half) {
		q[i + half] *= a->scale;
		return;
	}
	y0 = cu_rotated(a, a->rows[r].pos, q, d0);
	y1 = cu_rotated(a, a->rows[r].pos, q, d1);
	q[d0] = y0 * a->scale;
	q[d1] = y1 * a->scale;
}

/* One task a thread: a pair or a lone element of a query, an element of a key or a value. */
static __device__ void cu_rope(const struct cu_part *p)
{
	const struct k_rope *a = &p->stage->op.u.rope;
	const struct k_kv kv = *a->kv;
	const int32_t head_dim = kv.head_dim, per_query = head_dim - a->rope_dim / 2;
	const int32_t queries = a->n_heads * per_query, keys = kv.n_kv_heads * head_dim;
	const int32_t per_row = queries + 2 * keys;
	const int64_t n = (int64_t)a->n * per_row;

	for (int64_t at = (int64_t)p->block * CU_THREADS + cu_thread(); at < n;
		 at += (int64_t)p->n_blocks * CU_THREADS) {
		int32_t r = (int32_t)(at / per_row), i = (int32_t)(at % per_row);

		if (i < queries) {
			cu_rope_query(a, head_dim, r, i / per_query, i % per_query);
		} else {
			i -= queries;
			cu_rope_store(a, &kv, r, i / keys, i % keys / head_dim, i % head_dim);
		}
	}
}

#endif
