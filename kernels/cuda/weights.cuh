/* Quantised weights in registers: from layout.h's bytes to the words that the tensor cores take, and
 * to scales. `type` is a constant wherever it is given, so every switch on it is gone when compiled.
 *
 * Instructions a warp, for a pair of blocks of 16 rows (1,024 weights): Q8_0 none; Q4_0, Q4_1, Q4_K 12;
 * Q5_0, Q5_1, Q5_K 28; Q6_K 28; IQ4_NL 44. A multiprocessor of an H200 reads 20 bytes a cycle, so a
 * pair of Q4_1 (640 bytes) takes 31 cycles, in which its four schedulers issue 124 instructions. */
#ifndef CUTAWAY_KERNELS_CUDA_WEIGHTS_CUH
#define CUTAWAY_KERNELS_CUDA_WEIGHTS_CUH

#include "kernels/cuda/bodies.cuh"
#include "kernels/cuda/layout.h"

/* What a lane holds of a pair. */
struct cu_pair {
	uint32_t code[8], high[2];
};

CU_FN void cu_load_pair(const int32_t type, const unsigned char *tile, int32_t n_pairs, int32_t pair,
						int32_t lane, struct cu_pair *p)
{
	/* a tile is far below 4 GB */
	const unsigned char *codes = tile + (uint32_t)(pair * cu_code_bytes(type) + lane * 16);
	const unsigned char *high =
		tile + (uint32_t)(n_pairs * cu_code_bytes(type) + pair * cu_high_bytes(type));
	const uint4 v = cu_stream16(codes);

	p->code[0] = v.x;
	p->code[1] = v.y;
	p->code[2] = v.z;
	p->code[3] = v.w;
	if (type == K_Q8_0) {
		const uint4 second = cu_stream16(codes + 512);

		p->code[4] = second.x;
		p->code[5] = second.y;
		p->code[6] = second.z;
		p->code[7] = second.w;
	}
	if (cu_high_bytes(type) == 128)
		p->high[0] = cu_stream4(high + lane * 4);
	if (cu_high_bytes(type) == 256) {
		const uint2 bits = cu_stream8(high + lane * 8);

		p->high[0] = bits.x;
		p->high[1] = bits.y;
	}
}

CU_FN uint32_t cu_move(uint32_t w, const int32_t from, const int32_t to)
{
	return to >= from ? w << (to - from) : w >> (from - to);
}

/* The table of IQ4_NL at four nibbles: both halves of the table, then the right one for each. */
CU_FN uint32_t cu_iq4_nl(uint32_t nibbles)
{
	const uint32_t low = cu_permute(0xBFAD9881u, 0xF6EADDCFu, nibbles & 0x7777u);
	const uint32_t high = cu_permute(0x26190D01u, 0x71594535u, nibbles & 0x7777u);

	return cu_permute(low, high, 0x3210u | (nibbles >> 1 & 0x4444u));
}

/* Word i of block b as signed bytes: cu_gain()'s inverse times the weights. */
CU_FN uint32_t cu_codes(const int32_t type, const struct cu_pair *p, const int32_t b, const int32_t i)
{
	const uint32_t w = p->code[i];

	switch (type) {
	case K_Q8_0:
		return p->code[4 * b + i];
	case K_Q4_0:
		return (b ? w : w << 4) & 0xf0f0f0f0u;
	case K_Q5_0:
		return ((b ? w >> 1 : w << 3) & 0x78787878u) |
			   (cu_move(p->high[0], 4 * b + i, 7) & 0x80808080u);
	case K_Q5_1:
	case K_Q5_K:
		return ((b ? w >> 4 : w) & 0x0f0f0f0fu) | (cu_move(p->high[0], 4 * b + i, 4) & 0x10101010u);
	case K_Q6_K:
		return ((b ? w >> 2 : w << 2) & 0x3c3c3c3cu) | (cu_move(p->high[b], 2 * i, 6) & 0xc0c0c0c0u);
	case K_IQ4_NL:
		return cu_iq4_nl(b ? w >> 16 : w);
	default: /* Q4_1, Q4_K */
		return (b ? w >> 4 : w) & 0x0f0f0f0fu;
	}
}

/* Of 12 bytes of a K-quant's scales (w[1 … 3]), those of pair 0 … 3 of four: a scale and a minimum in
 * each of the two low bytes. formats.c says how the file packs them. */
CU_FN void cu_k_scales(const uint32_t w[4], int32_t pair, uint32_t *scale, uint32_t *min)
{
	const int32_t shift = (pair & 1) * 16;
	const uint32_t a = w[1] >> shift, b = w[2] >> shift, c = w[3] >> shift;

	if (pair < 2) {
		*scale = a & 0x3f3fu;
		*min = b & 0x3f3fu;
	} else {
		*scale = (c & 0x0f0fu) | (a & 0xc0c0u) >> 2;
		*min = (c >> 4 & 0x0f0fu) | (b & 0xc0c0u) >> 2;
	}
}

/* dw and mw of block b of a pair, from a row's 16 bytes: both products are exact (rule 5). */
CU_FN void cu_k_entry(const uint32_t w[4], int32_t pair, int32_t b, float *dw, float *mw)
{
	uint32_t scale, min;

	cu_k_scales(w, pair, &scale, &min);
	*dw = cu_f16((uint16_t)w[0]) * (float)(scale >> 8 * b & 0xff);
	*mw = -(cu_f16((uint16_t)(w[0] >> 16)) * (float)(min >> 8 * b & 0xff));
}

CU_FN uint32_t cu_pick(const uint32_t w[4], int32_t i)
{
	const uint32_t low = i & 1 ? w[1] : w[0], high = i & 1 ? w[3] : w[2];

	return i & 2 ? high : low;
}

/* f[j] = 1 / cu_gain() times the exact sums of block b as floats (cu_mma_k32's order of outputs); q are
 * the lane's words of the activations, sub of Q6_K the scales of rows g and g + 8, one each in the
 * low bytes for columns 0 to 15 and 16 to 31.
 *
 * The integer sum begins at the bits of the float 3 * 2^22, below whose last place is 1: read as a
 * float it is 3 * 2^22 + I, and I = that - 3 * 2^22 exactly while |I| < 2^22 (largest: 32 * 128 * 127).
 * One instruction at full rate, where a conversion has a quarter of it. (dw could be multiplied in
 * with the same one, rule 5; but an infinite dw and the sign of a zero need the subtraction.) */
CU_FN void cu_block_sums(const int32_t type, const struct cu_pair *p, const int32_t b,
						 const uint32_t q[2], const uint32_t sub[2], float f[4])
{
	const int32_t start = type == K_Q6_K ? 0 : 0x4B400000;
	int32_t c[4] = {start, start, start, start};
	uint32_t a[4];

	CU_UNROLL
	for (int i = 0; i < 4; i++)
		a[i] = cu_codes(type, p, b, i);
	if (type == K_Q6_K) {
		int32_t second[4] = {0, 0, 0, 0};

		cu_mma_k16(c, a, q[0]);
		cu_mma_k16(second, a + 2, q[1]);
		CU_UNROLL
		for (int i = 0; i < 4; i++)
			f[i] = (float)((int8_t)sub[i / 2] * c[i] + (int8_t)(sub[i / 2] >> 8) * second[i]);
		return;
	}
	cu_mma_k32(c, a, q);
	CU_UNROLL
	for (int i = 0; i < 4; i++)
		f[i] = k_float((uint32_t)c[i]) - 0x1.8p23f;
}

/* A lane's words of block `block` of a row of activations (layout.h says which columns). */
CU_FN void cu_load_q(const int32_t type, const int8_t *row, int32_t block, int32_t lane, uint32_t q[2])
{
	const int8_t *at = row + (size_t)block * K_QBLOCK;

	if (type == K_Q6_K) {
		q[0] = *(const uint32_t *)(const void *)(at + 4 * (lane % 4));
		q[1] = *(const uint32_t *)(const void *)(at + 16 + 4 * (lane % 4));
	} else {
		const uint2 v = *(const uint2 *)(const void *)(at + 8 * (lane % 4));

		q[0] = v.x;
		q[1] = v.y;
	}
}

#endif
