/* A whole model pruned 2:4: where half of its zeros are not kept, all hashes are those of the file
 * as it is, on every instruction set, split over ranks, and from the cache of packed weights; what
 * is counted; and that other files are kept whole. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/engine.h"
#include "lab/prune_impl.h"
#include "tests/support/tiny.h"

enum { PROMPT = 40, TOKENS = 12 };

static char pruned[300];

struct seen {
	uint64_t hash;
	int64_t weights, pairs, step_bytes, step_ops;
	bool from_cache;
};

static void on_event(void *arg, const struct event *ev)
{
	struct seen *s = arg;

	if (ev->kind == EV_token)
		s->hash = s->hash * 31 + (uint64_t)ev->u.token.hash;
	if (ev->kind == EV_step)
		s->step_bytes = ev->u.step.bytes, s->step_ops = ev->u.step.ops;
	if (ev->kind == EV_session) {
		s->weights = ev->u.session.weight_bytes;
		s->pairs = ev->u.session.pair_bytes;
	}
}

static struct seen run(struct engine_options o, const char *model)
{
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.n_ids = PROMPT,
		.max_tokens = TOKENS,
		.params = SAMPLE_DEFAULTS,
		.text = "test",
		.ignore_end = true };
	struct seen s = { 0 };
	int32_t ids[PROMPT];
	struct engine *e;
	struct err err = { 0 };

	o.model = model;
	o.threads = 2;
	for (int k = 0; k < PROMPT; k++)
		ids[k] = 10 + k * 7 % 40;
	q.ids = ids;
	if (engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(e, on_event, &s);
	engine_begin(e, NULL);
	assert_true(engine_submit(e, &q, &err) >= 0);
	while (engine_step(e, &err) > 0)
		;
	assert_int_equal(err.code, 0);
	s.from_cache = engine_info(e)->from_packed_cache;
	engine_close(e);
	return s;
}

static void make(enum k_type type, int32_t experts)
{
	const struct prune_options o = { .method = &prune_magnitude,
		.keep = 2,
		.of = 4,
		.unit = 1,
		.to = K_N_TYPES,
		.common = { .threads = 2 } };
	struct tiny_options t = TINY_DEFAULTS;
	struct prune_result r;
	struct err e = { 0 };
	char *source;

	t.type = type;
	t.experts = experts;
	t.used = experts / 2;
	source = tiny_temp(&t, &e);
	assert_non_null(source);
	snprintf(pruned, sizeof pruned, "%s.pruned", source);
	if (prune_file(source, pruned, &o, &r, &e))
		fail_msg("%s", e.text);
	unlink(source);
	free(source);
}

static void equal_and_smaller(const struct seen *whole, const struct seen *s, bool kept)
{
	assert_true(s->hash == whole->hash);
	if (!kept) {
		assert_true(s->pairs == EV_NULL_I && s->weights == whole->weights);
		return;
	}
	/* of 16 bits 9 are left, of 32 17 */
	assert_true(s->step_ops < whole->step_ops);
	assert_true(s->pairs > 0 && s->weights < whole->weights && s->step_bytes < whole->step_bytes);
	assert_true(16 * s->pairs == 9 * (whole->weights - s->weights + s->pairs) ||
				32 * s->pairs == 17 * (whole->weights - s->weights + s->pairs));
}

static void bits_stay(enum k_type type, int32_t experts)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct seen whole, s;

	make(type, experts);
	o.packed_cache = "off";
	o.pack_zeros = false;
	o.isa = "scalar";
	whole = run(o, pruned);
	assert_true(whole.pairs == EV_NULL_I);
	for (const char *const *isa = k_isas(); *isa; isa++)
		for (int keep = 0; keep < 2; keep++) {
			o.isa = *isa;
			o.pack_zeros = keep;
			s = run(o, pruned);
			equal_and_smaller(&whole, &s, keep && strcmp(*isa, "scalar") != 0);
		}
	o.isa = NULL;
	o.tensor_parallel = 2;
	s = run(o, pruned);
	assert_true(s.hash == whole.hash);
	unlink(pruned);
}

static void test_bits(void **state)
{
	(void)state;
	bits_stay(K_F16, 0);
	bits_stay(K_BF16, 0);
	bits_stay(K_F32, 0);
	bits_stay(K_F16, 4);
}

/* What the cache of packed weights has in one form is not taken for the other, where there are two.
 */
static void test_cached(void **state)
{
	struct engine_options o = ENGINE_DEFAULTS;
	uint64_t hash = 0;

	(void)state;
	make(K_F16, 0);
	o.packed_cache = "on";
	for (int i = 0; i < 4; i++) {
		struct seen s;

		o.pack_zeros = i > 1;
		s = run(o, pruned);
		assert_int_equal(s.from_cache, i % 2 || (i == 2 && s.pairs == EV_NULL_I));
		assert_true(!i || s.hash == hash);
		hash = s.hash;
	}
	unlink(pruned);
}

static void test_others_are_whole(void **state)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct tiny_options t = TINY_DEFAULTS;
	struct err e = { 0 };
	char *path;

	(void)state;
	t.type = K_F16;
	path = tiny_temp(&t, &e);
	assert_non_null(path);
	o.packed_cache = "off";
	assert_true(run(o, path).pairs == EV_NULL_I);
	unlink(path);
	free(path);
}

static int set_up(void **state)
{
	static char top[] = "/tmp/cutaway-pairs.XXXXXX";

	*state = top;
	return !mkdtemp(top) || setenv("XDG_CACHE_HOME", top, 1);
}

static int tear_down(void **state)
{
	char command[64];

	snprintf(command, sizeof command, "rm -rf '%s'", (const char *)*state);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bits),
		cmocka_unit_test(test_cached),
		cmocka_unit_test(test_others_are_whole),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
