/* Private to kernels/, for files compiled for an instruction set only: the functions of arith.h,
 * eight lanes at a time, with the same bits. They are written in the instructions of AVX2, which
 * vec8_neon.h has for AArch64.
 *
 * _mm256_max_ps(a, b) is a > b ? a : b and _mm256_min_ps(a, b) is a < b ? a : b, with b for a NaN:
 * rule 2's selections, with the operands in that order. */
#pragma once

#ifdef __x86_64__
#include <immintrin.h>
#else
#include "kernels/cpu/vec8_neon.h"
#endif

#include "kernels/arith.h"
#include "kernels/cpu/isa.h"

/* Eight numbers in f16. */
static inline __m256 v_halves(const uint16_t *h)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)h));
}

/* The greatest of eight, which a NaN is not. */
static inline float v_greatest(__m256 v)
{
	float lane[8], most = -INFINITY;

	_mm256_storeu_ps(lane, v);
	for (int i = 0; i < 8; i++)
		most = lane[i] > most ? lane[i] : most;
	return most;
}

/* k_exp */
static inline __m256 v_exp(__m256 x)
{
	const __m256 magic = _mm256_set1_ps(0x1.8p23f), one = _mm256_set1_ps(1.0f);
	__m256 t, n, r, p;

	x = _mm256_min_ps(_mm256_set1_ps(88.0f), x);
	x = _mm256_max_ps(_mm256_set1_ps(-87.0f), x);
	t = _mm256_fmadd_ps(x, _mm256_set1_ps(0x1.715476p0f), magic);
	n = _mm256_sub_ps(t, magic);
	r = _mm256_fmadd_ps(n, _mm256_set1_ps(-0x1.62e4p-1f), x);
	r = _mm256_fmadd_ps(n, _mm256_set1_ps(-0x1.7f7d1cp-20f), r);
	p = _mm256_set1_ps(0x1.1239f2p-7f);
	if (!K_FREE)
		p = _mm256_fmadd_ps(_mm256_set1_ps(0x1.6c0f8ep-10f), r, p);
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.5556aap-5f));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.555492p-3f));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.fffff8p-2f));
	p = _mm256_fmadd_ps(p, r, one);
	p = _mm256_fmadd_ps(p, r, one);
	return _mm256_mul_ps(
		p, _mm256_castsi256_ps(_mm256_slli_epi32(
			   _mm256_add_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(127)), 23)));
}

static inline __m256 v_negate(__m256 x)
{
	return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
}

/* k_silu */
static inline __m256 v_silu(__m256 g)
{
	const __m256 e = _mm256_add_ps(_mm256_set1_ps(1.0f), v_exp(v_negate(g)));

	return K_FREE ? _mm256_mul_ps(g, _mm256_rcp_ps(e)) : _mm256_div_ps(g, e);
}

/* k_tanh */
static inline __m256 v_tanh(__m256 x)
{
	const __m256 one = _mm256_set1_ps(1.0f), sign_bit = _mm256_set1_ps(-0.0f);
	__m256 sign = _mm256_and_ps(x, sign_bit), e;

	e = v_exp(_mm256_mul_ps(_mm256_set1_ps(-2.0f), _mm256_andnot_ps(sign_bit, x)));
	return _mm256_or_ps(_mm256_div_ps(_mm256_sub_ps(one, e), _mm256_add_ps(one, e)), sign);
}

/* k_softcap */
static inline __m256 v_softcap(__m256 s, __m256 cap)
{
	return _mm256_mul_ps(v_tanh(_mm256_div_ps(s, cap)), cap);
}

/* k_gelu */
static inline __m256 v_gelu(__m256 x)
{
	__m256 cube =
		_mm256_fmadd_ps(_mm256_mul_ps(_mm256_set1_ps(0.044715f), _mm256_mul_ps(x, x)), x, x);
	__m256 t = v_tanh(_mm256_mul_ps(cube, _mm256_set1_ps(0x1.988454p-1f)));

	return _mm256_mul_ps(
		_mm256_mul_ps(_mm256_set1_ps(0.5f), x), _mm256_add_ps(_mm256_set1_ps(1.0f), t));
}

#ifdef __x86_64__
/* tree(8) */
static inline float v_tree8(__m256 v)
{
	__m128 a = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));

	a = _mm_add_ps(a, _mm_movehl_ps(a, a));
	return _mm_cvtss_f32(_mm_add_ss(a, _mm_shuffle_ps(a, a, 1)));
}

static inline int32_t v_max_epi32(__m256i v)
{
	__m128i a = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

	a = _mm_max_epi32(a, _mm_shuffle_epi32(a, 0x4e));
	return _mm_cvtsi128_si32(_mm_max_epi32(a, _mm_shuffle_epi32(a, 0xb1)));
}

static inline int32_t v_sum_epi32(__m256i v)
{
	__m128i a = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

	a = _mm_add_epi32(a, _mm_shuffle_epi32(a, 0x4e));
	return _mm_cvtsi128_si32(_mm_add_epi32(a, _mm_shuffle_epi32(a, 0xb1)));
}

/* Splits eight pairs of neighbours into eight firsts and eight seconds, and back. */
static inline void v_part_pairs(const float *in, __m256 *first, __m256 *second)
{
	__m256 a = _mm256_loadu_ps(in), b = _mm256_loadu_ps(in + 8);
	__m256 even = _mm256_shuffle_ps(a, b, 0x88), odd = _mm256_shuffle_ps(a, b, 0xdd);

	*first = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(even), 0xd8));
	*second = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(odd), 0xd8));
}

static inline void v_join_pairs(float *out, __m256 first, __m256 second)
{
	__m256 lo = _mm256_unpacklo_ps(first, second), hi = _mm256_unpackhi_ps(first, second);

	_mm256_storeu_ps(out, _mm256_permute2f128_ps(lo, hi, 0x20));
	_mm256_storeu_ps(out + 8, _mm256_permute2f128_ps(lo, hi, 0x31));
}
#endif

/* k_quantise_block */
static inline void v_quantise_block(const __m256 x[4], int8_t *q, float *d, float *sx)
{
	const __m256i abs = _mm256_set1_epi32(0x7fffffff), base = _mm256_set1_epi32(0x4B400000);
	const __m256 magic = _mm256_set1_ps(0x1.8p23f);
	__m256i b[4], m;
	uint32_t a;
	float scale, inverse;
	__m256 id;

	for (int i = 0; i < 4; i++)
		b[i] = _mm256_and_si256(_mm256_castps_si256(x[i]), abs);
	m = _mm256_max_epi32(_mm256_max_epi32(b[0], b[1]), _mm256_max_epi32(b[2], b[3]));
	a = (uint32_t)v_max_epi32(m);
	if (!k_step(a, &scale, &inverse)) {
		_mm256_storeu_si256((__m256i *)(void *)q, _mm256_setzero_si256());
		*d = *sx = scale;
		return;
	}
	id = _mm256_set1_ps(inverse);
	for (int i = 0; i < 4; i++)
		b[i] = _mm256_sub_epi32(_mm256_castps_si256(_mm256_fmadd_ps(x[i], id, magic)), base);
	m = _mm256_add_epi32(_mm256_add_epi32(b[0], b[1]), _mm256_add_epi32(b[2], b[3]));
	*d = scale;
	*sx = scale * (float)v_sum_epi32(m);
	m = _mm256_packs_epi16(_mm256_packs_epi32(b[0], b[1]), _mm256_packs_epi32(b[2], b[3]));
	m = _mm256_permutevar8x32_epi32(m, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
	_mm256_storeu_si256((__m256i *)(void *)q, m);
}

/* k_put for one block of 32 at an index that is a multiple of 32. */
static inline void v_put_block(const struct k_acts *out, size_t at, const __m256 y[4])
{
	if (out->x)
		for (int i = 0; i < 4; i++)
			_mm256_storeu_ps(out->x + at + 8 * i, y[i]);
	if (out->q)
		v_quantise_block(y, out->q + at, out->d + at / K_QBLOCK, out->sx + at / K_QBLOCK);
}

/* Quantises `count` activations of out->x from index `at` on; both multiples of 32. */
static inline void v_quantise(const struct k_acts *out, size_t at, int32_t count)
{
	for (size_t i = at; i < at + (size_t)count; i += K_QBLOCK) {
		__m256 x[4];

		for (int k = 0; k < 4; k++)
			x[k] = _mm256_loadu_ps(out->x + i + 8 * (size_t)k);
		v_quantise_block(x, out->q + i, out->d + i / K_QBLOCK, out->sx + i / K_QBLOCK);
	}
}
