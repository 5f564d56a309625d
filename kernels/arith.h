/* The scalar functions of docs/arithmetic.md, rule by rule: the definition that every kernel is
 * compared with. Plain C11 that a CUDA file may include too.
 *
 * Only + - * / sqrtf, a true fused multiply-add, exact integers, bit casts and a > b ? a : b (rule
 * 2); no libm. Compile with -ffp-contract=off: no macro shows it, so the known-answer check of
 * k_open() tests it. A NaN's sign and payload are unspecified (processors differ in which operand's
 * they keep). Thread: any; no state. */
#pragma once

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __FAST_MATH__
#error "the arithmetic contract needs IEEE arithmetic: no -ffast-math"
#endif
#if !defined(__CUDACC__) && (!defined(FLT_EVAL_METHOD) || FLT_EVAL_METHOD != 0)
#error "the arithmetic contract needs float evaluated as float: build with -msse2 -mfpmath=sse"
#endif

#ifdef __CUDACC__
#define K_INLINE static __host__ __device__ __forceinline__
#else
#define K_INLINE static inline
#endif

K_INLINE uint32_t k_bits(float x)
{
	uint32_t b;
	memcpy(&b, &x, sizeof b);
	return b;
}

K_INLINE float k_float(uint32_t b)
{
	float x;
	memcpy(&x, &b, sizeof x);
	return x;
}

K_INLINE uint64_t k_bits64(double x)
{
	uint64_t b;
	memcpy(&b, &x, sizeof b);
	return b;
}

K_INLINE double k_double(uint64_t b)
{
	double x;
	memcpy(&x, &b, sizeof x);
	return x;
}

/* Rule 2: a * b + c rounded once, without hardware for it. The product is exact in double, the sum
 * within half a unit: where that is not halfway between two floats, it narrows to what the exact
 * one does. Else, and where floats are subnormal, it is rounded to odd (Boldo and Melquiond,
 * "Emulation of FMA and correctly rounded sums", 2008), so that narrowing rounds once. */
K_INLINE float k_fma_emulated(float a, float b, float c)
{
	double p = (double)a * (double)b, y = (double)c;
	double s = p + y, t, err;
	uint64_t u = k_bits64(s);

	if ((u & 0x1fffffffu) != 0x10000000u && u << 1 >= 0x7020000000000000u) /* from 2^-126; NaN */
		return (float)s;
	if ((u & 0x7ff0000000000000u) == 0x7ff0000000000000u) /* Inf or NaN: err means nothing */
		return (float)s;
	t = s - p;
	err = (p - (s - t)) + (y - t); /* TwoSum: p + y = s + err exactly */
	if (err != 0 && !(u & 1))
		u = (err > 0) == (s > 0) ? u + 1 : u - 1;
	return (float)k_double(u);
}

K_INLINE float k_fma(float a, float b, float c)
{
#if defined(__CUDACC__) || defined(FP_FAST_FMAF) || defined(__FP_FAST_FMAF) || defined(__FMA__)
	return fmaf(a, b, c);
#else
	return k_fma_emulated(a, b, c);
#endif
}

/* Rule 8. 1.02 ulp on [-87, 88], to which x is clamped. */
K_INLINE float k_exp(float x)
{
	float t, n, r, p;

	x = x > 88.0f ? 88.0f : x;
	x = x < -87.0f ? -87.0f : x;
	t = k_fma(x, 0x1.715476p0f, 0x1.8p23f);
	n = t - 0x1.8p23f;
	r = k_fma(n, -0x1.62e4p-1f, x);
	r = k_fma(n, -0x1.7f7d1cp-20f, r);
	p = 0x1.6c0f8ep-10f;
	p = k_fma(p, r, 0x1.1239f2p-7f);
	p = k_fma(p, r, 0x1.5556aap-5f);
	p = k_fma(p, r, 0x1.555492p-3f);
	p = k_fma(p, r, 0x1.fffff8p-2f);
	p = k_fma(p, r, 1.0f);
	p = k_fma(p, r, 1.0f);
	return p * k_float((k_bits(t) + 127u) << 23);
}

/* Rule 8. 0.82 ulp; x positive and normal. */
K_INLINE float k_log(float x)
{
	uint32_t u = k_bits(x) - 0x3f3504f3u;
	float k = (float)((int32_t)u >> 23);
	float f = k_float((u & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
	float z = f * f, p = 7.0376836292E-2f;

	p = k_fma(p, f, -1.1514610310E-1f);
	p = k_fma(p, f, 1.1676998740E-1f);
	p = k_fma(p, f, -1.2420140846E-1f);
	p = k_fma(p, f, 1.4249322787E-1f);
	p = k_fma(p, f, -1.6668057665E-1f);
	p = k_fma(p, f, 2.0000714765E-1f);
	p = k_fma(p, f, -2.4999993993E-1f);
	p = k_fma(p, f, 3.3333331174E-1f);
	p = p * f;
	p = k_fma(p, z, k * -2.12194440e-4f);
	p = k_fma(-0.5f, z, p);
	return k_fma(k, 0.693359375f, f + p);
}

K_INLINE float k_silu(float g)
{
	return g / (1.0f + k_exp(-g));
}

/* The sign is the argument's, also of zero. */
K_INLINE float k_tanh(float x)
{
	uint32_t sign = k_bits(x) & 0x80000000u;
	float e = k_exp(-2.0f * k_float(k_bits(x) & 0x7fffffffu));

	return k_float(k_bits((1.0f - e) / (1.0f + e)) | sign);
}

K_INLINE float k_sigmoid(float x)
{
	return 1.0f / (1.0f + k_exp(-x));
}

/* The tanh form: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). */
K_INLINE float k_gelu(float x)
{
	float u = k_fma(0.044715f * (x * x), x, x) * 0x1.988454p-1f;

	return (0.5f * x) * (1.0f + k_tanh(u));
}

/* The erf form: x/2 (1 + erf(x / sqrt 2)), erfc by Abramowitz and Stegun 7.1.26, within 1.5e-7. */
K_INLINE float k_gelu_erf(float x)
{
	const float z = k_float(k_bits(x) & 0x7fffffffu) * 0x1.6a09e6p-1f;
	const float t = 1.0f / k_fma(0x1.4f740ap-2f, z, 1.0f);
	float tail = 0x1.0fb844p+0f;

	tail = k_fma(tail, t, -0x1.7401c6p+0f);
	tail = k_fma(tail, t, 0x1.6be1c6p+0f);
	tail = k_fma(tail, t, -0x1.23531cp-2f);
	tail = k_fma(tail, t, 0x1.04f20cp-2f);
	tail = tail * t * k_exp(-(z * z)) * 0.5f;
	return x * (x > 0.0f ? 1.0f - tail : tail);
}

/* log(1 + exp(x)): log1p(e) is e where 1 + e rounds to 1, else log(1 + e) e / ((1 + e) - 1), whose
 * two errors cancel (Goldberg 1991, theorem 4). */
K_INLINE float k_softplus(float x)
{
	float e = k_exp(-k_float(k_bits(x) & 0x7fffffffu)), one = 1.0f + e;
	float tail = one > 1.0f ? k_log(one) * (e / (one - 1.0f)) : e;

	return x > 0.0f ? x + tail : tail;
}

K_INLINE float k_softcap(float s, float cap)
{
	return k_tanh(s / cap) * cap;
}

/* Rule 11: what a sum of values is divided by, as a factor, where a score without a value joins the
 * maximum and the sum at last. */
K_INLINE float k_sink_inverse(float max, float sum, float sink)
{
	const float n = max > sink ? max : sink, old = k_exp(max - n);

	return old * (1.0f / k_fma(old, sum, k_exp(sink - n)));
}

K_INLINE float k_bf16_to_f32(uint16_t h)
{
	return k_float((uint32_t)h << 16);
}

/* 2^(e - 128), a subnormal for e < 2. Exact; no NaN. */
K_INLINE float k_e8m0_to_f32(uint8_t e)
{
	return k_float(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* Exact. */
K_INLINE float k_f16_to_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000u) << 16, m = h & 0x7fffu;

	if (m < 0x0400u) /* zero, subnormal */
		return k_float(k_bits((float)m * 0x1p-24f) | sign);
	if (m > 0x7c00u) /* NaN, made quiet as the hardware does */
		return k_float(sign | 0x7fc00000u | m << 13);
	if (m == 0x7c00u)
		return k_float(sign | 0x7f800000u);
	return k_float(sign | ((m << 13) + 0x38000000u));
}

/* Rounds to nearest, ties to even. */
K_INLINE uint16_t k_f32_to_f16(float x)
{
	uint32_t u = k_bits(x), sign = u >> 16 & 0x8000u;

	u &= 0x7fffffffu;
	if (u > 0x7f800000u)
		return (uint16_t)(sign | 0x7e00u | (u >> 13 & 0x3ffu));
	if (u >= 0x477ff000u) /* 65520: half way from the largest to what would be the next */
		return (uint16_t)(sign | 0x7c00u);
	if (u < 0x38800000u) /* below 2^-14: the sum's last place is 2^-24, that of subnormal f16 */
		return (uint16_t)(sign | (k_bits(k_float(u) + 0.5f) - 0x3f000000u));
	u += 0xfffu + (u >> 13 & 1u);
	return (uint16_t)(sign | (u - 0x38000000u) >> 13);
}

/* Rule 3: a[i] += a[i + h] for h = n/2 … 1. n a power of two; a is overwritten; the sum is
 * returned. */
K_INLINE float k_tree_sum(float *a, int32_t n)
{
	for (int32_t h = n / 2; h > 0; h /= 2)
		for (int32_t i = 0; i < h; i++)
			a[i] += a[i + h];
	return a[0];
}

/* Rule 4: d of values whose greatest magnitude has these bits, and 127 over that. False: 0 below
 * 2^-100, NaN if one is Inf or NaN, and all integers are 0. */
K_INLINE bool k_step(uint32_t most, float *d, float *inverse)
{
	const bool usual = most >= 0x0d800000u && most < 0x7f800000u;

	*d = usual ? k_float(most) * 0x1.020408p-7f : most < 0x0d800000u ? 0.0f : k_float(0x7fc00000u);
	*inverse = usual ? 127.0f / k_float(most) : 0.0f;
	return usual;
}

/* Rule 4: 32 activations to 8 bits, their scale d, and sx = d times the sum of q. */
K_INLINE void k_quantise_block(const float *x, int8_t *q, float *d, float *sx)
{
	uint32_t a = 0;
	int32_t sum = 0;
	float id;

	for (int i = 0; i < 32; i++) {
		uint32_t b = k_bits(x[i]) & 0x7fffffffu;
		a = b > a ? b : a;
	}
	if (!k_step(a, d, &id)) {
		memset(q, 0, 32);
		*sx = *d;
		return;
	}
	for (int i = 0; i < 32; i++) {
		q[i] = (int8_t)(int32_t)(k_bits(k_fma(x[i], id, 0x1.8p23f)) - 0x4B400000u);
		sum += q[i];
	}
	*sx = *d * (float)sum;
}

/* Rule 14: the term of logit i, b its bits. The hash is the sum of all, mod 2^64. */
K_INLINE uint64_t k_hash_term(uint32_t b, uint32_t i)
{
	uint32_t f = ((b << 16 | b >> 16) + i * 0x85EBCA77u) | 1u, g = b ^ (i * 0x9E3779B1u);

	return (uint64_t)f * g + b;
}

/* Distance of a logit from the row's maximum, clamped to exp's domain (NaN and -Inf count as
 * -87). */
K_INLINE float k_logit_depth(float l, float max)
{
	float t = l - max;

	return t > -87.0f ? t : -87.0f;
}

/* Rule 15: unsigned integers in the order of floats, -0 = +0, any NaN above all; and back. */
K_INLINE uint32_t k_order_key(float x)
{
	const uint32_t b = k_bits(x + 0.0f);

	return x != x ? UINT32_MAX : b & 0x80000000u ? ~b : b | 0x80000000u;
}
K_INLINE float k_order_float(uint32_t key)
{
	return k_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

/* Rule 15: nearest integer (ties to even) of p * 2^40, p in [0, 1]. */
K_INLINE uint64_t k_mass(float p)
{
	return k_bits64((double)p * 0x1p40 + 0x1p52) - 0x4330000000000000u;
}

/* Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
 * 2011). */
K_INLINE void k_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
	uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
	uint32_t k0 = key[0], k1 = key[1];

	for (int round = 0; round < 10; round++) {
		uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;

		c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
		c1 = (uint32_t)p1;
		c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
		c3 = (uint32_t)p0;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	out[0] = c0;
	out[1] = c1;
	out[2] = c2;
	out[3] = c3;
}

/* Rule 15: the words of ids 4 * quad … 4 * quad + 3 in one draw. Positions and samples count mod
 * 2^32. */
K_INLINE void k_draw_words(
	uint64_t seed, uint32_t quad, uint32_t pos, uint32_t sample, uint32_t purpose, uint32_t out[4])
{
	uint32_t counter[4] = { quad, pos, sample, purpose };
	uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };

	k_philox(counter, key, out);
}

/* Rule 15: uniform on (0, 1), never 0 or 1. */
K_INLINE float k_uniform(uint32_t word)
{
	return k_fma((float)(word >> 9), 0x1p-23f, 0x1p-24f);
}

K_INLINE float k_draw_u(uint64_t seed, uint32_t id, uint32_t pos, uint32_t sample, uint32_t purpose)
{
	uint32_t w[4];

	k_draw_words(seed, id / 4, pos, sample, purpose, w);
	return k_uniform(w[id % 4]);
}

/* Rule 15: the time at which a token of logit l arrives; the least wins, ties to the lowest id. May
 * be +Inf far below the maximum. */
K_INLINE float k_arrival(float u, float l, float max)
{
	return -k_log(u) * k_exp(max - l);
}

/* Rule 15: the order of values. */
K_INLINE int k_goes_before(float a, int32_t a_id, float b, int32_t b_id)
{
	return a > b || (a == b && a_id < b_id);
}

/* ---- counts and places ---- */

K_INLINE int32_t k_min(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

K_INLINE int32_t k_max(int32_t a, int32_t b)
{
	return a > b ? a : b;
}

/* The units that n things fill, the last perhaps in part; and what these have room for. */
K_INLINE int32_t k_pieces(int32_t n, int32_t unit)
{
	return (n + unit - 1) / unit;
}

K_INLINE int32_t k_up(int32_t n, int32_t unit)
{
	return k_pieces(n, unit) * unit;
}

/* Bytes, or a number that no int32_t may hold, up to a multiple. */
K_INLINE size_t k_align(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

/* Of a column in rows of `width` that lie one after the other. */
K_INLINE size_t k_index(int64_t row, int64_t width, int64_t column)
{
	return (size_t)row * (size_t)width + (size_t)column;
}

/* Double functions from + - * alone, for tables and statistics made on the host (rule 9). */

/* |x| < 700. */
K_INLINE double k_exp64(double x)
{
	double t = x * 0x1.71547652b82fep0 + 0x1.8p52, n = t - 0x1.8p52;
	double r = (x - n * 0x1.62e42fefa0000p-1) - n * 0x1.cf79abc9e3b3ap-40;
	double p = 1.0 / 6227020800.0; /* 1/13!, a constant */

	p = p * r + 1.0 / 479001600.0;
	p = p * r + 1.0 / 39916800.0;
	p = p * r + 1.0 / 3628800.0;
	p = p * r + 1.0 / 362880.0;
	p = p * r + 1.0 / 40320.0;
	p = p * r + 1.0 / 5040.0;
	p = p * r + 1.0 / 720.0;
	p = p * r + 1.0 / 120.0;
	p = p * r + 1.0 / 24.0;
	p = p * r + 1.0 / 6.0;
	p = p * r + 0.5;
	p = p * r + 1.0;
	p = p * r + 1.0;
	return p * k_double((k_bits64(t) + 1023u) << 52);
}

/* x positive and normal: 2 atanh((m - 1) / (m + 1)) + k ln 2 with m in [sqrt(1/2), sqrt(2)). */
K_INLINE double k_log64(double x)
{
	uint64_t u = k_bits64(x) - 0x3fe6a09e667f3bcdu;
	double k = (double)((int64_t)u >> 52);
	double m = k_double((u & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu);
	double t = m + 1.0, y = 1.0 - 0.25 * (t - 1.0), s, z, p = 1.0 / 25.0;

	for (int i = 0; i < 6; i++) /* Newton's reciprocal of m + 1 */
		y = y * (2.0 - t * y);
	s = (m - 1.0) * y;
	z = s * s;
	p = p * z + 1.0 / 23.0;
	p = p * z + 1.0 / 21.0;
	p = p * z + 1.0 / 19.0;
	p = p * z + 1.0 / 17.0;
	p = p * z + 1.0 / 15.0;
	p = p * z + 1.0 / 13.0;
	p = p * z + 1.0 / 11.0;
	p = p * z + 1.0 / 9.0;
	p = p * z + 1.0 / 7.0;
	p = p * z + 1.0 / 5.0;
	p = p * z + 1.0 / 3.0;
	s = s + s;
	return k * 0x1.62e42fefa0000p-1 + (s + (s * z * p + k * 0x1.cf79abc9e3b3ap-40));
}
