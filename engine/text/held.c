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

/* The one that text begins with. */
static const char *stop_at(const char *const *stop, const char *text, size_t size)
{
	while (*stop && !(strlen(*stop) <= size && !memcmp(text, *stop, strlen(*stop))))
		stop++;
	return *stop;
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
	h->n += h->stop ? 0 : size;
	if (!h->n)
		return 0;
	cut = held_find_stop(stop, h->text, h->n);
	if (cut < h->n)
		h->stop = stop_at(stop, h->text + cut, h->n - cut);
	if (cut < h->n && h->with_stop)
		cut += strlen(h->stop);
	if (h->stop)
		h->n = cut;
	h->given = h->stop ? cut : h->n - undecided(stop, h->text, h->n);
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
