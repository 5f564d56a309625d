/* Matrix products of many rows by F16 and BF16 weights on the tensor cores: the fast mode, which is *not
 * exact*. Activations are rounded to the weights' own 16 bits (F16: clamped to ±65504), and the hardware
 * adds the products in an order and with a rounding of its own. Nothing else of the program is computed
 * so, and nobody comes here but where k_matmul.fast asks for it (docs/arithmetic.md, end).
 *
 * A unit is 8 tiles of 16 outputs by 16 * groups rows of activations; its 8 warps stand 4 by 2, each
 * with 2 tiles and 8 * groups rows. 32 columns at a time: activations come as floats to registers while
 * the 32 before are multiplied, and go to shared memory as halves, double-buffered; weights go from memory
 * to registers as they lie (layout.h). Which column is which k of an instruction is ours to choose: lane
 * g * 4 + t takes columns 8 t … 8 t + 7 of rows g and g + 8, 16 bytes each, in two instructions.
 *
 * What bounds it, counted: a unit of 128 rows reads 128 * 4 bytes of activations and 128 * 2 of weights
 * a column for 128 * 128 multiply-adds: 21 a byte, from the second cache. Shared memory gives 128 bytes an
 * instruction of 2,048 multiply-adds. */
#ifndef CUTAWAY_KERNELS_CUDA_MATMUL_FAST_CUH
#define CUTAWAY_KERNELS_CUDA_MATMUL_FAST_CUH

#include "kernels/cuda/bodies.cuh"
#include "kernels/cuda/layout.h"
#include "kernels/cuda/plan.h"

enum {
	CU_FAST_COLUMNS = 32,
	CU_FAST_PITCH = CU_FAST_COLUMNS * 2, /* bytes of a row in shared memory: two fill the banks once */
	CU_FAST_MOST = 8,					 /* groups */
	CU_FAST_BUFFER = 16 * CU_FAST_MOST * CU_FAST_PITCH,
};

/* A unit; the same in all threads of the block. */
struct cu_fast {
	const struct k_matmul *a;
	int32_t part, n_cols;
	int32_t tile, token;
};

CU_FN unsigned char *cu_fast_buffer(int32_t buffer)
{
	return cu_shared_memory() + buffer * CU_FAST_BUFFER;
}

/* The thread's fours of 32 columns of the unit's rows; what does not exist is 0. */
CU_FN void cu_fast_load(const int32_t groups, const struct cu_fast *u, int32_t first, float4 x[])
{
	CU_UNROLL
	for (int32_t i = 0; i < groups / 2; i++) {
		const int32_t at = cu_thread() + i * CU_THREADS, token = u->token + at / 8;
		const int32_t column = first + at % 8 * 4, left = u->n_cols - column;
		const float *from = u->a->in.x + (size_t)token * (size_t)u->a->in.dim + (size_t)column;

		x[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
		if (token >= u->a->n || left <= 0)
			continue;
		if (u->n_cols % 4 == 0) {
			x[i] = *(const float4 *)(const void *)from;
			continue;
		}
		x[i].x = from[0];
		x[i].y = left > 1 ? from[1] : 0.0f;
		x[i].z = left > 2 ? from[2] : 0.0f;
		x[i].w = left > 3 ? from[3] : 0.0f;
	}
}

CU_FN float cu_fast_clamp(float x)
{
	return x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x;
}

CU_FN uint32_t cu_fast_halves(const int32_t type, float low, float high)
{
	return type == K_BF16 ? cu_to_bf16x2(low, high) : cu_to_f16x2(cu_fast_clamp(low), cu_fast_clamp(high));
}

CU_FN void cu_fast_put(const int32_t type, const int32_t groups, const float4 x[], int32_t buffer)
{
	CU_UNROLL
	for (int32_t i = 0; i < groups / 2; i++) {
		const int32_t at = cu_thread() + i * CU_THREADS;
		unsigned char *to = cu_fast_buffer(buffer) + at / 8 * CU_FAST_PITCH + at % 8 * 8;

		*(uint2 *)(void *)to = make_uint2(cu_fast_halves(type, x[i].x, x[i].y),
										  cu_fast_halves(type, x[i].z, x[i].w));
	}
}

CU_FN void cu_fast_mma(const int32_t type, float c[4], const uint32_t a[4], const uint32_t b[2])
{
	if (type == K_BF16)
		cu_mma_bf16(c, a, b);
	else
		cu_mma_f16(c, a, b);
}

/* 32 columns: two tiles (of which `there` exist) by the warp's rows, from `rows` in shared memory. */
CU_FN void cu_fast_multiply(const int32_t type, const int32_t groups, int32_t there, const uint4 w[2][2],
							const unsigned char *rows, float c[][2][4])
{
	CU_UNROLL
	for (int32_t j = 0; j < groups; j++) {
		const uint4 x = *(const uint4 *)(const void *)(rows + j * 8 * CU_FAST_PITCH);
		const uint32_t b0[2] = {x.x, x.y}, b1[2] = {x.z, x.w};

		CU_UNROLL
		for (int32_t m = 0; m < 2; m++)
			if (m < there) {
				const uint32_t a0[4] = {w[m][0].x, w[m][1].x, w[m][0].y, w[m][1].y};
				const uint32_t a1[4] = {w[m][0].z, w[m][1].z, w[m][0].w, w[m][1].w};

				cu_fast_mma(type, c[j][m], a0, b0);
				cu_fast_mma(type, c[j][m], a1, b1);
			}
	}
}

CU_FN void cu_fast_weights(const int32_t type, const struct cu_fast *u, const unsigned char *tile,
						   int32_t chunk, int32_t lane, uint4 w[2])
{
	const int32_t n_segments = cu_segments(u->n_cols), steps = CU_FAST_COLUMNS / 8;

	CU_UNROLL
	for (int32_t half = 0; half < 2; half++)
		w[half] = *(const uint4 *)(const void *)(tile + cu_float_at(type, n_segments, chunk / 2,
																	  lane / 4 + 8 * half,
																	  chunk % 2 * steps + lane % 4));
}

CU_FN void cu_fast_store(const struct cu_fast *u, int32_t tile, int32_t token, int32_t lane, const float c[4])
{
	const int32_t n_rows = u->a->part[u->part].w->n_rows;
	const float *bias = u->a->part[u->part].bias, *residual = u->a->part[u->part].residual;

	CU_UNROLL
	for (int32_t i = 0; i < 4; i++) {
		const int32_t o = tile * CU_TILE_ROWS + lane / 4 + i / 2 * 8, r = token + lane % 4 * 2 + i % 2;
		const size_t at = (size_t)r * (size_t)n_rows + (size_t)o;
		float y = c[i];

		if (o >= n_rows || r >= u->a->n)
			continue;
		if (bias)
			y += bias[o];
		if (residual)
			y += residual[at];
		u->a->part[u->part].out[at] = y;
	}
}

CU_FN void cu_fast_unit(const int32_t type, const int32_t groups, const struct cu_fast *u)
{
	const struct k_matrix *m = u->a->part[u->part].w;
	const int32_t lane = cu_thread() % CU_WARP, warp = cu_thread() / CU_WARP;
	const int32_t tile = u->tile + warp / 2 * 2, row = warp % 2 * groups * 8;
	const int32_t left = cu_tiles(m->n_rows) - tile, there = left < 0 ? 0 : left < 2 ? left : 2;
	const int32_t n_chunks = (u->n_cols + CU_FAST_COLUMNS - 1) / CU_FAST_COLUMNS;
	const size_t tile_bytes = cu_tile_bytes(type, u->n_cols);
	const unsigned char *weights = (const unsigned char *)m->data + (size_t)tile * tile_bytes;
	float c[CU_FAST_MOST][2][4];
	float4 x[CU_FAST_MOST / 2];
	uint4 w[2][2];

	CU_UNROLL
	for (int32_t i = 0; i < groups * 8; i++)
		c[i / 8][i / 4 % 2][i % 4] = 0.0f;
	cu_fast_load(groups, u, 0, x);
	CU_SYNC(); /* the last unit's buffers are free */
	cu_fast_put(type, groups, x, 0);
	CU_NO_UNROLL
	for (int32_t chunk = 0; chunk < n_chunks; chunk++) {
		if (chunk + 1 < n_chunks)
			cu_fast_load(groups, u, (chunk + 1) * CU_FAST_COLUMNS, x);
		CU_UNROLL
		for (int32_t i = 0; i < 2; i++)
			if (i < there)
				cu_fast_weights(type, u, weights + (size_t)i * tile_bytes, chunk, lane, w[i]);
		CU_SYNC();
		cu_fast_multiply(type, groups, there, w,
						 cu_fast_buffer(chunk & 1) + (row + lane / 4) * CU_FAST_PITCH + lane % 4 * 16, c);
		if (chunk + 1 < n_chunks)
			cu_fast_put(type, groups, x, (chunk + 1) & 1);
	}
	CU_UNROLL
	for (int32_t i = 0; i < groups * 2; i++)
		if (i % 2 < there)
			cu_fast_store(u, tile + i % 2, u->token + row + i / 2 * 8, lane, c[i / 2][i % 2]);
}

/* As cu_split_run. */
CU_FN int32_t cu_fast_run(const int32_t type, const int32_t groups, const struct cu_stage *stage,
						  int32_t n_blocks, int32_t part, int32_t parts_end, int32_t unit)
{
	struct cu_fast u;

	u.a = &stage->op.u.matmul;
	u.n_cols = u.a->part[part].w->n_cols;
	for (u.part = part; u.part < parts_end; u.part++) {
		const int32_t across = (u.a->n + 16 * groups - 1) / (16 * groups);
		const int32_t units =
			(cu_tiles(u.a->part[u.part].w->n_rows) + CU_FAST_TILES - 1) / CU_FAST_TILES * across;

		CU_NO_UNROLL
		for (; unit < units; unit += n_blocks) {
			const int32_t first = unit / across;

			u.tile = first * CU_FAST_TILES;
			u.token = (unit - first * across) * 16 * groups;
			cu_fast_unit(type, groups, &u);
		}
		unit -= units;
	}
	return unit;
}

#define CU_FAST(name)                                                                              \
	CU_LARGE_FN int32_t cu_fast_##name(const struct cu_stage *stage, int32_t n_blocks, int32_t part, \
									   int32_t parts_end, int32_t unit)                            \
	{                                                                                              \
		if (cu_plan_groups(stage->plan) == CU_FAST_MOST)                                           \
			return cu_fast_run(K_##name, CU_FAST_MOST, stage, n_blocks, part, parts_end, unit);      \
		return cu_fast_run(K_##name, 2, stage, n_blocks, part, parts_end, unit);                     \
	}
CU_FAST(F16)
CU_FAST(BF16)

#endif
