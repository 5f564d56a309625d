/* The CUDA back end from the outside, on the shim's driver: whole tiny models in both ways of
 * running give the CPU's bits; memory that is not there, a device that is lost at any call, a
 * driver that is too old are told clearly and leave nothing open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/core/engine.h"
#include "engine/observe/probe.h"
#include "kernels/arith.h"
#include "kernels/context.h"
#include "kernels/cuda/cuda.h"
#include "kernels/kernels.h"
#include "tests/cuda/shim/shim.h"
#include "tests/support/tiny.h"

static const struct shim *shim; /* (shim->fail)(…): cmocka has a macro of that name */
static char *model;

/* What an engine emitted. */
struct heard {
	int64_t hash[512];
	uint64_t attention; /* folded: shares and near zeros */
	uint64_t score, told;
	int n, n_finish, n_copied, n_timed, n_vectors;
	int64_t reason;
	char why[256];
	char backend[16], device[64];
};

static void listen(void *arg, const struct event *ev)
{
	struct heard *h = arg;

	if (ev->kind == EV_token) {
		assert_true(h->n < 512);
		h->hash[h->n++] = ev->u.token.hash;
		h->told = h->told * 31 + (uint64_t)ev->u.token.id + k_bits64(ev->u.token.p_draw);
		for (size_t i = 0; i < ev->u.token.candidates.size; i++)
			h->told = h->told * 31 + ((const uint8_t *)ev->u.token.candidates.data)[i];
		for (size_t i = 0; i < ev->u.token.stages.size; i++)
			h->told = h->told * 31 + ((const uint8_t *)ev->u.token.stages.data)[i];
	} else if (ev->kind == EV_attention) {
		const uint8_t *p = ev->u.attention.share.data;

		for (size_t i = 0; i < ev->u.attention.share.size; i++)
			h->attention = h->attention * 31 + p[i];
		p = ev->u.attention.near_zero.data;
		for (size_t i = 0; i < ev->u.attention.near_zero.size; i++)
			h->attention = h->attention * 31 + p[i];
	} else if (ev->kind == EV_score) {
		h->score = h->score * 31 + k_bits64(ev->u.score.logp);
		for (size_t i = 0; i < ev->u.score.candidates.size; i++)
			h->score = h->score * 31 + ((const uint8_t *)ev->u.score.candidates.data)[i];
	} else if (ev->kind == EV_embedding) {
		h->score = h->score * 31 + (uint64_t)ev->u.embedding.hash;
		h->n_vectors++;
	} else if (ev->kind == EV_page) {
		h->n_copied += ev->u.page.action == EV_PAGE_copy;
	} else if (ev->kind == EV_time) {
		h->n_timed++;
	} else if (ev->kind == EV_finish) {
		h->n_finish++;
		h->reason = ev->u.finish.reason;
		snprintf(h->why, sizeof h->why, "%.*s", (int)ev->u.finish.why.size,
			ev->u.finish.why.data ? (const char *)ev->u.finish.why.data : "");
	} else if (ev->kind == EV_session) {
		snprintf(h->backend, sizeof h->backend, "%.*s", (int)ev->u.session.backend.size,
			(const char *)ev->u.session.backend.data);
		snprintf(h->device, sizeof h->device, "%.*s", (int)ev->u.session.device.size,
			ev->u.session.device.data ? (const char *)ev->u.session.device.data : "");
	}
}

static struct engine_options options(const char *backend, const char *mode)
{
	struct engine_options o = ENGINE_DEFAULTS;

	o.model = model;
	o.backend = backend;
	o.cuda_mode = mode;
	o.threads = 1;
	o.ctx = 256;
	o.pages = 40;
	o.budget = 32;
	o.spec = "ngram:3,1,4";
	return o;
}

/* Four requests of which two share a beginning that ends within a page, together; one follows when
 * all is done. */
static int submit(struct engine *e, int which, struct err *err)
{
	int32_t ids[64];
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		/* the last ends with a page, so a hit copies it */
		.n_ids = 11 + which * 7,
		.max_tokens = 8,
		.params = SAMPLE_DEFAULTS,
		.sample = which,
		.text = "",
		.ignore_end = true };

	for (int i = 0; i < q.n_ids; i++)
		ids[i] = (i * 37 + (i < 20 ? 0 : which)) % 300 + 3;
	q.params.seed = 9;
	if (which == 0)
		q.params.top_p = 1; /* a race of all */
	else if (which == 1)
		q.params.temperature = 0;
	else if (which == 2) /* these need rows of logits whole */
		sample_bias_add(&q.params.logit_bias, 7, 12, NULL);
	q.top = which % 2 ? SAMPLE_TOP : 0;
	return engine_submit(e, &q, err) < 0 ? -1 : 0;
}

static int run_all(struct engine *e, struct err *err)
{
	int more = 1;

	while (more > 0)
		more = engine_step(e, err);
	return more;
}

static int converse(const struct engine_options *o, struct heard *h, struct err *err)
{
	struct engine *e;
	int status;

	memset(h, 0, sizeof *h);
	if (engine_open(&e, o, err))
		return -1;
	engine_add_sink(e, listen, h);
	engine_begin(e, NULL);
	for (int i = 0; i < 4; i++)
		submit(e, i, err);
	status = run_all(e, err);
	if (!status) {
		submit(e, 3, err);
		status = run_all(e, err);
	}
	if (status) { /* what comes now ends at once, with the reason */
		int before = h->n_finish;

		submit(e, 0, NULL);
		assert_int_equal(h->n_finish, before + 1);
		assert_int_equal(engine_step(e, NULL), -1);
	}
	engine_close(e);
	return status;
}

static void test_modes(void **state)
{
	static const char *const modes[] = { "launches", "graph" };
	static struct heard cpu, gpu;
	struct engine_options o = options("cpu", NULL);
	struct err e = { 0 };

	(void)state;
	assert_int_equal(converse(&o, &cpu, &e), 0);
	assert_true(cpu.n >= 40 && cpu.attention && cpu.n_copied);
	assert_string_equal(cpu.device, "");
	for (size_t m = 0; m < 2; m++) {
		o = options("cuda", modes[m]);
		if (converse(&o, &gpu, &e))
			fail_msg("%s: %s", modes[m], e.text);
		assert_string_equal(gpu.backend, "cuda");
		assert_non_null(strstr(gpu.device, "shim"));
		assert_int_equal(gpu.n, cpu.n);
		assert_memory_equal(gpu.hash, cpu.hash, sizeof cpu.hash);
		assert_true(gpu.attention == cpu.attention);
		assert_int_equal(gpu.n_timed, cpu.n_timed);
		assert_int_equal(gpu.n_copied, cpu.n_copied);
		assert_int_equal(shim->n_open(), 0);
	}
}

/* The switch may be turned between steps, and the clock of the stages runs in each way. */
static void test_switch(void **state)
{
	static const char *const modes[] = { "launches", "graph" };
	static struct heard h, cpu;
	struct engine_options o = options("cpu", NULL);
	struct err e = { 0 };
	struct engine *engine;
	char value[32];

	(void)state;
	assert_int_equal(converse(&o, &cpu, &e), 0);
	o = options("cuda", NULL);
	assert_int_equal(engine_open(&engine, &o, &e), 0);
	memset(&h, 0, sizeof h);
	engine_add_sink(engine, listen, &h);
	engine_begin(engine, NULL);
	for (int i = 0; i < 4; i++)
		submit(engine, i, &e);
	for (int i = 0; !engine_idle(engine); i++) {
		assert_int_equal(engine_set(engine, "cuda-mode", modes[i % 2], &e), 0);
		assert_int_equal(engine_get(engine, "cuda-mode", value, sizeof value), 0);
		assert_string_equal(value, modes[i % 2]);
		assert_int_equal(engine_step(engine, &e), 1);
	}
	assert_true(h.n >= 32 && h.n_timed > 3);
	assert_memory_equal(h.hash, cpu.hash, (size_t)h.n * sizeof *h.hash);
	assert_int_equal(engine_set(engine, "cuda-mode", "fast", &e), -1);
	engine_close(engine);
	assert_int_equal(shim->n_open(), 0);
}

/* Watched steps and others take turns, and each shape's graph is made once: the tenth cannot be
 * made, nor is it asked for. */
static void test_kept(void **state)
{
	struct engine_options o = options("cuda", "graph");
	static struct heard h;
	struct err e = { 0 };
	struct engine *engine;

	(void)state;
	o.spec = "off";
	assert_int_equal(engine_open(&engine, &o, &e), 0);
	memset(&h, 0, sizeof h);
	engine_add_sink(engine, listen, &h);
	engine_begin(engine, NULL);
	assert_true((shim->fail)("cuGraphInstantiateWithFlags:10=2"));
	for (int i = 0; i < 8; i++) {
		assert_int_equal(submit(engine, 1, &e), 0);
		if (run_all(engine, &e))
			fail_msg("%s after %d steps", e.text, (int)engine_steps(engine));
	}
	assert_true(h.attention && engine_steps(engine) >= 64);
	engine_close(engine);
	(shim->fail)(NULL);
}

/* Each of the first calls of a kind fails in turn: an error, never a crash, and nothing stays
 * open. */
static void fail_each(const char *function, int result, int most, int code)
{
	static struct heard h;
	const struct engine_options o = options("cuda", "graph");

	for (int n = 1; n <= most; n++) {
		const int open = shim->n_open();
		struct err e = { 0 };
		char plan[64];

		snprintf(plan, sizeof plan, "%s:%d=%d", function, n, result);
		assert_true((shim->fail)(plan));
		if (!converse(&o, &h, &e)) {
			assert_true(n > 1); /* it is called at all */
			return;
		}
		if ((int)e.code != code)
			fail_msg("%s: %d: %s", plan, (int)e.code, e.text);
		assert_true(strlen(e.text) > 20);
		(shim->fail)(NULL);
		if (shim->n_open() != open)
			fail_msg("%s: %d things stay open", plan, shim->n_open() - open);
	}
}

enum { DEEP = 700, DEEP_DIM = 128, DEEP_PAGES = DEEP / 64 + 1 };

/* A row's attention over 700 positions, in memory that host and kernels share. */
struct deep {
	float q[DEEP_DIM], out[DEEP_DIM];
	uint16_t kv[DEEP_PAGES * 64 * 2 * 2 * 32];
};

static void attend_deep(struct k_ctx *ctx, struct deep *d)
{
	const struct k_kv kv = { .base = (uint8_t *)d->kv,
		.page_bytes = sizeof d->kv / DEEP_PAGES,
		.page_size = 64,
		.n_layers = 1,
		.n_kv_heads = 2,
		.head_dim = 32 };
	const struct k_row row = { .pos = DEEP, .observe = -1 };
	const struct k_range range = { 0, DEEP + 1 };
	const int32_t pages[DEEP_PAGES] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, *tables[] = { pages };
	struct k_op op = { .kind = K_OP_attention,
		.u.attention = { .q = d->q,
			.out = { .x = d->out, .dim = DEEP_DIM },
			.n_heads = 4,
			.n = 1,
			.rows = &row,
			.ranges = &range,
			.n_ranges = 1,
			.pages = tables,
			.kv = &kv } };
	struct k_program p = { .op = &op, .n_ops = 1 };
	struct err e = { 0 };

	memset(d->out, 0, sizeof d->out);
	if (k_run(ctx, &p, &e))
		fail_msg("%s", e.text);
}

/* So deep that the results of all spans have no room: then there must be more. */
static void test_scratch(void **state)
{
	struct k_ctx *gpu, *ref;
	struct err e = { 0 };
	struct cu_device *c;
	struct deep *d;
	float expected[DEEP_DIM];

	(void)state;
	assert_int_equal(k_open(&gpu, "cuda", NULL, 1, &e) | k_open(&ref, "ref", NULL, 1, &e), 0);
	c = (struct cu_device *)gpu->device;
	d = k_alloc(gpu, sizeof *d, K_SHARED, "a test", &e);
	for (int i = 0; i < DEEP_DIM; i++)
		d->q[i] = (float)(i * 37 % 64) / 64 - 0.5f;
	for (size_t i = 0; i < sizeof d->kv / sizeof *d->kv; i++)
		d->kv[i] = (uint16_t)(i * 2654435761u >> 13 & 0xb7ff);
	attend_deep(ref, d);
	memcpy(expected, d->out, sizeof expected);
	for (int i = 0; i < 3; i++) {
		attend_deep(gpu, d);
		assert_memory_equal(d->out, expected, sizeof expected);
		if (i == 0)
			c->scratch.bytes = 1024; /* as if it had no more */
		assert_true(i == 0 || c->scratch.bytes > 1024);
	}
	k_free(gpu, d);
	k_close(gpu);
	k_close(ref);
}

static void test_no_memory(void **state)
{
	struct err e = { 0 };
	static struct heard h;
	struct engine_options o = options("cuda", NULL);

	(void)state;
	fail_each("cuMemAlloc_v2", 2, 14, ERR_MEMORY);
	fail_each("cuMemHostAlloc", 2, 4, ERR_MEMORY);
	(shim->fail)(NULL);
	o.pages = 1 << 20; /* 4 GB and more */
	assert_int_equal(converse(&o, &h, &e), -1);
	assert_int_equal(e.code, ERR_MEMORY);
	assert_non_null(strstr(e.text, "KV pages"));
	assert_non_null(strstr(e.text, "--pages"));
	assert_non_null(strstr(e.text, "MB are free"));
}

static void test_faults(void **state)
{
	(void)state;
	fail_each("cuModuleLoadData", 209, 2, ERR_DEVICE);
	fail_each("cuModuleGetFunction", 500, 2, ERR_DEVICE);
	fail_each("cuStreamCreate", 1, 2, ERR_DEVICE);
	fail_each("cuLaunchKernelEx", 1, 2, ERR_DEVICE);
	fail_each("cuStreamBeginCapture_v2", 1, 2, ERR_DEVICE);
	fail_each("cuGraphInstantiateWithFlags", 1, 2, ERR_DEVICE);
	fail_each("cuGraphLaunch", 719, 2, ERR_DEVICE);
	fail_each("cuMemcpyHtoDAsync_v2", 1, 4, ERR_DEVICE);
	fail_each("cuMemcpyDtoHAsync_v2", 1, 2, ERR_DEVICE);
	fail_each("cuMemcpyDtoDAsync_v2", 1, 2, ERR_DEVICE);
	(shim->fail)(NULL);
}

/* A device that is lost in the middle: requests end with the reason, and so does what comes
 * later. */
static void test_lost(void **state)
{
	static struct heard h;
	const struct engine_options o = options("cuda", NULL);
	int seen = 0;

	(void)state;
	for (int n = 5; n < 4000 && seen < 2; n += n / 8 + 1) {
		struct err e = { 0 };
		char plan[64];

		snprintf(plan, sizeof plan, "cuStreamSynchronize:%d=719!", n);
		assert_true((shim->fail)(plan));
		if (converse(&o, &h, &e) && h.n_finish) {
			seen++;
			assert_int_equal(e.code, ERR_DEVICE);
			assert_non_null(strstr(e.text, "719"));
			assert_non_null(strstr(e.text, "--backend cpu"));
		}
		(shim->fail)(NULL);
	}
	assert_true(seen > 0);
}

static void test_choice(void **state)
{
	struct k_device_info d[4];
	struct k_ctx *c;
	struct err e = { 0 };

	const int open = shim->n_open(); /* a device that was lost lets nothing be closed */

	(void)state;
	assert_int_equal(k_devices(d, 4, &e), 1);
	assert_non_null(strstr(d[0].name, "shim"));
	assert_string_equal(d[0].unfit, "");
	assert_int_equal(k_open(&c, "cuda:7", NULL, 1, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	e.code = 0;
	assert_int_equal(k_open(&c, "cuda:x", NULL, 1, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	e.code = 0;
	assert_int_equal(k_open(&c, "cuda", "avx2", 1, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	e.code = 0;
	assert_int_equal(k_open(&c, "auto", NULL, 1, &e), 0);
	assert_string_equal(k_backend_name(c), "cuda");
	assert_string_equal(k_fallback(c), "");
	assert_true(k_measure_read(c, 1 << 20, 16, NULL) > 0);
	k_close(c);
	assert_true((shim->fail)("cuModuleLoadData:1=209"));
	assert_int_equal(k_open(&c, "auto", NULL, 1, &e), 0);
	assert_string_equal(k_backend_name(c), "cpu");
	assert_true(strlen(k_fallback(c)) > 20);
	assert_int_equal(k_set_mode(c, "graph", &e), -1);
	k_close(c);
	(shim->fail)(NULL);
	assert_int_equal(shim->n_open(), open);
}

/* One prompt of 40 tokens through the given engine. */
static void answer(struct engine *e, struct heard *h)
{
	struct err err = { 0 };
	int from = h->n;

	assert_int_equal(submit(e, 3, &err), 0);
	assert_int_equal(run_all(e, &err), 0);
	assert_int_equal(h->n - from, 8);
}

static struct engine *open_file(const char *file, const char *backend, struct heard *h)
{
	struct engine_options o = options(backend, NULL);
	struct engine *e;
	struct err err = { 0 };

	o.model = file;
	memset(h, 0, sizeof *h);
	if (engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(e, listen, h);
	engine_begin(e, NULL);
	return e;
}

/* Draws with and without cuts, greedy ones, scores and vectors, all recorded, leave every row of
 * logits where it is: a copy of one would fail. What is told of them, candidates, stages of the
 * sampler and all, is the CPU's. */
static void test_rows_stay(void **state)
{
	static struct heard h[2];
	const int32_t ids[] = { 5, 9, 77, 4, 210, 6, 8, 31, 99, 100, 12 };
	const struct engine_request score = { .kind = EV_REQUEST_KIND_score,
		.ids = ids,
		.n_ids = 11,
		.params = SAMPLE_DEFAULTS,
		.text = "",
		.top = SAMPLE_TOP };
	struct engine_request vector = { .kind = EV_REQUEST_KIND_embed, .ids = ids, .n_ids = 11 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct engine_options o = options(i ? "cuda" : "cpu", NULL);
		struct err err = { 0 };
		struct engine *e;

		o.spec = "off";
		memset(&h[i], 0, sizeof h[i]);
		assert_int_equal(engine_open(&e, &o, &err), 0);
		assert_true((shim->fail)("cuMemcpyDtoHAsync_v2:1=1"));
		engine_add_sink(e, listen, &h[i]);
		engine_begin(e, NULL);
		submit(e, 0, &err);
		submit(e, 1, &err);
		submit(e, 3, &err);
		assert_true(engine_submit(e, &score, &err) > 0);
		for (vector.pooling = 1; vector.pooling <= EV_N_pooling; vector.pooling++)
			assert_true(engine_submit(e, &vector, &err) > 0);
		assert_int_equal(run_all(e, &err), 0);
		assert_int_equal(h[i].n, 24);
		assert_int_equal(h[i].n_vectors, EV_N_pooling);
		(shim->fail)(NULL);
		engine_close(e);
	}
	assert_memory_equal(h[0].hash, h[1].hash, 24 * sizeof *h[0].hash);
	assert_true(h[0].told == h[1].told && h[0].score == h[1].score && h[0].score);
}

/* A device has room for the budget and not for more, until more is asked for: then it grows, or
 * refuses and stays as it was. Steps larger than the first budget give the same bits. */
static void test_budget(void **state)
{
	static struct heard cpu, h;
	struct engine *e = open_file(model, "cpu", &cpu);
	struct err err = { 0 };
	char value[8];

	(void)state;
	answer(e, &cpu);
	engine_close(e);
	e = open_file(model, "cuda", &h);
	answer(e, &h);
	assert_true((shim->fail)("cuMemAlloc_v2:1=2"));
	assert_int_equal(engine_set(e, "budget", "4096", &err), -1);
	assert_int_equal(err.code, ERR_MEMORY);
	(shim->fail)(NULL);
	assert_int_equal(engine_get(e, "budget", value, sizeof value), 0);
	assert_string_equal(value, "32");
	answer(e, &h);
	err.code = 0;
	assert_int_equal(engine_set(e, "budget", "64", &err), 0);
	assert_int_equal(engine_set(e, "prefix-cache", "off", &err), 0);
	answer(e, &h);
	for (int i = 0; i < 3; i++)
		assert_memory_equal(h.hash + 8 * i, cpu.hash, 8 * sizeof *h.hash);
	engine_close(e);
	assert_int_equal(shim->n_open(), 0);
}

/* A deep look at a device's engine is the CPU's, to the bit. */
static void test_look(void **state)
{
	static struct heard cpu, h;
	const int32_t ids[] = { 5, 9, 77, 4, 210, 6, 8, 31 };
	struct engine *c = open_file(model, "cpu", &cpu), *e = open_file(model, "cuda", &h);
	struct err err = { 0 };
	struct probe *a, *b;

	(void)state;
	assert_int_equal(probe_open(&a, c, NULL, ids, 8, -1, NULL, NULL, &err), 0);
	for (int i = 0; i < 2; i++) { /* the second has the model already */
		if (probe_open(&b, e, NULL, ids, 8, -1, NULL, NULL, &err))
			fail_msg("%s", err.text);
		assert_true(a->stats.hash == b->stats.hash && a->n_layers == b->n_layers);
		assert_memory_equal(a->attention, b->attention,
			(size_t)(a->n_layers * a->n_heads * 8) * sizeof *a->attention);
		probe_close(b);
	}
	probe_close(a);
	engine_close(c);
	engine_close(e);
	assert_int_equal(shim->n_open(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_stay),
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_look),
		cmocka_unit_test(test_modes),
		cmocka_unit_test(test_switch),
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_scratch),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_choice),
	};
	struct err e = { 0 };
	const char *why;
	int failed;

	shim = shim_use(&why);
	if (!shim) {
		printf("1..0 # SKIP %s\n", why);
		return 0;
	}
	model = tiny_temp(&TINY_DEFAULTS, &e);
	if (!model)
		return 1;
	failed = cmocka_run_group_tests_name("cuda_host", tests, NULL, NULL);
	unlink(model);
	free(model);
	return failed;
}
