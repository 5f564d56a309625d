/* The setting watch-layers: the events experts and state say what the layers did, and watching
 * changes no bit. On the tiny models of tests/data/zoo. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/engine.h"
#include "event/event.h"

enum { PROMPT = 40, TOKENS = 12, RANKS = 16 };

struct seen {
	int n_experts, n_states;
	uint64_t hash;         /* of tokens and their logits */
	uint64_t told;         /* of what the events say */
	int64_t rows, weights; /* of the newest event experts; bytes that a token reads */
	double half, entropy, most_bits, norm;
	int taps, heads;
};

static uint64_t mixed(uint64_t h, const struct ev_span *s)
{
	for (size_t i = 0; i < s->size; i++)
		h = (h ^ ((const unsigned char *)s->data)[i]) * 1099511628211u;
	return h;
}

static double float_at(const struct ev_span *s, size_t i)
{
	float x;

	assert_true((i + 1) * sizeof x <= s->size);
	memcpy(&x, (const char *)s->data + i * sizeof x, sizeof x);
	return (double)x;
}

/* Of a layer: the row's weights sum to 1, it used so many, and all rows together as many each. */
static void check_layer(const struct ev_experts *e, size_t l)
{
	const size_t n = (size_t)e->experts;
	const uint8_t *chosen = (const uint8_t *)e->chosen.data + l * n;
	const uint16_t *load = (const uint16_t *)e->load.data + l * n,
				   *load_ema = (const uint16_t *)e->load_ema.data + l * n;
	int used = 0, sum = 0, ema_sum = 0;
	double rows = 0;

	for (size_t i = 0; i < n; i++) {
		used += chosen[i] > 0;
		sum += chosen[i];
		rows += load[i] * (double)e->rows / 65535;
		ema_sum += load_ema[i];
		assert_true(!chosen[i] || (load[i] && load_ema[i]));
	}
	assert_int_equal(used, e->used);
	assert_in_range(sum, 255 - e->used, 255 + e->used);
	assert_true(fabs(rows - (double)(e->rows * e->used)) < 0.1);
	assert_in_range(ema_sum, 65535 * e->used - 20, 65535 * e->used + 20);
}

static void on_experts(struct seen *s, const struct ev_experts *e)
{
	const size_t layers = e->entropy.size / sizeof(float);

	s->n_experts++;
	assert_int_equal(e->rows, e->pos + 1);
	if (e->read < 1 || e->whole * e->used != e->read * e->experts)
		fail_msg("%lld of %lld bytes for %lld of %lld experts", (long long)e->read,
			(long long)e->whole, (long long)e->used, (long long)e->experts);
	assert_true(e->read < s->weights);
	assert_int_equal(e->chosen.size, layers * (size_t)e->experts);
	for (size_t l = 0; l < layers; l++) {
		if (isnan(float_at(&e->entropy, l)))
			continue;
		s->entropy = float_at(&e->entropy, l);
		assert_true(s->entropy >= 0 && s->entropy <= log2((double)e->experts) + 1e-5);
		check_layer(e, l);
	}
	s->rows = e->rows;
	s->told = mixed(mixed(mixed(s->told, &e->chosen), &e->load), &e->entropy);
}

static void on_state(struct seen *s, const struct ev_state *e)
{
	const size_t layers = e->norm.size / sizeof(float);

	s->n_states++;
	for (size_t l = layers; l-- > 0;) {
		const uint32_t heads = ((const uint32_t *)e->heads.data)[l];

		for (size_t i = 1; heads && i < RANKS; i++)
			assert_true(float_at(&e->half_life, l * RANKS + i) >=
						float_at(&e->half_life, l * RANKS + i - 1));
		if (!((const uint32_t *)e->taps.data)[l] && !heads)
			continue;
		s->heads = (int)heads;
		s->taps = (int)((const uint32_t *)e->taps.data)[l];
		s->half = float_at(&e->half_life, l * RANKS);
		s->norm = float_at(&e->norm, l);
		assert_true(s->norm > 0);
	}
	assert_int_equal(e->history.size, 8 * (size_t)s->n_states);
	s->told = mixed(mixed(mixed(s->told, &e->half_life), &e->norm), &e->history);
}

static void on_event(void *arg, const struct event *ev)
{
	struct seen *s = arg;

	if (ev->kind == EV_session)
		s->weights = ev->u.session.weight_bytes;
	else if (ev->kind == EV_token)
		s->hash = (s->hash * 31 + (uint64_t)ev->u.token.hash) * 31 + (uint64_t)ev->u.token.id;
	else if (ev->kind == EV_experts)
		on_experts(s, &ev->u.experts);
	else if (ev->kind == EV_state)
		on_state(s, &ev->u.state);
}

static struct seen run(const char *name, bool watch, int32_t chunk)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.n_ids = PROMPT,
		.max_tokens = TOKENS,
		.params = SAMPLE_DEFAULTS,
		.text = "test",
		.ignore_end = true };
	struct engine *e = NULL;
	struct err err = { 0 };
	struct seen s = { 0 };
	int32_t ids[PROMPT];
	char path[128];

	snprintf(path, sizeof path, "tests/data/zoo/%s.gguf", name);
	o.model = path;
	o.threads = 2;
	o.prefill_chunk = chunk;
	o.watch_layers = watch;
	for (int i = 0; i < PROMPT; i++)
		ids[i] = 10 + (i * 7) % 40;
	q.ids = ids;
	if (engine_open(&e, &o, &err))
		fail_msg("%s: %s", name, err.text);
	engine_add_sink(e, on_event, &s);
	engine_begin(e, NULL);
	if (engine_submit(e, &q, &err) < 0)
		fail_msg("%s: %s", name, err.text);
	while (engine_step(e, &err) > 0)
		;
	assert_int_equal(err.code, 0);
	engine_close(e);
	return s;
}

/* Watched or not, the same bits; in one chunk or several, the same is told. */
static void nothing_changes(void **state)
{
	static const char *const models[] = { "mixtral", "qwen3moe", "olmoe", "gpt-oss", "deepseek3",
		"granitemoe", "mamba", "mamba2", "jamba", "lfm2", "qwen35", "minimax", "falcon-h1" };

	(void)state;
	for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
		const struct seen off = run(models[i], false, 64), on = run(models[i], true, 64),
						  split = run(models[i], true, 16);

		if (off.hash != on.hash || on.hash != split.hash || on.told != split.told)
			fail_msg("%s: watching changed bits, or chunks what it tells", models[i]);
		assert_int_equal(off.n_experts + off.n_states, 0);
		assert_true(on.n_experts == TOKENS || on.n_states == TOKENS);
		assert_true(!on.n_experts || on.rows == PROMPT + TOKENS - 1);
	}
}

/* Lightning's decay is fixed: head h of n forgets by e^-s, s = 2^(-8 (h + 1) / n), in the first
 * layer (share 1 + 1e-5). LFM2 has taps alone, a dense model neither. */
static void what_is_known(void **state)
{
	const struct seen minimax = run("minimax", true, 64), lfm2 = run("lfm2", true, 64),
					  dense = run("qwen3", true, 64), jamba = run("jamba", true, 64);

	(void)state;
	assert_true(minimax.heads > 0 && !minimax.taps);
	assert_true(fabs(minimax.half - log(2) / pow(2, -8.0 / minimax.heads)) < 1e-3 * minimax.half);
	assert_true(lfm2.taps == 3 && !lfm2.heads && isnan(lfm2.half));
	assert_int_equal(dense.n_experts + dense.n_states, 0);
	assert_true(jamba.n_experts == TOKENS && jamba.n_states == TOKENS && jamba.taps == 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_changes),
		cmocka_unit_test(what_is_known),
	};

	return cmocka_run_group_tests_name("watch_layers", tests, NULL, NULL);
}
