/* The event sparsity and the settings skip-below and skip-zeros: what is counted, what is not read,
 * and which models cannot. (That skip-below gives the same bits on every path is proven in
 * test_certify.c, what it costs in test_twin.c.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/engine.h"
#include "event/event.h"
#include "tests/support/tiny.h"

enum { LAYERS = 2, TOKENS = 12, REQUESTS = 2, ABSENT = 65535, WHOLE = 65534 };

struct seen {
	int n_events, n_first, n_together;
	int64_t step_bytes; /* of the newest step of one row */
	int64_t down_bytes;
	uint64_t hash;
};

static void check_shares(struct seen *s, const struct ev_sparsity *e)
{
	const uint16_t *share = e->share.data;
	const bool first = e->since == EV_NULL_I;

	assert_int_equal(e->share.size, LAYERS * EV_N_sparse * sizeof *share);
	assert_true(e->rows >= 1 && e->rows <= REQUESTS && (first || e->since == 1));
	s->n_first += first;
	for (int l = 0; l < LAYERS; l++, share += EV_N_sparse) {
		for (int k = 1; k < 4; k++) {
			assert_true(share[EV_SPARSE_inner_1 + k] <= share[EV_SPARSE_inner_1 + k - 1]);
			assert_true(share[EV_SPARSE_output_1 + k] <= share[EV_SPARSE_output_1 + k - 1]);
		}
		if (share[EV_SPARSE_kept] == ABSENT) /* a mixture of experts */
			continue;
		if (e->mark < 0.011) /* a hundredth: kept are all others */
			assert_true(abs(share[EV_SPARSE_kept] + share[EV_SPARSE_inner_2] - WHOLE) <= 1);
		assert_true(share[EV_SPARSE_together] >= share[EV_SPARSE_kept]);
		assert_true(e->rows > 1 || share[EV_SPARSE_together] == share[EV_SPARSE_kept]);
		assert_true((share[EV_SPARSE_overlap] == ABSENT) == first);
		s->n_together += share[EV_SPARSE_together] > share[EV_SPARSE_kept];
	}
}

static void on_event(void *arg, const struct event *ev)
{
	struct seen *s = arg;

	if (ev->kind == EV_sparsity) {
		s->n_events++;
		check_shares(s, &ev->u.sparsity);
	} else if (ev->kind == EV_step && ev->u.step.rows == 1) {
		s->step_bytes = ev->u.step.bytes;
	} else if (ev->kind == EV_token) {
		s->hash = s->hash * 31 + (uint64_t)ev->u.token.hash;
	}
}

static struct engine *opened(const char *model, struct seen *s)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct engine *e = NULL;
	struct err err = { 0 };

	*s = (struct seen){ 0 };
	o.model = model;
	o.threads = 2;
	o.attention_every = 1;
	if (engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(e, on_event, s);
	engine_begin(e, NULL);
	return e;
}

static void run(struct engine *e, int n)
{
	struct err err = { 0 };

	for (int i = 0; i < n; i++) {
		int32_t ids[20];
		struct engine_request q = { .kind = EV_REQUEST_KIND_run,
			.ids = ids,
			.n_ids = 20,
			.max_tokens = TOKENS,
			.params = SAMPLE_DEFAULTS,
			.text = "test",
			.ignore_end = true };

		for (int k = 0; k < 20; k++)
			ids[k] = 10 + (k * 7 + i * 3) % 40;
		if (engine_submit(e, &q, &err) < 0)
			fail_msg("%s", err.text);
	}
	while (engine_step(e, &err) > 0)
		;
	assert_int_equal(err.code, 0);
}

static char *model_of(enum k_type type)
{
	struct tiny_options t = TINY_DEFAULTS;
	struct err err = { 0 };
	char *path;

	t.dim = t.ffn = 256;
	t.type = type;
	path = tiny_temp(&t, &err);
	assert_non_null(path);
	return path;
}

static void every_observed_row_is_counted(void **state)
{
	char *path = model_of(K_Q4_1);
	struct seen s;
	struct engine *e = opened(path, &s);

	(void)state;
	run(e, REQUESTS);
	assert_int_equal(s.n_events, REQUESTS * TOKENS);
	assert_int_equal(s.n_first, REQUESTS);
	assert_true(s.n_together > 0);
	engine_close(e);
	unlink(path);
	free(path);
}

static void fewer_bytes_are_read_and_all_again(void **state)
{
	char *path = model_of(K_Q8_0);
	struct seen s;
	struct engine *e = opened(path, &s);
	struct err err = { 0 };
	int64_t all, less;
	uint64_t hash;

	(void)state;
	run(e, 1);
	all = s.step_bytes;
	hash = s.hash;
	s.hash = 0;
	assert_int_equal(engine_set(e, "skip-below", "0.3", &err), 0);
	run(e, 1);
	less = s.step_bytes;
	assert_true(less < all && hash != s.hash);
	s.hash = 0;
	assert_int_equal(engine_set(e, "skip-below", "0", &err), 0);
	run(e, 1);
	assert_int_equal(s.step_bytes, all);
	assert_true(hash == s.hash);
	engine_close(e);
	unlink(path);
	free(path);
}

struct zeros {
	int64_t bytes, n;
	double kept;
	uint64_t hash;
};

static void on_zeros(void *arg, const struct event *ev)
{
	struct zeros *z = arg;

	if (ev->kind == EV_sparsity) {
		const uint16_t *share = ev->u.sparsity.share.data;
		const size_t n = ev->u.sparsity.share.size / sizeof *share / EV_N_sparse;

		for (size_t l = 0; l < n; l++, z->n++)
			z->kept += share[l * EV_N_sparse + EV_SPARSE_kept] / (double)WHOLE;
	} else if (ev->kind == EV_step) {
		z->bytes += ev->u.step.bytes;
	} else if (ev->kind == EV_token) {
		z->hash = z->hash * 31 + (uint64_t)ev->u.token.hash;
	}
}

/* With ReLU many inner values are 0: the columns are not read, and no bit differs. */
static void zeros_are_not_read(void **state)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct zeros z[2] = { { 0 } };

	(void)state;
	o.model = "demos/models/family/relu.gguf";
	o.threads = 2;
	o.attention_every = 1;
	for (int skip = 0; skip < 2; skip++) {
		struct engine *e = NULL;
		struct err err = { 0 };

		o.skip_zeros = skip;
		if (engine_open(&e, &o, &err))
			fail_msg("%s", err.text);
		engine_add_sink(e, on_zeros, &z[skip]);
		engine_begin(e, NULL);
		run(e, REQUESTS);
		engine_close(e);
	}
	assert_true(z[0].hash == z[1].hash);
	assert_true(z[1].bytes < z[0].bytes);
	assert_true(z[1].n > 0 && z[1].kept / (double)z[1].n < 0.7);
}

static void refused(const char *path, const char *words)
{
	struct seen s;
	struct engine *e = opened(path, &s);
	struct err err = { 0 };
	char now[32];

	assert_int_equal(engine_set(e, "skip-below", "0.1", &err), -1);
	assert_int_equal(err.code, ERR_USAGE);
	if (!strstr(err.text, words))
		fail_msg("\"%s\" is not in \"%s\"", words, err.text);
	assert_int_equal(engine_get(e, "skip-below", now, sizeof now), 0);
	assert_string_equal(now, "0");
	run(e, 1); /* and it goes on */
	engine_close(e);
}

static void other_formats_are_refused(void **state)
{
	char *path = model_of(K_Q4_K);

	(void)state;
	refused(path, "ffn_down.weight is Q4_K, which cannot be read by columns");
	refused("tests/data/zoo/mamba.gguf", "no gated feed-forward");
	refused("tests/data/zoo/mixtral.gguf", "no gated feed-forward");
	unlink(path);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_observed_row_is_counted),
		cmocka_unit_test(fewer_bytes_are_read_and_all_again),
		cmocka_unit_test(zeros_are_not_read),
		cmocka_unit_test(other_formats_are_refused),
	};

	return cmocka_run_group_tests_name("sparsity", tests, NULL, NULL);
}
