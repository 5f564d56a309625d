/* Masked diffusion models: logits against the references with every position seen; answers that are
 * the same on every back end, in any company and after preemption; schedules; what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "engine/core/engine_impl.h"
#include "engine/core/compute.h"
#include "tests/support/draft_world.h"
#include "tests/support/invariants.h"
#include "tests/support/thorough.h"

enum { N = 64, MOST = 128 };
static const char *const models[] = { "llada", "dream" };

/* ---- against the references ---- */

struct text {
	int32_t n, ids[MOST];
	double logp[MOST];
};

static void read_text(FILE *f, struct text *t)
{
	char *line = NULL;
	size_t cap = 0;
	cJSON *all;

	assert_true(getline(&line, &cap, f) > 0);
	all = cJSON_Parse(line);
	t->n = cJSON_GetArraySize(cJSON_GetObjectItem(all, "ids"));
	assert_in_range(t->n, 2, MOST);
	for (int i = 0; i < t->n; i++)
		t->ids[i] = (int32_t)cJSON_GetArrayItem(cJSON_GetObjectItem(all, "ids"), i)->valuedouble;
	for (int i = 0; i + 1 < t->n; i++)
		t->logp[i] = cJSON_GetArrayItem(cJSON_GetObjectItem(all, "logp"), i)->valuedouble;
	cJSON_Delete(all);
	free(line);
}

static struct engine *open_model(const char *name, struct engine_options o)
{
	static char path[64];
	struct engine *e;
	struct err err = { 0 };

	snprintf(path, sizeof path, "tests/data/zoo/%s.gguf", name);
	o.model = path;
	o.packed_cache = "off";
	if (engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	return e;
}

/* Log-probabilities of each next token, as the references give them, and hashes of all rows. */
static void compute(struct engine *e, const struct text *t, double *logp, uint64_t *hash)
{
	struct forward *f = &e->forward;
	int32_t table[MOST];
	struct err err = { 0 };

	for (int i = 0; i < MOST; i++)
		table[i] = i;
	f->n_rows = f->n_out = t->n;
	f->n_observed = f->n_also = 0;
	f->n_items = 1;
	f->item_row[0] = 0;
	forward_chain(f, table, 0, t->n);
	for (int32_t i = 0; i < t->n; i++) {
		f->ids[i] = t->ids[i];
		f->out_row[i] = i;
	}
	assert_int_equal(forward_run(f, false, &err), 0);
	for (int32_t i = 0; i < t->n; i++)
		hash[i] = f->stats[i].hash;
	for (int32_t i = 0; i + 1 < t->n; i++)
		logp[i] = compute_share(
			&f->stats[i], f->logits[(size_t)i * (size_t)e->info.vocab + (size_t)t->ids[i + 1]]);
}

static void check_logits(const char *name)
{
	struct text text[3];
	char path[64], head[1024];
	FILE *f;

	snprintf(path, sizeof path, "tests/data/zoo/%s.jsonl", name);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(head, sizeof head, f)); /* where it comes from */
	for (int i = 0; i < 3; i++)
		read_text(f, &text[i]);
	fclose(f);
	for (int i = 0; i < 3; i++) {
		static double logp[MOST];
		static uint64_t want[MOST], got[MOST];
		struct engine_options o = ENGINE_DEFAULTS;
		struct engine *e;
		double sum = 0;

		o.backend = "ref";
		e = open_model(name, o);
		compute(e, &text[i], logp, want);
		engine_close(e);
		for (int k = 0; k + 1 < text[i].n; k++)
			sum += fabs(logp[k] - text[i].logp[k]);
		if (!(sum / (text[i].n - 1) < 3e-3))
			fail_msg("%s, text %d: off by %.5f in the mean", name, i, sum / (text[i].n - 1));
		for (const char *const *isa = k_isas(); *isa; isa++) {
			o.backend = "cpu";
			o.isa = *isa;
			e = open_model(name, o);
			compute(e, &text[i], logp, got);
			engine_close(e);
			assert_memory_equal(want, got, (size_t)text[i].n * sizeof *got);
		}
	}
}

static void test_logits(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof models / sizeof *models; i++)
		check_logits(models[i]);
}

/* ---- answers ---- */

struct answer { /* of request 1 */
	int64_t hash[MOST], id[MOST];
	int n, n_steps, finish, order[MOST], fixed[MOST];
};

static void on_event(void *arg, const struct event *ev)
{
	struct answer *a = arg;
	struct ev_denoised d;

	if (ev->kind == EV_token && ev->u.token.request == 1) {
		assert_int_equal(ev->u.token.pos, 20 + a->n); /* from left to right, without a gap */
		a->hash[a->n] = ev->u.token.hash;
		a->id[a->n++] = ev->u.token.id;
	}
	if (ev->kind == EV_finish && ev->u.finish.request == 1)
		a->finish = (int)ev->u.finish.reason;
	if (ev->kind != EV_denoise || ev->u.denoise.request != 1)
		return;
	assert_int_equal(ev->u.denoise.nth, ++a->n_steps);
	for (size_t i = 0; i < ev->u.denoise.cells.size / sizeof d; i++) {
		memcpy(&d, (const char *)ev->u.denoise.cells.data + i * sizeof d, sizeof d);
		assert_int_equal(a->order[d.pos - 20], 0); /* what is fixed stays so */
		a->order[d.pos - 20] = d.fixed ? a->n_steps : 0;
		a->fixed[a->n_steps] += (int)d.fixed;
	}
}

static int64_t submit(struct engine *e, int other, float temperature)
{
	int32_t ids[20];
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.n_ids = 20,
		.max_tokens = N,
		.params = SAMPLE_DEFAULTS,
		.ignore_end = true };
	struct err err = { 0 };
	int64_t id;

	q.params.temperature = temperature;
	for (int32_t i = 0; i < 20; i++)
		ids[i] = 5 + (i * 7 + other * 11) % 200;
	id = engine_submit(e, &q, &err);
	if (id < 1)
		fail_msg("%s", err.text);
	return id;
}

/* The answer of request 1 in the company of others. */
static struct answer answer_of(
	const char *name, struct engine_options o, int company, float temperature)
{
	struct engine *e = open_model(name, o);
	struct answer a = { .n = 0 };
	struct err err = { 0 };

	engine_add_sink(e, on_event, &a);
	engine_begin(e, NULL);
	for (int i = 0; i < company; i++)
		submit(e, i, temperature);
	while (!engine_idle(e)) {
		assert_true(engine_step(e, &err) >= 0);
		engine_check(e);
	}
	engine_close(e);
	assert_int_equal(a.n, N);
	assert_int_equal(a.finish, EV_FINISH_length);
	return a;
}

static void same(const struct answer *a, const struct answer *b)
{
	assert_memory_equal(a, b, sizeof *a);
}

static void check_answers(const char *name, struct engine_options o, float temperature)
{
	const struct answer want = answer_of(name, o, 1, temperature);
	struct answer got;

	for (const char *const *isa = k_isas(); *isa; isa++) {
		o.isa = *isa;
		got = answer_of(name, o, 1, temperature);
		same(&want, &got);
	}
	o.isa = NULL;
	o.backend = "ref";
	got = answer_of(name, o, 2, temperature);
	same(&want, &got);
	o.backend = "cpu";
	o.budget = 50; /* less than a canvas */
	o.prefill_chunk = 7;
	o.page_size = 32;
	got = answer_of(name, o, 3, temperature);
	same(&want, &got);
	o.budget = 256;
	o.pages = 5; /* for one, and not for two */
	got = answer_of(name, o, 3, temperature);
	same(&want, &got);
}

static void test_answers(void **state)
{
	(void)state;
	for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
		struct engine_options o = ENGINE_DEFAULTS;

		o.denoise_steps = 9;
		check_answers(models[m], o, 0);
		if (m == 0 || wants_all())
			check_answers(models[m], o, 1);
		o.denoise = "entropy";
		o.denoise_block = 24;
		if (m == 1 || wants_all())
			check_answers(models[m], o, 1);
		o.denoise = "threshold";
		o.denoise_above = 0.3f;
		check_answers(models[m], o, 0.5f);
	}
}

static void test_schedules(void **state)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct answer a;

	(void)state;
	a = answer_of("llada", o, 1, 0);
	assert_int_equal(a.n_steps, N); /* one a step */
	o.denoise_steps = 7;
	a = answer_of("llada", o, 1, 0);
	assert_int_equal(a.n_steps, 7);
	for (int i = 1; i <= 7; i++)
		assert_in_range(a.fixed[i], N / 7, N / 7 + 1);
	o.denoise_block = 16;
	o.denoise_steps = 8;
	a = answer_of("llada", o, 1, 0);
	assert_int_equal(a.n_steps, 8);
	for (int i = 0; i < N; i++) /* two steps a block, the blocks from left to right */
		assert_int_equal((a.order[i] - 1) / 2, i / 16);
	o.denoise_steps = 1;
	a = answer_of("llada", o, 1, 0);
	assert_int_equal(a.n_steps, N / 16); /* at least one a block */
	o.denoise = "threshold";
	o.denoise_above = 0;
	a = answer_of("llada", o, 1, 0);
	assert_int_equal(a.n_steps, N / 16); /* all are above */
	o.denoise_above = 1;
	a = answer_of("llada", o, 1, 0);
	assert_int_equal(a.n_steps, N); /* none is */
}

/* A device keeps of a row what its draw will read: also in the first pass the mask is banned. */
static void test_device(void **state)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct answer want, got;

	(void)state;
	if (!world_has_device())
		skip();
	o.denoise_steps = 2;
	want = answer_of("llada", o, 1, 0);
	o.backend = "cuda";
	o.budget = 50; /* less than a canvas */
	got = answer_of("llada", o, 1, 0);
	same(&want, &got);
}

/* ---- what is refused, and what ends early ---- */

static void refused(const char *words, struct engine_options o)
{
	char path[] = "tests/data/zoo/dream.gguf";
	struct engine *e;
	struct err err = { 0 };

	o.model = path;
	o.packed_cache = "off";
	assert_int_equal(engine_open(&e, &o, &err), -1);
	assert_int_equal(err.code, ERR_USAGE);
	if (!strstr(err.text, words))
		fail_msg("\"%s\", not \"%s\"", err.text, words);
}

static void test_refused(void **state)
{
	struct engine_options o = ENGINE_DEFAULTS;

	(void)state;
	o.spec = "ngram:3";
	refused("no next token", o);
	o.spec = "off";
	o.shadow = "all";
	refused("no next token", o);
	o.shadow = "off";
	o.visible = "window:16";
	refused("see all positions", o);
	o.visible = "full";
	o.cache_format = "kivi2";
	refused("see later ones", o);
	o.cache_format = "f16";
	o.twin = "on";
	refused("no next token", o);
}

static void refuse_request(struct engine *e, struct engine_request q, const char *words)
{
	static const int32_t ids[] = { 5, 6, 7 };
	struct err err = { 0 };

	q.ids = ids;
	q.n_ids = 3;
	q.params = (struct sample_params)SAMPLE_DEFAULTS;
	assert_int_equal(engine_submit(e, &q, &err), -1);
	if (!strstr(err.text, words))
		fail_msg("\"%s\", not \"%s\"", err.text, words);
}

static void test_requests(void **state)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct engine *e = open_model("llada", o);
	struct answer a = { .n = 0 };
	struct err err = { 0 };

	(void)state;
	engine_add_sink(e, on_event, &a);
	engine_begin(e, NULL);
	refuse_request(e, (struct engine_request){ .kind = EV_REQUEST_KIND_score }, "no next token");
	refuse_request(
		e, (struct engine_request){ .kind = EV_REQUEST_KIND_verify, .n_prompt = 1 }, "masks");
	refuse_request(
		e, (struct engine_request){ .kind = EV_REQUEST_KIND_pin, .pin = 3 }, "no prefix");
	assert_int_equal(submit(e, 0, 0), 1);
	for (int i = 0; i < 5; i++)
		assert_int_equal(engine_step(e, &err), 1);
	assert_int_equal(engine_rewind(e, 1, 21, -1, &err), -1);
	assert_non_null(strstr(err.text, "no beginning"));
	engine_cancel(e, 1);
	while (!engine_idle(e))
		assert_true(engine_step(e, &err) >= 0);
	assert_int_equal(a.finish, EV_FINISH_cancelled);
	assert_int_equal(a.n_steps, 5);
	engine_check(e);
	engine_close(e);
}

/* A prompt that leaves no room, an answer that is cut to what there is, and one without a limit. */
static void test_room(void **state)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct engine *e;
	struct answer a = { .n = 0 };
	struct err err = { 0 };

	(void)state;
	o.ctx = 20;
	e = open_model("llada", o);
	engine_add_sink(e, on_event, &a);
	engine_begin(e, NULL);
	submit(e, 0, 0);
	while (!engine_idle(e))
		assert_true(engine_step(e, &err) >= 0);
	assert_int_equal(a.finish, EV_FINISH_refused);
	engine_close(e);
	o.ctx = 23;
	e = open_model("llada", o);
	a = (struct answer){ .n = 0 };
	engine_add_sink(e, on_event, &a);
	engine_begin(e, NULL);
	submit(e, 0, 0);
	while (!engine_idle(e))
		assert_true(engine_step(e, &err) >= 0);
	assert_int_equal(a.finish, EV_FINISH_context);
	assert_int_equal(a.n, 3);
	engine_close(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_logits),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_schedules),
		cmocka_unit_test(test_device),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
