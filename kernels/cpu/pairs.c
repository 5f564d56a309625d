/* Pairs: matrices of floats of which at most two of each four neighbours in a row are not +0 (2:4;
 * Mishra et al. 2021, "Accelerating sparse deep neural networks"). See tiles.h. Thread: any; no
 * state. */
#include "kernels/cpu/tiles.h"

#include "kernels/arith.h"

enum { KEPT = K_QBLOCK / 2 }; /* of a block */

static size_t value_bytes(enum k_type type)
{
	return type == K_F32 ? 4 : 2;
}

static size_t block_bytes(enum k_type type, int32_t lanes)
{
	return (size_t)lanes * (sizeof(uint32_t) + KEPT * value_bytes(type));
}

/* The value kept at number j of a lane of the block at p. */
static uint8_t *kept(enum k_type type, int32_t lanes, uint8_t *p, int32_t lane, size_t j)
{
	const size_t n = (size_t)lanes;

	return p + n * sizeof(uint32_t) + (j * n + (size_t)lane) * value_bytes(type);
}

size_t k_pairs_tile_bytes(const struct k_matrix *m, int32_t lanes)
{
	return ((size_t)(m->n_cols / K_QBLOCK) * block_bytes(m->type, lanes) + 63) / 64 * 64;
}

static uint32_t bits_at(enum k_type type, const uint8_t *p)
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

bool k_pairs_hold(enum k_type type, const void *raw, size_t n)
{
	const size_t bytes = value_bytes(type);
	const uint8_t *p = raw;

	for (size_t i = 0; i < n; i += 4) {
		int count = 0;

		for (int c = 0; c < 4; c++, p += bytes)
			count += bits_at(type, p) != 0;
		if (count > 2)
			return false;
	}
	return true;
}

/* Where fewer than two are kept the rest stays +0, at place 0. */
static void pack_row(
	const struct k_matrix *m, int32_t lanes, const uint8_t *row, uint8_t *to, int32_t lane)
{
	const size_t bytes = value_bytes(m->type);

	for (int32_t b = 0; b < m->n_cols / K_QBLOCK; b++, to += block_bytes(m->type, lanes)) {
		uint32_t places = 0;

		for (size_t k = 0, j = 0; k < K_QBLOCK; k++, row += bytes) {
			j = k % 4 ? j : k / 2;
			if (!bits_at(m->type, row))
				continue;
			memcpy(kept(m->type, lanes, to, lane, j), row, bytes);
			places |= (uint32_t)(k % 4) << 2 * j++;
		}
		memcpy(to + (size_t)lane * sizeof places, &places, sizeof places);
	}
}

void k_pairs_pack(
	const struct k_matrix *m, int32_t lanes, const void *raw, int32_t first, int32_t n)
{
	const size_t row_bytes = (size_t)m->n_cols * value_bytes(m->type);
	const size_t tile_bytes = k_pairs_tile_bytes(m, lanes);

	for (int32_t i = 0; i < n; i++) {
		const int32_t lane = (first + i) % lanes;
		uint8_t *tile = (uint8_t *)m->data + (size_t)((first + i) / lanes) * tile_bytes;

		if (lane == 0)
			memset(tile, 0, tile_bytes);
		pack_row(m, lanes, (const uint8_t *)raw + (size_t)i * row_bytes, tile, lane);
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
