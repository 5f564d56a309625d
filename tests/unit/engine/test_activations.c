/* The settings weights, activations and outliers: what is rounded, what comes back, and what is
 * measured.
 * (Equal bits on every path: test_certify.c; the price: test_twin.c.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/engine.h"
#include "lab/quant.h"
#include "event/event.h"
#include "tests/support/tiny.h"

enum { LAYERS = 2, INPUTS = 4 * LAYERS };

struct seen {
	uint64_t hash;
	int n_outliers;
	double largest;
};

static void check_outliers(struct seen *s, const struct ev_outliers *e)
{
	struct {
		uint32_t channel;
		float size;
	} top[8];

	assert_int_equal(e->nth, s->n_outliers++);
	assert_int_equal(e->layer, e->nth / 4);
	assert_int_equal(e->top.size, sizeof top);
	memcpy(top, e->top.data, sizeof top);
	assert_true((double)top[0].size == e->largest && e->largest > e->median && e->median > 0);
	for (int i = 1; i < 8; i++)
		assert_true(top[i].size <= top[i - 1].size && top[i].channel < e->channels);
	assert_int_equal(e->channels, e->nth % 4 == 3 ? 128 : 64);
	assert_true(e->smoothed > 1 && e->above_six >= 0 && e->above_six <= e->channels);
	assert_true((e->above_six > 0) == (e->largest > 6));
}

static void on_event(void *arg, const struct event *ev)
{
	struct seen *s = arg;

	if (ev->kind == EV_token)
		s->hash = s->hash * 31 + (uint64_t)ev->u.token.hash;
	else if (ev->kind == EV_outliers)
		check_outliers(s, &ev->u.outliers);
}

static struct engine *opened(const char *model, struct seen *s)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct engine *e = NULL;
	struct err err = { 0 };

	*s = (struct seen){ 0 };
	o.model = model;
	o.threads = 2;
	if (engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(e, on_event, s);
	engine_begin(e, NULL);
	return e;
}

static uint64_t run(struct engine *e, struct seen *s)
{
	int32_t ids[20];
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.n_ids = 20,
		.max_tokens = 8,
		.params = SAMPLE_DEFAULTS,
		.text = "test",
		.ignore_end = true };
	struct err err = { 0 };

	s->hash = 0;
	for (int k = 0; k < 20; k++)
		ids[k] = 10 + k * 7 % 40;
	assert_true(engine_submit(e, &q, &err) > 0);
	while (engine_step(e, &err) > 0)
		;
	assert_int_equal(err.code, 0);
	return s->hash;
}

static void set(struct engine *e, const char *name, const char *value)
{
	struct err err = { 0 };

	if (engine_set(e, name, value, &err))
		fail_msg("%s", err.text);
}

static char *model_of(enum k_type type)
{
	struct tiny_options t = TINY_DEFAULTS;
	struct err err = { 0 };
	char *path;

	t.type = type;
	path = tiny_temp(&t, &err);
	assert_non_null(path);
	return path;
}

static void each_format_is_another_and_the_models_comes_back(void **state)
{
	static const char *const words[] = { "model", "f32", "f16", "bf16", "e4m3", "e5m2",
		"int8-block", "int8-token", "llm.int8", "int8-tensor", "model" };
	enum { N = sizeof words / sizeof *words };
	char *path = model_of(K_Q4_1);
	uint64_t hash[N];
	struct seen s;
	struct engine *e = opened(path, &s);

	(void)state;
	for (int i = 0; i < N; i++) {
		set(e, "activations", words[i]);
		hash[i] = run(e, &s);
		for (int k = 0; k < i; k++)
			assert_true((hash[k] == hash[i]) == (i == N - 1 && !k));
	}
	engine_close(e);
	unlink(path);
	free(path);
}

/* Whichever of the two comes first, and after either is gone. */
static void small_values_are_left_out_of_products_by_floats(void **state)
{
	char *path = model_of(K_Q4_1);
	struct seen s;
	struct engine *e = opened(path, &s);
	uint64_t plain, both;

	(void)state;
	set(e, "activations", "bf16");
	plain = run(e, &s);
	set(e, "skip-below", "0.3");
	both = run(e, &s);
	assert_true(both != plain);
	set(e, "activations", "model");
	set(e, "activations", "bf16");
	assert_true(run(e, &s) == both);
	set(e, "skip-below", "0");
	assert_true(run(e, &s) == plain);
	engine_close(e);
	unlink(path);
	free(path);
}

/* Weights that are floats are multiplied by floats anyway. */
static void floats_are_what_they_were(void **state)
{
	char *path = model_of(K_F32);
	struct seen s;
	struct engine *e = opened(path, &s);
	const uint64_t hash = run(e, &s);

	(void)state;
	set(e, "activations", "f32");
	assert_true(run(e, &s) == hash);
	engine_close(e);
	unlink(path);
	free(path);
}

static void forms_are_read_as_they_are_printed(void **state)
{
	static const char *const good[][2] = { { "4/32", "4-bit/32" }, { "3", "3-bit/128" },
		{ "8-BIT/row", "8-bit/row" }, { "2-bit/tensor", "2-bit/tensor" },
		{ "4/128z", "4-bit/128z" }, { "NF4/64d", "nf4/64d" }, { "e4m3/row", "e4m3/row" },
		{ "q4_0", "Q4_0" } };
	static const char *const bad[] = { "", "1/32", "9/32", "4/", "4/0", "4/-1", "4/32x", "4/32zz",
		"4 /32", "nf4/64z", "e4m3/64z", "4/row d", "4/rowd", "Q4_9", "four" };
	struct quant_form f;
	struct err err = { 0 };
	char name[32];

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		for (int k = 0; k < 2; k++) {
			assert_int_equal(form_parse(good[i][k], &f, &err), 0);
			assert_string_equal(form_name(&f, name), good[i][1]);
		}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(form_parse(bad[i], &f, &err), -1);
		assert_int_equal(err.code, ERR_USAGE);
		err = (struct err){ 0 };
	}
}

static uint64_t of_file_in(const char *source, const char *form)
{
	struct quant_options o = { .otherwise = K_N_TYPES, .common = { .threads = 2 } };
	struct quant_result r;
	struct err err = { 0 };
	char path[96];
	struct seen s;
	struct engine *e;
	uint64_t hash;

	snprintf(path, sizeof path, "%s.rounded", source);
	if (form_parse(form, &o.to, &err) || quantize_file(source, path, &o, &r, &err))
		fail_msg("%s: %s", form, err.text);
	e = opened(path, &s);
	hash = run(e, &s);
	engine_close(e);
	unlink(path);
	return hash;
}

/* A model of floats under `weights` has the bits of the file that quantize makes of it. */
static void weights_are_those_of_the_rounded_file(void **state)
{
	static const char *const forms[] = { "4-bit/32", "3-bit/row", "2-bit/64z", "nf4/64d",
		"e4m3/row", "8-bit/tensor" };
	struct tiny_options t = TINY_DEFAULTS;
	struct err err = { 0 };
	struct seen s;
	struct engine *e;
	uint64_t exact;
	char *path;

	(void)state;
	t.type = t.embd_type = K_F32;
	path = tiny_temp(&t, &err);
	e = opened(path, &s);
	exact = run(e, &s);
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		set(e, "weights", forms[i]);
		assert_true(run(e, &s) == of_file_in(path, forms[i]));
		assert_true(run(e, &s) != exact);
	}
	set(e, "activations", "int8-tensor");
	assert_int_equal(engine_set(e, "weights", "q4_k", &err), -1); /* blocks of 256 */
	assert_non_null(strstr(err.text, "blocks of 256"));
	assert_int_equal(engine_set(e, "weights", "5 bits", &err), -1);
	set(e, "activations", "model");
	assert_true(run(e, &s) == of_file_in(path, forms[5])); /* what was refused changed nothing */
	set(e, "weights", "off");                              /* as model: what other settings take */
	assert_true(run(e, &s) == exact);
	engine_close(e);
	unlink(path);
	free(path);
}

static void experts_are_refused(void **state)
{
	struct seen s;
	struct engine *e = opened("tests/data/zoo/mixtral.gguf", &s);
	struct err err = { 0 };

	(void)state;
	assert_int_equal(engine_set(e, "activations", "bf16", &err), -1);
	assert_non_null(strstr(err.text, "experts"));
	assert_int_equal(engine_set(e, "weights", "4/32", &err), -1);
	run(e, &s);
	engine_close(e);
}

static void latent_attention_is_refused_as_such(void **state)
{
	struct seen s;
	struct engine *e = opened("demos/models/family/latent.gguf", &s);
	struct err err = { 0 };

	(void)state;
	assert_int_equal(engine_set(e, "weights", "4/32", &err), -1);
	assert_non_null(strstr(err.text, "latent attention"));
	assert_null(strstr(err.text, "experts"));
	engine_close(e);
}

static void outliers_of_each_input(void **state)
{
	char *path = model_of(K_Q8_0);
	struct seen s;
	struct engine *e = opened(path, &s);
	const uint64_t hash = run(e, &s);
	struct err err = { 0 };

	(void)state;
	set(e, "outliers", "measure");
	assert_int_equal(s.n_outliers, INPUTS);
	assert_true(run(e, &s) == hash); /* and it changes nothing */
	s.n_outliers = 0;
	set(e, "activations", "int8-token");
	set(e, "outliers", "measure");
	assert_int_equal(s.n_outliers, INPUTS);
	assert_int_equal(engine_set(e, "outliers", "3", &err), -1);
	engine_close(e);
	unlink(path);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_format_is_another_and_the_models_comes_back),
		cmocka_unit_test(small_values_are_left_out_of_products_by_floats),
		cmocka_unit_test(floats_are_what_they_were),
		cmocka_unit_test(forms_are_read_as_they_are_printed),
		cmocka_unit_test(weights_are_those_of_the_rounded_file),
		cmocka_unit_test(experts_are_refused),
		cmocka_unit_test(latent_attention_is_refused_as_such),
		cmocka_unit_test(outliers_of_each_input),
	};

	return cmocka_run_group_tests_name("activations", tests, NULL, NULL);
}
