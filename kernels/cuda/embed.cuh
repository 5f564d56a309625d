/* Rows of the embedding as vectors (docs/arithmetic.md, 5, end): one block for each row, one thread
 * for each four columns, which is a word of the layout. */
#pragma once

#include "kernels/cuda/weights.cuh"

CU_FN uint16_t cu_half_at(const unsigned char *p)
{
	return *(const uint16_t *)(const void *)p;
}

CU_FN uint32_t cu_number_at(const unsigned char *p, const int32_t bytes)
{
	return bytes == 4 ? *(const uint32_t *)(const void *)p : bytes == 2 ? cu_half_at(p) : *p;
}

/* Row (g * 2 + half), block b of a pair: dw, and mw, scale and minimum of the half that has columns
 * 4 n …. */
CU_FN void cu_read_entry(int32_t type, const unsigned char *scales, int32_t pair, int32_t row,
	int32_t b, int32_t n, float *dw, float *mw, int32_t *sub)
{
	const int32_t of_four = pair % CU_SUPER_PAIRS, bytes = cu_row_bytes(type),
				  shift = 8 * (2 * b + n / 4);
	uint32_t w[4] = { 0, 0, 0, 0 }, d = 0;

	*sub = 1;
	if (!k_has_subs(type)) {
		scales += k_index(pair, cu_scale_bytes(type), (row * 2 + b) * k_entry_bytes(type));
		cu_plain_entry(type, cu_number_at(scales, k_entry_bytes(type)), dw, mw);
		return;
	}
	scales += (size_t)(pair - of_four) * (size_t)cu_scale_bytes(type);
	CU_UNROLL
	for (int32_t i = 0; i < bytes / 4; i++)
		w[i] = cu_number_at(scales + row * bytes + 4 * i, 4);
	d = w[0];
	if (cu_tail_bytes(type))
		d = cu_number_at(
			scales + CU_TILE_ROWS * bytes + row * cu_tail_bytes(type), cu_tail_bytes(type));
	cu_row_entry(type, w, d, of_four, b, dw, mw);
	if (k_has_halves(type))
		*sub = (int8_t)(cu_sub_scales(type, w, of_four) >> shift);
	if (k_has_two_terms(type))
		*mw *= (float)(cu_sub_minima(w, of_four) >> shift & 0xff);
}

/* Columns 4 * quad … of a row: word i of lane `lane` of a block. */
CU_FN void cu_embed_quad(const int32_t type, const unsigned char *tile, int32_t n_cols, int32_t row,
	int32_t quad, float scale, float *x)
{
	const int32_t g = row % 8, half = row / 8, n_pairs = cu_pairs(n_cols);
	const int32_t pair = quad / 16, b = quad / 8 % 2, n = quad % 8;
	const int32_t lane = g * 4 + (k_has_halves(type) ? n % 4 : n / 2);
	const int32_t j = k_has_halves(type) ? n / 4 : n % 2;
	struct cu_pair p;
	uint32_t word = 0;
	float dw, mw;
	int32_t sub;

	cu_load_pair(type, tile, n_pairs, pair, lane, &p);
	CU_UNROLL
	for (int32_t i = 0; i < 8; i++) /* the word's index must be a constant */
		if (i == half + 2 * j + 4 * b)
			word = cu_codes(type, &p, i / 4, i % 4);
	cu_read_entry(
		type, tile + cu_scales_at(type, n_pairs), pair, g * 2 + half, b, n, &dw, &mw, &sub);
	CU_UNROLL
	for (int32_t c = 0; c < 4; c++)
		x[c] = k_fma(dw, (float)(sub * (int8_t)(word >> 8 * c)), mw) * scale;
}

CU_FN float cu_float_of(int32_t type, const unsigned char *p)
{
	return type == K_F32   ? *(const float *)(const void *)p
		   : type == K_F16 ? cu_f16(cu_half_at(p))
						   : k_bf16_to_f32(cu_half_at(p));
}

CU_FN void cu_embed_floats(
	int32_t type, const unsigned char *tile, int32_t n_cols, int32_t row, float scale, float *x)
{
	const int32_t step = cu_float_step(type), segments = cu_segments(n_cols);

	for (int32_t k = cu_thread(); k < n_cols; k += CU_THREADS)
		x[k] = cu_float_of(type,
				   tile + cu_float_at(type, segments, k / CU_SEGMENT, row, k % CU_SEGMENT / step) +
					   k % step * cu_float_bytes(type)) *
			   scale;
}

CU_FN void cu_embed_row(const int32_t type, const unsigned char *tile, int32_t n_cols, int32_t row,
	float scale, float *x)
{
	for (int32_t quad = cu_thread(); quad < n_cols / 4; quad += CU_THREADS)
		cu_embed_quad(type, tile, n_cols, row, quad, scale, x + 4 * quad);
}

static __device__ void cu_embed(const struct cu_part *p)
{
	const struct k_embed *a = &p->stage->op.u.embed;
	const int32_t type = (int32_t)a->w->type, n_cols = a->w->n_cols;
	const size_t bytes = cu_tile_bytes(type, n_cols);
	const float scale = a->scale != 0 ? a->scale : 1.0f;

	for (int32_t r = p->block; r < a->n; r += p->n_blocks) {
		const unsigned char *tile =
			(const unsigned char *)a->w->data + (size_t)(a->ids[r] / CU_TILE_ROWS) * bytes;
		const int32_t row = a->ids[r] % CU_TILE_ROWS;
		float *x = a->x + (size_t)r * (size_t)n_cols;

		switch (type) {
#define X(name, id, n, ...)                                                                        \
	case K_##name:                                                                                 \
		if (n > 1)                                                                                 \
			cu_embed_row(K_##name, tile, n_cols, row, scale, x);                                   \
		else                                                                                       \
			cu_embed_floats(K_##name, tile, n_cols, row, scale, x);                                \
		break;
			K_TYPES(X)
#undef X
		default: break;
		}
	}
}
