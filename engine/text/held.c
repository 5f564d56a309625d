/* See held.h. */
#include "engine/text/held.h"

#include <string.h>

#include "base/array.h"

size_t held_find_stop(const char *const *stop, const char *text, size_t size)
{
	size_t first = size;

	for (; *stop; stop++) {
		const char *at = memmem(text, size, *stop, strlen(*stop));
		if (at && (size_t)(at - text) < first)
			first = (size_t)(at - text);
	}
	return first;
}

/* Length of the longest suffix of text that is a prefix of a stop string. */
static size_t undecided(const char *const *stop, const char *text, size_t size)
{
	size_t most = 0;

	for (; *stop; stop++) {
		size_t n = strlen(*stop) - 1;
		for (n = n < size ? n : size; n > most; n--)
			if (!memcmp(text + size - n, *stop, n))
				most = n;
	}
	return most;
}

/* Of the one that text begins with. */
static size_t size_of_stop(const char *const *stop, const char *text, size_t size)
{
	for (; *stop; stop++)
		if (strlen(*stop) <= size && !memcmp(text, *stop, strlen(*stop)))
			return strlen(*stop);
	return 0;
}

int held_add(struct held_text *h, const char *const *stop, const char *bytes, size_t size,
	struct gguf_text *ready, struct err *e)
{
	size_t cut;

	*ready = (struct gguf_text){ 0 };
	if (!ARRAY_ROOM(h->text, h->cap, h->n + size))
		return err_set(e, ERR_MEMORY, "out of memory for the answer");
	h->n -= h->given;
	if (h->n)
		memmove(h->text, h->text + h->given, h->n);
	if (size)
		memcpy(h->text + h->n, bytes, size);
	h->given = 0;
	h->n += h->stopped ? 0 : size;
	if (!h->n)
		return 0;
	cut = held_find_stop(stop, h->text, h->n);
	h->stopped |= cut < h->n;
	if (h->stopped && h->with_stop)
		cut += size_of_stop(stop, h->text + cut, h->n - cut);
	if (h->stopped)
		h->n = cut;
	h->given = h->stopped ? cut : h->n - undecided(stop, h->text, h->n);
	*ready = (struct gguf_text){ h->text, h->given };
	return 0;
}

struct gguf_text held_rest(struct held_text *h)
{
	struct gguf_text rest = { NULL, 0 };

	if (h->text)
		rest = (struct gguf_text){ h->text + h->given, h->n - h->given };
	h->given = h->n;
	return rest;
}
