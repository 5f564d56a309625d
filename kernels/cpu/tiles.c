/* See tiles.h. Packing, and reading a row back. Thread: called by all threads of a pool; no
 * state. */
#include "kernels/cpu/tiles.h"

#include "kernels/arith.h"
#include "kernels/format/formats.h"

#define ALWAYS static inline __attribute__((always_inline))

enum { MAX_BLOCK_BYTES = 256 };

/* The fields of a block's scales: where in the file's block, how many bytes. Those of blocks of 256
 * fill whole vectors: a scale without a neighbour is stored twice. */
struct field {
	int32_t at, bytes;
};
enum { MAX_FIELDS = 6 };
ALWAYS int32_t fields_of(enum k_type type, struct field field[MAX_FIELDS])
{
	const struct k_facts f = k_facts_of(type);
	const int32_t number = f.number == K_NUM_E8M0 ? 1 : 2;
	int32_t n = 0;

	field[n++] = (struct field){ f.at, number };
	if (f.subs || f.min_at >= 0)
		field[n++] = (struct field){ k_second_half_at(type), number };
	for (int32_t i = 0; i < k_sub_words(type); i++)
		field[n++] = (struct field){ k_sub_words_at(type) + 4 * i, 4 };
	return n;
}

/* Blocks of 32 columns in a block of the file. */
ALWAYS int32_t in_file_block(enum k_type type)
{
	return k_facts_of(type).block / K_QBLOCK;
}

/* Bytes a row of the scales of one block of the file. */
ALWAYS size_t head_bytes(enum k_type type)
{
	const struct k_layout l = k_layout_of(type);

	return (size_t)(l.head / (l.chunk / in_file_block(type)));
}

ALWAYS size_t block_bytes(enum k_type type)
{
	return (size_t)(k_layout_of(type).high + k_layout_of(type).quants);
}

size_t k_tile_bytes(enum k_type type, int32_t lanes, int32_t n_cols)
{
	const size_t n_blocks = (size_t)n_cols / K_QBLOCK, l = (size_t)lanes;
	const size_t chunk = (size_t)k_layout_of(type).chunk, head = (size_t)k_layout_of(type).head;

	if (!k_is_quantised(type))
		return k_align((size_t)n_cols * l * (size_t)k_types[type].block_bytes, 64);
	return k_align(((n_blocks + chunk - 1) / chunk * head + n_blocks * block_bytes(type)) * l, 64);
}

/* Where a block of 32 columns has the scales of its block of the file, and its codes: high bits,
 * then low ones. */
struct place {
	uint8_t *head, *codes;
};

ALWAYS struct place place_of(
	const struct k_tiling *t, enum k_type type, uint8_t *tile, int32_t block)
{
	const struct k_layout l = k_layout_of(type);
	const size_t lanes = (size_t)t->lanes, i = (size_t)(block % l.chunk);
	const size_t head = (size_t)l.head * lanes, one = block_bytes(type) * lanes;
	uint8_t *start = tile + (size_t)(block / l.chunk) * (head + (size_t)l.chunk * one);

	return (struct place){
		.head = start + i / (size_t)in_file_block(type) * head_bytes(type) * lanes,
		.codes = start + head + i * one,
	};
}

/* A plane of some bits of the codes: the word and the bit that quad j has them at (tiles.h). */
ALWAYS int plane_word(int32_t bits, int j)
{
	return bits == 4 ? j % 4 : j * bits / 8;
}
ALWAYS int plane_bit(int32_t bits, int j)
{
	return bits == 4 ? j / 4 * 4 : j * bits % 8;
}
ALWAYS uint32_t plane_mask(int32_t bits)
{
	return ((1u << bits) - 1) * 0x01010101u;
}

/* The xor that turns codes of signed bytes into the form that the unit multiplies. */
ALWAYS uint32_t flip_of(const struct k_tiling *t, enum k_type type)
{
	return k_low_bits(type) == 8 ? t->flip_q8 * 0x01010101u : 0;
}

static uint32_t load_quad(const uint8_t *p)
{
	uint32_t quad;

	memcpy(&quad, p, sizeof quad);
	return quad;
}

ALWAYS void get_plane(
	const struct k_tiling *t, int32_t bits, const uint8_t *from, int to, uint32_t quad[8])
{
	for (int j = 0; j < 8; j++)
		quad[j] |= (load_quad(from + plane_word(bits, j) * t->lanes * 4) >> plane_bit(bits, j) &
					   plane_mask(bits))
				   << to;
}

/* Reads codes back. */
static void get_codes(const struct k_tiling *t, enum k_type type, const struct place *p,
	int32_t lane, uint8_t code[K_QBLOCK])
{
	const int32_t low = k_low_bits(type), high = k_high_bits(type);
	uint32_t quad[8] = { 0 };

	get_plane(t, low, p->codes + (high * t->lanes + lane) * 4, 0, quad);
	if (high)
		get_plane(t, high, p->codes + lane * 4, low, quad);
	for (int j = 0; j < 8; j++)
		quad[j] ^= flip_of(t, type);
	memcpy(code, quad, sizeof quad);
}

enum { LANES = 4 }; /* of these a vector has a word each: they are packed together */

ALWAYS void put_fields(
	const struct k_tiling *t, enum k_type type, uint8_t *head, int32_t lane, const uint8_t *raw)
{
	struct field field[MAX_FIELDS];
	const int32_t n = fields_of(type, field);

#pragma GCC unroll 6 /* sizes are constants then */
	for (int32_t i = 0; i < n; i++) {
		memcpy(head + lane * field[i].bytes, raw + field[i].at, (size_t)field[i].bytes);
		head += t->lanes * field[i].bytes;
	}
}

/* Words of four lanes become lanes of four words. */
ALWAYS void transpose(k_quads v[LANES])
{
	const k_quads a = { v[0][0], v[1][0], v[0][1], v[1][1] };
	const k_quads b = { v[2][0], v[3][0], v[2][1], v[3][1] };
	const k_quads c = { v[0][2], v[1][2], v[0][3], v[1][3] };
	const k_quads d = { v[2][2], v[3][2], v[2][3], v[3][3] };

	v[0] = (k_quads){ a[0], a[1], b[0], b[1] };
	v[1] = (k_quads){ a[2], a[3], b[2], b[3] };
	v[2] = (k_quads){ c[0], c[1], d[0], d[1] };
	v[3] = (k_quads){ c[2], c[3], d[2], d[3] };
}

/* Stores a plane of up to 4 bits of four lanes' 32 codes. Quads j and j + 4 share a word, so that
 * one transposition does; four bits are stored so. */
ALWAYS void put_plane(
	const struct k_tiling *t, int32_t bits, const k_quads half[2][LANES], uint8_t *to)
{
	k_quads v[LANES], word[4] = { 0 };

	for (int i = 0; i < LANES; i++)
		v[i] = half[0][i] | half[1][i] << 4u;
	transpose(v);
	for (int j = 0; bits < 4 && j < 8; j++)
		word[plane_word(bits, j)] |= (v[j % 4] >> (uint32_t)(j / 4 * 4) & plane_mask(bits))
									 << (uint32_t)plane_bit(bits, j);
	for (int i = 0; i < bits; i++)
		memcpy(to + i * t->lanes * 4, bits < 4 ? &word[i] : &v[i], sizeof *v);
}

ALWAYS void put_bytes(const struct k_tiling *t, k_quads half[2][LANES], uint8_t *to)
{
	for (int i = 0; i < 8; i++) {
		if (i % 4 == 0)
			transpose(half[i / 4]);
		memcpy(to + i * t->lanes * 4, &half[i / 4][i % 4], sizeof **half);
	}
}

/* Packs bits of the i-th 32 codes of n of four lanes' blocks at raw. */
ALWAYS void pack_plane(const struct k_tiling *t, int32_t order, int32_t bits, const uint8_t *raw,
	size_t row_bytes, int32_t i, int32_t n, uint8_t *to)
{
	const uint32_t flip = bits == 8 ? (t->flip_q8 ^ 0x80) * 0x01010101u : 0;
	k_quads half[2][LANES] = { 0 };

	for (int32_t lane = 0; lane < n; lane++)
		for (int h = 0; h < 2; h++)
			half[h][lane] = k_read_plane(order, bits, raw + (size_t)lane * row_bytes, i, h) ^ flip;
	if (bits == 8)
		put_bytes(t, half, to);
	else
		put_plane(t, bits, half, to);
}

/* Packs n of four lanes' rows of a tile. Everything but the matrix is a compile-time constant:
 * divisions would take most of the time. */
ALWAYS void pack_lanes(const struct k_tiling *t, const struct k_matrix *m, enum k_type type,
	const uint8_t *raw, uint8_t *tile, int32_t lane, int32_t n)
{
	const struct k_facts f = k_facts_of(type);
	const int32_t per = in_file_block(type), low = k_low_bits(type), high = k_high_bits(type);
	const size_t row_bytes = k_row_bytes((int32_t)type, m->n_cols);

	for (int32_t b = 0; b < m->n_cols / K_QBLOCK; b++, raw += b % per ? 0 : f.bytes) {
		const struct place p = place_of(t, type, tile, b);
		uint8_t *to = p.codes + lane * 4;

		for (int32_t i = 0; b % per == 0 && i < n; i++)
			put_fields(t, type, p.head, lane + i, raw + (size_t)i * row_bytes);
		if (high)
			pack_plane(t, f.high, high, raw + f.high_at, row_bytes, b % per, n, to);
		pack_plane(t, f.low, low, raw + f.low_at, row_bytes, b % per, n, to + high * t->lanes * 4);
	}
}

static void pack_quantised_rows(const struct k_tiling *t, const struct k_matrix *m,
	const uint8_t *raw, uint8_t *tile, int32_t lane, int32_t n)
{
	switch (m->type) {
#define X(name, id, n_block, ...)                                                                  \
	case K_##name:                                                                                 \
		if (n_block > 1 && n == LANES)                                                             \
			pack_lanes(t, m, K_##name, raw, tile, lane, LANES);                                    \
		else if (n_block > 1)                                                                      \
			pack_lanes(t, m, K_##name, raw, tile, lane, n);                                        \
		break;
		K_TYPES(X)
#undef X
	case K_N_TYPES: break;
	}
}

/* bytes: of a number, a compile-time constant. */
ALWAYS void pack_floats(const struct k_tiling *t, const struct k_matrix *m, size_t bytes,
	const uint8_t *raw, uint8_t *tile, int32_t n)
{
	const size_t cols = (size_t)m->n_cols, lanes = (size_t)t->lanes;

	for (size_t k = 0; k < cols; k++)
		for (size_t i = 0; i < (size_t)n; i++)
			memcpy(tile + (k * lanes + i) * bytes, raw + (i * cols + k) * bytes, bytes);
}

static void pack_float_rows(const struct k_tiling *t, const struct k_matrix *m, const uint8_t *raw,
	uint8_t *tile, int32_t lane, int32_t n)
{
	if (m->type == K_F32)
		pack_floats(t, m, 4, raw, tile + lane * 4, n);
	else
		pack_floats(t, m, 2, raw, tile + lane * 2, n);
}

/* Clears the part of a tile of n rows, or more, that packing leaves as it is: at most the padding
 * at its end, if no lane and no block of a chunk is missing. */
static void clear_unused(
	const struct k_tiling *t, const struct k_matrix *m, uint8_t *tile, int32_t n)
{
	const size_t tile_bytes = k_tile_bytes(m->type, t->lanes, m->n_cols);
	const bool whole = n >= t->lanes && m->n_cols / K_QBLOCK % k_layout_of(m->type).chunk == 0;
	const size_t unused = whole ? 64 : tile_bytes;

	memset(tile + tile_bytes - unused, 0, unused);
}

void k_tiles_pack(
	const struct k_tiling *t, struct k_matrix *m, const void *raw, int32_t first, int32_t n)
{
	const size_t tile_bytes = k_tile_bytes(m->type, t->lanes, m->n_cols);
	const size_t row_bytes = k_row_bytes((int32_t)m->type, m->n_cols);
	const uint8_t *row = raw;

	for (int32_t i = first; i < first + n; i += LANES, row += LANES * row_bytes) {
		const int32_t left = first + n - i, lane = i % t->lanes;
		const int32_t count = k_min(left, LANES);
		uint8_t *tile = (uint8_t *)m->data + (size_t)(i / t->lanes) * tile_bytes;

		if (lane == 0)
			clear_unused(t, m, tile, left);
		if (k_is_quantised(m->type))
			pack_quantised_rows(t, m, row, tile, lane, count);
		else
			pack_float_rows(t, m, row, tile, lane, count);
	}
}

static float load_half(const uint8_t *p, bool bf16)
{
	uint16_t h;

	memcpy(&h, p, sizeof h);
	return bf16 ? k_bf16_to_f32(h) : k_f16_to_f32(h);
}

static void read_float_row(
	const struct k_tiling *t, const struct k_matrix *w, const uint8_t *tile, int32_t lane, float *x)
{
	for (int32_t k = 0; k < w->n_cols; k++) {
		size_t i = k_index(k, t->lanes, lane);

		if (w->type == K_F32)
			memcpy(x + k, tile + i * 4, sizeof *x);
		else
			x[k] = load_half(tile + i * 2, w->type == K_BF16);
	}
}

static void read_quantised_row(
	const struct k_tiling *t, const struct k_matrix *w, uint8_t *tile, int32_t lane, float *x)
{
	struct field field[MAX_FIELDS];
	const int32_t n_fields = fields_of(w->type, field);

	for (int32_t b = 0; b < w->n_cols / K_QBLOCK; b++, x += K_QBLOCK) {
		struct place p = place_of(t, w->type, tile, b);
		uint8_t raw[MAX_BLOCK_BYTES] = { 0 }, code[K_QBLOCK];
		int8_t value[K_QBLOCK];
		struct k_scales s;

		for (int32_t i = 0; i < n_fields; i++) {
			memcpy(raw + field[i].at, p.head + lane * field[i].bytes, (size_t)field[i].bytes);
			p.head += t->lanes * field[i].bytes;
		}
		k_read_scales(w->type, raw, b % in_file_block(w->type), &s);
		get_codes(t, w->type, &p, lane, code);
		k_values(w->type, code, value);
		for (int k = 0; k < K_QBLOCK; k++)
			x[k] = k_weight(&s, k, value[k]);
	}
}

void k_tiles_embed(const struct k_tiling *t, const struct k_embed *a, int tid, int n_threads)
{
	const struct k_matrix *w = a->w;
	const size_t tile_bytes = k_tile_bytes_of(t, w);
	int64_t lo, hi;

	k_split(a->n, tid, n_threads, &lo, &hi);
	for (int64_t r = lo; r < hi; r++) {
		uint8_t *tile = (uint8_t *)w->data + (size_t)(a->ids[r] / t->lanes) * tile_bytes;
		float *x = a->x + (size_t)r * (size_t)w->n_cols;

		if (w->pairs)
			k_pairs_read(w, t->lanes, tile, a->ids[r] % t->lanes,
				(struct k_pairs_part){ 0, w->n_cols, 1 }, x);
		else if (k_is_quantised(w->type))
			read_quantised_row(t, w, tile, a->ids[r] % t->lanes, x);
		else
			read_float_row(t, w, tile, a->ids[r] % t->lanes, x);
		k_embed_scale(a, x);
	}
}
