/* What a decoded token of a mixture of experts reads: the experts that its router chose and what
 * all tokens read, and no more than 2 % beside these weights (activations, keys and values). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/core/engine.h"
#include "tests/support/tiny.h"

enum { DIM = 1024, FFN = 1024, EXPERTS = 8, USED = 2, LAYERS = 2, VOCAB = 512 };

struct counted {
	int64_t step, products; /* bytes: of the last step that decoded; of all products of a token */
	int64_t weights;        /* as the session says */
	int steps;
};

static void on_event(void *arg, const struct event *ev)
{
	struct counted *c = arg;

	if (ev->kind == EV_session)
		c->weights = ev->u.session.weight_bytes;
	if (ev->kind == EV_product)
		c->products += ev->u.product.bytes;
	if (ev->kind != EV_step || ev->u.step.rows != 1 || ev->u.step.decode_rows != 1)
		return;
	c->step = ev->u.step.bytes;
	c->steps++;
}

static void run(struct engine *e)
{
	const int32_t ids[] = { 40, 41, 42, 43 };
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.n_ids = 4,
		.max_tokens = 4,
		.params = SAMPLE_DEFAULTS,
		.ignore_end = true };
	struct err err = { 0 };

	if (engine_submit(e, &q, &err) < 1)
		fail_msg("%s", err.text);
	while (!engine_idle(e))
		if (engine_step(e, &err) < 0)
			fail_msg("%s", err.text);
}

static struct counted count(const char *backend)
{
	struct tiny_options t = TINY_DEFAULTS;
	struct engine_options o = ENGINE_DEFAULTS;
	struct counted c = { 0 };
	struct engine *e = NULL;
	struct err err = { 0 };
	char *path;

	t.dim = DIM;
	t.ffn = FFN;
	t.heads = 16;
	t.kv_heads = 1;
	t.layers = LAYERS;
	t.vocab = VOCAB;
	t.type = K_Q8_0;
	t.experts = EXPERTS;
	t.used = USED;
	o.model = path = tiny_temp(&t, &err);
	o.backend = backend;
	o.threads = 1;
	o.packed_cache = "off";
	o.spec = "off";
	if (!path || engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(e, on_event, &c);
	engine_begin(e, NULL);
	run(e);
	engine_close(e);
	unlink(path);
	free(path);
	return c;
}

/* Bytes of so many weights in Q8_0. */
static int64_t q8(int64_t n)
{
	return n / 32 * 34;
}

static void test_token(void **state)
{
	const char *const backends[] = { "ref", "cpu" };
	const int64_t routed = q8((int64_t)LAYERS * USED * 3 * DIM * FFN);
	const int64_t dense = q8((int64_t)LAYERS * (2 * DIM * DIM + 2 * DIM * DIM / 16)) +
						  (int64_t)LAYERS * EXPERTS * DIM * 4 + q8((int64_t)VOCAB * DIM);
	const int64_t norms = (2 * LAYERS + 1) * DIM * 4;

	(void)state;
	for (int i = 0; i < 2; i++) {
		const struct counted c = count(backends[i]);

		assert_true(c.steps > 0);
		assert_int_equal(c.weights, routed + dense + norms);
		if (c.products < routed + dense || (double)c.products > 1.02 * (double)(routed + dense))
			fail_msg("%s: products of %lld bytes", backends[i], (long long)c.products);
		if (c.step < routed + dense || (double)c.step > 1.02 * (double)(routed + dense))
			fail_msg("%s: a step of %lld bytes, %.4f times its %lld of weights", backends[i],
				(long long)c.step, (double)c.step / (double)(routed + dense),
				(long long)(routed + dense));
		print_message("# %s: %.4f times the weights\n", backends[i],
			(double)c.step / (double)(routed + dense));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_token) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
