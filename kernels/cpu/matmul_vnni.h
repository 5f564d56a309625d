/* The integers of rule 5 by vpdpbusd, for vectors of any width: it multiplies unsigned by signed
 * bytes and adds four products to a 32-bit lane without saturating, so sums are exact. Weights go
 * in as codes that are never negative; sums start from what their excess over the weights adds,
 * negated. Included by a matmul_*.c after matmul_load.h, with v_dpbusd(sum, codes,
 * activations), v_broadcast128, TILES, MAX_ROWS and tiles_of() (matmul_body.h). Thread: any; no
 * state. */

/* Loads quads j and j + 4 of a block as codes: weights minus k_least(), if that is negative. */
INLINE void load_weights(enum k_type type, const uint8_t *w, int j, VECI *lo, VECI *hi)
{
	const int book = k_facts_of(type).book;

	load_codes(type, w, j, lo, hi);
	if (book) {
		const __m128i values =
			_mm_add_epi8(_mm_loadu_si128((const __m128i *)(const void *)k_books[book]),
				_mm_set1_epi8((char)-k_least(type)));
		const VECI codes = v_broadcast128(values);

		*lo = V(shuffle_epi8)(codes, *lo);
		*hi = V(shuffle_epi8)(codes, *hi);
	}
}

/* Quad of column 4j of n rows and n_tiles tiles. */
INLINE void add_quads(const struct k_tile_call *c, int n_tiles, int n, const VECI w[TILES],
	const int8_t *x, VECI sum[TILES][MAX_ROWS])
{
	for (int r = 0; r < n; r++) {
		const VECI quad = load_quad(x + (size_t)r * (size_t)c->dim);

		for (int t = 0; t < n_tiles; t++)
			sum[t][r] = v_dpbusd(sum[t][r], w[t], quad);
	}
}

/* One block of 32 columns of n_tiles tiles times n rows: exact sums of each half in each lane,
 * added to lo and hi, which may be one (and are for codes of 8 bits). */
INLINE void dot(const struct k_tile_call *c, enum k_type type, int n_tiles, int n, const uint8_t *w,
	const int8_t *q, VECI lo[TILES][MAX_ROWS], VECI hi[TILES][MAX_ROWS])
{
	VECI v[2][TILES];

	if (k_low_bits(type) == 8) {
		for (int j = 0; j < 8; j++) {
			for (int t = 0; t < n_tiles; t++)
				v[0][t] = load(w + (size_t)t * c->tile_bytes + j * LANES * 4);
			add_quads(c, n_tiles, n, v[0], q + j * 4, lo);
		}
		return;
	}
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		for (int t = 0; t < n_tiles; t++)
			load_weights(type, w + (size_t)t * c->tile_bytes, j, &v[0][t], &v[1][t]);
		add_quads(c, n_tiles, n, v[0], q + j * 4, lo);
		add_quads(c, n_tiles, n, v[1], q + j * 4 + 16, hi);
	}
}

/* What the sums of a block of a row start from: lo and hi of its halves, or of both in lo. */
INLINE void start(const int16_t *prepared, int32_t excess, bool halves, VECI *lo, VECI *hi)
{
	*lo = *hi = V(set1_epi32)(0);
	if (halves && excess) {
		*lo = V(set1_epi32)(-excess * prepared[0]);
		*hi = V(set1_epi32)(-excess * prepared[1]);
	} else if (excess) {
		*lo = load_quad((const int8_t *)prepared);
	}
}

/* A 32-bit integer a block: what the codes' excess adds to its sum, negated. */
static void prepare_starts(const int8_t *q, size_t n_blocks, int32_t excess, int16_t *out)
{
	EACH_BLOCK(2)
	{
		const __m256i v = quad_sums(q);
		__m128i sum = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

		sum = _mm_hadd_epi32(sum, sum);
		sum = _mm_hadd_epi32(sum, sum);
		store_pair(out, _mm_mullo_epi32(sum, _mm_set1_epi32(-excess)));
	}
}

INLINE int32_t prepared_words(enum k_type type)
{
	return wants_sums(type) ? 2 : 0;
}

static void prepare(enum k_type type, const int8_t *q, size_t n_blocks, int16_t *out)
{
	if (k_has_halves(type) || k_has_two_terms(type))
		prepare_halves(q, n_blocks, out);
	else
		prepare_starts(q, n_blocks, -k_least(type), out);
}

/* The integer of rule 5, as a float. With sub-scales it is composed in floats, exactly: each part
 * is below 2^23 and the whole below 2^24. */
INLINE void dot_block(const struct k_tile_call *c, enum k_type type, int n_tiles, int n, int32_t b,
	const struct scales *s, int half, const uint8_t *w, VEC sum[TILES][MAX_ROWS])
{
	const int32_t excess = -k_least(type);
	const bool halves = k_has_halves(type);
	VECI lo[TILES][MAX_ROWS], hi[TILES][MAX_ROWS];

	for (int r = 0; r < n; r++) {
		start(
			c->prepared + 2 * (r * (c->dim / K_QBLOCK) + b), excess, halves, &lo[0][r], &hi[0][r]);
		for (int t = 1; t < n_tiles; t++)
			lo[t][r] = lo[0][r], hi[t][r] = hi[0][r];
	}
	dot(c, type, n_tiles, n, w, c->q + b * K_QBLOCK, lo, halves ? hi : lo);
	for (int t = 0; t < n_tiles; t++) {
		const VEC *sub = s[t].sub + half;

		for (int r = 0; r < n; r++) {
			sum[t][r] = V(cvtepi32_ps)(lo[t][r]);
			if (halves)
				sum[t][r] =
					V(fmadd_ps)(sub[1], V(cvtepi32_ps)(hi[t][r]), V(mul_ps)(sub[0], sum[t][r]));
		}
	}
}

/* Bytes of the words, as floats. */
INLINE void sub_scales(const VECI words[4], struct scales *s)
{
	for (int i = 0; i < 16; i++) {
		const VECI word = V(slli_epi32)(words[i / 4], 24 - i % 4 * 8);

		s->sub[i] = V(cvtepi32_ps)(V(srai_epi32)(word, 24));
	}
}

INLINE VEC sub_float(VEC sub)
{
	return sub;
}
