/* The scalar functions of kernels/arith.h against what defines them: IEEE conversions, libm in
 * double, Random123's vectors; and RoPE's tables against libm in long double. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "kernels/arith.h"
#include "kernels/kernels.h"

static uint64_t random_state = 0x9E3779B97F4A7C15u;

/* splitmix64 (Steele, Lea and Flood 2014) */
static uint64_t random64(void)
{
	uint64_t z = random_state += 0x9E3779B97F4A7C15u;

	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
	z = (z ^ z >> 27) * 0x94D049BB133111EBu;
	return z ^ z >> 31;
}

/* What an f16 is by definition, computed in double. */
static double f16_value(uint16_t h)
{
	int e = h >> 10 & 31, m = h & 1023;
	double v = e == 0 ? ldexp(m, -24) : ldexp(1024 + m, e - 25);

	return h & 0x8000 ? -v : v;
}

static void test_f16_all(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 65536; i++) {
		uint16_t h = (uint16_t)i;
		float f = k_f16_to_f32(h);

		if ((h & 0x7fff) > 0x7c00) {
			assert_true(f != f);
			assert_true((k_f32_to_f16(f) & 0x7fff) > 0x7c00);
			continue;
		}
		if ((h & 0x7fff) == 0x7c00)
			assert_true(isinf(f) && !!signbit(f) == h >> 15);
		else
			assert_true((double)f == f16_value(h) && !!signbit(f) == h >> 15);
		assert_int_equal(k_f32_to_f16(f), h);
	}
}

/* Between two neighbours: below, at and above the middle, which goes to the even one. */
static void test_f16_rounding(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 0x7c00; i++) {
		float low = (float)f16_value((uint16_t)i);
		float high = i == 0x7bff ? 65536.0f : (float)f16_value((uint16_t)(i + 1));
		float middle = low + (high - low) / 2; /* exact */

		for (int sign = 0; sign < 2; sign++) {
			float s = sign ? -1.0f : 1.0f;
			int top = sign << 15;

			assert_int_equal(k_f32_to_f16(s * nextafterf(middle, 0)), top | (int)i);
			assert_int_equal(k_f32_to_f16(s * middle), top | (int)(i + (i & 1)));
			assert_int_equal(k_f32_to_f16(s * nextafterf(middle, 1e9f)), top | (int)(i + 1));
		}
	}
	assert_int_equal(k_f32_to_f16(3e38f), 0x7c00);
	assert_int_equal(k_f32_to_f16(-INFINITY), 0xfc00);
	assert_int_equal(k_f32_to_f16(1e-40f), 0);
}

static void test_bf16(void **state)
{
	(void)state;
	assert_true(k_bf16_to_f32(0x3f80) == 1.0f);
	assert_true(k_bf16_to_f32(0xc049) == -3.140625f);
	assert_true(k_bf16_to_f32(0x0001) == 0x1p-133f); /* subnormal, kept */
}

/* Error in units of the last place of the float nearest to `exact`. */
static double ulps(float got, double exact)
{
	float near = fabsf((float)exact);

	return fabs((double)got - exact) / ((double)nextafterf(near, INFINITY) - (double)near);
}

static void test_exp_log(void **state)
{
	double worst_exp = 0, worst_log = 0;

	(void)state;
	for (uint64_t b = 0; b < 0x100000000u; b += 4799) {
		float x = k_float((uint32_t)b);

		if (x >= -87 && x <= 88)
			worst_exp = fmax(worst_exp, ulps(k_exp(x), exp((double)x)));
		if (isnormal(x) && x > 0)
			worst_log = fmax(worst_log, ulps(k_log(x), log((double)x)));
	}
	assert_true(worst_exp < 1.03 && worst_exp > 0.4);
	assert_true(worst_log < 0.83 && worst_log > 0.3);
	assert_true(k_exp(0) == 1.0f && k_exp(-0.0f) == 1.0f && k_log(1) == 0.0f);
	assert_true(k_exp(INFINITY) == k_exp(88) && k_exp(-INFINITY) == k_exp(-87));
	assert_true(k_exp(NAN) != k_exp(NAN));
}

static void test_silu_tanh(void **state)
{
	(void)state;
	for (double x = -30; x < 30; x += 0.00317) {
		float f = (float)x;

		assert_true(fabs((double)k_silu(f) - (double)f / (1 + exp(-(double)f))) <
					3e-7 * (fabs((double)k_silu(f)) + 1e-6));
		assert_true(fabs((double)k_tanh(f) - tanh((double)f)) < 3e-7);
		assert_true(k_bits(k_tanh(-f)) == (k_bits(k_tanh(f)) ^ 0x80000000u));
	}
	assert_true(signbit(k_tanh(-0.0f)) && !signbit(k_tanh(0.0f)));
	assert_true(k_tanh(1e30f) == 1.0f && k_tanh(-INFINITY) == -1.0f);
	assert_true(fabsf(k_softcap(1e4f, 30) - 30) < 1e-4f);
}

/* Over all that they are asked, down to where e is the whole of log1p(e). */
static void test_gates(void **state)
{
	(void)state;
	for (double x = -80; x < 80; x += 0.00317) {
		float f = (float)x;
		double cube = (double)f * (double)f * (double)f;
		double gelu = 0.5 * (double)f *
					  (1 + tanh(sqrt(2 / 3.14159265358979323846) * ((double)f + 0.044715 * cube)));
		double softplus = fmax((double)f, 0) + log1p(exp(-fabs((double)f)));

		assert_true(fabs((double)k_gelu(f) - gelu) < 4e-7 * (fabs((double)f) + 1e-6));
		assert_true(fabs((double)k_softplus(f) - softplus) < 4e-7 * softplus);
		assert_true(fabs((double)k_sigmoid(f) * (1 + exp(-(double)f)) - 1) < 4e-7);
	}
	assert_true(k_gelu(0) == 0 && k_gelu(1e30f) == 1e30f && k_gelu(-1e18f) == 0);
	assert_true(
		k_softplus(1e30f) == 1e30f && k_softplus(-1e30f) < 2e-38f && k_softplus(-1e30f) >= 0);
}

static void same_fma(float a, float b, float c)
{
	float got = k_fma_emulated(a, b, c), expected = fmaf(a, b, c);

	if (k_bits(got) != k_bits(expected) && (got == got || expected == expected))
		fail_msg("fma(%a, %a, %a) = %a, not %a", (double)a, (double)b, (double)c, (double)got,
			(double)expected);
}

/* Against the C library's, which is right by its own contract. */
static void test_fma(void **state)
{
	static const float odd[] = { 0.0f, -0.0f, 1.0f, -1.0f, 0x1p-149f, -0x1p-149f, 0x1.fffffep-127f,
		0x1p-126f, 0x1.fffffep127f, -0x1.fffffep127f, INFINITY, -INFINITY, NAN, 0x1.000002p0f,
		0x1p-24f, 0x1p-75f };
	enum { N_ODD = sizeof odd / sizeof *odd };

	(void)state;
	/* a plain (float)((double)a * b + c) rounds this twice, to 1 */
	same_fma(0x1.000002p-1f, 0x1.fffffcp-25f, 1.0f);
	same_fma(0x1.fffffep-1f, 0x1p-24f, 0x1.000002p0f);
	for (int i = 0; i < N_ODD * N_ODD * N_ODD; i++)
		same_fma(odd[i % N_ODD], odd[i / N_ODD % N_ODD], odd[i / N_ODD / N_ODD]);
	for (int i = 0; i < 300000; i++) {
		uint32_t a = (uint32_t)random64(), b = (uint32_t)random64(), c = (uint32_t)random64();

		if (i % 3 == 0) { /* few bits: many ties */
			a &= 0xfffff000u;
			b &= 0xfffff000u;
			c &= 0xffff0000u;
		}
		if (i % 2) { /* c near the product, so that it counts */
			int32_t e =
				(int32_t)(k_bits(k_float(a) * k_float(b)) >> 23 & 255) + (int32_t)(i % 60) - 30;

			c = (c & 0x807fffffu) | (uint32_t)(e < 0 ? 0 : e > 254 ? 254 : e) << 23;
		}
		same_fma(k_float(a), k_float(b), k_float(c));
	}
}

static void test_quantise(void **state)
{
	float x[32], d, sx;
	int8_t q[32];

	(void)state;
	for (int i = 0; i < 1000; i++) {
		float size = ldexpf(1, (int)(random64() % 200) - 99), a = 0;
		int32_t sum = 0;

		for (int k = 0; k < 32; k++) {
			x[k] = (float)((double)(int64_t)random64() * 0x1p-63) * size;
			a = fabsf(x[k]) > a ? fabsf(x[k]) : a;
		}
		k_quantise_block(x, q, &d, &sx);
		assert_true(d == a * 0x1.020408p-7f);
		for (int k = 0; k < 32; k++) {
			assert_in_range(q[k] + 127, 0, 254);
			assert_true(fabsf((float)q[k] * d - x[k]) <= d * 0.5001f);
			sum += q[k];
		}
		assert_true(sx == d * (float)sum);
	}
	for (int k = 0; k < 32; k++)
		x[k] = 0x1.fffffep-101f;
	k_quantise_block(x, q, &d, &sx);
	assert_true(d == 0 && sx == 0 && q[0] == 0);
	x[31] = -0x1p-100f;
	k_quantise_block(x, q, &d, &sx);
	assert_true(d > 0 && q[31] == -127 && q[0] == 127);
	x[7] = -FLT_MAX;
	k_quantise_block(x, q, &d, &sx);
	assert_true(q[7] == -127 && q[0] == 0 && isfinite(d));
	for (int bad = 0; bad < 3; bad++) {
		x[7] = bad == 0 ? NAN : bad == 1 ? INFINITY : -NAN;
		k_quantise_block(x, q, &d, &sx);
		assert_true(d != d && sx != sx && q[0] == 0 && q[31] == 0);
	}
}

static void test_tree(void **state)
{
	float a[4] = { 0x1p24f, 1, -0x1p24f, 1 };

	(void)state;
	assert_true(k_tree_sum(a, 4) == 2); /* (a0 + a2) + (a1 + a3); in a row it would be 1 */
}

/* Random123's kat_vectors for philox4x32, 10 rounds. */
static void test_philox(void **state)
{
	static const uint32_t kat[3][10] = {
		{ 0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 },
		{ ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd },
		{ 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
			0x94fdcceb, 0x5001e420, 0x24126ea1 },
	};
	uint32_t out[4];

	(void)state;
	for (int i = 0; i < 3; i++) {
		k_philox(kat[i], kat[i] + 4, out);
		assert_memory_equal(out, kat[i] + 6, sizeof out);
	}
	k_draw_words(0x299f31d0a4093822u, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, out);
	assert_memory_equal(out, kat[2] + 6, sizeof out);
}

static void test_draw(void **state)
{
	double sum = 0;

	(void)state;
	assert_true(k_uniform(0) == 0x1p-24f && k_uniform(0xffffffffu) == 1 - 0x1p-24f);
	for (uint32_t id = 0; id < 40000; id++) {
		float u = k_draw_u(7, id, 3, 0, 0);

		assert_true(u > 0 && u < 1);
		assert_true(k_arrival(u, -3, 2) > 0);
		sum += (double)u;
	}
	assert_true(fabs(sum / 40000 - 0.5) < 0.01);
	assert_true(k_draw_u(7, 5, 3, 0, 0) != k_draw_u(7, 5, 3, 0, 1));
	assert_true(k_draw_u(7, 5, 3, 0, 0) != k_draw_u(7, 5, 3, 1, 0));
	assert_true(k_draw_u(7, 5, 3, 0, 0) != k_draw_u(7 + (1ull << 32), 5, 3, 0, 0));
	assert_true(k_arrival(0.5f, -1e9f, 0) > 1e37f);
}

static void test_hash_mass(void **state)
{
	uint32_t b = k_bits(-1.5f), i = 77;
	uint32_t rot = b << 16 | b >> 16;
	uint64_t expected = (uint64_t)((rot + i * 0x85EBCA77u) | 1) * (b ^ i * 0x9E3779B1u) + b;

	(void)state;
	assert_true(k_hash_term(b, i) == expected);
	assert_true(k_mass(1) == 1ull << 40 && k_mass(0) == 0);
	assert_true(k_mass(0x1p-41f) == 0 && k_mass(0x1.8p-40f) == 2 && k_mass(0x1.4p-39f) == 2);
	assert_true(k_logit_depth(-INFINITY, 3) == -87 && k_logit_depth(NAN, 3) == -87);
	assert_true(k_logit_depth(1, 3) == -2);
}

static void test_double_functions(void **state)
{
	(void)state;
	for (double x = -600; x < 600; x += 0.0931) {
		double e = k_exp64(x), l = k_log64(fabs(x) + 0.37);

		assert_true(fabs(e / exp(x) - 1) < 1e-15);
		assert_true(fabs(l - log(fabs(x) + 0.37)) < 1e-15 * (1 + fabs(l)));
	}
}

static void test_rope_table(void **state)
{
	enum { DIM = 64, N_POS = 3000 };
	static float c[N_POS * DIM / 2], s[N_POS * DIM / 2];
	double freq[DIM / 2];

	(void)state;
	for (int theta = 10000; theta <= 1000000; theta *= 10) {
		k_rope_freqs(theta, DIM, freq);
		assert_true(freq[0] == 1.0);
		for (int i = 0; i < DIM / 2; i++)
			assert_true(fabs(freq[i] / pow(theta, -2.0 * i / DIM) - 1) < 2e-15);
		k_rope_table(freq, DIM / 2, N_POS, c, s);
		for (int i = 0; i < N_POS * DIM / 2; i++) {
			long double angle = (long double)(i / (DIM / 2) * freq[i % (DIM / 2)]);

			/* half a unit in the last place of the float, and what double leaves near a zero */
			assert_true(fabsl(c[i] - cosl(angle)) <= 0x1.0001p-24L * fabsl(cosl(angle)) + 1e-15L);
			assert_true(fabsl(s[i] - sinl(angle)) <= 0x1.0001p-24L * fabsl(sinl(angle)) + 1e-15L);
		}
	}
	/* the far end of the argument's range */
	freq[0] = 1.0;
	freq[1] = 349.52;
	k_rope_table(freq, 2, N_POS, c, s);
	for (int pos = 0; pos < N_POS; pos++) {
		assert_true(fabs((double)c[2 * pos + 1] - cos(pos * 349.52)) < 6e-8);
		assert_true(fabs((double)s[2 * pos + 1] - sin(pos * 349.52)) < 6e-8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_f16_all),
		cmocka_unit_test(test_f16_rounding),
		cmocka_unit_test(test_bf16),
		cmocka_unit_test(test_exp_log),
		cmocka_unit_test(test_silu_tanh),
		cmocka_unit_test(test_gates),
		cmocka_unit_test(test_fma),
		cmocka_unit_test(test_quantise),
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_philox),
		cmocka_unit_test(test_draw),
		cmocka_unit_test(test_hash_mass),
		cmocka_unit_test(test_double_functions),
		cmocka_unit_test(test_rope_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
