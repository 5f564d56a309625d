/* The quantised weight formats: every one against the gguf package's reading of random blocks, and
 * a tiny model in each, whose tokens and logit hashes are the reference's on every instruction
 * set. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/engine.h"
#include "kernels/kernels.h"
#include "tests/support/tiny.h"

/* data/formats.py writes them so: COUNT weights of each format, as blocks and as numbers. */
enum { COUNT = 512, COLS = 256, MAX_RAW = COUNT * 4 };

static void read_all(FILE *f, void *data, size_t bytes)
{
	assert_int_equal(fread(data, 1, bytes, f), bytes);
}

/* What embedding rows of them give; -0 is 0. */
static void check_values(
	struct k_ctx *c, enum k_type type, const uint8_t *raw, const float *expected)
{
	static float x[COUNT];
	const int32_t ids[] = { 0, 1 };
	struct k_matrix m = { .type = type, .n_rows = COUNT / COLS, .n_cols = COLS };
	struct k_op op = { .kind = K_OP_embed,
		.u.embed = { .w = &m, .ids = ids, .x = x, .n = COUNT / COLS } };
	struct k_program p = { .op = &op, .n_ops = 1 };

	m.data = aligned_alloc(64, (k_packed_bytes(c, type, m.n_rows, COLS) + 63) / 64 * 64);
	assert_non_null(m.data);
	k_pack(c, &m, raw);
	memset(x, 0xff, sizeof x);
	k_run(c, &p, NULL);
	for (int i = 0; i < COUNT; i++)
		if (!(x[i] == expected[i]))
			fail_msg("%s (%s): weight %d is %a, not %a", k_types[type].name, k_isa_name(c), i,
				(double)x[i], (double)expected[i]);
	free(m.data);
}

static void test_gguf_package(void **state)
{
	FILE *f = fopen("tests/data/formats.bin", "rb");
	struct err e = { 0 };

	(void)state;
	assert_non_null(f);
	for (enum k_type t = 0; t < K_N_TYPES; t++) {
		const struct k_type_info *info = &k_types[t];
		uint8_t raw[MAX_RAW];
		float expected[COUNT];

		if (info->block == 1)
			continue;
		read_all(f, raw, (size_t)(COUNT / info->block * info->block_bytes));
		read_all(f, expected, sizeof expected);
		for (const char *const *isa = k_isas(); *isa; isa++) {
			struct k_ctx *c;

			assert_int_equal(k_open(&c, "cpu", *isa, 1, &e), 0);
			check_values(c, t, raw, expected);
			k_close(c);
		}
	}
	assert_int_equal(fgetc(f), EOF);
	fclose(f);
}

struct answer {
	int64_t id[64], hash[64];
	int n;
};

static void on_event(void *arg, const struct event *ev)
{
	struct answer *a = arg;

	if (ev->kind != EV_token || a->n == 64)
		return;
	a->id[a->n] = ev->u.token.id;
	a->hash[a->n++] = ev->u.token.hash;
}

/* A prompt of many rows and then a token at a time, greedily. */
static void answer(
	const char *model, const char *backend, const char *isa, int threads, struct answer *a)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.max_tokens = 12,
		.params = SAMPLE_DEFAULTS,
		.text = "test",
		.ignore_end = true };
	struct engine *engine;
	struct err e = { 0 };
	int32_t ids[21];

	for (int i = 0; i < 21; i++)
		ids[i] = 3 + i * 37 % 256;
	q.ids = ids;
	q.n_ids = 21;
	q.params.temperature = 0;
	o.model = model;
	o.backend = backend;
	o.isa = isa;
	o.threads = threads;
	o.ctx = 64;
	*a = (struct answer){ 0 };
	if (engine_open(&engine, &o, &e))
		fail_msg("%s", e.text);
	engine_add_sink(engine, on_event, a);
	engine_begin(engine, NULL);
	assert_true(engine_submit(engine, &q, &e) > 0);
	while (engine_step(engine, &e) > 0)
		;
	assert_int_equal(e.code, 0);
	assert_int_equal(a->n, 12);
	engine_close(engine);
}

static void check_model(const struct tiny_options *o, const char *what)
{
	struct err e = { 0 };
	char *path = tiny_temp(o, &e);
	struct answer expected, got;

	if (!path)
		fail_msg("%s: %s", what, e.text);
	answer(path, "ref", NULL, 1, &expected);
	for (const char *const *isa = k_isas(); *isa; isa++)
		for (int threads = 1; threads <= (strcmp(*isa, "scalar") ? 3 : 1); threads++) {
			answer(path, "cpu", *isa, threads, &got);
			for (int i = 0; i < expected.n; i++)
				if (got.id[i] != expected.id[i] || got.hash[i] != expected.hash[i])
					fail_msg("%s on %s with %d threads: token %d differs from the reference's",
						what, *isa, threads, i);
		}
	unlink(path);
	free(path);
}

static struct tiny_options wide(void)
{
	struct tiny_options o = TINY_DEFAULTS;

	o.dim = 256;
	o.ffn = 512;
	o.ctx = 64;
	o.layers = 1;
	return o;
}

static void test_models(void **state)
{
	(void)state;
	for (int t = 0; t < K_N_TYPES; t++) {
		struct tiny_options o = wide();

		o.type = o.embd_type = (enum k_type)t;
		check_model(&o, k_types[t].name);
	}
}

/* Several formats in one file, and in one product: what Q4_K_M and Q5_K_M files hold. */
static void test_mixed_models(void **state)
{
	static const enum k_type types[][2] = { { K_Q4_K, K_Q6_K }, { K_Q5_K, K_Q6_K },
		{ K_F16, K_Q5_0 }, { K_IQ4_NL, K_BF16 }, { K_Q2_K, K_Q3_K }, { K_IQ4_XS, K_MXFP4 } };

	(void)state;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		struct tiny_options o = wide();

		o.type = types[i][0];
		o.embd_type = types[i][1];
		o.mix = true;
		o.tied = i % 2;
		check_model(&o, k_types[o.type].name);
	}
}

/* Rounding to a format and reading it back: a field in the wrong place would cost more than
 * this. */
static void test_rounding(void **state)
{
	static const double most[K_N_TYPES] = { [K_F32] = 0,
		[K_F16] = 0.0005,
		[K_BF16] = 0.004,
		[K_Q8_0] = 0.01,
		[K_Q4_0] = 0.11,
		[K_Q4_1] = 0.09,
		[K_Q5_0] = 0.06,
		[K_Q5_1] = 0.045,
		[K_IQ4_NL] = 0.11,
		[K_Q4_K] = 0.1,
		[K_Q5_K] = 0.05,
		[K_Q6_K] = 0.035,
		[K_IQ4_XS] = 0.11,
		[K_Q2_K] = 0.4,
		[K_Q3_K] = 0.25,
		[K_MXFP4] = 0.2 };
	static float x[COLS], y[COLS];
	struct err e = { 0 };
	struct k_ctx *c;

	(void)state;
	assert_int_equal(k_open(&c, "ref", NULL, 1, &e), 0);
	for (int t = 0; t < K_N_TYPES; t++) {
		const int32_t id = 0;
		struct bytes b = { 0 };
		struct k_matrix m = { .type = (enum k_type)t, .n_rows = 1, .n_cols = COLS };
		struct k_op op = { .kind = K_OP_embed, .u.embed = { .w = &m, .ids = &id, .x = y, .n = 1 } };
		struct k_program p = { .op = &op, .n_ops = 1 };
		double error = 0, size = 0;

		for (int i = 0; i < COLS; i++) /* evenly over a range, in no order */
			x[i] = (float)(i * 97 % COLS - COLS / 2) * 0.01f;
		for (int i = 0; i < COLS; i += k_types[t].block)
			tiny_put_block(&b, m.type, x + i);
		m.data = b.data;
		k_run(c, &p, NULL);
		for (int i = 0; i < COLS; i++) {
			error += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
			size += (double)x[i] * (double)x[i];
		}
		if (!(error <= most[t] * most[t] * size))
			fail_msg("%s: %g of the size is lost", k_types[t].name, sqrt(error / size));
		bytes_free(&b);
	}
	k_close(c);
}

/* The list of formats that people read. */
static void test_models_doc(void **state)
{
	static char text[1 << 16];
	FILE *f = fopen("docs/models.md", "r");

	(void)state;
	assert_non_null(f);
	assert_true(fread(text, 1, sizeof text - 1, f) > 0);
	fclose(f);
	for (int t = 0; t < K_N_TYPES; t++)
		if (!strstr(text, k_types[t].name))
			fail_msg("docs/models.md does not name %s", k_types[t].name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gguf_package),
		cmocka_unit_test(test_models),
		cmocka_unit_test(test_mixed_models),
		cmocka_unit_test(test_rounding),
		cmocka_unit_test(test_models_doc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
