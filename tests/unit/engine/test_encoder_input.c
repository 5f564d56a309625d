/* How the input of an encoder-decoder model ends: T5 of the zoo, with add_eos_token and without;
 * and such a model as a drafter, which reads the input too. */
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
#include "engine/search/search.h"
#include "engine/text/tokenizer.h"

static char path[] = "/tmp/cutaway-input-XXXXXX";

struct seen {
	uint32_t ids[32];
	size_t n;
};

static void on_event(void *arg, const struct event *ev)
{
	struct seen *s = arg;

	if (ev->kind != EV_request)
		return;
	s->n = (size_t)ev->u.request.n_prompt;
	assert_in_range(s->n, 1, 32);
	memcpy(s->ids, ev->u.request.prompt.data, s->n * sizeof *s->ids);
}

/* The file with add_eos_token in the place of add_bos_token, which is as long. */
static void write_file(bool ends)
{
	static const char bos[] = "tokenizer.ggml.add_bos_token",
					  eos[] = "tokenizer.ggml.add_eos_token";
	static uint8_t file[1 << 19];
	FILE *in = fopen("tests/data/zoo/t5.gguf", "rb"), *out = fopen(path, "wb");
	size_t size = in ? fread(file, 1, sizeof file, in) : 0;
	uint8_t *at = memmem(file, size, bos, sizeof bos - 1);

	assert_non_null(at);
	assert_non_null(out);
	if (ends) {
		memcpy(at, eos, sizeof eos - 1);
		at[sizeof eos - 1 + 4] = true; /* after its type */
	}
	assert_int_equal(fwrite(file, 1, size, out), size);
	fclose(in);
	fclose(out);
}

static void expect(struct engine *e, struct seen *seen, const int32_t *ids, int32_t n,
	const int32_t *want, size_t n_want)
{
	struct engine_request q = { .kind = EV_REQUEST_KIND_run, .ids = ids, .n_ids = n };
	struct err err = { 0 };
	int status;

	q.max_tokens = 1;
	q.params = (struct sample_params)SAMPLE_DEFAULTS;
	if (engine_submit(e, &q, &err) < 1)
		fail_msg("%s", err.text);
	while ((status = engine_step(e, &err)) > 0)
		;
	assert_int_equal(status, 0);
	assert_int_equal(seen->n, n_want);
	assert_memory_equal(seen->ids, want, n_want * sizeof *want);
}

#define IDS(...) (const int32_t[]){ __VA_ARGS__ }, sizeof((int32_t[]){ __VA_ARGS__ }) / 4

/* What a search adds is counted from the closed input: no more tokens than were asked for, and none
 * that closes the input. */
static void check_search(struct engine *e, const int32_t *ids, int32_t n)
{
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.n_ids = n,
		.max_tokens = 4,
		.params = SAMPLE_DEFAULTS };
	const char *const methods[] = { "best:1", "beam:1", "mcts:1,1" };
	struct search_options o = { 0 };
	struct search_view v;
	struct err err = { 0 };

	q.params.temperature = 0;
	for (int i = 0; i < 3; i++) {
		int64_t id;

		o.method = methods[i];
		id = engine_search(e, &o, &q, &err);
		if (id < 0)
			fail_msg("%s", err.text);
		while (engine_search_look(e, id, &v) && !v.done)
			assert_int_equal(engine_step(e, &err), 1);
		assert_int_equal(v.n_answers, 1);
		assert_in_range(v.answer->n, 1, 4);
		assert_int_not_equal(v.answer->ids[0], engine_info(e)->start);
		engine_search_close(e, id);
	}
}

static void check(bool ends)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct seen seen = { 0 };
	struct engine *e;
	struct err err = { 0 };
	int32_t eos, start;

	write_file(ends);
	o.backend = "ref";
	o.threads = 1;
	o.packed_cache = "off";
	o.model = path;
	if (engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	assert_int_equal(engine_add_sink(e, on_event, &seen), 0);
	engine_begin(e, NULL);
	eos = tokenizer_eos(engine_tokenizer(e));
	start = engine_info(e)->start;
	assert_true(eos >= 0 && start >= 0 && eos != start);
	if (ends)
		expect(e, &seen, IDS(5, 6, 7), IDS(5, 6, 7, eos, start));
	else
		expect(e, &seen, IDS(5, 6, 7), IDS(5, 6, 7, start));
	expect(e, &seen, IDS(5, eos), IDS(5, eos, start)); /* it ends already */
	expect(e, &seen, IDS(5, start), IDS(5, start));    /* what the caller has closed stays so */
	expect(e, &seen, IDS(5, start, 6), IDS(5, start, 6));
	check_search(e, IDS(5, 6, 7));
	engine_close(e);
}

static void test_ends(void **state)
{
	(void)state;
	check(true);
}

static void test_as_it_is(void **state)
{
	(void)state;
	check(false);
}

/* ---- it drafts for itself ---- */

enum { ANSWER = 12, ASKED = 5, MOST = 512 };

struct answers {
	int64_t hash[ASKED][ANSWER];
	int32_t n[ASKED], kept, lost;
};

static void on_draft(void *arg, const struct event *ev)
{
	struct answers *a = arg;

	if (ev->kind == EV_token) {
		const int64_t r = ev->u.token.request - 1;

		a->hash[r][a->n[r]++] = ev->u.token.hash;
	} else if (ev->kind == EV_draft) {
		a->kept += ev->u.draft.verdict == EV_VERDICT_accepted;
		a->lost += ev->u.draft.verdict == EV_VERDICT_rejected;
	}
}

/* Inputs of which one begins another, and one of more rows than a drafter's pass has by default. */
static void submit_inputs(struct engine *e)
{
	static const int32_t length[ASKED] = { 7, 5, 7, 300, 9 };
	int32_t ids[MOST];
	struct engine_request q = {
		.kind = EV_REQUEST_KIND_run, .ids = ids, .max_tokens = ANSWER, .params = SAMPLE_DEFAULTS
	};
	struct err err = { 0 };

	for (int32_t i = 0; i < MOST; i++)
		ids[i] = i * 37 % 256;
	for (int i = 0; i < ASKED; i++) {
		q.n_ids = length[i];
		if (engine_submit(e, &q, &err) < 1)
			fail_msg("%s", err.text);
	}
}

static void answer_all(struct answers *a, const char *spec, int32_t slots)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct engine *e;
	struct err err = { 0 };
	int status;

	o.backend = "cpu";
	o.threads = 2;
	o.packed_cache = "off";
	o.model = "tests/data/zoo/t5.gguf";
	o.slots = slots;
	o.spec = spec;
	if (engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	assert_int_equal(engine_add_sink(e, on_draft, a), 0);
	engine_begin(e, NULL);
	submit_inputs(e);
	while ((status = engine_step(e, &err)) > 0)
		;
	if (status)
		fail_msg("%s", err.text);
	engine_close(e);
}

/* All guesses come true, as they do only if the drafter has read the same input. */
static void test_drafts(void **state)
{
	static const char *const specs[] = { "draft:tests/data/zoo/t5.gguf,3,3,0",
		"beside:tests/data/zoo/t5.gguf,3,3,0", "draft:tests/data/zoo/t5.gguf,3,9,0" };
	struct answers plain = { 0 };

	(void)state;
	answer_all(&plain, "off", 2);
	for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
		for (int32_t slots = 1; slots <= 2; slots++) {
			struct answers a = { 0 };

			answer_all(&a, specs[i], slots);
			assert_memory_equal(a.hash, plain.hash, sizeof a.hash);
			assert_memory_equal(a.n, plain.n, sizeof a.n);
			assert_true(a.kept > ASKED * ANSWER / 2);
			assert_true(i == 2 || !a.lost);
		}
}

static int make_file(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int drop_file(void **state)
{
	(void)state;
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_ends),
		cmocka_unit_test(test_as_it_is), cmocka_unit_test(test_drafts) };

	return cmocka_run_group_tests(tests, make_file, drop_file);
}
