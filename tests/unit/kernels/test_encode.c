/* Rounding to the weight formats: bytes as the gguf package's quantizers give them, less error than
 * scales from the extremes where scales are searched, and hostile weights. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/format/encode.h"
#include "tests/support/tiny.h"

/* data/quants.py writes so many weights, and then their bytes in these formats. */
enum { COUNT = 1024, MOST_BYTES = COUNT * 4 };
static const enum k_type of_package[] = { K_F16, K_Q4_0, K_Q4_1, K_Q5_0, K_Q5_1, K_Q8_0, K_BF16,
	K_MXFP4 };

static size_t bytes_of(enum k_type t, int n)
{
	return (size_t)(n / k_types[t].block * k_types[t].block_bytes);
}

static void test_package(void **state)
{
	static float x[COUNT];
	static uint8_t expected[MOST_BYTES], got[MOST_BYTES];
	FILE *f = fopen("tests/data/quants.bin", "rb");

	(void)state;
	assert_non_null(f);
	assert_int_equal(fread(x, sizeof *x, COUNT, f), COUNT);
	for (size_t i = 0; i < sizeof of_package / sizeof *of_package; i++) {
		const enum k_type t = of_package[i];

		assert_int_equal(fread(expected, 1, bytes_of(t, COUNT), f), bytes_of(t, COUNT));
		k_encode(t, x, COUNT, got);
		for (size_t k = 0; k < bytes_of(t, COUNT); k++)
			if (got[k] != expected[k])
				fail_msg("%s: byte %zu of block %zu is %02x, not %02x", k_types[t].name,
					k % (size_t)k_types[t].block_bytes, k / (size_t)k_types[t].block_bytes, got[k],
					expected[k]);
	}
	assert_int_equal(fgetc(f), EOF);
	fclose(f);
}

/* Numbers like those of a matrix: a bell with a few outliers. */
static void fill(float *x, int n, uint32_t seed)
{
	for (int i = 0; i < n; i++) {
		float sum = 0;

		for (int k = 0; k < 4; k++) {
			seed = seed * 1664525u + 1013904223u;
			sum += (float)(seed >> 8) * 0x1p-24f - 0.5f;
		}
		x[i] = sum * (i % 97 == 5 ? 0.4f : 0.05f);
	}
}

static double error_of(enum k_type t, const uint8_t *blocks, const float *x)
{
	static float y[COUNT];
	double sum = 0;

	k_decode(t, blocks, COUNT, y);
	for (int i = 0; i < COUNT; i++)
		sum += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
	return sum;
}

/* tiny_put_block() takes each scale from the extremes; it has a writer of fields of its own. */
static void test_search(void **state)
{
	static const enum k_type searched[] = { K_Q2_K, K_Q3_K, K_Q4_K, K_Q5_K, K_Q6_K, K_IQ4_NL,
		K_IQ4_XS };
	static float x[COUNT];
	static uint8_t got[MOST_BYTES];

	(void)state;
	fill(x, COUNT, 3);
	for (size_t i = 0; i < sizeof searched / sizeof *searched; i++) {
		const enum k_type t = searched[i];
		struct bytes plain = { 0 };

		for (int k = 0; k < COUNT; k += k_types[t].block)
			tiny_put_block(&plain, t, x + k);
		k_encode(t, x, COUNT, got);
		if (!(error_of(t, got, x) < 0.97 * error_of(t, plain.data, x)))
			fail_msg("%s: error %g, and %g without a search", k_types[t].name, error_of(t, got, x),
				error_of(t, plain.data, x));
		bytes_free(&plain);
	}
}

/* What a block holds is rounded to itself, and anything else to the nearest that its scales have.
 */
static void test_round_to(void **state)
{
	static float x[COUNT], y[COUNT], z[COUNT];
	static uint8_t block[MOST_BYTES];

	(void)state;
	fill(x, COUNT, 9);
	for (enum k_type t = 0; t < K_N_TYPES; t++) {
		const int32_t n = k_types[t].block;

		if (n == 1)
			continue;
		k_encode(t, x, n, block);
		k_decode(t, block, n, y);
		for (int32_t k = 0; k < n; k++) {
			const float value = k_round_to(t, block, k, x[k]);

			assert_true(fabsf(value - x[k]) <= fabsf(y[k] - x[k]));
			assert_true(k_round_to(t, block, k, value) == value);
		}
		k_decode(t, block, n, z);
		for (int32_t k = 0; k < n; k++)
			assert_true(fabsf(z[k] - x[k]) <= fabsf(y[k] - x[k]));
	}
}

static void test_hostile(void **state)
{
	static const float bad[] = { NAN, INFINITY, -INFINITY, 3.4e38f, -3.4e38f, 1e-45f, -1e-40f, 0 };
	static float x[COUNT], y[COUNT];
	static uint8_t blocks[MOST_BYTES];

	(void)state;
	for (size_t kind = 0; kind < sizeof bad / sizeof *bad; kind++)
		for (int all = 0; all < 2; all++) {
			fill(x, COUNT, 5);
			for (int i = 0; i < COUNT; i += all ? 1 : 40)
				x[i] = bad[kind];
			for (enum k_type t = 0; t < K_N_TYPES; t++) {
				k_encode(t, x, COUNT, blocks);
				k_decode(t, blocks, COUNT, y);
				for (int i = 0; i < COUNT && bad[kind] == 0 && all; i++)
					assert_true(y[i] == 0);
			}
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_package),
		cmocka_unit_test(test_search),
		cmocka_unit_test(test_round_to),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
