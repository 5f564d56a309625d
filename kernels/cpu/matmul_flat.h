/* Quantised tiles unpacked once for many rows (tiles.h), for any width of vectors: where codes take
 * more instructions to unpack than a few rows leave over. Included by matmul_body.h alone. Thread:
 * any; no state. */
/* Vectors of a block of a flat tile: after its eight quads its scale, its minimum or that of its
 * halves' minima, those, and the halves' scales, as far as the format has them. */
enum { FLAT_SCALE = 8 };
INLINE int flat_subs(enum k_type type)
{
	return FLAT_SCALE + 1 + k_has_min(type) + k_has_two_terms(type);
}

INLINE int flat_vectors(enum k_type type)
{
	return flat_subs(type) + 2 * k_has_halves(type);
}

/* Bits above the low ones and scales of halves are worth it where eight rows share what is
 * unpacked, scales of 256 columns and books where four do, and putting lanes in couples always. */
static size_t flat_bytes(enum k_type type, int32_t n_cols)
{
	const bool few = MAX_ROWS <= 4 && (k_has_subs(type) || k_facts_of(type).book);

	if (!k_is_quantised(type) || !(k_high_bits(type) || k_has_halves(type) || few || COUPLES))
		return 0;
	return (size_t)(n_cols / K_QBLOCK * flat_vectors(type)) * sizeof(VECI);
}

INLINE void unpack(enum k_type type, const uint8_t *tile, int32_t n_cols, size_t next, uint8_t *out)
{
	const struct k_layout l = k_layout_of(type);
	const int head = l.head * LANES, block = (l.high + l.quants) * LANES;
	const int32_t n_blocks = n_cols / K_QBLOCK;
	VECI *codes = (VECI *)(void *)out, minima[8];

	for (int32_t b = 0; b < n_blocks; b += l.chunk, tile += head + l.chunk * block) {
		struct scales s;

		prefetch(tile + next, head + l.chunk * block);
		load_scales(type, tile, &s, minima);
		for (int i = 0; i < l.chunk && b + i < n_blocks; i++, codes += flat_vectors(type)) {
			VEC *scale = (VEC *)(void *)(codes + FLAT_SCALE), dw, mw;

			load_all(type, tile + head + i * block, codes);
			block_scales(type, tile, &s, i, &dw, &mw);
			scale[0] = dw;
			if (k_has_min(type))
				scale[1] = mw;
			if (k_has_two_terms(type))
				codes[FLAT_SCALE + 2] = minima[i];
			if (k_has_halves(type))
				memcpy(codes + flat_subs(type), s.sub + 2 * i, 2 * sizeof(SUB));
		}
	}
}

INLINE void flat_tiles(const struct k_tile_call *c, enum k_type type, int n_tiles, int n, int first)
{
	const uint8_t *w = c->tile + (size_t)first * c->tile_bytes;
	const int32_t *x = c->acts;
	VEC acc[TILES][2 * MAX_ROWS];

	clear_tiles(n_tiles, n, acc);
	for (int32_t b = 0; b < c->n_cols / K_QBLOCK; b++, x += n * act_words(type)) {
		const VECI *at[TILES];
		const SUB *sub[TILES];
		VEC sum[TILES][MAX_ROWS];

		for (int t = 0; t < n_tiles; t++) {
			at[t] = (const VECI *)(const void *)(w + t * c->tile_bytes);
			sub[t] = (const SUB *)(const void *)(at[t] + flat_subs(type));
		}
		dot_block(c, type, true, n_tiles, n, x, sub, w, sum);
		for (int t = 0; t < n_tiles; t++) {
			const VEC *scale = (const VEC *)(const void *)(at[t] + FLAT_SCALE);

			add_block(
				type, n, x, scale[0], scale[1], at[t][FLAT_SCALE + 2], sum[t], acc[t], acc[t]);
		}
		w += (size_t)flat_vectors(type) * sizeof(VECI);
	}
	store_tiles(c, n_tiles, n, first, 0, acc);
}
