/* The instructions of AVX2 that files for vectors of 8 floats use (vec8.h), by their names, on
 * AArch64: two registers for one, and the same bits. Compilers keep both halves in registers as
 * long as they are members of a structure and not an array or a wider vector. Only what is used is
 * here, and sums of products in 16 bits do not saturate, since none of ours reaches that far. */
#pragma once

#include <arm_neon.h>

typedef float32x4_t __m128;
typedef int32x4_t __m128i;
typedef float64x2_t __m128d;
typedef struct {
	__m128 lo, hi;
} __m256;
typedef struct {
	__m128i lo, hi;
} __m256i;
typedef struct {
	__m128d lo, hi;
} __m256d;

#define _MM_HINT_T0 3
#define _MM_HINT_T1 2
#define _mm_prefetch(p, level) __builtin_prefetch(p, 0, level)

/* A function `name` of one, two or three vectors: f of halves, each as the type `as`. The one that
 * begins with _mm_ is of one register. */
#define ONE(V, name, A, as, f)                                                                     \
	static inline V _mm_##name(A a)                                                                \
	{                                                                                              \
		return (V)f((as)a);                                                                        \
	}                                                                                              \
	static inline TWICE(V) _mm256_##name(TWICE(A) a)                                               \
	{                                                                                              \
		return (TWICE(V)){ _mm_##name(a.lo), _mm_##name(a.hi) };                                   \
	}
#define TWO(V, name, as, f)                                                                        \
	static inline V _mm_##name(V a, V b)                                                           \
	{                                                                                              \
		return (V)f((as)a, (as)b);                                                                 \
	}                                                                                              \
	static inline TWICE(V) _mm256_##name(TWICE(V) a, TWICE(V) b)                                   \
	{                                                                                              \
		return (TWICE(V)){ _mm_##name(a.lo, b.lo), _mm_##name(a.hi, b.hi) };                       \
	}
#define THREE(V, name, result)                                                                     \
	static inline V _mm_##name(V a, V b, V c)                                                      \
	{                                                                                              \
		return result;                                                                             \
	}                                                                                              \
	static inline TWICE(V) _mm256_##name(TWICE(V) a, TWICE(V) b, TWICE(V) c)                       \
	{                                                                                              \
		return (TWICE(V)){ _mm_##name(a.lo, b.lo, c.lo), _mm_##name(a.hi, b.hi, c.hi) };           \
	}
/* Shifts by `by`, and vectors of equal lanes. */
#define SHIFT(name, as, operation)                                                                 \
	static inline __m128i _mm_##name(__m128i a, int by)                                            \
	{                                                                                              \
		return (__m128i)((as)a operation by);                                                      \
	}                                                                                              \
	static inline __m256i _mm256_##name(__m256i a, int by)                                         \
	{                                                                                              \
		return (__m256i){ _mm_##name(a.lo, by), _mm_##name(a.hi, by) };                            \
	}
#define SET(V, name, number, f)                                                                    \
	static inline V _mm_##name(number x)                                                           \
	{                                                                                              \
		return (V)f(x);                                                                            \
	}                                                                                              \
	static inline TWICE(V) _mm256_##name(number x)                                                 \
	{                                                                                              \
		return (TWICE(V)){ _mm_##name(x), _mm_##name(x) };                                         \
	}
#define TWICE(V) TWICE_##V
#define TWICE___m128 __m256
#define TWICE___m128i __m256i
#define TWICE___m128d __m256d

/* ---- floats ---- */

static inline float32x4_t half_max(float32x4_t a, float32x4_t b)
{
	return vbslq_f32(vcgtq_f32(a, b), a, b);
}
static inline float32x4_t half_min(float32x4_t a, float32x4_t b)
{
	return vbslq_f32(vcltq_f32(a, b), a, b);
}
static inline int32x4_t half_andnot(int32x4_t a, int32x4_t b)
{
	return vbicq_s32(b, a);
}

SET(__m128, set1_ps, float, vdupq_n_f32)
SET(__m128d, set1_pd, double, vdupq_n_f64)
TWO(__m128, add_ps, float32x4_t, vaddq_f32)
TWO(__m128, sub_ps, float32x4_t, vsubq_f32)
TWO(__m128, mul_ps, float32x4_t, vmulq_f32)
TWO(__m128, div_ps, float32x4_t, vdivq_f32)
TWO(__m128, max_ps, float32x4_t, half_max)
TWO(__m128, min_ps, float32x4_t, half_min)
TWO(__m128, and_ps, int32x4_t, vandq_s32)
TWO(__m128, or_ps, int32x4_t, vorrq_s32)
TWO(__m128, xor_ps, int32x4_t, veorq_s32)
TWO(__m128, andnot_ps, int32x4_t, half_andnot)
TWO(__m128d, add_pd, float64x2_t, vaddq_f64)
THREE(__m128, fmadd_ps, vfmaq_f32(c, a, b))
THREE(__m128, fmsub_ps, vfmaq_f32(-c, a, b))
/* The sign of c chooses b. */
THREE(__m128, blendv_ps, vbslq_f32((uint32x4_t)((int32x4_t)c >> 31), b, a))
THREE(__m128d, fmadd_pd, vfmaq_f64(c, a, b))
ONE(__m128, cvtepi32_ps, __m128i, int32x4_t, vcvtq_f32_s32)
ONE(__m128, rcp_ps, __m128, float32x4_t, vrecpeq_f32)
#define SAME
ONE(__m128i, castps_si256, __m128, int32x4_t, SAME)
ONE(__m128, castsi256_ps, __m128i, float32x4_t, SAME)
ONE(__m128i, castpd_si256, __m128d, int32x4_t, SAME)

#define _mm_setzero_ps() _mm_set1_ps(0)
#define _mm256_setzero_ps() _mm256_set1_ps(0)
#define _mm256_setzero_pd() _mm256_set1_pd(0)
#define _mm_load_ps vld1q_f32
#define _mm_loadu_ps vld1q_f32
#define _mm_storeu_ps vst1q_f32

enum { _CMP_LT_OQ, _CMP_GT_OQ, _CMP_EQ_OQ, _CMP_UNORD_Q };
static inline __m256 _mm256_cmp_ps(__m256 a, __m256 b, int how)
{
	if (how == _CMP_UNORD_Q)
		return (__m256){ (float32x4_t) ~((a.lo == a.lo) & (b.lo == b.lo)),
			(float32x4_t) ~((a.hi == a.hi) & (b.hi == b.hi)) };
	if (how == _CMP_EQ_OQ)
		return (__m256){ (float32x4_t)(a.lo == b.lo), (float32x4_t)(a.hi == b.hi) };
	return how == _CMP_LT_OQ ? (__m256){ (float32x4_t)(a.lo < b.lo), (float32x4_t)(a.hi < b.hi) }
							 : (__m256){ (float32x4_t)(a.lo > b.lo), (float32x4_t)(a.hi > b.hi) };
}

static inline __m256 _mm256_loadu_ps(const float *x)
{
	return (__m256){ vld1q_f32(x), vld1q_f32(x + 4) };
}
#define _mm256_load_ps _mm256_loadu_ps

static inline void _mm256_storeu_ps(float *x, __m256 a)
{
	vst1q_f32(x, a.lo);
	vst1q_f32(x + 4, a.hi);
}

static inline void _mm256_storeu_pd(double *x, __m256d a)
{
	vst1q_f64(x, a.lo);
	vst1q_f64(x + 2, a.hi);
}

static inline __m256 _mm256_cvtph_ps(__m128i h)
{
	return (
		__m256){ vcvt_f32_f16(vget_low_f16((float16x8_t)h)), vcvt_high_f32_f16((float16x8_t)h) };
}

/* Rounds as FPCR says, to nearest even: `how` is ignored. */
#define _mm256_cvtps_ph(a, how) half_floats(a)
#define _MM_FROUND_TO_NEAREST_INT 0
static inline __m128i half_floats(__m256 a)
{
	return (__m128i)vcvt_high_f16_f32(vcvt_f16_f32(a.lo), a.hi);
}

static inline __m256d _mm256_cvtps_pd(__m128 a)
{
	return (__m256d){ vcvt_f64_f32(vget_low_f32(a)), vcvt_high_f64_f32(a) };
}

#define _mm256_castps256_ps128(a) ((a).lo)
#define _mm256_extractf128_ps(a, i) ((i) ? (a).hi : (a).lo)
#define _mm256_castsi256_si128(a) ((a).lo)
#define _mm256_extracti128_si256(a, i) ((i) ? (a).hi : (a).lo)

/* ---- integers ---- */

/* Lane by lane of 64 bits, the product of their low halves. */
static inline uint64x2_t half_mul_epu32(uint64x2_t a, uint64x2_t b)
{
	return vmull_u32(vmovn_u64(a), vmovn_u64(b));
}
static inline int32x4_t half_madd(int16x8_t a, int16x8_t b)
{
	return vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b));
}
static inline int16x8_t half_maddubs(int8x16_t a, int8x16_t b)
{
	const int16x8_t lo = (int16x8_t)vmovl_u8((uint8x8_t)vget_low_s8(a));
	const int16x8_t hi = (int16x8_t)vmovl_high_u8((uint8x16_t)a);

	return vpaddq_s16(lo * vmovl_s8(vget_low_s8(b)), hi * vmovl_high_s8(b));
}
static inline int8x16_t half_shuffle(int8x16_t a, int8x16_t at)
{
	return vqtbl1q_s8(a, (uint8x16_t)at & 0x8f);
}
static inline int16x8_t half_packs_epi32(int32x4_t a, int32x4_t b)
{
	return vqmovn_high_s32(vqmovn_s32(a), b);
}
static inline int8x16_t half_packs_epi16(int16x8_t a, int16x8_t b)
{
	return vqmovn_high_s16(vqmovn_s16(a), b);
}
static inline uint32x4_t half_sllv(uint32x4_t a, uint32x4_t by)
{
	return vshlq_u32(a, (int32x4_t)vminq_u32(by, vdupq_n_u32(32)));
}

SET(__m128i, set1_epi8, int8_t, vdupq_n_s8)
SET(__m128i, set1_epi16, int16_t, vdupq_n_s16)
SET(__m128i, set1_epi32, int32_t, vdupq_n_s32)
SET(__m128i, set1_epi64x, int64_t, vdupq_n_s64)
SHIFT(slli_epi32, uint32x4_t, <<)
SHIFT(srli_epi32, uint32x4_t, >>)
SHIFT(srai_epi32, int32x4_t, >>)
SHIFT(srli_epi16, uint16x8_t, >>)
SHIFT(srli_epi64, uint64x2_t, >>)
TWO(__m128i, add_epi16, int16x8_t, vaddq_s16)
TWO(__m128i, add_epi32, int32x4_t, vaddq_s32)
TWO(__m128i, add_epi64, int64x2_t, vaddq_s64)
TWO(__m128i, sub_epi8, int8x16_t, vsubq_s8)
TWO(__m128i, sub_epi32, int32x4_t, vsubq_s32)
TWO(__m128i, mullo_epi32, int32x4_t, vmulq_s32)
TWO(__m128i, mul_epu32, uint64x2_t, half_mul_epu32)
TWO(__m128i, madd_epi16, int16x8_t, half_madd)
TWO(__m128i, maddubs_epi16, int8x16_t, half_maddubs)
TWO(__m128i, max_epi32, int32x4_t, vmaxq_s32)
TWO(__m128i, and_si, int32x4_t, vandq_s32)
TWO(__m128i, or_si, int32x4_t, vorrq_s32)
TWO(__m128i, xor_si, int32x4_t, veorq_s32)
#define _mm256_and_si256 _mm256_and_si
#define _mm256_or_si256 _mm256_or_si
#define _mm256_xor_si256 _mm256_xor_si
TWO(__m128i, cmpgt_epi32, int32x4_t, vcgtq_s32)
TWO(__m128i, cmpeq_epi32, int32x4_t, vceqq_s32)
TWO(__m128i, cmpeq_epi8, int8x16_t, vceqq_s8)
TWO(__m128i, sllv_epi32, uint32x4_t, half_sllv)
TWO(__m128i, shuffle_epi8, int8x16_t, half_shuffle)
THREE(__m128i, blendv_epi8,
	(__m128i)vbslq_u8((uint8x16_t)((int8x16_t)c >> 7), (uint8x16_t)b, (uint8x16_t)a))
TWO(__m128i, unpacklo_epi8, int8x16_t, vzip1q_s8)
TWO(__m128i, unpackhi_epi8, int8x16_t, vzip2q_s8)
TWO(__m128i, packs_epi32, int32x4_t, half_packs_epi32)
TWO(__m128i, packs_epi16, int16x8_t, half_packs_epi16)

#define _mm_setzero_si128() _mm_set1_epi32(0)
#define _mm256_setzero_si256() _mm256_set1_epi32(0)

static inline __m256i _mm256_setr_epi32(
	int32_t a, int32_t b, int32_t c, int32_t d, int32_t e, int32_t f, int32_t g, int32_t h)
{
	return (__m256i){ { a, b, c, d }, { e, f, g, h } };
}

static inline __m128i _mm_loadu_si128(const __m128i *p)
{
	return (__m128i)vld1q_u8((const uint8_t *)p);
}
#define _mm_load_si128 _mm_loadu_si128

static inline __m128i _mm_loadl_epi64(const __m128i *p)
{
	return (__m128i)vcombine_u8(vld1_u8((const uint8_t *)p), vdup_n_u8(0));
}

static inline void _mm_storeu_si128(__m128i *p, __m128i a)
{
	vst1q_u8((uint8_t *)p, (uint8x16_t)a);
}

static inline __m256i _mm256_loadu_si256(const __m256i *p)
{
	return (__m256i){ (int32x4_t)vld1q_u8((const uint8_t *)p),
		(int32x4_t)vld1q_u8((const uint8_t *)p + 16) };
}
#define _mm256_load_si256 _mm256_loadu_si256

static inline void _mm256_storeu_si256(__m256i *p, __m256i a)
{
	vst1q_u8((uint8_t *)p, (uint8x16_t)a.lo);
	vst1q_u8((uint8_t *)p + 16, (uint8x16_t)a.hi);
}

/* Lanes whose mask has its sign; only those are read or written. */
static inline __m256 _mm256_maskload_ps(const float *x, __m256i mask)
{
	int32_t chosen[8];
	float y[8];

	_mm256_storeu_si256((__m256i *)(void *)chosen, mask);
	for (int i = 0; i < 8; i++)
		y[i] = chosen[i] < 0 ? x[i] : 0;
	return _mm256_loadu_ps(y);
}

static inline void _mm256_maskstore_ps(float *x, __m256i mask, __m256 a)
{
	int32_t chosen[8];
	float y[8];

	_mm256_storeu_si256((__m256i *)(void *)chosen, mask);
	_mm256_storeu_ps(y, a);
	for (int i = 0; i < 8; i++)
		if (chosen[i] < 0)
			x[i] = y[i];
}

static inline __m256i _mm256_cvtepi16_epi32(__m128i a)
{
	return (__m256i){ vmovl_s16(vget_low_s16((int16x8_t)a)), vmovl_high_s16((int16x8_t)a) };
}

static inline __m256i _mm256_cvtepu16_epi32(__m128i a)
{
	return (__m256i){ (int32x4_t)vmovl_u16(vget_low_u16((uint16x8_t)a)),
		(int32x4_t)vmovl_high_u16((uint16x8_t)a) };
}

static inline __m256i _mm256_cvtepi8_epi16(__m128i a)
{
	return (__m256i){ (int32x4_t)vmovl_s8(vget_low_s8((int8x16_t)a)),
		(int32x4_t)vmovl_high_s8((int8x16_t)a) };
}

static inline __m128i _mm_cvtepu8_epi16(__m128i a)
{
	return (__m128i)vmovl_u8(vget_low_u8((uint8x16_t)a));
}

static inline __m256i _mm256_cvtepi8_epi32(__m128i a)
{
	return _mm256_cvtepi16_epi32((__m128i)vmovl_s8(vget_low_s8((int8x16_t)a)));
}

static inline __m256i _mm256_cvtepu8_epi32(__m128i a)
{
	return _mm256_cvtepu16_epi32(_mm_cvtepu8_epi16(a));
}

/* Lane i is lane at[i] of a. */
static inline __m256i _mm256_permutevar8x32_epi32(__m256i a, __m256i at)
{
	const uint8x16x2_t from = { { (uint8x16_t)a.lo, (uint8x16_t)a.hi } };
	const int32x4_t lo = at.lo * 0x04040404 + 0x03020100, hi = at.hi * 0x04040404 + 0x03020100;

	return (__m256i){ (int32x4_t)vqtbl2q_u8(from, (uint8x16_t)lo),
		(int32x4_t)vqtbl2q_u8(from, (uint8x16_t)hi) };
}

/* The signs of the lanes, as bits. */
static inline int _mm256_movemask_ps(__m256 a)
{
	const uint32x4_t bit = { 1, 2, 4, 8 };
	const uint32x4_t lo = (uint32x4_t)((int32x4_t)a.lo >> 31) & bit;
	const uint32x4_t hi = (uint32x4_t)((int32x4_t)a.hi >> 31) & bit << 4;

	return (int)vaddvq_u32(lo | hi);
}

static inline int _mm256_movemask_epi8(__m256i a)
{
	const uint8x16_t bit = { 1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128 };
	const uint8x16_t lo = (uint8x16_t)((int8x16_t)a.lo >> 7) & bit;
	const uint8x16_t hi = (uint8x16_t)((int8x16_t)a.hi >> 7) & bit;

	return (int)(vaddv_u8(vget_low_u8(lo)) | (uint32_t)vaddv_u8(vget_high_u8(lo)) << 8 |
				 (uint32_t)vaddv_u8(vget_low_u8(hi)) << 16 |
				 (uint32_t)vaddv_u8(vget_high_u8(hi)) << 24);
}

#undef ONE
#undef TWO
#undef THREE
#undef SHIFT
#undef SET
#undef SAME
#undef TWICE
#undef TWICE___m128
#undef TWICE___m128i
#undef TWICE___m128d

/* ---- the reductions and shuffles of vec8.h ---- */

/* tree(8) */
static inline float v_tree8(__m256 v)
{
	const float32x4_t a = v.lo + v.hi;
	const float32x2_t b = vget_low_f32(a) + vget_high_f32(a);

	return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
}

static inline int32_t v_max_epi32(__m256i v)
{
	return vmaxvq_s32(vmaxq_s32(v.lo, v.hi));
}

static inline int32_t v_sum_epi32(__m256i v)
{
	return vaddvq_s32(v.lo + v.hi);
}

/* Splits eight pairs of neighbours into eight firsts and eight seconds, and back. */
static inline void v_part_pairs(const float *in, __m256 *first, __m256 *second)
{
	const float32x4x2_t lo = vld2q_f32(in), hi = vld2q_f32(in + 8);

	*first = (__m256){ lo.val[0], hi.val[0] };
	*second = (__m256){ lo.val[1], hi.val[1] };
}

static inline void v_join_pairs(float *out, __m256 first, __m256 second)
{
	vst2q_f32(out, (float32x4x2_t){ { first.lo, second.lo } });
	vst2q_f32(out + 8, (float32x4x2_t){ { first.hi, second.hi } });
}
