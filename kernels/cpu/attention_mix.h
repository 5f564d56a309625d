/* The inner loops of attention, for any vector width: sums over k of a[q][k] * b[k][lane], each a
 * chain of fused multiply-adds in ascending k (rule 11). Scores: k are dimensions, lanes are the
 * tokens of a group; the weighted sum of values: k are tokens, lanes are dimensions.
 *
 * Included by one file per instruction set, which defines VEC (a vector), LANES of it, and
 * vec_set1, vec_fma(a, b, c), vec_load, vec_store, and for each format of the cache vec_<format>,
 * which loads LANES of its numbers. A tile of queries by vectors stays in registers; b is converted
 * once for all queries of the tile.
 *
 * For codes (format/codes.h) it also defines VEC_CODES, a vector of words, key_words_<bits>, which
 * loads those of LANES tokens, value_words_<bits>, those of a token's 64 channels, of which the
 * first `shift` / bits * 8 are not wanted; and vec_key_code, vec_value_code, which give vector v of
 * their codes. */

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

/* a: query q's k-th number at a[q * a_stride + k]. out: query q's lanes at out + q * out_stride. */
#define MIX_HINT 2
#define MIX(form, nq, nv)                                                                          \
	static void mix_##form##_##nq##_##nv(                                                          \
		const struct mix_lanes *b, const float *a, size_t a_stride, float *out, size_t out_stride) \
	{                                                                                              \
		VEC acc[nq][nv];                                                                           \
                                                                                                   \
		for (int q = 0; q < (nq); q++)                                                             \
			for (int v = 0; v < (nv); v++)                                                         \
				acc[q][v] = vec_set1(0);                                                           \
		for (const struct mix_run *r = b->at; r < b->at + b->n_runs; r++) {                        \
			const cell_##form *at[nv];                                                             \
			const float *x = a + r->k;                                                             \
                                                                                                   \
			for (int v = 0; v < (nv); v++)                                                         \
				at[v] =                                                                            \
					(const cell_##form *)(const void *)r->ptr[v * LANES / 16] + v * LANES % 16;    \
			for (int32_t k = 0; k < r->n; k++, x++) {                                              \
				VEC s[nq], w[nv];                                                                  \
                                                                                                   \
				for (int i = k % 2; i < (nv)*LANES / 16; i += 2)                                   \
					__builtin_prefetch(r->ahead[i] + k / 2 * 64, 0, MIX_HINT);                     \
				if ((nq) < (nv)) { /* whichever takes fewer registers is loaded first */           \
					for (int q = 0; q < (nq); q++)                                                 \
						s[q] = vec_set1(x[(size_t)q * a_stride]);                                  \
					for (int v = 0; v < (nv); v++) {                                               \
						w[0] = vec_##form(at[v] + (size_t)k * b->stride);                          \
						for (int q = 0; q < (nq); q++)                                             \
							acc[q][v] = vec_fma(s[q], w[0], acc[q][v]);                            \
					}                                                                              \
				} else {                                                                           \
					for (int v = 0; v < (nv); v++)                                                 \
						w[v] = vec_##form(at[v] + (size_t)k * b->stride);                          \
					for (int q = 0; q < (nq); q++) {                                               \
						s[0] = vec_set1(x[(size_t)q * a_stride]);                                  \
						for (int v = 0; v < (nv); v++)                                             \
							acc[q][v] = vec_fma(s[0], w[v], acc[q][v]);                            \
					}                                                                              \
				}                                                                                  \
			}                                                                                      \
		}                                                                                          \
		for (int q = 0; q < (nq); q++)                                                             \
			for (int v = 0; v < (nv); v++)                                                         \
				vec_store(out + (size_t)q * out_stride + v * LANES, acc[q][v]);                    \
	}

typedef void mix_fn(
	const struct mix_lanes *b, const float *a, size_t a_stride, float *out, size_t out_stride);

/* Codes of a group's keys with nq queries. fold: [nq, head_dim] the queries times the scales; z:
 * [nq] the queries times the minima, where the chains begin. out: [nq, K_SPAN]. */
typedef void keys_fn(const unsigned char *group, const unsigned char *ahead, int32_t head_dim,
	const float *fold, const float *z, float *out);
#define KEYS(bits, nq)                                                                             \
	static void keys_##bits##_##nq(const unsigned char *group, const unsigned char *ahead,         \
		int32_t head_dim, const float *fold, const float *z, float *out)                           \
	{                                                                                              \
		enum { NV = K_GROUP / LANES };                                                             \
		VEC acc[nq][NV];                                                                           \
                                                                                                   \
		for (int q = 0; q < (nq); q++)                                                             \
			for (int v = 0; v < NV; v++)                                                           \
				acc[q][v] = vec_set1(z[q]);                                                        \
		for (int32_t c = 0; c < head_dim; c += 8) {                                                \
			VEC_CODES word[NV];                                                                    \
                                                                                                   \
			__builtin_prefetch(ahead + c * 8, 0, MIX_HINT);                                        \
			for (int v = 0; v < NV; v++)                                                           \
				word[v] = key_words_##bits(group + (c / 8 * K_GROUP + v * LANES) * (bits));        \
			_Pragma("GCC unroll 8") for (int j = 0; j < 8; j++)                                    \
			{                                                                                      \
				VEC k[NV];                                                                         \
                                                                                                   \
				for (int v = 0; v < NV; v++)                                                       \
					k[v] = vec_key_code(word[v], j, bits);                                         \
				for (int q = 0; q < (nq); q++) {                                                   \
					const VEC x = vec_set1(fold[q * head_dim + c + j]);                            \
                                                                                                   \
					for (int v = 0; v < NV; v++)                                                   \
						acc[q][v] = vec_fma(x, k[v], acc[q][v]);                                   \
				}                                                                                  \
			}                                                                                      \
		}                                                                                          \
		for (int q = 0; q < (nq); q++)                                                             \
			for (int v = 0; v < NV; v++)                                                           \
				vec_store(out + q * K_SPAN + v * LANES, acc[q][v]);                                \
	}
#define ALL_KEYS(bits)                                                                             \
	KEYS(bits, 1) KEYS(bits, 2) KEYS(bits, 3) KEYS(bits, 4) KEYS(bits, 5) KEYS(bits, 6)
#define KEYS_ROW(bits)                                                                             \
	{                                                                                              \
		NULL, keys_##bits##_1, keys_##bits##_2, keys_##bits##_3, keys_##bits##_4, keys_##bits##_5, \
			keys_##bits##_6                                                                        \
	}

/* Codes of values, weighted by a[q][k], as MIX has it: ptr[0] is the words of 64 channels of which
 * the wanted ones begin at bit `shift`. */
typedef void values_fn(
	const struct mix_lanes *b, int32_t shift, const float *a, float *out, size_t out_stride);
#define VALUES(bits, nq, nv)                                                                       \
	static void values_##bits##_##nq##_##nv(                                                       \
		const struct mix_lanes *b, int32_t shift, const float *a, float *out, size_t out_stride)   \
	{                                                                                              \
		VEC acc[nq][nv];                                                                           \
                                                                                                   \
		for (int q = 0; q < (nq); q++)                                                             \
			for (int v = 0; v < (nv); v++)                                                         \
				acc[q][v] = vec_set1(0);                                                           \
		for (const struct mix_run *r = b->at; r < b->at + b->n_runs; r++) {                        \
			const unsigned char *at = r->ptr[0];                                                   \
			const float *p = a + r->k;                                                             \
                                                                                                   \
			for (int32_t k = 0; k < r->n; k++, p++, at += b->stride) {                             \
				const VEC_CODES word = value_words_##bits(at, shift);                              \
				VEC x[nq];                                                                         \
                                                                                                   \
				__builtin_prefetch(r->ahead[0] + k * 64, 0, MIX_HINT);                             \
				for (int q = 0; q < (nq); q++)                                                     \
					x[q] = vec_set1(p[q * K_SPAN]);                                                \
				_Pragma("GCC unroll 8") for (int v = 0; v < (nv); v++)                             \
				{                                                                                  \
					const VEC y = vec_value_code(word, v, bits);                                   \
                                                                                                   \
					for (int q = 0; q < (nq); q++)                                                 \
						acc[q][v] = vec_fma(x[q], y, acc[q][v]);                                   \
				}                                                                                  \
			}                                                                                      \
		}                                                                                          \
		for (int q = 0; q < (nq); q++)                                                             \
			for (int v = 0; v < (nv); v++)                                                         \
				vec_store(out + (size_t)q * out_stride + v * LANES, acc[q][v]);                    \
	}
