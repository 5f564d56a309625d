/* An engine whose memory runs out: whichever allocation fails, opening, requests, a search and
 * settings end with an error or without it, the engine goes on, and nothing is left behind. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/core/engine_impl.h"
#include "engine/search/search.h"
#include "tests/support/tiny.h"

enum { N = 40, EVERY = 5 };

static char *model;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
extern void *__libc_malloc(size_t size), *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size), *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *p);
static atomic_long n_asked, n_live, fails_at;

static bool fails(void)
{
	const bool now = ++n_asked == fails_at;

	if (now)
		errno = ENOMEM;
	return now;
}

static void *live(void *p)
{
	n_live += p != NULL;
	return p;
}

void *malloc(size_t size)
{
	return fails() ? NULL : live(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : live(__libc_calloc(n, size));
}

void *aligned_alloc(size_t align, size_t size)
{
	return fails() ? NULL : live(__libc_memalign(align, size));
}

void *realloc(void *p, size_t size)
{
	void *more = fails() ? NULL : __libc_realloc(p, size);

	return p ? more : live(more);
}

void free(void *p)
{
	n_live -= p != NULL;
	__libc_free(p);
}

static void steps(struct engine *e)
{
	struct err err = { 0 };

	for (int i = 0; !engine_idle(e); i++) {
		assert_true(i < 400 && engine_step(e, &err) >= 0);
		err.code = 0;
	}
}

static void ask(struct engine *e)
{
	static const char *const stop[] = { "zzz", NULL };
	static const char *const grammar[] = { NULL, "json",
		"schema:{\"properties\":{\"kind\":{\"enum\":[\"one\",2]},\"kilo\":{}}}" };
	const struct search_options beam = { .method = "beam:3" };
	int32_t ids[N];
	struct engine_request q = { .ids = ids,
		.n_ids = N,
		.max_tokens = 8,
		.params = SAMPLE_DEFAULTS,
		.stop = stop,
		.user = "u" };

	for (int i = 0; i < N; i++)
		ids[i] = 3 + i;
	for (int i = 0; i < 3; i++) {
		struct err err = { 0 };

		q.grammar = grammar[i];
		q.pin = i ? 0 : N;
		engine_submit(e, &q, &err);
	}
	q.grammar = NULL;
	engine_search(e, &beam, &q, &(struct err){ 0 });
	steps(e);
}

/* One whole session, in which the n-th allocation fails; -1: none does, and some are kept. */
static void session(long n)
{
	static const char *const set[][2] = { { "spec", "ngram:4,1,4,2,pool" },
		{ "visible", "window:40" }, { "page-size", "32" }, { "cache-format", "q8" },
		{ "spec", "jacobi:3" } };
	struct engine_options o = ENGINE_DEFAULTS;
	const long before = n_live;
	struct engine *e;

	o.model = model;
	o.threads = 1;
	o.ctx = 128;
	o.slots = 4;
	o.packed_cache = "off";
	n_asked = 0;
	fails_at = n;
	if (!engine_open(&e, &o, NULL)) {
		engine_begin(e, NULL);
		ask(e);
		for (size_t i = 0; i < sizeof set / sizeof *set; i++)
			engine_set(e, set[i][0], set[i][1], &(struct err){ 0 });
		ask(e);
		engine_close(e);
	}
	fails_at = 0;
	if (n >= 0 && n_live != before)
		fail_msg("allocation %ld failed: %ld are left", n, n_live - before);
}

static void test_any(void **state)
{
	long all;

	(void)state;
	session(-1);
	session(0);
	all = n_asked;
	assert_true(all > 300);
	for (long n = 1; n <= all; n += EVERY)
		session(n);
}
#else
static void test_any(void **state)
{
	(void)state;
	skip(); /* a sanitizer has a malloc of its own */
}
#endif

static int make(void **state)
{
	struct tiny_options o = TINY_DEFAULTS;
	struct err err = { 0 };

	(void)state;
	o.chat = "none"; /* a template is kept for ever, and so is what stands for one */
	model = tiny_temp(&o, &err);
	return model ? 0 : -1;
}

static int drop(void **state)
{
	(void)state;
	unlink(model);
	free(model);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_any) };

	return cmocka_run_group_tests(tests, make, drop);
}
