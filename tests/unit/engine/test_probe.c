/* A deep look computes again what was, to the bit: the hash in the log, the lens of the last layer,
 * shares of attention; and stage by stage all back ends leave the same values. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/observe/probe.h"
#include "tests/support/tiny.h"

enum { N_PROMPT = 150, N_NEW = 30, MAX_VALUES = 1 << 20 };

static char model[64];

struct world {
	struct engine *e;
	int32_t ids[N_PROMPT + N_NEW + 1];
	int64_t hash[N_PROMPT + N_NEW + 1];
	int n_events;
};

static void on_event(void *arg, const struct event *ev)
{
	struct world *w = arg;

	w->n_events++;
	if (ev->kind != EV_token)
		return;
	w->ids[ev->u.token.pos] = (int32_t)ev->u.token.id;
	w->hash[ev->u.token.pos] = ev->u.token.hash;
}

static void world_open(struct world *w, const char *backend, const char *isa)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = w->ids,
		.n_ids = N_PROMPT,
		.max_tokens = N_NEW,
		.params = SAMPLE_DEFAULTS,
		.text = "",
		.ignore_end = true };
	struct err e = { 0 };

	memset(w, 0, sizeof *w);
	o.model = model;
	o.backend = backend;
	o.isa = isa;
	o.threads = 2;
	o.ctx = 256;
	for (int i = 0; i < N_PROMPT; i++)
		w->ids[i] = 7 + i * 31 % 400;
	if (engine_open(&w->e, &o, &e))
		fail_msg("%s", e.text);
	engine_add_sink(w->e, on_event, w);
	engine_begin(w->e, NULL);
	assert_true(engine_submit(w->e, &q, &e) > 0);
	while (!engine_idle(w->e))
		assert_int_equal(engine_step(w->e, &e), 1);
}

static struct probe *look(struct world *w, int32_t n, int32_t token)
{
	struct probe *p;
	struct err e = { 0 };

	if (probe_open(&p, w->e, NULL, w->ids, n, token, NULL, NULL, &e))
		fail_msg("%s", e.text);
	return p;
}

static void test_same_bits(void **state)
{
	static const int32_t at[] = { N_PROMPT, N_PROMPT + 1, N_PROMPT + 17, N_PROMPT + N_NEW - 1 };
	struct world w;

	(void)state;
	world_open(&w, "cpu", NULL);
	for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
		int before = w.n_events;
		struct probe *p = look(&w, at[i], -1);
		const struct probe_layer *last = &p->layer[p->n_layers - 1];

		assert_int_equal(w.n_events, before);
		assert_true((int64_t)p->stats.hash == w.hash[at[i]]);
		/* the lens of the last layer is the output itself */
		assert_int_equal(last->top[0].id, p->stats.argmax);
		assert_true(last->top[0].logit == p->stats.max);
		assert_int_equal(last->token_rank, 1);
		assert_int_equal(p->token, p->stats.argmax);
		assert_true(p->logits[p->token] == p->stats.max);
		assert_true(last->entropy == (float)p->stats.entropy);
		for (int g = 1; g < PROBE_TOP; g++)
			assert_true(last->top[g].p <= last->top[g - 1].p && last->top[g].id >= 0);
		probe_close(p);
	}
	engine_close(w.e);
}

static void test_attention(void **state)
{
	struct world w;
	struct probe *p;
	int seen_small = 0;

	(void)state;
	world_open(&w, "cpu", NULL);
	p = look(&w, N_PROMPT + 5, 3);
	for (int l = 0; l < p->n_layers; l++) {
		for (int h = 0; h < p->n_heads; h++) {
			const float *row = probe_attention(p, l, h);
			double sum = 0;

			for (int i = 0; i < p->n; i++) {
				assert_true(row[i] >= 0 && row[i] <= 1);
				sum += (double)row[i];
			}
			assert_true(fabs(sum - 1) < 1e-5);
		}
		assert_true(p->layer[l].residual_rms > 0 && p->layer[l].act_max > 0);
		assert_true(
			p->layer[l].act_small >= p->layer[l].act_near_zero && p->layer[l].act_small < 1);
		seen_small += p->layer[l].act_small > 0;
		assert_true(p->layer[l].token_p > 0 && p->layer[l].token_rank >= 1);
	}
	assert_int_equal(p->token, 3);
	assert_true(seen_small > 0);
	probe_close(p);
	engine_close(w.e);
}

struct stages {
	float *value;
	int32_t n_values, n_stages, changed; /* changed: place of the first that differs, or -1 */
	bool compare;
	uint64_t parts; /* layers and stages, folded */
};

static bool on_stage(void *arg, const struct probe_stage *s)
{
	struct stages *all = arg;

	assert_true(all->n_values + s->n_values <= MAX_VALUES);
	all->parts = all->parts * 31 + (uint64_t)(s->layer + 2) * 16 + s->stage + strlen(s->part);
	if (!all->compare)
		memcpy(all->value + all->n_values, s->values, (size_t)s->n_values * sizeof *s->values);
	else if (all->changed < 0 &&
			 memcmp(all->value + all->n_values, s->values, (size_t)s->n_values * sizeof *s->values))
		all->changed = s->op;
	all->n_values += s->n_values;
	all->n_stages++;
	return true;
}

static void test_stages(void **state)
{
	static float value[MAX_VALUES];
	struct stages first = { .value = value };
	const char *const *isa = k_isas();
	struct err e = { 0 };
	struct world w;

	(void)state;
	world_open(&w, "ref", NULL);
	if (probe_stages(w.e, NULL, w.ids, N_PROMPT + 3, on_stage, &first, &e))
		fail_msg("%s", e.text);
	engine_close(w.e);
	/* embed; a layer: norm, q k v, q, mixed, x, norm, gate up, act, x; norm and logits */
	assert_int_equal(first.n_stages, 1 + 2 * 12 + 2);
	for (int i = 0; isa[i]; i++) {
		struct stages other = { .value = value, .compare = true, .changed = -1 };

		world_open(&w, "cpu", isa[i]);
		assert_int_equal(probe_stages(w.e, NULL, w.ids, N_PROMPT + 3, on_stage, &other, &e), 0);
		assert_int_equal(other.changed, -1);
		assert_int_equal(other.n_values, first.n_values);
		assert_true(other.parts == first.parts);
		/* another token at the end: from the first stage on */
		w.ids[N_PROMPT + 2]++;
		other = (struct stages){ .value = value, .compare = true, .changed = -1 };
		assert_int_equal(probe_stages(w.e, NULL, w.ids, N_PROMPT + 3, on_stage, &other, &e), 0);
		assert_int_equal(other.changed, 0);
		engine_close(w.e);
	}
}

static bool stop_at_once(void *arg, int32_t done, int32_t all)
{
	assert_true(done <= all);
	++*(int *)arg;
	return false;
}

static void test_limits(void **state)
{
	struct world w;
	struct probe *p;
	struct err e = { 0 };
	int calls = 0;

	(void)state;
	world_open(&w, "cpu", NULL);
	p = look(&w, 1, -1);
	assert_int_equal(p->n, 1);
	assert_true(probe_attention(p, 0, 0)[0] == 1.0f);
	probe_close(p);
	assert_int_equal(probe_open(&p, w.e, NULL, w.ids, 0, -1, NULL, NULL, &e), -1);
	e.code = 0;
	assert_int_equal(probe_open(&p, w.e, NULL, w.ids, 257, -1, NULL, NULL, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	e.code = 0;
	assert_int_equal(probe_open(&p, w.e, NULL, w.ids, 9, 1 << 30, NULL, NULL, &e), -1);
	e.code = 0;
	assert_int_equal(probe_open(&p, w.e, NULL, w.ids, 100, -1, stop_at_once, &calls, &e), -1);
	assert_int_equal(e.code, ERR_INTERRUPTED);
	assert_int_equal(calls, 1);
	engine_close(w.e);
}

/* The layers with attention, of a model whose layers are not alike. */
static int n_attending(const char *path, int32_t *n_layers)
{
	struct engine_options o = ENGINE_DEFAULTS;
	const int32_t ids[] = { 3, 4, 5, 6 };
	struct probe *p;
	struct err e = { 0 };
	struct engine *engine;
	int n = 0;

	o.model = path;
	o.threads = 1;
	if (engine_open(&engine, &o, &e) || probe_open(&p, engine, NULL, ids, 4, -1, NULL, NULL, &e))
		fail_msg("%s", e.text);
	for (int l = 0; l < p->n_layers; l++)
		n += p->layer[l].attends;
	*n_layers = p->n_layers;
	probe_close(p);
	engine_close(engine);
	return n;
}

static void test_attends(void **state)
{
	int32_t n_layers;
	int n;

	(void)state;
	assert_int_equal(n_attending("demos/models/family/mamba2.gguf", &n_layers), 0);
	n = n_attending("demos/models/family/jamba.gguf", &n_layers);
	assert_true(n > 0 && n < n_layers);
	n = n_attending(model, &n_layers);
	assert_int_equal(n, n_layers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_bits),
		cmocka_unit_test(test_attention),
		cmocka_unit_test(test_attends),
		cmocka_unit_test(test_stages),
		cmocka_unit_test(test_limits),
	};
	struct tiny_options tiny = TINY_DEFAULTS;
	struct err err = { 0 };
	char *path = tiny_temp(&tiny, &err);
	int failed;

	if (!path)
		return 1;
	snprintf(model, sizeof model, "%s", path);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	free(path);
	return failed;
}
