/* Packs weights from the file's blocks into the GPU's layout (layout.h), on the host. Thread: any;
 * no state. */
#include "kernels/cuda/layout.h"

#include <string.h>

#define ALWAYS static inline __attribute__((always_inline))

static void or_word(uint8_t *p, uint32_t bits)
{
	uint32_t word;

	memcpy(&word, p, sizeof word);
	word |= bits;
	memcpy(p, &word, sizeof word);
}

/* A tile being filled, and the row in it. */
struct place {
	uint8_t *tile;
	int32_t pairs, g, half;
};

/* Four bits of each of four columns, in the order of a pair's word. */
ALWAYS uint32_t low_bits(enum k_type type, uint32_t quad, int32_t b)
{
	if (k_facts_of(type).book)
		return ((quad & 15) | (quad >> 4 & 0xf0) | (quad >> 8 & 0xf00) | (quad >> 12 & 0xf000))
			   << 16 * b;
	return (quad & 0x0f0f0f0f) << 4 * b;
}

/* Stores word i of block b of a pair, for lane `lane`: four codes. */
ALWAYS void put_quad(enum k_type type, const struct place *p, int32_t pair, int32_t b, int32_t lane,
	int32_t i, uint32_t quad)
{
	const int32_t low = k_low_bits(type), high = k_high_bits(type);
	uint8_t *codes = p->tile + (size_t)pair * (size_t)cu_code_bytes(type);
	uint8_t *above =
		p->tile + cu_high_at(type, p->pairs) + (size_t)pair * (size_t)cu_high_bytes(type);

	if (low == 8)
		or_word(codes + b * 512 + lane * 16 + i * 4, quad);
	else if (low == 4)
		or_word(codes + lane * 16 + i * 4, low_bits(type, quad, b));
	else
		or_word(codes + lane * 8 + b * 4, (quad & 0x03030303) << 2 * i);
	if (high == 1)
		or_word(above + lane * 4, (quad >> low & 0x01010101) << (4 * b + i));
	else if (high == 2)
		or_word(above + lane * 8 + b * 4, (quad >> low & 0x03030303) << 2 * i);
}

/* A code that exceeds its weight is moved to the top of its byte, and becomes a signed byte by
 * flipping its sign bit. */
ALWAYS void put_codes(enum k_type type, const struct place *p, int32_t block, const uint8_t *code)
{
	const uint32_t flip = (uint32_t)k_facts_of(type).bias * 0x01010101u;

	for (int32_t n = 0; n < 8; n++) {
		const int32_t t = k_has_halves(type) ? n % 4 : n / 2,
					  j = k_has_halves(type) ? n / 4 : n % 2;
		uint32_t quad;

		memcpy(&quad, code + 4 * n, sizeof quad);
		put_quad(type, p, block / 2, block % 2, p->g * 4 + t, p->half + 2 * j, quad ^ flip);
	}
}

/* Stores the scale of a block of the file, and the minimum beside it. */
ALWAYS void put_entry(enum k_type type, uint8_t *at, const uint8_t *raw, bool second)
{
	const size_t number = k_facts_of(type).number == K_NUM_E8M0 ? 1 : 2;

	memcpy(at, raw + k_facts_of(type).at, number);
	if (second)
		memcpy(at + number, raw + k_second_half_at(type), number);
}

/* Stores the scales of a block of the file, which begins at block `block` of 32. */
ALWAYS void put_scales(enum k_type type, const struct place *p, int32_t block, const uint8_t *raw)
{
	uint8_t *at =
		p->tile + cu_scales_at(type, p->pairs) + (size_t)(block / 2) * (size_t)cu_scale_bytes(type);
	const int32_t row = p->g * 2 + p->half, bytes = cu_row_bytes(type),
				  words = 4 * k_sub_words(type);

	if (!k_has_subs(type)) {
		put_entry(type, at + (row * 2 + block % 2) * k_entry_bytes(type), raw, k_has_min(type));
		return;
	}
	memcpy(at + row * bytes + (bytes - words), raw + k_sub_words_at(type), (size_t)words);
	if (cu_tail_bytes(type))
		put_entry(
			type, at + CU_TILE_ROWS * bytes + row * cu_tail_bytes(type), raw, k_has_min(type));
	else
		put_entry(type, at + row * bytes, raw, true);
}

ALWAYS void pack_blocks(enum k_type type, const struct place *p, const uint8_t *raw, int32_t n_cols)
{
	const int32_t per = k_facts_of(type).block / K_QBLOCK;

	for (int32_t block = 0; block < n_cols / K_QBLOCK; block++) {
		uint8_t code[K_QBLOCK];

		if (block % per == 0)
			put_scales(type, p, block, raw);
		k_read_codes(type, raw, block % per, code);
		put_codes(type, p, block, code);
		if (block % per == per - 1)
			raw += k_facts_of(type).bytes;
	}
}

static void pack_floats(enum k_type type, const struct place *p, const uint8_t *raw, int32_t n_cols)
{
	const int32_t step = cu_float_step(type), segments = cu_segments(n_cols);
	const size_t bytes = (size_t)cu_float_bytes(type);

	for (int32_t k = 0; k < n_cols; k += step) {
		const int32_t count = k_min(n_cols - k, step);

		memcpy(p->tile + cu_float_at(type, segments, k / CU_SEGMENT, p->g + 8 * p->half,
							 k % CU_SEGMENT / step),
			raw + (size_t)k * bytes, (size_t)count * bytes);
	}
}

/* The format is a compile-time constant: the shifts and sizes follow from it. */
static void pack_row(enum k_type type, const struct place *p, const uint8_t *raw, int32_t n_cols)
{
	switch (type) {
#define X(name, id, n, ...)                                                                        \
	case K_##name:                                                                                 \
		if (n > 1)                                                                                 \
			pack_blocks(K_##name, p, raw, n_cols);                                                 \
		else                                                                                       \
			pack_floats(K_##name, p, raw, n_cols);                                                 \
		break;
		K_TYPES(X)
#undef X
	case K_N_TYPES: break;
	}
}

void cu_pack(struct k_matrix *m, const void *raw, int32_t first, int32_t n)
{
	const size_t bytes = cu_tile_bytes((int32_t)m->type, m->n_cols);
	const size_t row_bytes = k_row_bytes((int32_t)m->type, m->n_cols);

	for (int32_t i = 0; i < n; i++) {
		struct place p = {
			.tile = (uint8_t *)m->data + (size_t)((first + i) / CU_TILE_ROWS) * bytes,
			.pairs = cu_pairs(m->n_cols),
			.g = i % 8,
			.half = i / 8 % 2,
		};

		if (i % CU_TILE_ROWS == 0)
			memset(p.tile, 0, bytes);
		pack_row(m->type, &p, (const uint8_t *)raw + (size_t)i * row_bytes, m->n_cols);
	}
}
