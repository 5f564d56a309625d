/* Scales of quantised weights, from layout.h's bytes (formats.h says what they are). */
#pragma once

#include "kernels/cuda/bodies.cuh"
#include "kernels/cuda/layout.h"

CU_FN void cu_hold16(const unsigned char *at, uint32_t w[4])
{
	const uint4 v = cu_stream16(at);

	w[0] = v.x;
	w[1] = v.y;
	w[2] = v.z;
	w[3] = v.w;
}

/* From 12 bytes of sub-scales (w[1 … 3]), those of pair 0 … 3 of four: scales and minima, each in
 * the two low bytes. */
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

/* dw and mw of block b of pair `of_four`, from a row's words; where sub-scales are of 16 columns
 * `d` has its scale and minimum. Products are exact (rule 5). */
CU_FN void cu_row_entry(const int32_t type, const uint32_t *w, uint32_t d, int32_t of_four,
	int32_t b, float *dw, float *mw)
{
	const int32_t subs = k_facts_of(type).subs, n = 2 * of_four + b;
	uint32_t scale, min;

	*mw = 0.0f;
	if (subs == K_SUBS_8X6M) {
		cu_k_scales(w, of_four, &scale, &min);
		*dw = cu_f16((uint16_t)w[0]) * (float)(scale >> 8 * b & 0xff);
		*mw = -(cu_f16((uint16_t)(w[0] >> 16)) * (float)(min >> 8 * b & 0xff));
	} else if (subs == K_SUBS_8X6) {
		scale = (w[1] >> 4 * n & 15) | (w[0] >> (16 + 2 * n) & 3) << 4;
		*dw = cu_f16((uint16_t)w[0]) * (float)((int32_t)scale - 32);
	} else {
		*dw = cu_f16((uint16_t)d);
		if (k_has_min(type))
			*mw = -cu_f16((uint16_t)(d >> 16));
	}
	*dw *= cu_gain(type);
}

/* dw and mw of an entry of formats without sub-scales: in the low bits of w. */
CU_FN void cu_plain_entry(const int32_t type, uint32_t w, float *dw, float *mw)
{
	*dw = k_facts_of(type).number == K_NUM_E8M0 ? k_e8m0_to_f32((uint8_t)w) : cu_f16((uint16_t)w);
	*mw = k_has_min(type) ? cu_f16((uint16_t)(w >> 16)) : 0.0f;
	*dw *= cu_gain(type);
}

/* The sub-scales of a row in pair `of_four` as signed bytes: byte 2 b + s is that of block b,
 * columns 16 s …; and the minima. w: the row's words. */
CU_FN uint32_t cu_sub_scales(const int32_t type, const uint32_t *w, int32_t of_four)
{
	const int32_t subs = k_facts_of(type).subs;
	uint32_t v;

	if (subs == K_SUBS_16X8)
		return cu_pick(w, of_four);
	if (subs == K_SUBS_16X4M)
		return cu_pick(w, of_four) & 0x0f0f0f0fu;
	if (subs != K_SUBS_16X6)
		return 0;
	v = of_four & 1 ? w[2] : w[1];
	v = ((of_four & 2 ? v >> 4 : v) & 0x0f0f0f0fu) | (w[3] >> 2 * of_four & 0x03030303u) << 4;
	return ((v | 0x80808080u) - 0x20202020u) ^ 0x80808080u; /* less 32 each */
}
CU_FN uint32_t cu_sub_minima(const uint32_t *w, int32_t of_four)
{
	return cu_pick(w, of_four) >> 4 & 0x0f0f0f0fu;
}

/* The scales that a lane holds. With sub-scales: the words of rows g and g + 8, the second's from
 * w[4], and their scales (and minima) in d, the second's in the high half or the next word; or of
 * the one row of its entry, lane / 2, words (those of 16 columns as before) and d[0]. Without: in w
 * the entries, of the rows one after the other, or of each pair of a turn the word that has entry
 * `lane`. */
struct cu_row_scales {
	uint32_t w[8], d[2];
};
CU_FN void cu_load_rows(
	const int32_t type, const unsigned char *at, int32_t g, struct cu_row_scales *h)
{
	if (cu_row_bytes(type) == 8) {
		const uint4 v = cu_stream16(at + g * 16);

		h->w[0] = v.x;
		h->w[1] = v.y;
		h->w[4] = v.z;
		h->w[5] = v.w;
	} else {
		cu_hold16(at + g * 32, h->w);
		cu_hold16(at + g * 32 + 16, h->w + 4);
	}
	if (cu_tail_bytes(type) == 2) {
		h->d[0] = cu_stream4(at + 256 + g * 4);
	} else if (cu_tail_bytes(type) == 4) {
		const uint2 v = cu_stream8(at + 256 + g * 8);

		h->d[0] = v.x;
		h->d[1] = v.y;
	}
}
/* The argument `d` of cu_row_entry for row (g, half). */
CU_FN uint32_t cu_row_d(const int32_t type, const struct cu_row_scales *h, const int32_t half)
{
	return cu_tail_bytes(type) == 2   ? h->d[0] >> 16 * half
		   : cu_tail_bytes(type) == 4 ? h->d[half]
									  : h->w[4 * half];
}

/* Loads entry `lane` of pair `pair`, which is pair u of a turn: all pairs of it are in one block of
 * the file. */
CU_FN void cu_load_entry(const int32_t type, const unsigned char *scales, int32_t pair,
	int32_t lane, const int32_t u, struct cu_row_scales *s)
{
	const unsigned char *at = scales + (size_t)pair * (size_t)cu_scale_bytes(type);

	if (!k_has_subs(type)) {
		s->w[u] = cu_stream4(at + lane * k_entry_bytes(type) / 4 * 4);
		return;
	}
	if (u > 0)
		return;
	at = scales + (size_t)(pair / CU_SUPER_PAIRS) * CU_SUPER_PAIRS * (size_t)cu_scale_bytes(type);
	if (k_has_halves(type)) {
		cu_load_rows(type, at, lane / 4, s);
		s->d[0] = lane & 2 ? cu_row_d(type, s, 1) : cu_row_d(type, s, 0);
	} else if (cu_row_bytes(type) == 8) {
		const uint2 v = cu_stream8(at + lane / 2 * 8);

		s->w[0] = v.x;
		s->w[1] = v.y;
	} else {
		cu_hold16(at + lane / 2 * 16, s->w);
	}
}

/* (dw, mw) of that entry. */
CU_FN float2 cu_lane_entry(const int32_t type, const struct cu_row_scales *s, int32_t of_four,
	int32_t lane, const int32_t u)
{
	float2 v;

	if (k_has_subs(type))
		cu_row_entry(type, s->w, s->d[0], of_four, lane & 1, &v.x, &v.y);
	else
		cu_plain_entry(type, s->w[u] >> lane * 8 * k_entry_bytes(type) % 32, &v.x, &v.y);
	return v;
}
