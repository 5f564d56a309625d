/* See token_ids.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/token_ids.h"

void ids_add(
	struct ids *ids, const struct tokenizer *t, const char *text, size_t size, bool special)
{
	struct err e = { 0 };

	assert_int_equal(tokenizer_encode(t, text, size, special, &ids->id, &ids->n, &ids->cap, &e), 0);
}

void expect_ids(const struct tokenizer *t, const char *text, size_t size, bool special,
	const int32_t *want, size_t n)
{
	struct ids got = { 0 };

	ids_add(&got, t, text, size, special);
	assert_int_equal(got.n, n);
	if (n)
		assert_memory_equal(got.id, want, n * sizeof *want);
	free(got.id);
}
