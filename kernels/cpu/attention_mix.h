/* The inner loops of attention, for any vector width: sums over k of a[q][k] * b[k][lane], each a
 * chain of fused multiply-adds in ascending k (rule 11). Scores: k are dimensions, lanes are the
 * tokens of a group; the weighted sum of values: k are tokens, lanes are dimensions.
 *
 * Included by one file per instruction set, which defines VEC (a vector), LANES of it, and
 * vec_set1, vec_fma(a, b, c), vec_load, vec_store, and for each format of the cache vec_<format>,
 * which loads LANES of its numbers. A tile of queries by vectors stays in registers; b is converted
 * once for all queries of the tile. Where registers hold more than usual tiles it defines TILES.
 *
 * For codes (format/codes.h) it also defines VEC_INT, a vector of 32-bit lanes or of what leads to
 * them, vec_int_load, vec_zero, vec_set1_int, vec_codes, which gives the j-th code of each byte,
 * vec_dot(sum, codes, integers), which adds products of bytes to a sum that
 * holds those of EXACT bits of codes, vec_total, which adds it to sums of 32 bits, and
 * vec_code_sum, k_code_sum() of these. */

/* A number in each format of the cache. */
typedef uint16_t cell_f16, cell_bf16;
typedef float cell_f32;
typedef uint8_t cell_e4m3;
typedef int8_t cell_q8;

/* A run of n neighbouring k, from k on. Their lanes: 16 at each of ptr[], the next k one stride
 * later. `ahead` is the data read next, a piece for each 16 lanes: while the run's k are used, as
 * many bytes of each piece are prefetched to the L2 cache, a line for two k. */
struct mix_run {
	int32_t k, n;
	const unsigned char *ptr[4], *ahead[4];
};

/* All k of b, ascending. A run lies within a group, so there are most if rows see every other
 * token. The stride is in elements. */
enum { MIX_RUNS = K_SPAN / 2 };
struct mix_lanes {
	int32_t n_runs;
	size_t stride;
	struct mix_run at[MIX_RUNS];
};

/* The tiles of a kind, `fn`, for a format or bits: queries, and lanes / 16. */
#ifndef TILES
#define TILES(DO, fn, form)                                                                        \
	DO(fn, form, 1, 1)                                                                             \
	DO(fn, form, 1, 2)                                                                             \
	DO(fn, form, 1, 4)                                                                             \
	DO(fn, form, 2, 1)                                                                             \
	DO(fn, form, 2, 2)                                                                             \
	DO(fn, form, 3, 1)                                                                             \
	DO(fn, form, 3, 2)                                                                             \
	DO(fn, form, 4, 1)                                                                             \
	DO(fn, form, 5, 1)                                                                             \
	DO(fn, form, 6, 1)
#endif
#define TILE_ENTRY(fn, form, nq, n) [nq][n] = fn##_##form##_##nq##_##n,

/* a: query q's k-th number at a[q * a_stride + k]. out: query q's lanes at out + q * out_stride. */
#define MIX_HINT 2
#ifndef MIX_UNROLL
#define MIX_UNROLL /* for a compiler that has to be told, or the sums are stored in every step */
#endif
#define MIX_EACH(i, n) MIX_UNROLL for (int i = 0; i < (n); i++)
#define MIX(fn, form, nq, sixteens)                                                                \
	static void fn##_##form##_##nq##_##sixteens(                                                   \
		const struct mix_lanes *b, const float *a, size_t a_stride, float *out, size_t out_stride) \
	{                                                                                              \
		enum { NV = (sixteens)*16 / LANES };                                                       \
		VEC acc[nq][NV];                                                                           \
                                                                                                   \
		MIX_EACH(q, nq) MIX_EACH(v, NV) acc[q][v] = vec_set1(0);                                   \
		for (const struct mix_run *r = b->at; r < b->at + b->n_runs; r++) {                        \
			const cell_##form *at[NV];                                                             \
			const float *x = a + r->k;                                                             \
                                                                                                   \
			MIX_EACH(v, NV)                                                                        \
			at[v] = (const cell_##form *)(const void *)r->ptr[v * LANES / 16] + v * LANES % 16;    \
			for (int32_t k = 0; k < r->n; k++, x++) {                                              \
				VEC s[nq], w[NV];                                                                  \
                                                                                                   \
				for (int i = k % 2; i < (sixteens); i += 2)                                        \
					__builtin_prefetch(r->ahead[i] + k / 2 * 64, 0, MIX_HINT);                     \
				if ((nq) < (NV)) { /* whichever takes fewer registers is loaded first */           \
					MIX_EACH(q, nq) s[q] = vec_set1(x[(size_t)q * a_stride]);                      \
					MIX_EACH(v, NV)                                                                \
					{                                                                              \
						w[0] = vec_##form(at[v] + (size_t)k * b->stride);                          \
						MIX_EACH(q, nq) acc[q][v] = vec_fma(s[q], w[0], acc[q][v]);                \
					}                                                                              \
				} else {                                                                           \
					MIX_EACH(v, NV) w[v] = vec_##form(at[v] + (size_t)k * b->stride);              \
					MIX_EACH(q, nq)                                                                \
					{                                                                              \
						s[0] = vec_set1(x[(size_t)q * a_stride]);                                  \
						MIX_EACH(v, NV) acc[q][v] = vec_fma(s[0], w[v], acc[q][v]);                \
					}                                                                              \
				}                                                                                  \
			}                                                                                      \
		}                                                                                          \
		MIX_EACH(q, nq)                                                                            \
		MIX_EACH(v, NV) vec_store(out + (size_t)q * out_stride + v * LANES, acc[q][v]);            \
	}

typedef void mix_fn(
	const struct mix_lanes *b, const float *a, size_t a_stride, float *out, size_t out_stride);

/* Products of codes with integers: of a group's keys with nq queries, of a span's values with as
 * many rows of probabilities. */
struct code_factors {
	const int8_t *q; /* [nq], each `stride` after the one before */
	size_t stride;
	struct k_code_factor of[6];
};

/* Four integers, in every lane. */
static inline VEC_INT vec_quad(const int8_t *q)
{
	int32_t quad;

	memcpy(&quad, q, sizeof quad);
	return vec_set1_int(quad);
}

/* A word has four neighbouring k in each of 8 / bits places. One step of a word of `nv` vectors;
 * x: the integers of the first query's first k. Whichever takes fewer registers is loaded first. */
#define CODE_STEP(bits, nq, nv, at, x, stride, acc)                                                \
	_Pragma("GCC unroll 4") for (int j = 0; j < 8 / (bits); j++)                                   \
	{                                                                                              \
		VEC_INT quad[nq], code[nv];                                                                \
                                                                                                   \
		if ((nq) < (nv)) {                                                                         \
			for (int q = 0; q < (nq); q++)                                                         \
				quad[q] = vec_quad((x) + (size_t)q * (stride) + 4 * j);                            \
			for (int v = 0; v < (nv); v++) {                                                       \
				code[0] = vec_codes(vec_int_load((at) + v * LANES * 4), j, bits);                  \
				for (int q = 0; q < (nq); q++)                                                     \
					(acc)[q][v] = vec_dot((acc)[q][v], code[0], quad[q]);                          \
			}                                                                                      \
		} else {                                                                                   \
			for (int v = 0; v < (nv); v++)                                                         \
				code[v] = vec_codes(vec_int_load((at) + v * LANES * 4), j, bits);                  \
			for (int q = 0; q < (nq); q++) {                                                       \
				quad[0] = vec_quad((x) + (size_t)q * (stride) + 4 * j);                            \
				for (int v = 0; v < (nv); v++)                                                     \
					(acc)[q][v] = vec_dot((acc)[q][v], code[v], quad[0]);                          \
			}                                                                                      \
		}                                                                                          \
	}
#define CODE_EACH(nq, nv)                                                                          \
	for (int q = 0; q < (nq); q++)                                                                 \
		for (int v = 0; v < (nv); v++)

/* k after which a sum is added up: its lanes of 16 bits hold half as many codes times integers, 16
 * * 15 * 127 < 2^15. */
#define CODE_EXACT(bits) ((bits) == 4 ? 32 : 128)

/* out: [nq, K_SPAN]. Lanes are tokens, of which nv vectors are done at a time, k are channels. */
typedef void keys_fn(
	const unsigned char *group, int32_t head_dim, const struct code_factors *f, float *out);
#define KEYS(bits, nq)                                                                             \
	static void keys_##bits##_##nq(                                                                \
		const unsigned char *group, int32_t head_dim, const struct code_factors *f, float *out)    \
	{                                                                                              \
		enum { NV = (nq) <= CODE_QUERIES ? K_GROUP / LANES : 1, K = 32 / (bits) };                 \
                                                                                                   \
		for (int32_t t = 0; t < K_GROUP; t += NV * LANES) {                                        \
			VEC_INT total[nq][NV];                                                                 \
                                                                                                   \
			CODE_EACH(nq, NV) total[q][v] = vec_zero();                                            \
			for (int32_t c = 0; c < head_dim; c += CODE_EXACT(bits)) {                             \
				VEC_INT acc[nq][NV];                                                               \
                                                                                                   \
				CODE_EACH(nq, NV) acc[q][v] = vec_zero();                                          \
				for (int32_t i = c; i < c + CODE_EXACT(bits) && i < head_dim; i += K) {            \
					const unsigned char *at = group + (i / K * K_GROUP + t) * 4;                   \
                                                                                                   \
					CODE_STEP(bits, nq, NV, at, f->q + i, f->stride, acc)                          \
				}                                                                                  \
				CODE_EACH(nq, NV) total[q][v] = vec_total(total[q][v], acc[q][v]);                 \
			}                                                                                      \
			CODE_EACH(nq, NV)                                                                      \
			vec_store(out + q * K_SPAN + t + v * LANES, vec_code_sum(&f->of[q], total[q][v]));     \
		}                                                                                          \
	}
#define QUERIES(DO, bits) DO(bits, 1) DO(bits, 2) DO(bits, 3) DO(bits, 4) DO(bits, 5) DO(bits, 6)
#define KEYS_ENTRY(bits, nq) [bits][nq] = keys_##bits##_##nq,

/* The weighted sums of a span's values: lanes are channels from ptr[0] on, k are the tokens of the
 * groups that are the runs of b; b's stride is of words, in bytes. */
typedef void values_fn(
	const struct mix_lanes *b, const struct code_factors *f, float *out, size_t out_stride);
#define VALUES(fn, bits, nq, sixteens)                                                             \
	static void fn##_##bits##_##nq##_##sixteens(                                                   \
		const struct mix_lanes *b, const struct code_factors *f, float *out, size_t out_stride)    \
	{                                                                                              \
		enum { K = 32 / (bits), RUNS = CODE_EXACT(bits) / K_GROUP, NV = (sixteens)*16 / LANES };   \
		VEC_INT total[nq][NV];                                                                     \
                                                                                                   \
		CODE_EACH(nq, NV) total[q][v] = vec_zero();                                                \
		for (int32_t first = 0; first < b->n_runs; first += RUNS) {                                \
			VEC_INT acc[nq][NV];                                                                   \
                                                                                                   \
			CODE_EACH(nq, NV) acc[q][v] = vec_zero();                                              \
			for (int32_t i = first; i < first + RUNS && i < b->n_runs; i++) {                      \
				const unsigned char *at = b->at[i].ptr[0];                                         \
				const int8_t *x = f->q + b->at[i].k;                                               \
                                                                                                   \
				for (int32_t k = 0; k < K_GROUP; k += K, at += b->stride)                          \
					CODE_STEP(bits, nq, NV, at, x + k, f->stride, acc)                             \
			}                                                                                      \
			CODE_EACH(nq, NV) total[q][v] = vec_total(total[q][v], acc[q][v]);                     \
		}                                                                                          \
		CODE_EACH(nq, NV)                                                                          \
		vec_store(out + (size_t)q * out_stride + v * LANES, vec_code_sum(&f->of[q], total[q][v])); \
	}

#define MIXES(form, bytes, doc) TILES(MIX, mix, form)
K_CACHES(MIXES)
MIXES(q8, , )
TILES(VALUES, values, 4)
TILES(VALUES, values, 2)
QUERIES(KEYS, 4)
QUERIES(KEYS, 2)
