/* See formats.h: reading the blocks of a file, by the columns of the table. */
#include "kernels/format/formats.h"

#include <string.h>

const int8_t k_books[K_N_BOOKS][16] = {
#define X(name, least, most, ...) [K_BOOK_##name] = { __VA_ARGS__ },
	K_BOOKS(X)
#undef X
};

static float load_number(int32_t number, const uint8_t *p)
{
	uint16_t h;

	if (number == K_NUM_E8M0)
		return k_e8m0_to_f32(*p);
	memcpy(&h, p, sizeof h);
	return k_f16_to_f32(h);
}

/* Reads 32 codes. Those of signed bytes are 128 more: codes are never negative. */
K_FACT void read_codes(enum k_type type, const uint8_t *block, int32_t i, uint8_t *code)
{
	const struct k_facts f = k_facts_of(type);
	const int32_t low = k_low_bits(type);

	for (int h = 0; h < 2; h++) {
		k_quads q = k_read_plane(f.low, low, block + f.low_at, i, h);

		if (f.high)
			q |= k_read_plane(f.high, k_high_bits(type), block + f.high_at, i, h) << (uint32_t)low;
		if (f.bits == 8)
			q ^= 0x80808080u;
		memcpy(code + 16 * h, &q, sizeof q);
	}
}

void k_read_codes(enum k_type type, const uint8_t *block, int32_t i, uint8_t code[K_QBLOCK])
{
	switch (type) {
#define X(name, id, n, ...)                                                                        \
	case K_##name:                                                                                 \
		if (n > 1)                                                                                 \
			read_codes(K_##name, block, i, code);                                                  \
		break;
		K_TYPES(X)
#undef X
	case K_N_TYPES: break;
	}
}

void k_values(enum k_type type, const uint8_t code[K_QBLOCK], int8_t value[K_QBLOCK])
{
	const struct k_facts f = k_facts_of(type);

	for (int k = 0; k < K_QBLOCK; k++)
		value[k] = (int8_t)(f.book ? k_books[f.book][code[k]] : code[k] - f.bias);
}

/* Reads sub-scale s of those at p, and its minimum. */
static void read_sub(int32_t subs, const uint8_t *p, int s, int32_t *scale, int32_t *min)
{
	*scale = *min = 1;
	switch (subs) {
	case K_SUBS_8X6:
		*scale = ((p[2 + s / 2] >> s % 2 * 4 & 15) | (p[s / 4] >> s % 4 * 2 & 3) << 4) - 32;
		break;
	case K_SUBS_8X6M:
		*scale = s < 4 ? p[s] & 63 : (p[s + 4] & 15) | p[s - 4] >> 6 << 4;
		*min = s < 4 ? p[s + 4] & 63 : p[s + 4] >> 4 | p[s] >> 6 << 4;
		break;
	case K_SUBS_16X4M:
		*scale = p[s] & 15;
		*min = p[s] >> 4;
		break;
	case K_SUBS_16X6:
		*scale = ((p[s % 8] >> s / 8 * 4 & 15) | (p[8 + s % 4] >> s / 4 * 2 & 3) << 4) - 32;
		break;
	case K_SUBS_16X8: *scale = (int8_t)p[s]; break;
	default: break;
	}
}

void k_read_scales(enum k_type type, const uint8_t *block, int32_t i, struct k_scales *s)
{
	const struct k_facts f = k_facts_of(type);
	const float m = f.min_at >= 0 ? load_number(f.number, block + f.min_at) : 0;

	*s = (struct k_scales){
		.dw = load_number(f.number, block + f.at), .mw = m, .sub = { 1, 1 }, .min = { 1, 1 }
	};
	if (f.min_at >= 0 && f.subs)
		s->mw = -m;
	if (k_has_halves(type)) {
		for (int h = 0; h < 2; h++)
			read_sub(f.subs, block + f.subs_at, 2 * i + h, &s->sub[h], &s->min[h]);
	} else if (f.subs) {
		int32_t scale, min;

		read_sub(f.subs, block + f.subs_at, i, &scale, &min);
		s->dw *= (float)scale;
		s->mw *= (float)min;
	}
}
