/* What rows see: each policy against its definition, position by position; text and back; and in an
 * engine, where logits are a function of the tokens and of the lossy settings alone, what rows see
 * and the format of the cache: not of chunks, pages, batches, drafts or the prefix cache. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/core/engine_impl.h"
#include "engine/visibility/visibility.h"
#include "tests/support/invariants.h"
#include "tests/support/tiny.h"

static struct visible parse(const char *spec)
{
	struct visible v = { 0 };
	struct err e = { 0 };

	if (visible_parse(&v, spec, &e))
		fail_msg("%s", e.text);
	return v;
}

/* The definition. */
static bool sees(int32_t sinks, int32_t window, int32_t own, int32_t pos, int32_t other)
{
	const int32_t ago = pos - other;

	return ago >= 0 && (!window || ago < window || other < sinks) && (!own || ago < own);
}

static void check_policy(const char *spec, int32_t sinks, int32_t window, int32_t own)
{
	const struct visible v = parse(spec);

	for (int32_t pos = 0; pos < 150; pos++) {
		struct k_range out[VISIBLE_RANGES];
		const int32_t n = visible_n_ranges(&v, own), count = visible_ranges(&v, own, pos, out);
		int32_t sum = 0, end = -1;

		assert_in_range(n, 1, VISIBLE_RANGES);
		for (int32_t i = 0; i < n; i++) {
			assert_true(
				out[i].first > end || (out[i].first == out[i].end && out[i].end == pos + 1));
			end = out[i].end;
		}
		assert_int_equal(end, pos + 1);
		for (int32_t other = 0; other <= pos; other++) {
			bool in = false;

			for (int32_t i = 0; i < n; i++)
				in |= out[i].first <= other && other < out[i].end;
			assert_int_equal(in, sees(sinks, window, own, pos, other));
			sum += in;
		}
		assert_int_equal(sum, count);
	}
}

static void test_policies(void **state)
{
	(void)state;
	for (int32_t own = 0; own < 60; own += 29) {
		check_policy("full", 0, 0, own);
		check_policy("window:1", 0, 1, own);
		check_policy("window:33", 0, 33, own);
		check_policy("sinks:4+window:16", 4, 16, own);
		check_policy("sinks:40+window:20", 40, 20, own);
	}
}

/* The definitions of what rows read of what they see. */
static bool stride_mask_sees(const char *name, const int32_t *arg, int32_t pos, int32_t other)
{
	const int32_t ago = pos - other;

	if (!strcmp(name, "dilated"))
		return ago % arg[1] == 0 && ago / arg[1] < arg[0];
	if (!strcmp(name, "strided"))
		return ago < arg[1] || ago % arg[0] == 0;
	return other / arg[0] == pos / arg[0] || other % arg[0] >= arg[0] - arg[1];
}

static void check_stride_mask(const char *spec)
{
	const struct visible v = parse(spec);

	for (int32_t own = 0; own < 60; own += 29)
		for (int32_t pos = 0; pos < 150; pos++) {
			const struct k_stride_mask c = v.policy->stride_mask(v.arg, pos);
			struct k_range out[VISIBLE_RANGES];
			int32_t sum = 0;

			visible_ranges(&v, own, pos, out);
			for (int32_t other = 0; other <= pos; other++) {
				bool in = false;

				for (int32_t i = 0; i < visible_n_ranges(&v, own); i++)
					in |= out[i].first <= other && other < out[i].end;
				in &= other >= c.end || (other + c.phase) % c.period < c.width;
				assert_int_equal(in, stride_mask_sees(v.policy->name, v.arg, pos, other) &&
										 (!own || pos - other < own));
				sum += in;
			}
			assert_int_equal(visible_reads(&v, own, pos), sum);
		}
}

static void test_reads(void **state)
{
	struct visible v;

	(void)state;
	check_stride_mask("window:5+dilation:3");
	check_stride_mask("window:40+dilation:1");
	check_stride_mask("stride:7+window:9");
	check_stride_mask("stride:1+window:1");
	check_stride_mask("block:16+last:4");
	check_stride_mask("block:10+last:30");
	v = parse("top:100");
	assert_int_equal(visible_reads(&v, 0, 111), 112);
	assert_int_equal(visible_reads(&v, 0, 112), 6 * 16 + 1); /* 7 groups, the last has one */
	assert_int_equal(visible_reads(&v, 0, 127), 7 * 16);
	assert_int_equal(visible_reads(&v, 30, 500), 30); /* a layer with a window reads all of it */
	v = parse("top:25%");
	assert_int_equal(visible_reads(&v, 0, 8191), 2048);
	assert_int_equal(visible_reads(&v, 0, 8192), 128 * 16 + 1);
	assert_int_equal(visible_reads(&v, 0, 90), 3 * 16 + 11);
	v = parse("h2o:300"); /* 19 groups, 16 of them the newest */
	assert_int_equal(visible_reads(&v, 0, 255), 256);
	assert_int_equal(visible_reads(&v, 0, 256), 129 + 3 * 16);
	assert_int_equal(visible_reads(&v, 0, 1279), 256 + 3 * 16);
	assert_int_equal(visible_reads(&v, 50, 1279), 50);
	assert_int_equal(visible_most_kept(&v, 5000), 3);
	assert_int_equal(visible_most_rows(&v, 255), 1);
	assert_int_equal(visible_most_rows(&v, 256), 128);
	v = parse("h2o:20%");
	assert_int_equal(visible_reads(&v, 0, 8191), 256 + (103 - 16) * 16);
	assert_int_equal(visible_reads(&v, 0, 400), 401 - 256 + 16);
	assert_int_equal(visible_most_kept(&v, 8192), 104 - 16);
	v = parse("h2o:1000000000%"); /* as much as there is */
	assert_int_equal(visible_most_kept(&v, 8192), 65 * 8 - 16);
	v = parse("stream:4+window:20");
	assert_int_equal(visible_most_kept(&v, 5000), 0);
	assert_int_equal(visible_most_rows(&v, 255), INT32_MAX);
	assert_int_equal(v.policy->rotated(v.arg, 23), 23);
	assert_int_equal(v.policy->rotated(v.arg, 24), 23);
	assert_int_equal(v.policy->rotated(v.arg, 5000), 23);
}

static void test_text(void **state)
{
	static const char *const good[] = { "full", "window:7", "sinks:4+window:512",
		"stream:4+window:508", "window:9+dilation:2", "stride:5+window:4", "block:6+last:2",
		"top:64", "top:25%", "h2o:512", "h2o:20%" };
	static const char *const bad[] = { "", "ful", "full:1", "window", "window:0", "window:-3",
		"window:1x", "sinks:4", "window:9999999999", "sinks:4+window:", "sinks:4window:5",
		"sinks:4+window:5+window:6", "window: 5", "top:", "top:%", "top:25%%", "window:5%",
		"top:0%", "window:9+dilation:0", "h2o:", "h2o:4+window:4" };
	struct visible v;

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		char text[64];

		v = parse(good[i]);
		visible_print(&v, text, sizeof text);
		assert_string_equal(text, good[i]);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct err e = { 0 };

		assert_int_equal(visible_parse(&v, bad[i], &e), -1);
		assert_non_null(strstr(e.text, ": full, window:N, window:N+dilation:N, "));
		assert_non_null(strstr(e.text, "is needed, with numbers of positions for N"));
	}
}

static void test_lossy(void **state)
{
	struct visible v = parse("window:100");

	(void)state;
	assert_true(visible_is_lossy(&v, 0, 101));
	assert_false(visible_is_lossy(&v, 0, 100));
	assert_false(visible_is_lossy(&v, 100, 5000)); /* the layer's own */
	assert_true(visible_is_lossy(&v, 101, 5000));
	v = parse("sinks:4+window:96");
	assert_true(visible_is_lossy(&v, 0, 101));
	assert_false(visible_is_lossy(&v, 0, 100));
	v = (struct visible){ 0 };
	assert_false(visible_is_lossy(&v, 0, 5000));
}

/* ---- in an engine ---- */

enum { N = 90, DRAWN = 40 };
struct drawn {
	int64_t hash[N + DRAWN];
	int n, n_unseen;
};

static void on_event(void *arg, const struct event *ev)
{
	struct drawn *d = arg;

	if (ev->kind == EV_token && ev->u.token.request == 1) {
		d->hash[ev->u.token.pos] = ev->u.token.hash;
		d->n++;
	}
	d->n_unseen += ev->kind == EV_page && ev->u.page.action == EV_PAGE_unseen;
	if (ev->kind == EV_score && ev->u.score.request == 1) {
		d->hash[ev->u.score.pos] = ev->u.score.hash;
		d->n++;
	}
}

static void submit(struct engine *e, enum ev_code_request_kind kind, int other)
{
	struct engine_request q = { .kind = kind,
		.n_ids = N,
		.max_tokens = DRAWN,
		.params = SAMPLE_DEFAULTS,
		.text = "test",
		.ignore_end = true };
	int32_t ids[N];
	struct err err = { 0 };

	for (int32_t i = 0; i < N; i++)
		ids[i] = 5 + (i * 7 + i / 30 * other * 11) % 40;
	q.ids = ids;
	q.params.temperature = 0;
	if (engine_submit(e, &q, &err) < 0)
		fail_msg("%s", err.text);
}

/* A text of N tokens, and what is drawn after it or its score. */
static struct drawn drawn_with(
	const struct engine_options *with, enum ev_code_request_kind kind, int company)
{
	struct engine_options o = *with;
	struct drawn d = { .n = 0 };
	struct engine *e;
	struct err err = { 0 };

	o.model = tiny_model;
	o.ctx = N + DRAWN;
	if (engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(e, on_event, &d);
	engine_begin(e, NULL);
	submit(e, kind, 0);
	for (int i = 1; i < company; i++)
		submit(e, EV_REQUEST_KIND_load, i);
	while (!engine_idle(e))
		assert_true(engine_step(e, &err) >= 0);
	engine_check(e);
	engine_close(e);
	return d;
}

static void same(const struct drawn *a, const struct drawn *b)
{
	assert_int_equal(a->n, b->n);
	assert_memory_equal(a->hash, b->hash, sizeof a->hash);
}

static void test_engine(void **state)
{
	static const char *const lossy[][2] = { { "window:20", "f16" }, { "sinks:3+window:17", "f16" },
		{ "sinks:4+window:1", "f16" }, { "full", "f32" }, { "full", "bf16" }, { "full", "e4m3" },
		{ "window:20", "e4m3" }, { "stream:3+window:17", "f16" }, { "window:9+dilation:3", "f16" },
		{ "stride:5+window:7", "bf16" }, { "block:16+last:4", "f16" }, { "top:64", "f16" },
		{ "top:70%", "e4m3" } };
	struct engine_options o = ENGINE_DEFAULTS;
	struct drawn full = drawn_with(&o, EV_REQUEST_KIND_load, 1), before = full;

	(void)state;
	assert_int_equal(full.n, DRAWN);
	for (size_t p = 0; p < sizeof lossy / sizeof *lossy; p++) {
		struct drawn score, want, got;

		o = (struct engine_options)ENGINE_DEFAULTS;
		o.visible = lossy[p][0];
		o.cache_format = lossy[p][1];
		score = drawn_with(&o, EV_REQUEST_KIND_score, 1);
		want = drawn_with(&o, EV_REQUEST_KIND_load, 1);

		assert_int_equal(score.n, N - 1);
		assert_true(memcmp(want.hash, full.hash, sizeof full.hash) != 0);
		assert_true(memcmp(want.hash, before.hash, sizeof full.hash) != 0);
		before = want;
		o.prefill_chunk = 7;
		o.page_size = 48;
		got = drawn_with(&o, EV_REQUEST_KIND_load, 5);
		same(&want, &got);
		got = drawn_with(&o, EV_REQUEST_KIND_score, 1);
		same(&score, &got);
		o.spec = "ngram";
		got = drawn_with(&o, EV_REQUEST_KIND_load, 3);
		same(&want, &got);
		o.spec = "lookahead";
		o.backend = "ref";
		got = drawn_with(&o, EV_REQUEST_KIND_load, 1);
		same(&want, &got);
	}
}

/* Operations of attention in the last step, and those of the positions that its rows read. */
static void check_operations(const struct engine *e, const struct visible *v)
{
	const struct forward *f = &e->forward;
	int32_t n = 0;

	for (int32_t i = 0; i < f->program.n_ops; i++) {
		const struct k_op *op = &f->program.op[i];
		uint64_t reads = 0;

		if (op->kind != K_OP_attention)
			continue;
		for (int32_t r = 0; r < f->n_rows; r++)
			reads += (uint64_t)visible_reads(v, 0, f->rows[r].pos);
		assert_int_equal(op->ops, reads * (uint64_t)op->u.attention.out.dim * 4);
		n++;
	}
	assert_true(n > 0);
}

static void test_operations(void **state)
{
	static const char *const specs[] = { "full", "window:20", "window:9+dilation:3",
		"block:16+last:4", "top:64", "top:70%" };

	(void)state;
	for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
		struct engine_options o = ENGINE_DEFAULTS;
		const struct visible v = parse(specs[i]);
		struct engine *e;
		struct err err = { 0 };

		o.model = tiny_model;
		o.ctx = N + DRAWN;
		o.visible = specs[i];
		assert_int_equal(engine_open(&e, &o, &err), 0);
		engine_begin(e, NULL);
		submit(e, EV_REQUEST_KIND_load, 0);
		submit(e, EV_REQUEST_KIND_load, 1);
		while (!engine_idle(e)) {
			assert_true(engine_step(e, &err) >= 0);
			check_operations(e, &v);
		}
		engine_close(e);
	}
}

/* Pages that no row to come sees go back: the same bits as with all of them kept, in a pool that
 * could not hold the sequence, and with drafts (what is preempted or goes back:
 * tests/unit/engine/test_memory.c, test_rewind). */
static void test_given_back(void **state)
{
	static const char *const policies[] = { "window:20", "sinks:3+window:17", "sinks:40+window:9" };

	(void)state;
	for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
		struct engine_options o = ENGINE_DEFAULTS;
		struct drawn kept, got;

		o.visible = policies[p];
		o.give_back = false;
		kept = drawn_with(&o, EV_REQUEST_KIND_load, 3);
		assert_int_equal(kept.n_unseen, 0);
		o.give_back = true;
		got = drawn_with(&o, EV_REQUEST_KIND_load, 3);
		same(&kept, &got);
		assert_true(got.n_unseen >= 3 * 3); /* of each of three requests */
		o.pages = 6;                        /* of 9 that the sequence has */
		o.spec = "ngram";
		got = drawn_with(&o, EV_REQUEST_KIND_load, 4);
		same(&kept, &got);
		o.pages = 0;
		o.spec = "skip:1,4,0"; /* whose own rows read those pages, too */
		got = drawn_with(&o, EV_REQUEST_KIND_load, 1);
		same(&kept, &got);
	}
}

/* Where the model's own windows hide what is behind them, a pool of the default size has room for a
 * whole sequence once nothing is given back, from the beginning and from then on. */
static void test_room_without_giving_back(void **state)
{
	for (int later = 0; later < 2; later++) {
		struct engine_options o = ENGINE_DEFAULTS;
		struct engine *e;
		struct err err = { 0 };
		struct engine_state s;

		(void)state;
		o.model = "demos/models/family/window.gguf";
		o.slots = 1;
		o.give_back = later;
		assert_int_equal(engine_open(&e, &o, &err), 0);
		assert_true(!later || engine_state(e).pages * o.page_size < engine_info(e)->ctx);
		if (later)
			assert_int_equal(engine_set(e, "give-back", "off", &err), 0);
		s = engine_state(e);
		assert_true(s.pages * s.page_size >= engine_info(e)->ctx);
		assert_int_equal(e->set.pages, s.pages);
		engine_close(e);
	}
}

static void test_rewind(void **state)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct drawn want, d = { .n = 0 };
	struct engine *e;
	struct err err = { 0 };

	(void)state;
	o.visible = "sinks:3+window:17";
	want = drawn_with(&o, EV_REQUEST_KIND_load, 1);
	o.model = tiny_model;
	o.ctx = N + DRAWN;
	o.pages = 7;
	for (int cache = 0; cache < 2; cache++) {
		o.prefix_cache = cache;
		memset(&d, 0, sizeof d);
		assert_int_equal(engine_open(&e, &o, &err), 0);
		engine_add_sink(e, on_event, &d);
		engine_begin(e, NULL);
		submit(e, EV_REQUEST_KIND_load, 0);
		while (d.n < DRAWN - 2)
			assert_int_equal(engine_step(e, &err), 1);
		assert_int_equal(engine_rewind(e, 1, N + 1, -1, &err), 0);
		memset(d.hash + N + 1, 0, (DRAWN - 1) * sizeof *d.hash);
		while (!engine_idle(e))
			assert_true(engine_step(e, &err) >= 0);
		engine_check(e);
		engine_close(e);
		assert_memory_equal(d.hash, want.hash, sizeof d.hash);
	}
}

/* What hides nothing here is full; a change is refused while something runs, and forgets what was
 * cached. */
static void test_setting(void **state)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct drawn d = { .n = 0 };
	struct engine *e;
	struct err err = { 0 };
	char value[64];
	size_t page;

	(void)state;
	o.model = tiny_model;
	o.ctx = N + DRAWN;
	assert_int_equal(engine_open(&e, &o, &err), 0);
	engine_add_sink(e, on_event, &d);
	engine_begin(e, NULL);
	assert_int_equal(engine_set(e, "visible", "window:4000", &err), 0);
	engine_get(e, "visible", value, sizeof value);
	assert_string_equal(value, "full");
	submit(e, EV_REQUEST_KIND_load, 0);
	assert_int_equal(engine_step(e, &err), 1);
	assert_int_equal(engine_set(e, "visible", "window:40", &err), -1);
	assert_int_equal(engine_set(e, "cache-format", "bf16", &err), -1);
	while (!engine_idle(e))
		engine_step(e, &err);
	assert_int_equal(engine_set(e, "visible", "nothing", &err), -1);
	assert_int_equal(engine_set(e, "cache-format", "f8", &err), -1);
	page = engine_state(e).page_bytes;
	assert_int_equal(engine_set(e, "cache-format", "f32", &err), 0);
	assert_int_equal(engine_state(e).page_bytes, 2 * page);
	assert_int_equal(engine_set(e, "cache-format", "e4m3", &err), 0);
	assert_int_equal(engine_state(e).page_bytes, page / 2);
	assert_int_equal(engine_set(e, "visible", "window:40", &err), 0);
	engine_get(e, "visible", value, sizeof value);
	assert_string_equal(value, "window:40");
	submit(e, EV_REQUEST_KIND_load, 0);
	engine_step(e, &err);
	engine_check(e);
	engine_close(e);
}

/* Where sequences are to go on, what the context had is what rows see, and pages are for that. */
static void test_goes_on(void **state)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct engine *e;
	struct err err = { 0 };
	char value[64];

	(void)state;
	o.model = tiny_model;
	o.ctx = 64;
	o.slots = 1;
	o.goes_on = true;
	assert_int_equal(engine_open(&e, &o, &err), 0);
	assert_int_equal(engine_info(e)->ctx, 64 * ENGINE_GOES_ON);
	engine_get(e, "visible", value, sizeof value);
	assert_string_equal(value, "stream:4+window:60");
	engine_get(e, "pages", value, sizeof value);
	assert_true(atoi(value) <= (64 + 256) / 16);
	engine_close(e);
	o.visible = "stream:2+window:20"; /* what is asked for stays */
	assert_int_equal(engine_open(&e, &o, &err), 0);
	engine_get(e, "visible", value, sizeof value);
	assert_string_equal(value, o.visible);
	engine_close(e);
	o.ctx = 0; /* the model's own */
	o.visible = "window:20";
	assert_int_equal(engine_open(&e, &o, &err), -1);
	assert_non_null(strstr(err.text, "only stream:S+window:W"));
}

/* A model without attention has nothing that could see less, and nothing to watch: it says so. */
static void test_without_attention(void **state)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct engine *e;
	struct err err = { 0 };

	(void)state;
	o.model = "tests/data/zoo/mamba.gguf";
	o.visible = "window:8";
	assert_int_equal(engine_open(&e, &o, &err), -1);
	assert_string_equal(err.text,
		"visible window:8: this model has no attention that could see less: its layers keep "
		"states");
	o.visible = "full";
	err = (struct err){ 0 };
	assert_int_equal(engine_open(&e, &o, &err), 0);
	assert_int_equal(engine_set(e, "observe-head", "0", &err), -1);
	assert_string_equal(
		err.text, "observe-head 0: this model has no attention to watch: its layers keep states");
	err = (struct err){ 0 };
	assert_int_equal(engine_set(e, "cache-format", "bf16", &err), -1);
	assert_string_equal(
		err.text, "cache-format bf16: this model has no keys and values: its layers keep states");
	assert_int_equal(engine_set(e, "cache-format", "f16", &err), 0);
	engine_close(e);
}

/* Layer 0 has no attention, and no value of the others is above the threshold. */
static void on_watched(void *arg, const struct event *ev)
{
	const struct ev_attention *a = &ev->u.attention;
	const uint8_t *share = a->share.data, *near = a->near_zero.data;
	int *n = arg;

	if (ev->kind == EV_head)
		fail_msg("a head of a layer without attention was told of");
	if (ev->kind != EV_attention)
		return;
	for (int64_t p = 0; p < a->pages; p++)
		assert_int_equal(share[p], 0);
	assert_true(share[2 * a->pages - 1] > 0);
	assert_int_equal(near[0] | near[1], 0);
	assert_int_equal(near[2] & near[3], 0xff);
	++*n;
}

static void test_watching(void **state)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct engine *e;
	struct block mixer;
	struct err err = { 0 };
	int n = 0;

	(void)state;
	o.model = tiny_model;
	o.ctx = N + DRAWN;
	o.visible = "window:20";
	o.attention_every = 1;
	o.observe_layer = o.observe_head = 0;
	assert_int_equal(engine_open(&e, &o, &err), 0);
	mixer = e->model->layer[0].mixer;
	e->model->layer[0].mixer = (struct block){ 0 };
	e->forward.observed.threshold = 2;
	engine_add_sink(e, on_watched, &n);
	engine_begin(e, NULL);
	for (int i = 0; i < 3; i++)
		submit(e, EV_REQUEST_KIND_load, i);
	while (!engine_idle(e))
		assert_true(engine_step(e, &err) >= 0);
	assert_true(n > DRAWN);
	e->model->layer[0].mixer = mixer;
	engine_close(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_policies),
		cmocka_unit_test(test_reads),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_lossy),
		cmocka_unit_test(test_engine),
		cmocka_unit_test(test_operations),
		cmocka_unit_test(test_setting),
		cmocka_unit_test(test_goes_on),
		cmocka_unit_test(test_without_attention),
		cmocka_unit_test(test_watching),
		cmocka_unit_test(test_given_back),
		cmocka_unit_test(test_room_without_giving_back),
		cmocka_unit_test(test_rewind),
	};

	return cmocka_run_group_tests_name("visible", tests, tiny_model_make, tiny_model_drop);
}
