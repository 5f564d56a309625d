/* Ids of texts, for the tests of tokenizers: encoding appends, a failure fails the test. Thread:
 * the caller's. */
#pragma once

#include "engine/text/tokenizer.h"

struct ids {
	int32_t *id;
	size_t n, cap;
};

void ids_add(
	struct ids *ids, const struct tokenizer *t, const char *text, size_t size, bool special);
void expect_ids(const struct tokenizer *t, const char *text, size_t size, bool special,
	const int32_t *want, size_t n);

/* Of a literal: its ids. */
#define EXPECT(t, text, special, ...)                                                              \
	expect_ids(t, text, sizeof text - 1, special, (int32_t[]){ __VA_ARGS__ },                      \
		sizeof(int32_t[]){ __VA_ARGS__ } / sizeof(int32_t))
