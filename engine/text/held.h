/* An answer's text as it can be shown while it grows: bytes that may begin a stop string are held
 * back until it is certain that they do not. Thread: one for each struct. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "engine/model/gguf.h"

/* First offset in text where one of the stop strings (NULL-terminated) begins, size if there is
 * none. */
size_t held_find_stop(const char *const *stop, const char *text, size_t size);

struct held_text {
	char *text; /* malloc'd; the caller frees it */
	size_t n, cap, given;
	bool with_stop;   /* the stop string that ends it is told, too */
	const char *stop; /* the stop string that came: what follows is dropped; NULL: none did */
};

/* Adds bytes, and gives those that no stop string can claim any more; they are valid until the
 * next call. */
int held_add(struct held_text *h, const char *const *stop, const char *bytes, size_t size,
	struct gguf_text *ready, struct err *e);
/* When the answer has ended: what was still held back. */
struct gguf_text held_rest(struct held_text *h);
