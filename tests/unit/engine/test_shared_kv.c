/* Layers that read the keys and values of another (Gemma 4), where rows read only a part of them:
 * the bits of a sequence depend neither on how its rows are cut into steps nor on the kernels, and
 * a policy that hides something changes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/core/engine.h"

enum { N = 420, CTX = 512 /* more than the file has: heavy hitters need three spans */ };

static char path[] = "/tmp/cutaway-shared-XXXXXX";

struct scores {
	int64_t hash[N];
	int n;
};

/* The model of the zoo, made for longer sequences. */
static int make_model(void **state)
{
	static const char key[] = "gemma4.context_length";
	static unsigned char data[1 << 19];
	const uint32_t ctx = CTX;
	FILE *f = fopen("tests/data/zoo/gemma4.gguf", "rb");
	const size_t size = f ? fread(data, 1, sizeof data, f) : 0;
	unsigned char *at = memmem(data, size, key, strlen(key));
	const int fd = mkstemp(path);

	(void)state;
	if (!f || fclose(f) || !at || fd < 0)
		return -1;
	memcpy(at + strlen(key) + 4, &ctx, sizeof ctx);
	return write(fd, data, size) == (ssize_t)size && !close(fd) ? 0 : -1;
}

static int drop_model(void **state)
{
	(void)state;
	return unlink(path);
}

static void on_event(void *arg, const struct event *ev)
{
	struct scores *s = arg;

	if (ev->kind == EV_score && s->n < N)
		s->hash[s->n++] = ev->u.score.hash;
}

static struct scores score(const char *visible, const char *backend, int budget)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct scores s = { 0 };
	struct err err = { 0 };
	struct engine *e;
	int32_t ids[N];
	struct engine_request q = { .kind = EV_REQUEST_KIND_score, .ids = ids, .n_ids = N };

	o.model = path;
	o.ctx = CTX;
	o.visible = visible;
	o.backend = backend;
	o.budget = budget;
	o.threads = 2;
	o.packed_cache = "off";
	q.params = (struct sample_params)SAMPLE_DEFAULTS;
	for (int i = 0; i < N; i++)
		ids[i] = 3 + i * i * 37 % 250;
	if (engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(e, on_event, &s);
	engine_begin(e, NULL);
	assert_int_equal(engine_submit(e, &q, &err), 1);
	while (!engine_idle(e))
		assert_true(engine_step(e, &err) >= 0);
	engine_close(e);
	assert_int_equal(s.n, N - 1);
	return s;
}

static void test_policies(void **state)
{
	static const char *const policies[] = { "h2o:48", "top:64", "window:48", "stream:4+window:40",
		"sinks:4+window:40" };
	const struct scores full = score("full", "cpu", 256);

	(void)state;
	for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
		const struct scores whole = score(policies[i], "cpu", 256);
		const struct scores parts = score(policies[i], "cpu", 16);
		const struct scores ref = score(policies[i], "ref", 64);

		if (memcmp(&whole, &parts, sizeof whole))
			fail_msg("%s: steps of 16 rows have other bits", policies[i]);
		if (memcmp(&whole, &ref, sizeof whole))
			fail_msg("%s: the reference has other bits", policies[i]);
		if (!memcmp(&whole, &full, sizeof whole))
			fail_msg("%s hides nothing", policies[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_policies) };

	return cmocka_run_group_tests(tests, make_model, drop_model);
}
