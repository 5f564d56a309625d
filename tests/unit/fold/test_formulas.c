/* The formulas against figures worked out by hand: SmolLM2-135M (30 layers, 9 heads, 3 key-value
 * heads of 64, 134,515,008 weights, of which a token reads 96.58 MB at Q4_1) and published
 * machines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "fold/formulas.h"
#include "fold/machine_table.h"

enum { LAYERS = 30, HEADS = 9, GROUPS = 3, HEAD = 64 };
#define PARAMS 134515008.0
#define MATRICES 134479872.0 /* without the norms */
#define READ 96.58e6
#define KV 23040.0
#define H200 4.8e12
#define GIB 1073741824.0

/* As it is written: so many decimals. */
static void near(double got, double written, int decimals)
{
	const double half = 0.5 * pow(10, -decimals) * 1.0001;

	if (!(fabs(got - written) <= half))
		fail_msg("%.10g is not %.*f", got, decimals, written);
}

static void keys_and_values(void **state)
{
	(void)state;
	near(formula_kv(LAYERS, GROUPS, HEAD, 2), KV, 0);
	near(formula_kv(LAYERS, HEADS, HEAD, 2), 69120, 0);
	near(formula_kv(LAYERS, 1, HEAD, 2), 7680, 0);
	near(8192 * KV / 1e6, 188.7, 1);
	near(8192 * formula_kv(LAYERS, HEADS, HEAD, 2) / 1e6, 566.2, 1);
	near(8192 * formula_kv(LAYERS, 1, HEAD, 2) / 1e6, 62.9, 1);
	near(16 * KV, 368640, 0);
	near(formula_kv(32, 8, 128, 2), 131072, 0); /* Llama 3 8B */
	near(8192 * formula_kv(32, 8, 128, 2) / GIB, 1, 9);
	near(formula_kv(16, 8, 64, 2), 32768, 0); /* Llama 3.2 1B */
}

/* 5 of 30 layers see all, 25 a window of 1,024. */
static void windows(void **state)
{
	const double all = 30 * formula_kept(8192, 0);

	(void)state;
	near(all / (5 * formula_kept(8192, 0) + 25 * formula_kept(8192, 1024)), 3.69, 2);
	near(formula_kept(100, 1024), 100, 9);
}

static void weights_and_batches(void **state)
{
	const double kv8k = 8192 * KV, llama = 8.03e9 * 2;

	(void)state;
	near(4 * PARAMS / 1e6, 538.1, 1);
	near(2 * PARAMS / 1e6, 269.0, 1);
	near(READ * 8 / PARAMS, 5.74, 2);
	near(READ / KV, 4192, 0);
	near(2 * PARAMS / KV, 11677, 0);
	near(formula_largest_batch(139 * GIB, READ, kv8k), 790, 0);
	near(formula_largest_batch(139 * GIB, llama, GIB), 124, 0);
	near(formula_largest_batch(139 * GIB, llama, 4 * GIB), 31, 0);
	near(formula_largest_batch(1, READ, kv8k), 0, 9);
}

static double bf16(double rows) /* 576 x 1536: two bytes a weight and an activation */
{
	return formula_intensity(rows, 576 * 1536, 2 * 576 * 1536, 2 * (576 + 1536));
}

static void intensities(void **state)
{
	(void)state;
	near(bf16(1), 0.998, 3);
	near(bf16(4), 3.96, 2);
	near(bf16(16), 15.4, 1);
	near(bf16(64), 55.5, 1);
	near(formula_intensity(1, 32, 20, 0), 3.2, 9);  /* Q4_1: 20 bytes for 32 weights */
	near(formula_intensity(1, 32, 34, 0), 1.88, 2); /* Q8_0 */
	near(formula_intensity(1, PARAMS, READ, 0), 2.7856, 4);
	near(formula_attention_intensity(HEADS, HEADS, 2), 1, 9);
	near(formula_attention_intensity(HEADS, GROUPS, 2), 3, 9);
	near(formula_attention_intensity(HEADS, 1, 2), 9, 9);
	/* operations of attention are those of the matrices at this depth */
	near(2 * MATRICES / (4 * HEADS * HEAD * LAYERS), 3891, 0);
}

static double ridge_of(const char *id)
{
#define X(name, title, gb_s, ints, halves, floats, gb, source)                                     \
	if (!strcmp(id, #name))                                                                        \
		return formula_ridge(halves, gb_s);
	MACHINES(X)
#undef X
	return NAN;
}

static void ridges(void **state)
{
	(void)state;
	near(ridge_of("h100"), 295, 0);
	near(ridge_of("h200"), 206, 0);
	near(formula_ridge(1979e12, H200), 412, 0);
	near(formula_ridge(0.88e12, 36e9), 24, 0);
	near(formula_ridge(0.88e12, 36e9) / 3.2, 7.6, 1);
	near(formula_ridge(0.88e12, 57e9) / 3.2, 4.8, 1);
}

/* At 1,024 tokens a sequence. */
static double seconds(double batch, double bandwidth)
{
	return formula_latency(formula_memory(batch, 1024 * KV, READ), bandwidth);
}

static void speeds(void **state)
{
	(void)state;
	near(seconds(1, H200) * 1e6, 25.0, 1);
	near(formula_throughput(1, seconds(1, H200)) / 1e3, 39.9, 1);
	near(seconds(8, H200) * 1e6, 59, 0);
	near(formula_throughput(8, seconds(8, H200)) / 1e3, 135, 0);
	near(seconds(64, H200) * 1e6, 335, 0);
	near(formula_throughput(64, seconds(64, H200)) / 1e3, 191, 0);
	near(seconds(256, H200) * 1e6, 1278, 0);
	near(formula_throughput(256, seconds(256, H200)) / 1e3, 200, 0);
	near(H200 / (1024 * KV) / 1e3, 203, 0);
	near(READ / (1024 * KV), 4.1, 1);
	near(seconds(1, 36e9) * 1e3, 3.34, 2);
	near(formula_throughput(64, seconds(64, 36e9)), 1434, 0);
	/* the roof that takes longer binds; one that is not known does not */
	near(formula_roofline(100, 10, 10, 10), 10, 9);
	near(formula_roofline(5, 10, 10, 10), 1, 9);
	near(formula_roofline(100, 10, 0, 10), 1, 9);
}

static void speculation(void **state)
{
	(void)state;
	near(formula_expected(0.8, 4), 3.36, 2);
	near(formula_expected(1, 4), 5, 9);
	near(formula_expected(0, 4), 1, 9);
	near(formula_expected(0.8, 0), 1, 9);
}

static void cached_and_not(void **state)
{
	(void)state;
	near(formula_rows(1, 512, 0), 131328, 0);
	near(formula_rows(1, 512, 1), 512, 0);
	near(formula_pairs(1, 512, 0), 22500864, 0);
	near(formula_pairs(1, 512, 1), 131328, 0);
	near(formula_pairs(1, 512, 0) / formula_pairs(1, 512, 1), 171.3, 1);
	/* a prompt of 3, then 2 tokens: 3 and 4 rows, or 4 in all */
	near(formula_rows(3, 2, 0), 7, 0);
	near(formula_rows(3, 2, 1), 4, 0);
	near(formula_pairs(3, 2, 0), 6 + 10, 0);
	near(formula_pairs(3, 2, 1), 10, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_and_values),
		cmocka_unit_test(windows),
		cmocka_unit_test(weights_and_batches),
		cmocka_unit_test(intensities),
		cmocka_unit_test(ridges),
		cmocka_unit_test(speeds),
		cmocka_unit_test(speculation),
		cmocka_unit_test(cached_and_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
