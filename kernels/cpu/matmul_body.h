/* Matrix products over tiles, for any width of vectors; a lane is an output row and follows the
 * reference's chain (rules 5 and 6). Included by a matmul_*.c after matmul_load.h and its own
 *
 *     void dot_block(call, type, flat, n_tiles, n, x, sub, w, sum)    the integers of rule 5, as
 *                              floats, sub being the scales of the halves of each tile's block
 *     void load_all(type, w, codes)    the eight quads of a block as they are multiplied
 *     void sub_scales(words, scales)    from half_words()
 *     int act_head(type), act_words(type)    words of a row's block, before its integers and in all
 *     void put_sums(type, q, out)     those at ACT_SUM, but for formats with a minimum of a block
 *     void put_quads(type, q, out)    its integers
 *     VEC sub_float(sub)       of either form: exact
 *
 * with MAX_ROWS, 2, 4 or 8: the rows of activations whose sums are kept in registers; TILES; and
 * FLIP_Q8 (see struct k_tiling). Leaves `tiling`, packed_bytes(), pack() and the ops of
 * tiles. Thread: called by all
 * threads of a pool; no state. */
enum { SEGMENT = K_FREE ? 1 << 30 : 64, AHEAD = 6144 };

/* Scales of a single block are read where they are used. */
INLINE void load_scales(enum k_type type, const uint8_t *head, struct scales *s, VECI min[8])
{
	const int subs = k_facts_of(type).subs;

	if (subs == K_SUBS_8X6M)
		k_scales(head, s);
	else if (subs == K_SUBS_8X6)
		xs_scales(head, s);
	if (!k_has_halves(type))
		return;
	for (int i = 0; i < 8; i++)
		s->dw[i] = load_f16(head);
	VECI words[4];

	half_words(subs, head + LANES * 4, words);
	sub_scales(words, s);
	if (k_has_two_terms(type))
		half_minima(head, s, min);
}

/* Of block i of a chunk. */
INLINE void block_scales(
	enum k_type type, const uint8_t *head, const struct scales *s, int i, VEC *dw, VEC *mw)
{
	const struct k_facts f = k_facts_of(type);

	*dw = f.subs                   ? s->dw[i]
		  : f.number == K_NUM_E8M0 ? load_e8m0(head + i * LANES)
								   : load_f16(head + i * LANES * 2);
	*mw = f.subs ? s->mw[i] : load_f16(head + LANES * 2);
}

/* Rule 5: a block with the rows' words x, whose scales these are, and whose integers `sum` has. */
INLINE void add_block(enum k_type type, int n, const int32_t *x, VEC dw, VEC mw, VECI minima,
	const VEC *sum, VEC *acc, VEC *min)
{
	for (int r = 0; r < n; r++) {
		const VEC d = row_float(type, n, x, r, ACT_SCALE), m = of_lanes(mw, n, r);
		VEC t = V(mul_ps)(of_lanes(dw, n, r), sum[r]);

		acc[r] = V(fmadd_ps)(d, t, acc[r]);
		if (k_has_two_terms(type)) {
			t = V(cvtepi32_ps)(
				V(madd_epi16)(row_word(type, n, x, r, ACT_SUM), of_lanes(minima, n, r)));
			min[r] = V(fmadd_ps)(d, V(mul_ps)(m, t), min[r]);
		} else if (k_has_min(type)) {
			min[r] = V(fmadd_ps)(m, row_float(type, n, x, r, ACT_SUM), min[r]);
		}
	}
}

INLINE void prefetch(const uint8_t *p, int bytes)
{
	for (int at = 0; at < bytes; at += 64)
		_mm_prefetch((const char *)p + at, _MM_HINT_T1);
}

/* Whether n rows take lines as fast as they come. Then the processor sees the stream, and fetches
 * better by itself than if it is told to: two cores of Zen 4 read 54 GB/s for 43. */
INLINE bool keeps_pace(enum k_type type, int n)
{
	return (k_has_subs(type) ? 4 : 2) * n <= k_low_bits(type);
}

/* Fetches what is read next, unless a cache has it: of tiles side by side the same piece of those
 * after them. */
INLINE void ahead(
	const struct k_tile_call *c, enum k_type type, int n_tiles, int n, const uint8_t *p, int bytes)
{
	const size_t by = n_tiles > 1 ? (size_t)n_tiles * c->tile_bytes : AHEAD;

	if (keeps_pace(type, n) || (n_tiles > 1 && c->again))
		return;
	for (int t = 0; t < n_tiles; t++)
		prefetch(p + (size_t)t * c->tile_bytes + by, bytes);
}

/* Rule 3: each is added, and rounded, alone. */
INLINE void store(const struct k_tile_call *c, int r, int t, VEC sum)
{
	const size_t at = k_index(r, c->y_dim, t * LANES);

	if (c->bias)
		sum = V(add_ps)(sum, V(loadu_ps)(c->bias + t * LANES));
	if (c->residual)
		sum = V(add_ps)(sum, V(loadu_ps)(c->residual + at));
	V(storeu_ps)(c->y + at, sum);
}

/* The sums of n_tiles tiles from the first, with those of minima behind them. */
INLINE void store_tiles(const struct k_tile_call *c, int n_tiles, int n, int first, int apart,
	VEC acc[TILES][2 * MAX_ROWS])
{
	for (int t = 0; t < n_tiles; t++) {
		for (int r = 0; r < n && apart; r++)
			acc[t][r] = V(add_ps)(acc[t][r], acc[t][r + apart]);
		for (int r = 0; r < n; r++)
			if (!coupled(n) || r < c->n)
				store(c, r, first + t, row_sum(n, acc[t], r));
	}
}

INLINE void clear_tiles(int n_tiles, int n, VEC acc[TILES][2 * MAX_ROWS])
{
	for (int t = 0; t < n_tiles; t++)
		for (int r = 0; r < n; r++)
			acc[t][r] = V(setzero_ps)();
}

/* n_tiles side by side, from the first, share what is loaded of the activations. */
INLINE void quantised_tiles(
	const struct k_tile_call *c, enum k_type type, int n_tiles, int n, int first)
{
	const struct k_layout l = k_layout_of(type);
	const int head = l.head * LANES, block = (l.high + l.quants) * LANES;
	const int32_t n_blocks = c->n_cols / K_QBLOCK;
	const int apart = K_FREE && n <= MAX_ROWS / 2 ? MAX_ROWS : 0; /* minima have sums of their own
																   */
	const uint8_t *tile = c->tile + (size_t)first * c->tile_bytes;
	const int32_t *x = c->acts;
	VEC acc[TILES][2 * MAX_ROWS];

	clear_tiles(n_tiles, n + apart, acc);
	for (int32_t b = 0; b < n_blocks; b += l.chunk, tile += head + l.chunk * block) {
		struct scales s[TILES];
		VECI minima[TILES][8]; /* of halves */

		ahead(c, type, n_tiles, n, tile, l.chunk == 8 ? head : head + l.chunk * block);
		for (int t = 0; t < n_tiles; t++)
			load_scales(type, tile + t * c->tile_bytes, &s[t], minima[t]);
		for (int i = 0; i < l.chunk && b + i < n_blocks; i++, x += n * act_words(type)) {
			const uint8_t *w = tile + head + i * block;
			const SUB *sub[TILES];
			VEC sum[TILES][MAX_ROWS], dw, mw;

			if (l.chunk == 8) /* prevents a burst of so many */
				ahead(c, type, n_tiles, n, w, block);
			for (int t = 0; t < n_tiles; t++)
				sub[t] = s[t].sub + 2 * i;
			dot_block(c, type, false, n_tiles, n, x, sub, w, sum);
			for (int t = 0; t < n_tiles; t++) {
				block_scales(type, tile + t * c->tile_bytes, &s[t], i, &dw, &mw);
				add_block(type, n, x, dw, mw, minima[t][i], sum[t], acc[t], acc[t] + apart);
			}
		}
	}
	store_tiles(c, n_tiles, n, first, apart, acc);
}

#include "kernels/cpu/matmul_flat.h"

INLINE void some_tiles(
	const struct k_tile_call *c, enum k_type type, bool flat, int n_tiles, int n, int first)
{
	if (flat)
		flat_tiles(c, type, n_tiles, n, first);
	else
		quantised_tiles(c, type, n_tiles, n, first);
}

INLINE void quantised(const struct k_tile_call *c, enum k_type type, bool flat, int n)
{
	const int pair = n > 2 ? TILES : 1;
	int32_t t = 0;

	for (; pair > 1 && t + pair <= c->n_tiles; t += pair)
		some_tiles(c, type, flat, pair, n, t);
	for (; t < c->n_tiles; t++)
		some_tiles(c, type, flat, 1, n, t);
}

/* Quads j and j + 4 of a block as signed bytes: the weights before their scales. */
INLINE void load_values(enum k_type type, const uint8_t *w, int j, VECI v[2])
{
	const struct k_facts f = k_facts_of(type);

	if (k_low_bits(type) == 8) {
		const VECI flip = V(set1_epi8)((char)(FLIP_Q8 ^ 0x80));

		for (int h = 0; h < 2; h++)
			v[h] = v_xor(load(w + (j + 4 * h) * 4 * LANES), flip);
		return;
	}
	load_codes(type, w, j, &v[0], &v[1]);
	for (int h = 0; h < 2; h++)
		v[h] = f.book ? v_lookup(k_books[f.book], v[h])
					  : V(sub_epi8)(v[h], V(set1_epi8)((char)f.bias));
}

/* Block i of a chunk, at w, as floats: rule 5, read as vectors. */
INLINE void decode_block(enum k_type type, const uint8_t *head, const struct scales *s,
	const VECI *minima, int i, const uint8_t *w, float *out)
{
	VEC dw, mw, low[2];

	block_scales(type, head, s, i, &dw, &mw);
	low[0] = low[1] = k_has_min(type) ? mw : V(setzero_ps)();
	for (int h = 0; k_has_two_terms(type) && h < 2; h++)
		low[h] =
			V(mul_ps)(mw, V(cvtepi32_ps)(v_and(move(minima[i], 16 * h, 0), V(set1_epi32)(0xffff))));
	for (int j = 0; j < 4; j++) {
		VECI v[2];

		load_values(type, w, j, v);
		for (int h = 0; h < 2; h++)
			for (int c = 0; c < 4; c++) {
				VEC x = V(cvtepi32_ps)(V(srai_epi32)(V(slli_epi32)(v[h], 24 - 8 * c), 24));

				if (k_has_halves(type))
					x = V(mul_ps)(sub_float(s->sub[2 * i + h]), x);
				V(storeu_ps)(out + (16 * h + 4 * j + c) * LANES, V(fmadd_ps)(dw, x, low[h]));
			}
	}
}

INLINE void decode(enum k_type type, const uint8_t *tile, int32_t from, int32_t to,
	const uint64_t *columns, float *out)
{
	const struct k_layout l = k_layout_of(type);
	const int head = l.head * LANES, block = (l.high + l.quants) * LANES;
	const int32_t first = from / K_QBLOCK, end = to / K_QBLOCK;

	for (int32_t b = first; b < end;) {
		const uint8_t *chunk = tile + (size_t)(b / l.chunk) * (size_t)(head + l.chunk * block);
		struct scales s;
		VECI minima[8];

		load_scales(type, chunk, &s, minima);
		for (int i = b % l.chunk; i < l.chunk && b < end; i++, b++)
			if (!columns || (uint32_t)(columns[b / 2] >> b % 2 * 32))
				decode_block(type, chunk, &s, minima, i, chunk + head + i * block,
					out + (size_t)(b - first) * K_QBLOCK * LANES);
	}
}

INLINE VEC load_floats(enum k_type type, const uint8_t *column)
{
	if (type == K_F32)
		return V(load_ps)((const float *)(const void *)column);
	return type == K_F16 ? load_f16(column) : load_bf16(column);
}

/* Column k of n_tiles tiles times n rows; `some`: not those whose value is 0. */
INLINE void add_column(const struct k_tile_call *c, enum k_type type, int n_tiles, int n,
	const uint8_t *w, int32_t k, bool some, VEC seg[K_TILE_GROUP][MAX_ROWS])
{
	const size_t column = LANES * (type == K_F32 ? 4 : 2);
	VEC v[K_TILE_GROUP];

	for (int t = 0; t < n_tiles; t++)
		v[t] = load_floats(type, w + (size_t)t * c->tile_bytes + (size_t)k * column);
	for (int r = 0; r < n; r++) {
		const float one = c->x[k_index(r, c->dim, k)];
		const VEC x = V(set1_ps)(one);

		if (some && one == 0)
			continue;
		for (int t = 0; t < n_tiles; t++)
			seg[t][r] = V(fmadd_ps)(v[t], x, seg[t][r]);
	}
}

#include "kernels/cpu/matmul_pairs.h"

/* Rule 6: n_tiles tiles and n rows at a time, so that their chains hide one another's latency. */
INLINE void float_tiles(
	const struct k_tile_call *c, enum k_type type, int n_tiles, int n, int first)
{
	const uint8_t *w = c->tile + (size_t)first * c->tile_bytes;
	VEC acc[K_TILE_GROUP][MAX_ROWS], seg[K_TILE_GROUP][MAX_ROWS];

	for (int t = 0; t < n_tiles; t++)
		for (int r = 0; r < n; r++)
			acc[t][r] = V(setzero_ps)();
	for (int32_t from = 0; from < c->n_cols; from += SEGMENT) {
		const int32_t to = c->n_cols - from < SEGMENT ? c->n_cols : from + SEGMENT;

		for (int t = 0; t < n_tiles; t++)
			for (int r = 0; r < n; r++)
				seg[t][r] = V(setzero_ps)();
		if (c->pairs)
			for (int32_t b = from / K_QBLOCK; b < to / K_QBLOCK; b++)
				add_pairs(c, type, n_tiles, n, w, b, seg);
		else if (type == K_F32 && c->columns)
			for (int32_t i = from / 64; 64 * i < to; i++)
				for (uint64_t left = c->columns[i]; left; left &= left - 1)
					add_column(c, type, n_tiles, n, w, 64 * i + __builtin_ctzll(left), true, seg);
		else
			for (int32_t k = from; k < to; k++)
				add_column(c, type, n_tiles, n, w, k, false, seg);
		for (int t = 0; t < n_tiles; t++)
			for (int r = 0; r < n; r++)
				acc[t][r] = V(add_ps)(acc[t][r], seg[t][r]);
	}
	for (int t = 0; t < n_tiles; t++)
		for (int r = 0; r < n; r++)
			store(c, r, first + t, acc[t][r]);
}

INLINE void floats(const struct k_tile_call *c, enum k_type type, int n)
{
	int t = 0;

	if (n == 1 && c->n_tiles == K_TILE_GROUP) {
		float_tiles(c, type, K_TILE_GROUP, 1, 0);
		return;
	}
	for (; t + 2 <= c->n_tiles; t += 2)
		float_tiles(c, type, 2, n, t);
	if (t < c->n_tiles)
		float_tiles(c, type, 1, n, t);
}

INLINE void tile_rows(const struct k_tile_call *c, enum k_type type, int n)
{
	if (!k_is_quantised(type))
		floats(c, type, n);
	else if (n == laid(n))
		quantised(c, type, false, n);
}

static int32_t words(enum k_type type)
{
	return act_words(type);
}

INLINE void prepare(
	enum k_type type, const struct k_acts *in, int32_t first, int32_t n, int32_t *out)
{
	const size_t n_blocks = (size_t)in->dim / K_QBLOCK;

	for (size_t b = 0; b < n_blocks; b++, out += laid(n) * act_words(type))
		for (int32_t r = 0; r < laid(n); r++) { /* what a couple lacks is the last row again */
			const size_t at = (size_t)(first + (r < n ? r : n - 1)) * n_blocks + b;
			const int8_t *q = in->q + at * K_QBLOCK;
			int32_t apart[COUPLES ? 12 : 1], *row = coupled(n) ? apart : out + r * act_words(type);

			memcpy(row + ACT_SCALE, in->d + at, sizeof *row);
			if (k_has_min(type) && !k_has_two_terms(type))
				memcpy(row + ACT_SUM, in->sx + at, sizeof *row);
			else
				put_sums(type, q, row + ACT_SUM);
			put_quads(type, q, row + act_head(type));
			if (coupled(n))
				put_row(row, out + r / 2 * 2 * act_words(type) + r % 2 * 2);
		}
}

/* One function a format, and in it one body for each number of rows, with all parameters
 * compile-time constants. */
#define ROWS(n, type)                                                                              \
	case n:                                                                                        \
		tile_rows(c, type, n);                                                                     \
		break;
#define ROWS_2(type) ROWS(1, type) ROWS(2, type)
#define ROWS_4(type) ROWS_2(type) ROWS(3, type) ROWS(4, type)
#if MAX_ROWS == 8
#define ALL_ROWS(type) ROWS_4(type) ROWS(5, type) ROWS(6, type) ROWS(7, type) ROWS(8, type)
#elif MAX_ROWS == 4
#define ALL_ROWS ROWS_4
#else
#define ALL_ROWS ROWS_2
#endif
#define X(name, ...)                                                                               \
	static void tile_##name(const struct k_tile_call *c)                                           \
	{                                                                                              \
		if (c->flat)                                                                               \
			quantised(c, K_##name, true, MAX_ROWS);                                                \
		else                                                                                       \
			switch (k_is_quantised(K_##name) ? laid(c->n) : c->n) {                                \
				ALL_ROWS(K_##name)                                                                 \
			}                                                                                      \
	}                                                                                              \
	static void decode_##name(                                                                     \
		const uint8_t *tile, int32_t from, int32_t to, const uint64_t *columns, float *out)        \
	{                                                                                              \
		if (k_is_quantised(K_##name))                                                              \
			decode(K_##name, tile, from, to, columns, out);                                        \
	}                                                                                              \
	static void prepare_##name(const struct k_acts *in, int32_t first, int32_t n, int32_t *out)    \
	{                                                                                              \
		if (k_is_quantised(K_##name))                                                              \
			prepare(K_##name, in, first, n, out);                                                  \
	}                                                                                              \
	static void unpack_##name(const uint8_t *tile, int32_t n_cols, size_t next, uint8_t *out)      \
	{                                                                                              \
		if (k_is_quantised(K_##name))                                                              \
			unpack(K_##name, tile, n_cols, next, out);                                             \
	}
K_TYPES(X)
#undef X

static const struct k_tiling tiling = {
	.lanes = LANES,
	.max_rows = MAX_ROWS,
	.flip_q8 = FLIP_Q8,
#define X(name, ...) [K_##name] = tile_##name,
	.fn = { K_TYPES(X) },
#undef X
#define X(name, ...) [K_##name] = decode_##name,
	.decode = { K_TYPES(X) },
#undef X
	.words = words,
	.flat_bytes = flat_bytes,
#define X(name, ...) [K_##name] = unpack_##name,
	.unpack = { K_TYPES(X) },
#undef X
#define X(name, ...) [K_##name] = prepare_##name,
	.prepare = { K_TYPES(X) },
#undef X
};

static size_t packed_bytes(enum k_type type, int32_t n_rows, int32_t n_cols)
{
	return (size_t)k_pieces(n_rows, LANES) * k_tile_bytes(type, LANES, n_cols);
}

static void pack(struct k_matrix *m, const void *raw, int32_t first, int32_t n)
{
	k_tiles_pack(&tiling, m, raw, first, n);
}

static void tiled_matmul(struct k_op *op, int tid, int n_threads, void *scratch)
{
	k_tiles_matmul(&tiling, op, tid, n_threads, scratch);
}

static void tiled_embed(struct k_op *op, int tid, int n_threads, void *scratch)
{
	(void)scratch;
	k_tiles_embed(&tiling, &op->u.embed, tid, n_threads);
}

static void tiled_experts(struct k_op *op, int tid, int n_threads, void *scratch)
{
	k_each_expert(op, tid, n_threads, scratch, tiled_matmul);
}

/* An instruction set whose products are this file's: the rest of what it has of its own. */
#define TILED_ISA(isa, attends, multiplies, multiplies_f32)                                        \
	const struct k_isa k_isa_##isa = {                                                             \
		.name = #isa K_ORDER_NAME,                                                                 \
		.runs_here = runs_here,                                                                    \
		.fn = { [K_OP_embed] = tiled_embed,                                                        \
			[K_OP_matmul] = tiled_matmul,                                                          \
			[K_OP_attention] = attends,                                                            \
			[K_OP_experts] = tiled_experts,                                                        \
			K_VEC8_OPS },                                                                          \
		.together = k_together,                                                                    \
		.packed_bytes = packed_bytes,                                                              \
		.pack_unit = LANES,                                                                        \
		.keeps_pairs = true,                                                                       \
		.pack = pack,                                                                              \
		.multiply = multiplies,                                                                    \
		.fma = multiplies_f32,                                                                     \
	};
