/* certify finds nothing where all is equal, and finds it where something differs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/sched/policy.h"
#include "kernels/format/columns.h"
#include "sessions/certify/certify.h"
#include "tests/extend/policy_longest.c"
#include "tests/support/adapter_file.h"
#include "tests/support/thorough.h"
#include "tests/support/tiny.h"

/* The product's, and one more: certify tries what the table has. */
extern const struct sched_policy policy_fcfs, policy_shortest;
const struct sched_policy *const sched_policies[] = { &policy_fcfs, &policy_shortest,
	&policy_longest, NULL };

struct seen {
	int n_cases, n_equal;
	bool changed;
	char *model, *other; /* other takes the model's place after the first case, if not NULL */
};

static void tell(void *arg, const struct certify_case *c)
{
	struct seen *s = arg;
	/* a cache format's base is made when first needed, so of the model as it is by then */
	bool late = s->changed && (strstr(c->axis, "cache format") || strstr(c->what, "cache format"));
	s->n_cases += !late;
	s->n_equal += c->equal && !late;
	if (s->other) {
		assert_int_equal(rename(s->other, s->model), 0);
		free(s->other);
		s->other = NULL;
		s->changed = true;
	}
}

static char *make_model(uint64_t seed)
{
	struct tiny_options o = TINY_DEFAULTS;
	struct err e = { 0 };
	o.seed = seed;
	char *path = tiny_temp(&o, &e);
	if (!path)
		fail_msg("%s", e.text);
	return path;
}

static const struct certify_value *find(
	const struct certify_summary *s, const char *axis, const char *value)
{
	for (int i = 0; i < s->n_values; i++)
		if (!strcmp(s->value[i].axis, axis) && !strcmp(s->value[i].value, value))
			return &s->value[i];
	fail_msg("no value %s of %s", value, axis);
	return NULL;
}

/* The short texts that scalar kernels compute do not fill pages, and leave a drafter nothing to
 * guess. */
static bool is_too_short(const char *axis)
{
	return !strcmp(k_isas()[0], "scalar") && strcmp(axis, "kernels") && strcmp(axis, "batch");
}

static void test_equal(void **state)
{
	(void)state;
	static const char *const must[][2] = {
		{ "kernels", "ref" },
		{ "page size", "64" },
		{ "page order", "shuffled" },
		{ "prefill chunk", "7" },
		{ "batch", "4" },
		{ "batch", "17" },
		{ "row", "5" },
		{ "prefix", "hit" },
		{ "prefix", "pinned" },
		{ "preemption", "forced" },
		{ "drafts", "4" },
		{ "watched", "attention" },
		{ "watched", "recorded" },
		{ "watched", "twin" },
		{ "drafter", "ngram tree" },
		{ "drafter", "jacobi" },
		{ "drafter", "lookahead" },
		{ "drafter", "skip" },
		{ "drafter", "draft" },
		{ "drafter", "auto" },
		{ "rule", "rejection" },
		{ "policy", "shortest" },
		{ "policy", "longest" },
		{ "cache format", "f32" },
		{ "cache format", "bf16" },
		{ "cache format", "e4m3" },
	};
	struct seen s = { .model = make_model(1) };
	struct certify_options o = { .model = s.model, .quick = true, .seed = 1, .mixed = 6 };
	struct certify_summary sum, again;
	struct err e = { 0 };
	assert_int_equal(certify_run(&o, tell, &s, &sum, &e), 0);
	assert_int_equal(sum.n_differ, 0);
	assert_int_equal(sum.n_cases, s.n_cases);
	assert_int_equal(s.n_equal, s.n_cases);
	assert_int_equal(sum.n_mixed, 6);
	assert_true(sum.pairs_met > 50 && sum.pairs_met < sum.pairs_possible);
	assert_true(sum.n_tokens > 5 * sum.n_cases); /* scalar kernels compute short texts */
	assert_non_null(strstr(sum.formats, "Q4_1"));
	assert_string_equal(sum.memory, "paged 2 layers");
	for (size_t i = 0; i < sizeof must / sizeof *must; i++)
		if (find(&sum, must[i][0], must[i][1])->cases < 1 && !is_too_short(must[i][0]))
			fail_msg("%s %s was never at work", must[i][0], must[i][1]);
	/* another choice of mixed cases and order of pages: the same computation */
	o.seed = 2;
	o.mixed = 1;
	assert_int_equal(certify_run(&o, tell, &s, &again, &e), 0);
	assert_true(sum.hash == again.hash && sum.hash != 0);
	unlink(s.model);
	free(s.model);
}

/* With an adapter: the one under test with it, and alone without among others that have it. */
static void test_adapter(void **state)
{
	static const char *const parts[] = { "attn_q.weight", "ffn_down.weight", NULL };
	const struct adapter_spec spec = {
		.seed = 5, .rank = 4, .size = 0.5f, .parts = parts, .arch = "llama"
	};
	struct seen s = { .model = make_model(1) };
	char *file = adapter_temp(s.model, &spec);
	struct certify_options o = {
		.model = s.model, .lora = file, .quick = true, .seed = 1, .mixed = 4
	};
	struct certify_summary sum, plain;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(certify_run(&o, tell, &s, &sum, &e), 0);
	assert_int_equal(sum.n_differ, 0);
	if (!is_too_short("adapter"))
		assert_true(find(&sum, "adapter", "its own")->cases > 0 &&
					find(&sum, "adapter", "others'")->cases > 0 &&
					!find(&sum, "adapter", "others'")->idle);
	o = (struct certify_options){ .model = s.model, .quick = true, .seed = 1, .mixed = 1 };
	assert_int_equal(certify_run(&o, tell, &s, &plain, &e), 0);
	assert_true(plain.hash == sum.hash && plain.n_axes == sum.n_axes);
	unlink(file);
	unlink(s.model);
	free(file);
	free(s.model);
}

/* Left to run (mixed = 0), every pair that can be had meets, in cases that only the seed
 * chooses. */
enum { MOST_CASES = 1024 };
struct order {
	int n;
	char what[MOST_CASES][400];
};

static void note(void *arg, const struct certify_case *c)
{
	struct order *o = arg;
	if (!c->equal)
		fail_msg("%s %s differs", c->axis, c->what);
	assert_true(o->n < MOST_CASES);
	snprintf(o->what[o->n++], sizeof o->what[0], "%s %s", c->axis, c->what);
}

static void check_all_met(const struct certify_summary *s)
{
	for (int i = 0; i < s->n_values; i++)
		for (int j = i + 1; j < s->n_values; j++)
			if (s->pair[i][j] == CERTIFY_PAIR_LEFT)
				print_message("never met: %s %s, %s %s\n", s->value[i].axis, s->value[i].value,
					s->value[j].axis, s->value[j].value);
	assert_int_equal(s->pairs_met, s->pairs_possible);
	for (int i = 0; i < s->n_values; i++)
		assert_true(s->value[i].base || s->value[i].cases > 1);
}

static void test_all_pairs(void **state)
{
	(void)state;
	struct tiny_options t = TINY_DEFAULTS;
	struct certify_summary *sum = calloc(2, sizeof *sum);
	struct order *order = calloc(2, sizeof *order);
	struct err e = { 0 };
	t.ctx = 64 + 520; /* enough for the largest chunk */
	t.layers = 1;
	char *path = tiny_temp(&t, &e);
	assert_true(path && sum && order);
	struct certify_options o = { .model = path, .seed = 3, .mixed = wants_all() ? 0 : 12 };
	if (certify_run(&o, note, &order[0], &sum[0], &e))
		fail_msg("%s", e.text);
	if (wants_all())
		check_all_met(&sum[0]);
	assert_false(sum[0].out_of_time);
	int impossible = 0;
	for (int i = 0; i < sum[0].n_rules; i++)
		impossible += sum[0].rule[i].n_pairs;
	for (int i = 0; i < sum[0].n_values; i++)
		for (int j = 0; j < sum[0].n_values; j++)
			impossible -= sum[0].pair[i][j] == CERTIFY_PAIR_IMPOSSIBLE;
	assert_int_equal(impossible, 0);
	o.mixed = 6; /* the same seed, the same cases, of which fewer are asked for */
	if (certify_run(&o, note, &order[1], &sum[1], &e))
		fail_msg("%s", e.text);
	assert_int_equal(sum[1].n_mixed, 6);
	assert_memory_equal(order[0].what, order[1].what, (size_t)order[1].n * sizeof order[1].what[0]);
	unlink(path);
	free(path);
	free(order);
	free(sum);
}

/* The values that the proof promises, in full. */
static void test_values(void **state)
{
	(void)state;
	static const char *const must[][2] = {
		{ "threads", "1" },
		{ "threads", "2" },
		{ "threads", "3" },
		{ "threads", "7" },
		{ "prefill chunk", "1" },
		{ "prefill chunk", "7" },
		{ "prefill chunk", "64" },
		{ "prefill chunk", "512" },
		{ "page order", "shuffled" },
		{ "prefix", "cold" },
		{ "prefix", "hit" },
		{ "prefix", "pinned" },
		{ "preemption", "forced" },
		{ "kernels", "ref" },
		{ "row", "16" },
	};
	struct tiny_options t = TINY_DEFAULTS;
	struct seen s = { 0 };
	static struct certify_summary sum;
	struct err e = { 0 };
	char n[12];
	t.ctx = 64 + 520;
	char *path = tiny_temp(&t, &e);
	struct certify_options o = { .model = path, .seconds = 1e-9 }; /* one case */
	assert_int_equal(certify_run(&o, tell, &s, &sum, &e), 0);
	assert_int_equal(s.n_cases, 1);
	assert_true(sum.out_of_time && sum.n_untried > 40);
	for (size_t i = 0; i < sizeof must / sizeof *must; i++)
		find(&sum, must[i][0], must[i][1]);
	for (int i = 1; i <= 17; i++) {
		snprintf(n, sizeof n, "%d", i);
		find(&sum, "batch", n);
		if (i <= 9) {
			snprintf(n, sizeof n, "%d", i - 1);
			find(&sum, "drafts", n);
		}
	}
	unlink(path);
	free(path);
}

/* Some of the formats are proven under a lossy setting. */
static struct lossy_settings lossy_of_format(enum k_type type)
{
	struct engine_options o = ENGINE_DEFAULTS;

	if (k_columns_fit(type)) /* with columns that are not read */
		o.skip_below = 0.2f;
	if (type == K_Q6_K || type == K_F16)
		o.activations = type == K_F16 ? "int8-tensor" : "llm.int8";
	if (type == K_Q8_0)
		o.weights = "3-bit/64z";
	return lossy_of_options(&o);
}

/* Each weight format has kernels of its own, which test_kernels compares: here some of them, with
 * the lossy settings of lossy_of_format(). */
static void test_formats(void **state)
{
	const int each = wants_all() ? 3 : K_N_TYPES;

	(void)state;
	for (int type = 0; type < K_N_TYPES; type++) {
		if (type % each && type != K_F16 && type != K_Q6_K && type != K_Q8_0)
			continue;
		struct tiny_options t = TINY_DEFAULTS;
		struct certify_summary sum;
		struct seen s = { 0 };
		struct err e = { 0 };
		t.dim = t.ffn = 256; /* whole blocks of any format */
		t.layers = 1;
		t.type = t.embd_type = (enum k_type)type;
		char *path = tiny_temp(&t, &e);
		if (!path)
			fail_msg("%s", e.text);
		struct certify_options o = {
			.model = path, .quick = true, .seed = (uint64_t)type, .mixed = 3
		};
		o.lossy = lossy_of_format((enum k_type)type);
		if (certify_run(&o, tell, &s, &sum, &e))
			fail_msg("%s: %s", k_types[type].name, e.text);
		assert_non_null(strstr(sum.formats, k_types[type].name));
		assert_int_equal(s.n_equal, s.n_cases);
		unlink(path);
		free(path);
	}
}

/* Each kind of memory and of answer has axes of its own; what none of its cases can have is cut. */
static void test_kinds(void **state)
{
	static const char *const names[] = { "t5", "llada", "dream", "mamba2", "jamba", "qwen3next",
		"deepseek2" };
	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i += wants_all() ? 1 : 3) {
		struct certify_summary sum;
		struct seen s = { 0 };
		struct err e = { 0 };
		char path[64];

		snprintf(path, sizeof path, "tests/data/zoo/%s.gguf", names[i]);
		struct certify_options o = { .model = path, .quick = true, .seed = i, .mixed = 2 };
		if (certify_run(&o, tell, &s, &sum, &e))
			fail_msg("%s: %s", names[i], e.text);
		assert_int_equal(s.n_equal, s.n_cases);
		assert_true(find(&sum, "kernels", "ref")->rows > 0);
		assert_true(find(&sum, "batch", "17")->rows > 0);
	}
}

static void test_difference(void **state)
{
	(void)state;
	struct seen s = { .model = make_model(1), .other = make_model(2) };
	struct certify_options o = { .model = s.model, .quick = true, .seed = 1, .mixed = 2 };
	struct certify_summary sum;
	struct err e = { 0 };
	assert_int_equal(certify_run(&o, tell, &s, &sum, &e), -1);
	assert_int_equal(e.code, ERR_DIFFERS);
	assert_non_null(strstr(e.text, "first difference is row 0"));
	assert_int_equal(s.n_equal, 1);
	assert_int_equal(sum.n_differ, s.n_cases - 1);
	unlink(s.model);
	free(s.model);
}

static void test_unfit(void **state)
{
	(void)state;
	struct tiny_options t = TINY_DEFAULTS;
	struct certify_summary sum;
	struct err e = { 0 };
	t.ctx = 64;
	char *path = tiny_temp(&t, &e);
	assert_non_null(path);
	struct certify_options o = { .model = path, .quick = true };
	struct seen s = { 0 };
	assert_int_equal(certify_run(&o, tell, &s, &sum, &e), -1);
	assert_int_not_equal(e.code, ERR_DIFFERS);
	assert_int_equal(s.n_cases, 0);
	unlink(path);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal),
		cmocka_unit_test(test_adapter),
		cmocka_unit_test(test_all_pairs),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_formats),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_difference),
		cmocka_unit_test(test_unfit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
