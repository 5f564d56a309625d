/* The integers of rule 5 by vpdpbusd, for vectors of any width: it multiplies unsigned by signed
 * bytes and adds four products to a 32-bit lane without saturating, so sums are exact. Weights go
 * in as codes that are never negative; sums start from what their excess over the weights adds,
 * negated. Included by a matmul_*.c after matmul_load.h, with v_dpbusd(sum, codes,
 * activations), TILES and MAX_ROWS (matmul_body.h). Thread: any; no state. */

/* By how much the codes exceed the weights. */
INLINE int excess_of(enum k_type type)
{
	return -k_least(type);
}

INLINE int act_words(enum k_type type)
{
	return act_head(type) + K_QBLOCK / 4;
}

/* Few rows wait for memory: gcc is kept from reading weights out of order, which cost a core of Zen
 * 4 a fifth of its reads. */
INLINE void in_order(int n)
{
	if (n <= 4)
		__asm__ volatile("" ::: "memory");
}

/* A quad of n rows and n_tiles tiles. */
INLINE void add_quads(enum k_type type, int n_tiles, int n, const VECI w[TILES], const int32_t *x,
	VECI sum[TILES][MAX_ROWS])
{
	for (int r = 0; r < n; r++, x += act_words(type)) {
		const VECI quad = load_word(x);

		for (int t = 0; t < n_tiles; t++)
			sum[t][r] = v_dpbusd(sum[t][r], w[t], quad);
	}
}

/* One block of 32 columns of n_tiles tiles times n rows: exact sums of each half in each lane,
 * added to lo and hi, which may be one (and are for codes of 8 bits). */
INLINE void dot(const struct k_tile_call *c, enum k_type type, bool flat, int n_tiles, int n,
	const uint8_t *w, const int32_t *q, VECI lo[TILES][MAX_ROWS], VECI hi[TILES][MAX_ROWS])
{
	VECI v[2][TILES];

	if (k_low_bits(type) == 8) {
		for (int j = 0; j < 8; j++) {
			for (int t = 0; t < n_tiles; t++)
				v[0][t] = load(w + (size_t)t * c->tile_bytes + j * LANES * 4);
			add_quads(type, n_tiles, n, v[0], q + j, lo);
			in_order(n);
		}
		return;
	}
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		for (int t = 0; t < n_tiles; t++)
			load_weights(type, flat, w + (size_t)t * c->tile_bytes, j, &v[0][t], &v[1][t]);
		add_quads(type, n_tiles, n, v[0], q + j, lo);
		add_quads(type, n_tiles, n, v[1], q + j + 4, hi);
		in_order(n);
	}
}

/* Sums of the halves, or what their codes' excess adds to the sums of products, negated. */
INLINE void put_sums(enum k_type type, const int8_t *q, int32_t *out)
{
	const __m128i sums = half_sums(q);

	if (k_has_two_terms(type))
		_mm_storeu_si32(out, _mm_packs_epi32(sums, sums));
	else if (k_has_halves(type))
		_mm_storeu_si64(out, _mm_mullo_epi32(sums, _mm_set1_epi32(-excess_of(type))));
	else
		out[0] = -excess_of(type) * (_mm_cvtsi128_si32(sums) + _mm_extract_epi32(sums, 1));
}

INLINE void put_quads(enum k_type type, const int8_t *q, int32_t *out)
{
	(void)type;
	_mm256_storeu_si256((__m256i *)(void *)out, load_block(q));
}

/* What the sums of a row's block start from: lo and hi of its halves, or of both in lo. */
INLINE void start(enum k_type type, const int32_t *x, VECI *lo, VECI *hi)
{
	const bool excess = excess_of(type) != 0;

	*lo = excess ? load_word(x + ACT_SUM) : V(set1_epi32)(0);
	*hi = excess && k_has_halves(type) ? load_word(x + ACT_SUM + 1) : V(set1_epi32)(0);
}

/* The integer of rule 5, as a float. With sub-scales it is composed in floats, exactly: each part
 * is below 2^23 and the whole below 2^24. */
INLINE void dot_block(const struct k_tile_call *c, enum k_type type, bool flat, int n_tiles, int n,
	const int32_t *x, const SUB *const *sub, const uint8_t *w, VEC sum[TILES][MAX_ROWS])
{
	const bool halves = k_has_halves(type);
	VECI lo[TILES][MAX_ROWS], hi[TILES][MAX_ROWS];

	for (int r = 0; r < n; r++) {
		start(type, x + r * act_words(type), &lo[0][r], &hi[0][r]);
		for (int t = 1; t < n_tiles; t++)
			lo[t][r] = lo[0][r], hi[t][r] = hi[0][r];
	}
	dot(c, type, flat, n_tiles, n, w, x + act_head(type), lo, halves ? hi : lo);
	for (int t = 0; t < n_tiles; t++)
		for (int r = 0; r < n; r++) {
			sum[t][r] = V(cvtepi32_ps)(lo[t][r]);
			if (halves)
				sum[t][r] = V(fmadd_ps)(
					sub[t][1], V(cvtepi32_ps)(hi[t][r]), V(mul_ps)(sub[t][0], sum[t][r]));
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
