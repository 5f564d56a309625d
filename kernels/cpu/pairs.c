/* Pairs: matrices of floats of which at most two of each four neighbours in a row are not +0 (2:4;
 * Mishra et al. 2021, "Accelerating sparse deep neural networks"). See tiles.h. Thread: any; no
 * state. */
#include "kernels/cpu/tiles.h"

#include "kernels/arith.h"

#define ALWAYS static inline __attribute__((always_inline))

enum { KEPT = K_QBLOCK / 2 }; /* of a block */

ALWAYS size_t value_bytes(enum k_type type)
{
	return type == K_F32 ? 4 : 2;
}

ALWAYS size_t block_bytes(enum k_type type, int32_t lanes)
{
	return (size_t)lanes * (sizeof(uint32_t) + KEPT * value_bytes(type));
}

/* The value kept at number j of a lane of the block at p. */
ALWAYS uint8_t *kept(enum k_type type, int32_t lanes, uint8_t *p, int32_t lane, size_t j)
{
	const size_t n = (size_t)lanes;

	return p + n * sizeof(uint32_t) + (j * n + (size_t)lane) * value_bytes(type);
}

size_t k_pairs_tile_bytes(const struct k_matrix *m, int32_t lanes)
{
	return k_align((size_t)(m->n_cols / K_QBLOCK) * block_bytes(m->type, lanes), 64);
}

ALWAYS uint32_t bits_at(enum k_type type, const uint8_t *p)
{
	uint32_t bits;
	uint16_t half;

	if (type == K_F32) {
		memcpy(&bits, p, sizeof bits);
		return bits;
	}
	memcpy(&half, p, sizeof half);
	return half;
}

/* The type is a constant in these: opening a file takes as long as they do. */
ALWAYS bool hold(enum k_type type, const uint8_t *p, size_t n)
{
	uint32_t most = 0;

	for (size_t i = 0; i < n; i += 4) {
		uint32_t count = 0;

		for (int c = 0; c < 4; c++, p += value_bytes(type))
			count += bits_at(type, p) != 0;
		most = count > most ? count : most;
	}
	return most <= 2;
}

bool k_pairs_hold(enum k_type type, const void *raw, size_t n)
{
	return type == K_F32 ? hold(K_F32, raw, n) : hold(K_F16, raw, n);
}

/* Of four weights the bits of those that are kept, and their places; +0 where there are fewer than
 * two. */
struct pair {
	uint32_t bits[5], place[5];
};
ALWAYS struct pair pair_of(enum k_type type, const uint8_t *p)
{
	struct pair pair = { 0 };

	for (uint32_t c = 0, n = 0; c < 4; c++) { /* without a branch, which nobody could guess */
		pair.bits[n] = bits_at(type, p + c * value_bytes(type));
		pair.place[n] = c;
		n += pair.bits[n] != 0;
	}
	return pair;
}

ALWAYS void pack_row(enum k_type type, const struct k_matrix *m, int32_t lanes, const uint8_t *row,
	uint8_t *to, int32_t lane)
{
	for (int32_t b = 0; b < m->n_cols / K_QBLOCK; b++, to += block_bytes(type, lanes)) {
		uint32_t places = 0;

		for (size_t j = 0; j < KEPT; j += 2, row += 4 * value_bytes(type)) {
			const struct pair pair = pair_of(type, row);

			for (size_t i = 0; i < 2; i++)
				memcpy(kept(type, lanes, to, lane, j + i), &pair.bits[i], value_bytes(type));
			places |= (pair.place[0] | pair.place[1] << 2) << 2 * j;
		}
		memcpy(to + (size_t)lane * sizeof places, &places, sizeof places);
	}
}

void k_pairs_pack(
	const struct k_matrix *m, int32_t lanes, const void *raw, int32_t first, int32_t n)
{
	const size_t tile_bytes = k_pairs_tile_bytes(m, lanes);
	const uint8_t *row = raw;

	for (int32_t i = first; i < first + n; i++) {
		uint8_t *tile = (uint8_t *)m->data + (size_t)(i / lanes) * tile_bytes;

		if (i % lanes == 0)
			memset(tile, 0, tile_bytes);
		if (m->type == K_F32)
			pack_row(K_F32, m, lanes, row, tile, i % lanes);
		else
			pack_row(K_F16, m, lanes, row, tile, i % lanes);
		row += (size_t)m->n_cols * value_bytes(m->type);
	}
}

static float float_of(enum k_type type, uint32_t bits)
{
	return type == K_F32   ? k_float(bits)
		   : type == K_F16 ? k_f16_to_f32((uint16_t)bits)
						   : k_bf16_to_f32((uint16_t)bits);
}

void k_pairs_read(const struct k_matrix *m, int32_t lanes, uint8_t *tile, int32_t lane,
	struct k_pairs_part part, float *out)
{
	for (int32_t k = part.from; k < part.to; k += K_QBLOCK) {
		uint8_t *p = tile + (size_t)(k / K_QBLOCK) * block_bytes(m->type, lanes);
		float *block = out + (k - part.from) * part.stride;
		uint32_t places;

		memcpy(&places, p + (size_t)lane * sizeof places, sizeof places);
		for (int32_t i = 0; i < K_QBLOCK; i++)
			block[i * part.stride] = 0;
		for (uint32_t j = 0; j < KEPT; j++, places >>= 2) {
			const uint32_t bits = bits_at(m->type, kept(m->type, lanes, p, lane, j));

			if (bits)
				block[(int32_t)(j / 2 * 4 + (places & 3)) * part.stride] = float_of(m->type, bits);
		}
	}
}
