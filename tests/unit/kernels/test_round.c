/* The op round: each format against a search for the nearest of all its values, and every
 * instruction set against the definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/arith.h"
#include "kernels/op/round.h"
#include "tests/support/isa_rig.h"

enum { MOST = 512, N = 3, DIM = 96 };

/* All finite values of a format of 8 bits, ascending. */
static int all_of(int exponents, int mantissa, int bias, float most, float *out)
{
	int n = 0;

	for (int e = 0; e < 1 << exponents; e++)
		for (int m = 0; m < 1 << mantissa; m++) {
			const float v = e ? ldexpf(1 + ldexpf((float)m, -mantissa), e - bias)
							  : ldexpf((float)m, 1 - bias - mantissa);

			if (v <= most)
				out[n++] = v;
		}
	return n;
}

/* The nearest; of two equally near ones that of the even index. */
static float nearest(const float *v, int n, float size)
{
	int best = 0;

	for (int i = 1; i < n; i++) {
		const double d = fabs((double)v[i] - (double)size),
					 was = fabs((double)v[best] - (double)size);

		if (d < was || (d == was && i % 2 == 0))
			best = i;
	}
	return v[best];
}

static void check_format(int exponents, int mantissa, int bias, float most, enum k_round_to to)
{
	float v[MOST];
	const int n = all_of(exponents, mantissa, bias, most, v);

	assert_true(v[n - 1] == most);
	for (int i = 0; i < 40000; i++) {
		float x = i < n           ? v[i]
				  : i < 2 * n - 1 ? (v[i - n] + v[i - n + 1]) / 2
								  : rig_number(most * 1.2f);
		float expected, got;

		x *= i % 3 && i >= 2 * n ? ldexpf(1, -(i % 24)) : 1;
		expected = copysignf(nearest(v, n, fabsf(x)), x);
		got = x;
		k_round_unit(&(struct k_round){ .x = &got, .dim = 1, .n = 1, .to = to }, 0);
		if (k_bits(expected) != k_bits(got))
			fail_msg("%a rounds to %a, not to %a", (double)x, (double)got, (double)expected);
	}
}

static void formats_of_eight_bits(void **state)
{
	float x = NAN;

	(void)state;
	check_format(4, 3, 7, 448, K_ROUND_e4m3);
	check_format(5, 2, 15, 57344, K_ROUND_e5m2);
	for (int to = 0; to < K_N_ROUNDS; to++) {
		x = NAN;
		k_round_unit(
			&(struct k_round){ .x = &x, .dim = 1, .n = 1, .to = (enum k_round_to)to, .largest = 1 },
			0);
		assert_true(isnan(x) || to == K_ROUND_int8_tensor);
	}
}

static void bf16_is_that_of_the_cache(void **state)
{
	(void)state;
	for (int i = 0; i < 100000; i++) {
		float x = i % 5 ? rig_number(1) : k_float(rig_next() & 0x7f7fffffu), got = x;
		const uint32_t u = k_bits(x > 0x1.fep127f ? 0x1.fep127f : x);

		k_round_unit(&(struct k_round){ .x = &got, .dim = 1, .n = 1, .to = K_ROUND_bf16 }, 0);
		assert_int_equal(k_bits(got), (u + 0x7fff + (u >> 16 & 1)) >> 16 << 16);
	}
}

static void f16_is_that_of_the_cache(void **state)
{
	(void)state;
	for (int i = 0; i < 100000; i++) {
		const float x =
			i % 5 ? rig_number(ldexpf(1, i % 45 - 28)) : k_float(rig_next() & 0x7f7fffffu);
		float got = x;

		k_round_unit(&(struct k_round){ .x = &got, .dim = 1, .n = 1, .to = K_ROUND_f16 }, 0);
		assert_int_equal(
			k_bits(got), k_bits(k_f16_to_f32(k_f32_to_f16(fmaxf(fminf(x, 65504), -65504)))));
	}
}

/* Values beyond 6 stay, and set no scale; as integers, the others have the same values. */
static void llm_int8(void **state)
{
	float x[DIM], was[DIM], d[DIM / K_QBLOCK], sx[DIM / K_QBLOCK];
	int8_t q[DIM];
	struct k_round a = { .x = x, .dim = DIM, .n = 1, .to = K_ROUND_llm_int8 };

	(void)state;
	for (int turn = 0; turn < 100; turn++) {
		float largest = 0;

		rig_fill(x, DIM, 7);
		memcpy(was, x, sizeof x);
		for (int i = 0; i < DIM; i++)
			largest = fabsf(x[i]) > 6 ? largest : fmaxf(largest, fabsf(x[i]));
		a.q = q, a.d = d, a.sx = sx;
		k_round_unit(&a, 0);
		assert_memory_equal(x, was, sizeof x);
		a.q = NULL;
		k_round_unit(&a, 0);
		for (int i = 0; i < DIM; i++) {
			const bool stays = fabsf(was[i]) > 6;

			assert_true(fabsf(d[i / K_QBLOCK] - largest / 127) <= 1e-6f * largest);
			assert_true(stays ? x[i] == was[i] && !q[i] : x[i] == d[i / K_QBLOCK] * q[i]);
			assert_true(stays || fabsf(x[i] - was[i]) <= largest / 127 * 0.5001f);
		}
		for (int b = 0, i = 0; b < DIM / K_QBLOCK; b++) {
			int sum = 0;

			for (; i < (b + 1) * K_QBLOCK; i++)
				sum += q[i];
			assert_true(sx[b] == d[b] * (float)sum);
		}
	}
}

/* Each value is a whole number of steps of its scale, and at most half a step away. */
static void integers(void **state)
{
	static const enum k_round_to kinds[] = { K_ROUND_int8_block, K_ROUND_int8_token,
		K_ROUND_int8_tensor };

	(void)state;
	for (int k = 0; k < 3; k++) {
		float x[DIM], was[DIM];

		rig_fill(x, DIM, 3);
		x[40] = 90;
		memcpy(was, x, sizeof x);
		k_round_unit(
			&(struct k_round){ .x = x, .dim = DIM, .n = 1, .to = kinds[k], .largest = 50 }, 0);
		for (int i = 0; i < DIM; i++) {
			const float largest = k == 2   ? 50
								  : k == 1 ? 90
										   : k_largest(was + i / K_QBLOCK * K_QBLOCK, K_QBLOCK);
			const double step = (double)largest / 127, steps = (double)x[i] / step;

			assert_true(fabs(steps - nearbyint(steps)) < 1e-4);
			assert_true(fabs((double)x[i] - (double)fminf(was[i], largest)) <= step * 0.5001);
		}
	}
}

/* A width that is no whole number of blocks, as that of a narrow input: its last block is short,
 * and the next row is not touched. */
static void a_short_last_block(void **state)
{
	enum { WIDTH = K_QBLOCK + 16 };
	float x[2 * WIDTH], was[2 * WIDTH], tail[K_QBLOCK] = { 0 };

	(void)state;
	rig_fill(x, 2 * WIDTH, 3);
	x[WIDTH] = 90;
	memcpy(was, x, sizeof x);
	memcpy(tail, x + K_QBLOCK, 16 * sizeof *x);
	k_round_unit(&(struct k_round){ .x = x, .dim = WIDTH, .n = 2, .to = K_ROUND_int8_block }, 0);
	k_round_unit(
		&(struct k_round){ .x = tail, .dim = K_QBLOCK, .n = 1, .to = K_ROUND_int8_block }, 0);
	assert_memory_equal(x + K_QBLOCK, tail, 16 * sizeof *x);
	assert_memory_equal(x + WIDTH, was + WIDTH, WIDTH * sizeof *x);
}

static void equal_on_all_instruction_sets(void **state)
{
	(void)state;
	for (int to = 0; to < K_N_ROUNDS; to++) {
		float x[N * DIM], expected[N * DIM], got[N * DIM];
		struct k_op op = { .kind = K_OP_round };

		rig_fill(x, N * DIM, 40);
		x[5] = INFINITY;
		op.u.round =
			(struct k_round){ .x = expected, .dim = DIM, .n = N, .to = (enum k_round_to)to };
		op.u.round.largest = 20;
		memcpy(expected, x, sizeof x);
		rig_run(ref, &op);
		op.u.round.x = got;
		for (int i = 0; i < n_fast; i++) {
			memcpy(got, x, sizeof x);
			rig_run(fast[i], &op);
			assert_memory_equal(expected, got, sizeof got);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(formats_of_eight_bits),
		cmocka_unit_test(bf16_is_that_of_the_cache),
		cmocka_unit_test(f16_is_that_of_the_cache),
		cmocka_unit_test(integers),
		cmocka_unit_test(llm_int8),
		cmocka_unit_test(a_short_last_block),
		cmocka_unit_test(equal_on_all_instruction_sets),
	};

	return cmocka_run_group_tests_name("round", tests, rig_setup, rig_teardown);
}
