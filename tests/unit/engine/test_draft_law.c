/* Modified rejection inside the engine: whoever guesses, at a temperature, the answers have the
 * distribution of plain decoding. Answers of a few tokens are drawn thousands of times, plainly and
 * with a drafter, with other random numbers, and their counts compared. A plain run a little warmer
 * must fail the same comparison. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/draft/file.h"
#include "engine/core/engine_impl.h"
#include "tests/support/chi.h"
#include "tests/support/thorough.h"
#include "tests/support/tiny_draft.h"

enum { PROMPT = 48, LENGTH = 5, ANSWERS = 4000, FEW = 256, AT_ONCE = 64, BINS = 4096, LEAST = 20 };

struct answers {
	struct engine *e;
	int64_t first; /* number of the first request */
	uint16_t id[ANSWERS][LENGTH];
	int32_t n[ANSWERS];
	int n_judged, n_accepted;
};

static struct tiny_options target = TINY_DEFAULTS;
static char *model_path, *eagle_path, *medusa_path, *pruned_path;
static int32_t prompt[PROMPT];

static void on_event(void *arg, const struct event *ev)
{
	struct answers *a = arg;

	if (ev->kind == EV_token) {
		int64_t i = ev->u.token.request - a->first;

		assert_true(i >= 0 && i < ANSWERS && a->n[i] < LENGTH);
		a->id[i][a->n[i]++] = (uint16_t)ev->u.token.id;
	} else if (ev->kind == EV_draft && ev->u.draft.verdict != EV_VERDICT_discarded) {
		assert_int_equal(ev->u.draft.rule, EV_RULE_rejection);
		a->n_judged++;
		a->n_accepted += ev->u.draft.verdict == EV_VERDICT_accepted;
	}
}

static int n_answers(void)
{
	return is_thorough() ? ANSWERS : FEW;
}

static void submit(struct answers *a, int64_t sample, float temperature)
{
	struct engine_request q = { .kind = EV_REQUEST_KIND_load,
		.ids = prompt,
		.n_ids = PROMPT,
		.max_tokens = LENGTH,
		.params = SAMPLE_DEFAULTS,
		.sample = sample,
		.ignore_end = true };
	struct err err = { 0 };

	q.params.temperature = temperature;
	q.params.top_p = 0.95f;
	q.params.top_k = 8;
	q.params.min_p = 0;
	if (engine_submit(a->e, &q, &err) < 0)
		fail_msg("%s", err.text);
}

static void draw(struct answers *a, const char *spec, int64_t sample, float temperature)
{
	struct engine_options o = ENGINE_DEFAULTS;
	double cost[DRAFT_COST_ROWS + 1];
	struct err err = { 0 };

	memset(a, 0, sizeof *a);
	for (int i = 0; i <= DRAFT_COST_ROWS; i++)
		cost[i] = 1e6 + i;
	o.model = model_path;
	o.threads = 1;
	o.ctx = 128;
	o.slots = 16;
	o.spec = spec;
	o.rule = "rejection";
	o.counted_cost = cost;
	if (engine_open(&a->e, &o, &err))
		fail_msg("%s: %s", spec, err.text);
	a->first = 1;
	engine_add_sink(a->e, on_event, a);
	engine_begin(a->e, NULL);
	engine_observe(a->e, false);
	for (int i = 0; i < n_answers(); i += AT_ONCE) {
		for (int k = i; k < i + AT_ONCE && k < n_answers(); k++)
			submit(a, sample + k, temperature);
		while (engine_step(a->e, &err) > 0)
			;
		assert_int_equal(err.code, 0);
	}
	engine_close(a->e);
}

/* The prompt ends in what the model says by itself, so that it repeats and there is something to
 * find. */
static void make_prompt(void)
{
	static struct answers a;
	struct engine_options o = ENGINE_DEFAULTS;
	struct err err = { 0 };

	for (int i = 0; i < PROMPT; i++)
		prompt[i] = 3 + i * 7 % 200;
	for (int n = 8; n < PROMPT; n += LENGTH) {
		struct engine_request q = { .kind = EV_REQUEST_KIND_load,
			.ids = prompt,
			.n_ids = n,
			.max_tokens = LENGTH,
			.params = SAMPLE_DEFAULTS,
			.ignore_end = true };

		memset(&a, 0, sizeof a);
		q.params.temperature = 0;
		o.model = model_path;
		o.threads = 1;
		o.ctx = 128;
		if (engine_open(&a.e, &o, &err))
			fail_msg("%s", err.text);
		a.first = 1;
		engine_add_sink(a.e, on_event, &a);
		engine_begin(a.e, NULL);
		assert_true(engine_submit(a.e, &q, &err) > 0);
		while (engine_step(a.e, &err) > 0)
			;
		engine_close(a.e);
		for (int i = 0; i < LENGTH && n + i < PROMPT; i++)
			prompt[n + i] = a.id[0][i];
	}
}

/* ---- comparing ---- */

struct bin {
	uint64_t key;
	int64_t n[2];
};

static int by_key(const void *x, const void *y)
{
	uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;

	return (a > b) - (a < b);
}

/* Chi-square of two samples of one size over tokens from … from + 1 of the answers, rare pairs
 * together; < 0: alike. */
static double excess(const struct answers *a, const struct answers *b, int from)
{
	static uint64_t key[2][ANSWERS];
	struct bin rest = { 0 };
	double chi = 0;
	int bins = 0;

	for (int i = 0; i < ANSWERS; i++) {
		key[0][i] = (uint64_t)a->id[i][from] << 16 | a->id[i][from + 1];
		key[1][i] = (uint64_t)b->id[i][from] << 16 | b->id[i][from + 1];
	}
	for (int s = 0; s < 2; s++)
		qsort(key[s], ANSWERS, sizeof *key[s], by_key);
	for (int i = 0, k = 0; i < ANSWERS || k < ANSWERS;) {
		uint64_t at =
			k == ANSWERS || (i < ANSWERS && key[0][i] < key[1][k]) ? key[0][i] : key[1][k];
		struct bin bin = { .key = at };

		for (; i < ANSWERS && key[0][i] == at; i++)
			bin.n[0]++;
		for (; k < ANSWERS && key[1][k] == at; k++)
			bin.n[1]++;
		if (bin.n[0] + bin.n[1] < LEAST) {
			rest.n[0] += bin.n[0];
			rest.n[1] += bin.n[1];
			continue;
		}
		chi += pow((double)(bin.n[0] - bin.n[1]), 2) / (double)(bin.n[0] + bin.n[1]);
		bins++;
	}
	if (rest.n[0] + rest.n[1] >= LEAST) {
		chi += pow((double)(rest.n[0] - rest.n[1]), 2) / (double)(rest.n[0] + rest.n[1]);
		bins++;
	}
	assert_true(bins > 4);
	return chi - chi_limit(bins - 1);
}

static double most_excess(const struct answers *a, const struct answers *b)
{
	double most = -1e9;

	for (int from = 0; from + 1 < LENGTH; from++) {
		double x = excess(a, b, from);

		most = x > most ? x : most;
	}
	return most;
}

static const struct answers *plain(void)
{
	static struct answers a;

	if (!a.first)
		draw(&a, "off", 0, 1.2f);
	return &a;
}

/* What must not pass does not: one plain run against another of its kind, and against one a little
 * warmer. */
static void test_sharpness(void **state)
{
	static struct answers other;

	(void)state;
	if (!is_thorough())
		skip();
	draw(&other, "off", ANSWERS, 1.2f);
	assert_true(most_excess(plain(), &other) < 0);
	draw(&other, "off", ANSWERS, 1.4f);
	assert_true(most_excess(plain(), &other) > 0);
}

static const char *with(const char *name, const char *path, const char *numbers)
{
	static char spec[256];

	snprintf(spec, sizeof spec, "%s:%s%s", name, path, numbers);
	return spec;
}

static void check(const char *spec)
{
	static struct answers a;
	double over = 0;

	draw(&a, spec, ANSWERS, 1.2f);
	if (is_thorough())
		over = most_excess(plain(), &a);
	print_message("%s: %d of %d guesses kept\n", spec, a.n_accepted, a.n_judged);
	if (over > 0)
		fail_msg("%s: another distribution, chi-square %.1f beyond its limit", spec, over);
	assert_true(a.n_accepted > n_answers() / 80);
}

/* Every drafter of the table that needs no file, as certify tries it. */
static void test_table(void **state)
{
	(void)state;
	for (int i = 0; draft_table[i]; i++)
		for (const struct draft_variant *t = draft_table[i]->variants; t && t->name; t++) {
			char spec[64];

			draft_spec(t->pattern, 4, target.layers, "", spec, sizeof spec);
			if (!strstr(draft_table[i]->args, "FILE"))
				check(spec);
		}
}

static void test_drawn(void **state)
{
	(void)state;
	check(with("draft", model_path, ",4,4,0"));
	check(with("draft", pruned_path, ",4,8,0"));
	/* what is proposed must not hang on what was drawn */
	check(with("draft", model_path, ",4,8,12"));
	check(with("draft", model_path, ",4,8"));
	check(with("draft", pruned_path, ",4,8"));
	check(with("medusa", medusa_path, ",3,8,0"));
	check(with("eagle", eagle_path, ",4,8,0"));
	check("auto:ngram:4,1,4+skip:1,4,0+lookahead:3,3,3");
}

static int setup(void **state)
{
	static char hash[17];
	struct tiny_draft_options eagle = {
		.seed = 7, .kind = "eagle", .hash = hash, .n_ids = 400, .type = K_Q8_0
	};
	struct tiny_draft_options medusa = {
		.seed = 8, .kind = "medusa", .hash = hash, .heads = 3, .type = K_Q4_1
	};
	struct tiny_draft_options pruned = {
		.seed = 9, .kind = "model", .hash = hash, .n_ids = 400, .layers = 1, .type = K_Q8_0
	};
	struct err err = { 0 };
	struct gguf *g;

	(void)state;
	model_path = tiny_temp(&target, &err);
	if (!model_path || gguf_open(&g, model_path, &err) || draft_vocab_hash(g, hash, &err))
		return -1;
	gguf_close(g);
	eagle_path = tiny_draft_temp(&target, &eagle, &err);
	medusa_path = tiny_draft_temp(&target, &medusa, &err);
	pruned_path = tiny_draft_temp(&target, &pruned, &err);
	if (!eagle_path || !medusa_path || !pruned_path)
		return -1;
	make_prompt();
	return 0;
}

static int teardown(void **state)
{
	char *paths[] = { model_path, eagle_path, medusa_path, pruned_path };

	(void)state;
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		unlink(paths[i]);
		free(paths[i]);
	}
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_sharpness),
		cmocka_unit_test(test_table), cmocka_unit_test(test_drawn) };

	return cmocka_run_group_tests(tests, setup, teardown);
}
