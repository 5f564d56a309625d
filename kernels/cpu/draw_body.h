/* The passes of draw.h, written so that compilers vectorise them: every loop runs over a block of
 * independent elements. Included by draw.c and draw_avx2.c, which define the table. Sums are of
 * integers, so the order of lanes does not matter. */
#include "kernels/arith.h"
#include "kernels/draw.h"

/* Integers in the order of floats, and back: integer maxima reduce in any order. */
static inline int32_t to_key(float x)
{
	int32_t b = (int32_t)k_bits(x);

	return b ^ ((b >> 31) & 0x7fffffff);
}

static inline float from_key(int32_t key)
{
	return k_float((uint32_t)(key ^ ((key >> 31) & 0x7fffffff)));
}

static float pass_scale(const float *restrict l, int32_t n_blocks, float factor, float *restrict y,
	float *restrict block_max)
{
	int32_t best = INT32_MIN;

	for (int32_t b = 0; b < n_blocks; b++) {
		int32_t max = INT32_MIN;

		for (int i = 0; i < K_DRAW_BLOCK; i++) {
			float v = l[b * K_DRAW_BLOCK + i] * factor;
			int32_t key = to_key(v);

			y[b * K_DRAW_BLOCK + i] = v;
			max = key > max ? key : max;
		}
		block_max[b] = from_key(max);
		best = max > best ? max : best;
	}
	return from_key(best);
}

static uint64_t pass_weigh(const float *restrict y, int32_t n_blocks, float max, float *restrict e)
{
	uint64_t sum = 0;

	for (int32_t b = 0; b < n_blocks; b++) {
		const float *in = y + b * K_DRAW_BLOCK;
		float *out = e + b * K_DRAW_BLOCK;

		for (int i = 0; i < K_DRAW_BLOCK; i++)
			out[i] = k_exp(k_logit_depth(in[i], max));
		for (int i = 0; i < K_DRAW_BLOCK; i++)
			sum += k_mass(out[i]);
	}
	return sum;
}

enum { QUADS = K_DRAW_BLOCK / 4 };

#ifdef __AVX2__
#include <immintrin.h>

/* Four counters, each word in the low half of 64 bits: one multiplication gives both halves of the
 * product where the next round needs them. The high halves are never read. */
static inline void philox_four(uint32_t quad, const struct k_draw_key *key, uint32_t (*word)[QUADS])
{
	__m256i c0 = _mm256_add_epi64(_mm256_set1_epi64x(quad), _mm256_setr_epi64x(0, 1, 2, 3));
	__m256i c1 = _mm256_set1_epi64x(key->pos), c2 = _mm256_set1_epi64x(key->sample);
	__m256i c3 = _mm256_set1_epi64x(key->purpose);
	__m256i m0 = _mm256_set1_epi64x(0xD2511F53), m1 = _mm256_set1_epi64x(0xCD9E8D57);
	uint32_t k0 = (uint32_t)key->seed, k1 = (uint32_t)(key->seed >> 32);
	__m256i even = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6), c[4];

	for (int round = 0; round < 10; round++) {
		__m256i p0 = _mm256_mul_epu32(c0, m0), p1 = _mm256_mul_epu32(c2, m1);

		c0 = _mm256_xor_si256(
			_mm256_srli_epi64(p1, 32), _mm256_xor_si256(c1, _mm256_set1_epi64x(k0)));
		c2 = _mm256_xor_si256(
			_mm256_srli_epi64(p0, 32), _mm256_xor_si256(c3, _mm256_set1_epi64x(k1)));
		c1 = p1;
		c3 = p0;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	c[0] = c0, c[1] = c1, c[2] = c2, c[3] = c3;
	for (int i = 0; i < 4; i++)
		_mm_storeu_si128((__m128i *)(void *)word[i],
			_mm256_castsi256_si128(_mm256_permutevar8x32_epi32(c[i], even)));
}
#else
static inline void philox_four(uint32_t quad, const struct k_draw_key *key, uint32_t (*word)[QUADS])
{
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t out[4];

		k_draw_words(key->seed, quad + i, key->pos, key->sample, key->purpose, out);
		for (int w = 0; w < 4; w++)
			word[w][i] = out[w];
	}
}
#endif

static bool pass_contest(const float *restrict e, int32_t block, float arrival,
	const struct k_draw_key *key, float *restrict u)
{
	uint32_t word[4][QUADS];
	int32_t any = 0;

	for (int i = 0; i < QUADS; i += 4)
		philox_four((uint32_t)(block * QUADS + i), key, (uint32_t(*)[QUADS])(void *)&word[0][i]);
	for (int i = 0; i < QUADS; i++)
		for (int w = 0; w < 4; w++)
			u[4 * i + w] = k_uniform(word[w][i]);
	for (int i = 0; i < K_DRAW_BLOCK; i++)
		any |= k_draw_may_win(u[i], e[i], arrival);
	return any;
}

static void pass_wait_ids(
	const int32_t *restrict id, int32_t n, const struct k_draw_key *key, float *restrict wait)
{
	uint32_t seed_lo = (uint32_t)key->seed, seed_hi = (uint32_t)(key->seed >> 32);
	uint32_t pos = key->pos, sample = key->sample, purpose = key->purpose;

	for (int32_t i = 0; i < n; i++) {
		uint32_t counter[4] = { (uint32_t)id[i] / 4, pos, sample, purpose };
		uint32_t seed[2] = { seed_lo, seed_hi }, out[4], even, odd;

		k_philox(counter, seed, out);
		even = id[i] & 2 ? out[2] : out[0];
		odd = id[i] & 2 ? out[3] : out[1];
		wait[i] = -k_log(k_uniform(id[i] & 1 ? odd : even));
	}
}

static void pass_arrive_ids(const float *restrict y, const int32_t *restrict id, int32_t n,
	float max, const struct k_draw_key *key, float *restrict arrival)
{
	pass_wait_ids(id, n, key, arrival);
	for (int32_t i = 0; i < n; i++)
		arrival[i] = arrival[i] * k_exp(max - y[id[i]]);
}
