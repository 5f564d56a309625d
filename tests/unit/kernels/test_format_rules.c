/* Probes of rule 5 (docs/arithmetic.md) for every quantised format: each byte that a scale, a
 * sub-scale or an exponent can have, with weights and activations of greatest size, zeros,
 * infinities and no numbers. The reference against the rule evaluated here, in exact integers and
 * doubles rounded once; every instruction set against the reference; and that no integer outgrows
 * what carries it. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/arith.h"
#include "kernels/format/formats.h"
#include "tests/support/contexts.h"
#include "tests/support/blocks.h"

enum { ROWS = 256, COLS = 512, BLOCKS = COLS / K_QBLOCK, N = 6 };

static struct k_ctx *ref;
static struct contexts all;

static uint32_t random32(void)
{
	static uint32_t i;
	uint32_t w[4];

	k_draw_words(7, i++, 0, 0, 0, w);
	return w[0];
}

static int open_all(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(k_open(&ref, "ref", NULL, 1, &e), 0);
	assert_int_equal(contexts_open(&all, &(int){ 1 }, 1, true, &e), 0);
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	contexts_close(&all);
	k_close(ref);
	return 0;
}

/* Row v has byte v in all places of its scales: the high byte of f16, an exponent, sub-scales. */
static void fill_rows(uint8_t *raw, enum k_type type, enum mood mood)
{
	const struct k_facts f = k_facts_of(type);
	const size_t row = (size_t)(COLS / f.block);
	const int32_t subs = 4 * k_sub_words(type) + (f.subs == K_SUBS_8X6 ? 2 : 0);

	blocks_fill(raw, type, ROWS * row, mood, random32);
	for (size_t b = 0; b < ROWS * row; b++, raw += f.bytes) {
		const uint8_t v = (uint8_t)(b / row);

		if (mood != NASTY || b % 2 == 0) { /* small ones would be lost among others */
			raw[f.at + (f.number == K_NUM_F16)] = v;
			if (f.min_at >= 0)
				raw[f.min_at + 1] = (uint8_t)(v * 37);
		}
		memset(raw + f.subs_at, v, (size_t)subs);
	}
}

/* Greatest of either sign, random, with blocks that are zero, tiny, infinite, no number. */
static void fill_acts(struct k_acts *a)
{
	static const float odd[] = { 0, 0x1p-120f, INFINITY, NAN, 0x1p-99f, 3e38f };

	for (int r = 0; r < N; r++)
		for (int k = 0; k < COLS; k++) {
			const float x = r < 2 ? (r ? 1.0f : -1.0f) : blocks_float(TAME, random32);

			a->x[r * COLS + k] = r >= 4 && k / 32 % 3 == 0 ? odd[k / 32 % 6] * x : x;
		}
	for (int b = 0; b < N * BLOCKS; b++)
		k_quantise_block(a->x + b * 32, a->q + b * 32, a->d + b, a->sx + b);
}

static float narrow(double exact)
{
	return (float)exact;
}

/* Rule 5 for one output; and the integers stay within their bounds. */
static float rule(enum k_type type, const uint8_t *row, const struct k_acts *a, int r)
{
	const struct k_facts f = k_facts_of(type);
	const int32_t per = f.block / K_QBLOCK;
	float acc = 0;

	for (int b = 0; b < BLOCKS; b++) {
		const uint8_t *block = row + (size_t)(b / per) * (size_t)f.bytes;
		const float d = a->d[r * BLOCKS + b];
		int64_t dot = 0, minima = 0;
		uint8_t code[K_QBLOCK];
		int8_t value[K_QBLOCK];
		struct k_scales s;

		k_read_scales(type, block, b % per, &s);
		k_read_codes(type, block, b % per, code);
		k_values(type, code, value);
		for (int k = 0; k < K_QBLOCK; k++) {
			const int64_t q = a->q[r * COLS + b * K_QBLOCK + k];

			assert_in_range(value[k] - k_least(type), 0, k_most(type) - k_least(type));
			dot += s.sub[k / 16] * value[k] * q;
			minima += s.min[k / 16] * q;
		}
		assert_true(llabs(dot) < 1 << 24 && llabs(minima) < 1 << 22);
		assert_true(k_has_halves(type) || llabs(dot) < 1 << 22);
		acc = fmaf(d, narrow((double)s.dw * (double)dot), acc);
		if (k_has_two_terms(type))
			acc = fmaf(d, narrow((double)s.mw * (double)minima), acc);
		else if (k_has_min(type))
			acc = fmaf(s.mw, narrow((double)d * (double)minima), acc);
	}
	return acc;
}

static void multiply(
	struct k_ctx *c, enum k_type type, const uint8_t *raw, const struct k_acts *a, float *y)
{
	struct k_matrix m = { .type = type, .n_rows = ROWS, .n_cols = COLS };
	struct k_op op = { .kind = K_OP_matmul,
		.u.matmul = { .in = *a, .n_parts = 1, .n = N, .part = { { .w = &m, .out = y } } } };
	struct k_program p = { .op = &op, .n_ops = 1 };

	m.data = aligned_alloc(64, (k_packed_bytes(c, type, ROWS, COLS) + 63) / 64 * 64);
	assert_non_null(m.data);
	k_pack(c, &m, raw);
	k_run(c, &p, NULL);
	free(m.data);
}

static void same(float got, float expected, const char *type, const char *who, int i)
{
	if (k_bits(got) != k_bits(expected) && (got == got || expected == expected))
		fail_msg("%s, %s: row %d of activations by row %#x of weights is %a, not %a", type, who,
			i / ROWS, (unsigned)(i % ROWS), (double)got, (double)expected);
}

static void test_rule(void **state)
{
	static float x[N * COLS], d[N * BLOCKS], sx[N * BLOCKS], y[N * ROWS], expected[N * ROWS];
	static int8_t q[N * COLS];
	static uint8_t raw[ROWS * COLS * 2];
	struct k_acts a = { .x = x, .q = q, .d = d, .sx = sx, .dim = COLS };

	(void)state;
	fill_acts(&a);
	for (enum k_type t = 0; t < K_N_TYPES; t++)
		for (int mood = TAME; k_is_quantised(t) && mood <= EXTREME; mood++) {
			const size_t row = (size_t)(COLS / k_types[t].block * k_types[t].block_bytes);

			fill_rows(raw, t, (enum mood)mood);
			for (int i = 0; i < N * ROWS; i++)
				expected[i] = rule(t, raw + (size_t)(i % ROWS) * row, &a, i / ROWS);
			multiply(ref, t, raw, &a, y);
			for (int i = 0; i < N * ROWS; i++)
				same(y[i], expected[i], k_types[t].name, "the reference", i);
			for (int c = 0; c < all.n; c++) {
				multiply(all.ctx[c], t, raw, &a, y);
				for (int i = 0; i < N * ROWS; i++)
					same(y[i], expected[i], k_types[t].name, k_isa_name(all.ctx[c]), i);
			}
		}
}

/* All 256 exponents and 16 codes: values are doubled and the power halved, so 255 is 2^127 and no
 * NaN. */
static void test_e8m0(void **state)
{
	static uint8_t raw[ROWS * 17];
	static float x[ROWS * K_QBLOCK];
	static int32_t ids[ROWS];
	struct k_matrix m = { .type = K_MXFP4, .n_rows = ROWS, .n_cols = K_QBLOCK };
	struct k_op op = { .kind = K_OP_embed, .u.embed = { .w = &m, .ids = ids, .x = x, .n = ROWS } };
	struct k_program p = { .op = &op, .n_ops = 1 };

	(void)state;
	for (int e = 0; e < ROWS; e++) {
		ids[e] = e;
		raw[e * 17] = (uint8_t)e;
		for (int k = 0; k < 16; k++)
			raw[e * 17 + 1 + k] = (uint8_t)(k | (15 - k) << 4);
	}
	for (int c = -1; c < all.n; c++) {
		struct k_ctx *use = c < 0 ? ref : all.ctx[c];

		m.data = aligned_alloc(64, (k_packed_bytes(use, K_MXFP4, ROWS, K_QBLOCK) + 63) / 64 * 64);
		k_pack(use, &m, raw);
		k_run(use, &p, NULL);
		for (int i = 0; i < ROWS * K_QBLOCK; i++) {
			static const float e2m1[] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6 };
			const int e = i / K_QBLOCK, k = i % K_QBLOCK, code = k < 16 ? k : 31 - k;
			const float value = ldexpf(code < 8 ? e2m1[code] : -e2m1[code - 8], e - 127);

			assert_true(x[i] == value);
		}
		free(m.data);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_rule), cmocka_unit_test(test_e8m0) };

	return cmocka_run_group_tests(tests, open_all, close_all);
}
