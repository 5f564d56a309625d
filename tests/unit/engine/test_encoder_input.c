/* How the input of an encoder-decoder model ends: T5 of the zoo, with add_eos_token and without. */
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
		cmocka_unit_test(test_as_it_is) };

	return cmocka_run_group_tests(tests, make_file, drop_file);
}
