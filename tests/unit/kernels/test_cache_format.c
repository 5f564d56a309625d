/* Rounding into the formats of the cache and back (rule 10), against a search for the nearest value
 * in double: every code, every middle between two values and its neighbours, subnormal ones, what
 * is too large, and floats from all over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/format/cache.h"

/* What the formats are: the largest value's code; those of positive values are 0 … most,
 * ascending. */
static const struct form {
	enum k_cache format;
	int mantissa, bias;
	uint32_t most, sign;
} forms[] = {
	{ K_CACHE_f16, 10, 15, 0x7bff, 0x8000 },
	{ K_CACHE_bf16, 7, 127, 0x7f7f, 0x8000 },
	{ K_CACHE_e4m3, 3, 7, 0x7e, 0x80 },
};
#define EACH(f) for (const struct form *f = forms; f < forms + sizeof forms / sizeof *forms; f++)

static double value_of(const struct form *f, uint32_t code)
{
	const int exponent = (int)(code >> f->mantissa);
	const double fraction = ldexp(code & ((1u << f->mantissa) - 1), -f->mantissa);

	return exponent ? ldexp(1 + fraction, exponent - f->bias) : ldexp(fraction, 1 - f->bias);
}

/* The nearest to x, of two as near the one with an even code. x is no NaN. */
static uint32_t nearest(const struct form *f, float x)
{
	const double size = fabs((double)x);
	uint32_t low = 0, high = f->most;

	if (size >= value_of(f, high))
		return (signbit(x) ? f->sign : 0) | high;
	while (high - low > 1) {
		const uint32_t middle = (low + high) / 2;

		*(value_of(f, middle) <= size ? &low : &high) = middle;
	}
	/* exact: the sum of neighbours, and twice a float */
	if (2 * size > value_of(f, low) + value_of(f, high) ||
		(2 * size == value_of(f, low) + value_of(f, high) && low % 2))
		low = high;
	return (signbit(x) ? f->sign : 0) | low;
}

static void check(const struct form *f, float x)
{
	const uint32_t got = k_cache_code(f->format, x), want = nearest(f, x);

	if (got != want)
		fail_msg("%s of %a: code %#x, the nearest is %#x", k_cache_name((int)f->format), (double)x,
			got, want);
}

static void test_codes(void **state)
{
	(void)state;
	EACH(f)
	for (uint32_t code = 0; code <= f->most; code++)
		for (int sign = 0; sign < 2; sign++) {
			const uint32_t all = code | (sign ? f->sign : 0);
			const double want = value_of(f, code);
			_Alignas(8) uint8_t bytes[16];
			float x;

			memset(bytes, 0x55, sizeof bytes);
			k_cache_put(f->format, bytes, 1, all);
			x = k_cache_get(f->format, bytes, 1);
			assert_true((double)x == (sign ? -want : want) && !signbit(x) == !sign);
			assert_int_equal(k_cache_code(f->format, x), all);
			for (int i = 0; i < 16; i++)
				if (i / k_cache_bytes(f->format) != 1)
					assert_int_equal(bytes[i], 0x55);
		}
}

static void test_middles(void **state)
{
	(void)state;
	EACH(f)
	for (uint32_t code = 0; code < f->most; code++) {
		const float middle = (float)((value_of(f, code) + value_of(f, code + 1)) / 2);

		for (float sign = -1; sign <= 1; sign += 2) {
			assert_int_equal(k_cache_code(f->format, sign * middle) & ~f->sign, code + code % 2);
			check(f, sign * middle);
			check(f, sign * nextafterf(middle, 0));
			check(f, sign * nextafterf(middle, INFINITY));
		}
	}
}

/* All that is beyond the largest value becomes it, also what would round to infinity or is it. */
static void test_largest(void **state)
{
	(void)state;
	EACH(f)
	{
		const float most = (float)value_of(f, f->most);
		const float beyond[] = { most, nextafterf(most, INFINITY), most * (1 + 0x1p-9f), most * 2,
			FLT_MAX, INFINITY };

		for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
			assert_int_equal(k_cache_code(f->format, beyond[i]), f->most);
			assert_int_equal(k_cache_code(f->format, -beyond[i]), f->most | f->sign);
		}
	}
	assert_true(
		k_of_e4m3(0x7e) == 448 && k_of_f16(0x7bff) == 65504 && k_of_bf16(0x7f7f) == 0x1.fep127f);
}

static void test_floats(void **state)
{
	(void)state;
	for (uint64_t bits = 0; bits < 0x100000000u; bits += 4799) {
		const float x = k_float((uint32_t)bits);

		if (x != x)
			continue;
		EACH(f)
		check(f, x);
		assert_int_equal(k_cache_code(K_CACHE_f32, x), bits);
		assert_true(k_bits(k_of_f32((uint32_t)bits)) == bits);
	}
	assert_true(
		k_of_f32(k_to_f32(INFINITY)) == FLT_MAX && k_of_f32(k_to_f32(-INFINITY)) == -FLT_MAX);
}

/* Values written down elsewhere: Micikevicius et al. 2022, table 1; the head of a bf16. */
static void test_known(void **state)
{
	(void)state;
	assert_true(k_of_e4m3(0x08) == 0x1p-6f);          /* least that is normal */
	assert_true(k_of_e4m3(0x07) == 0.875f * 0x1p-6f); /* largest subnormal */
	assert_true(k_of_e4m3(0x01) == 0x1p-9f);
	assert_true(k_of_e4m3(0x38) == 1 && k_of_e4m3(0xc0) == -2);
	assert_int_equal(k_to_e4m3(0x1p-10f), 0); /* half of the least: to the even one */
	assert_int_equal(k_to_e4m3(0x1.000002p-10f), 1);
	assert_int_equal(k_to_e4m3(464), 0x7e);           /* in the middle to what would be 480 */
	assert_int_equal(k_to_bf16(1.00390625f), 0x3f80); /* 1 + 2^-8: in the middle */
	assert_int_equal(k_to_bf16(1.01171875f), 0x3f82); /* 1 + 3 * 2^-8 */
	assert_int_equal(k_to_bf16(0x1p-149f), 0);
	assert_null(k_cache_name(-1));
	assert_null(k_cache_name(K_N_CACHES));
	assert_string_equal(k_cache_name(0), "f16");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_codes),
		cmocka_unit_test(test_middles),
		cmocka_unit_test(test_largest),
		cmocka_unit_test(test_floats),
		cmocka_unit_test(test_known),
	};

	return cmocka_run_group_tests_name("cache_format", tests, NULL, NULL);
}
