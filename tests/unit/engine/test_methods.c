/* GPTQ, AWQ, SmoothQuant and LLM.int8() against plain versions in numpy (data/quantised.py). */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lab/gptq.h"
#include "lab/scales.h"
#include "kernels/format/encode.h"

enum { ROWS = 24, COLS = 96, SAMPLES = 320, GROUP = 32, W = ROWS * COLS };

static struct {
	float w[W], x[SAMPLES * COLS];
	float gptq[W], gptq_zero[W], gptq_order[W], awq[COLS], smooth[COLS], int8[W];
	float split[SAMPLES * ROWS]; /* products of x and w in Q8_0 */
} data;
static struct quant_input in;
static struct k_ctx *kernels;

static int setup(void **state)
{
	FILE *f = fopen("tests/data/quantised.bin", "rb");
	struct err e = { 0 };

	(void)state;
	if (!f || fread(&data, 1, sizeof data, f) != sizeof data || fgetc(f) != EOF)
		return -1;
	fclose(f);
	in = (struct quant_input){ .n = COLS,
		.rows = SAMPLES,
		.hessian = calloc(COLS * COLS, sizeof *in.hessian),
		.sum_abs = calloc(COLS, sizeof *in.sum_abs),
		.max_abs = calloc(COLS, sizeof *in.max_abs) };
	for (int s = 0; s < SAMPLES; s++)
		for (int i = 0; i < COLS; i++) {
			const float v = data.x[s * COLS + i];

			in.sum_abs[i] += (double)fabsf(v);
			in.max_abs[i] = fabsf(v) > in.max_abs[i] ? fabsf(v) : in.max_abs[i];
			for (int j = 0; j < COLS; j++)
				in.hessian[i * COLS + j] += v * data.x[s * COLS + j];
		}
	return k_open(&kernels, "cpu", NULL, 2, &e);
}

static int teardown(void **state)
{
	(void)state;
	free(in.hessian);
	free(in.sum_abs);
	free(in.max_abs);
	k_close(kernels);
	return 0;
}

/* So near to the largest. */
static void check_within(
	const char *what, const float *got, const float *expected, int n, float share)
{
	float most = 0;

	for (int i = 0; i < n; i++)
		most = fabsf(expected[i]) > most ? fabsf(expected[i]) : most;
	for (int i = 0; i < n; i++)
		if (!(fabsf(got[i] - expected[i]) <= share * most))
			fail_msg("%s: value %d is %g, not %g", what, i, (double)got[i], (double)expected[i]);
}

/* The choices, too, so each is equal. */
static void check(const char *what, const float *got, const float *expected, int n)
{
	check_within(what, got, expected, n, 1e-4f);
}

static void check_gptq(const char *what, struct quant_form f, bool act_order, const float *expected)
{
	struct form_scales none = { 0 };
	struct gptq g;
	struct err e = { 0 };
	uint8_t bytes[W * 2];
	float got[W];

	if (gptq_open(&g, kernels, in.hessian, COLS, 0.01, act_order, &e))
		fail_msg("%s", e.text);
	assert_int_equal(gptq_round(&g, &f, &none, data.w, ROWS, bytes, &e), 0);
	gptq_close(&g);
	k_decode(K_F16, bytes, W, got);
	check(what, got, expected, W);
}

static void test_gptq(void **state)
{
	struct quant_form f = { .type = K_F16, .bits = 3, .group = GROUP };

	(void)state;
	check_gptq("3 bits", f, false, data.gptq);
	f.zero_point = true;
	check_gptq("with a zero point", f, false, data.gptq_zero);
	f.zero_point = false;
	f.bits = 4;
	check_gptq("in the order of inputs", f, true, data.gptq_order);
}

static double output_error(const float *w)
{
	double sum = 0;

	for (int s = 0; s < SAMPLES; s++)
		for (int r = 0; r < ROWS; r++) {
			double d = 0;

			for (int c = 0; c < COLS; c++)
				d += ((double)w[r * COLS + c] - (double)data.w[r * COLS + c]) *
					 (double)data.x[s * COLS + c];
			sum += d * d;
		}
	return sum;
}

/* In a file's format the outputs lose less than with each weight rounded to the nearest. */
static void test_formats(void **state)
{
	static const enum k_type types[] = { K_Q4_0, K_Q4_1, K_Q5_0, K_Q8_0, K_IQ4_NL, K_MXFP4 };
	uint8_t bytes[W * 2];
	float got[W];

	(void)state;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		const struct quant_form f = { .type = types[i] };
		struct form_scales none = { 0 };
		struct gptq g;
		struct err e = { 0 };
		double nearest;

		k_encode(types[i], data.w, W, bytes);
		k_decode(types[i], bytes, W, got);
		nearest = output_error(got);
		assert_int_equal(gptq_open(&g, kernels, in.hessian, COLS, 0.01, false, &e), 0);
		assert_int_equal(gptq_round(&g, &f, &none, data.w, ROWS, bytes, &e), 0);
		gptq_close(&g);
		k_decode(types[i], bytes, W, got);
		if (!(output_error(got) < 0.7 * nearest))
			fail_msg(
				"%s: error %g, nearest %g", k_types[types[i]].name, output_error(got), nearest);
	}
}

static void test_awq(void **state)
{
	const struct quant_form f = { .type = K_F16, .bits = 3, .group = GROUP };
	const struct quant_reader reader = { data.w, ROWS, &f };
	struct awq_found found;
	struct err e = { 0 };
	float s[COLS];

	(void)state;
	assert_int_equal(awq_scales(kernels, &in, &reader, 1, s, &found, &e), 0);
	assert_true(found.error < found.plain && found.alpha > 0 && found.alpha < 1);
	check("AWQ", s, data.awq, COLS);
}

static void test_smooth(void **state)
{
	const struct quant_reader reader = { data.w, ROWS, NULL };
	float s[COLS];

	(void)state;
	smooth_scales(&in, &reader, 1, 0.5, s);
	check("SmoothQuant", s, data.smooth, COLS);
}

static void test_int8(void **state)
{
	const struct quant_form f = { .type = K_F16, .bits = 8, .group = FORM_ROW };
	uint8_t bytes[W * 2];
	float got[W], x[COLS];
	bool apart[COLS];

	(void)state;
	for (int c = 0; c < COLS; c++)
		apart[c] = in.max_abs[c] > K_OUTLIER;
	for (int r = 0; r < ROWS; r++)
		form_row_apart(&f, apart, data.w + r * COLS, COLS, x, bytes + r * COLS * 2);
	k_decode(K_F16, bytes, W, got);
	check("LLM.int8()", got, data.int8, W);
}

/* LLM.int8() at run time: the ops round and matmul (rule 24). */
static void test_split(void **state)
{
	static float got[SAMPLES * ROWS], d[SAMPLES * COLS / K_QBLOCK], sx[SAMPLES * COLS / K_QBLOCK];
	static int8_t q[SAMPLES * COLS];
	uint8_t raw[W / 32 * 34];
	struct err e = { 0 };
	struct k_matrix w = { .type = K_Q8_0, .n_rows = ROWS, .n_cols = COLS };
	struct k_op op[2] = { { .kind = K_OP_round }, { .kind = K_OP_matmul } };
	struct k_program p = { .op = op, .n_ops = 2 };

	(void)state;
	k_encode(K_Q8_0, data.w, W, raw);
	w.data = k_alloc(kernels, k_matrix_bytes(kernels, &w), K_WEIGHTS, "a matrix", &e);
	assert_non_null(w.data);
	k_pack(kernels, &w, raw);
	op[0].u.round = (struct k_round){ .x = data.x, .q = q, .d = d, .sx = sx, .dim = COLS };
	op[0].u.round.n = SAMPLES;
	op[0].u.round.to = K_ROUND_llm_int8;
	op[1].u.matmul = (struct k_matmul){ .in = { data.x, q, d, sx, COLS }, .n_parts = 1 };
	op[1].u.matmul.n = SAMPLES;
	op[1].u.matmul.above = K_OUTLIER;
	op[1].u.matmul.part[0].w = &w;
	op[1].u.matmul.part[0].out = got;
	assert_int_equal(k_run(kernels, &p, &e), 0);
	check_within("LLM.int8() at run time", got, data.split, SAMPLES * ROWS, 1e-5f);
	k_free(kernels, w.data);
}

/* Inputs that are all alike, none at all, or no numbers. */
static void test_hostile(void **state)
{
	const struct quant_form f = { .type = K_Q4_0 };
	static float h[COLS * COLS];
	struct form_scales none = { 0 };
	struct gptq g;
	uint8_t bytes[W * 2];
	float got[W];

	(void)state;
	for (int kind = 0; kind < 3; kind++) {
		struct err e = { 0 };

		for (int i = 0; i < COLS * COLS; i++)
			h[i] = kind == 0 ? 0 : kind == 1 ? 1 : NAN;
		if (kind == 2) {
			assert_int_equal(gptq_open(&g, kernels, h, COLS, 0.01, true, &e), -1);
			assert_int_equal(e.code, ERR_INPUT);
			continue;
		}
		assert_int_equal(gptq_open(&g, kernels, h, COLS, 0, false, &e), 0);
		assert_int_equal(gptq_round(&g, &f, &none, data.w, ROWS, bytes, &e), 0);
		k_decode(K_Q4_0, bytes, W, got);
		for (int i = 0; i < W; i++)
			assert_true(isfinite(got[i]) && (kind == 1 || got[i] == 0));
		gptq_close(&g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gptq),
		cmocka_unit_test(test_formats),
		cmocka_unit_test(test_awq),
		cmocka_unit_test(test_smooth),
		cmocka_unit_test(test_int8),
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
