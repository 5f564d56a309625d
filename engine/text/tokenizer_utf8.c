/* Streaming decode: bytes of tokens in, whole characters out. See tokenizer.h.
 *
 * Ill-formed input follows the Unicode Standard, 3.9, "U+FFFD substitution of maximal subparts". */
#include <string.h>

#include "engine/text/tokenizer.h"

/* The length of the character that s[0 … n - 1] begins; 0 if it can never be one. */
static int length_of(const unsigned char *s, int n)
{
	unsigned char a = s[0], low = 0x80, high = 0xbf;
	int length = a < 0x80                ? 1
				 : a >= 0xc2 && a < 0xe0 ? 2
				 : a >= 0xe0 && a < 0xf0 ? 3
				 : a >= 0xf0 && a < 0xf5 ? 4
										 : 0;

	/* The second byte's range excludes overlong forms, surrogates and what lies above U+10FFFF. */
	if (a == 0xe0)
		low = 0xa0;
	else if (a == 0xed)
		high = 0x9f;
	else if (a == 0xf0)
		low = 0x90;
	else if (a == 0xf4)
		high = 0x8f;
	for (int i = 1; i < n; i++) {
		if (s[i] < low || s[i] > high)
			return 0;
		low = 0x80;
		high = 0xbf;
	}
	return length;
}

static size_t put(char *out, size_t used, size_t cap, const void *bytes, size_t size)
{
	if (size > cap - used)
		return used;
	memcpy(out + used, bytes, size);
	return used + size;
}

size_t utf8_stream_feed(
	struct utf8_stream *s, const void *bytes, size_t size, char *out, size_t cap)
{
	const unsigned char *p = bytes;
	size_t used = 0;

	for (size_t i = 0; i < size; i++) {
		s->held[s->n_held++] = p[i];
		int length = length_of(s->held, s->n_held);

		if (!length && s->n_held > 1) {
			/* The byte before ended an ill-formed character; this one may begin the next. */
			used = put(out, used, cap, "\xef\xbf\xbd", 3);
			s->held[0] = p[i];
			s->n_held = 1;
			length = length_of(s->held, 1);
		}
		if (length && length > s->n_held)
			continue;
		used = length ? put(out, used, cap, s->held, (size_t)length)
					  : put(out, used, cap, "\xef\xbf\xbd", 3);
		s->n_held = 0;
	}
	return used;
}

size_t utf8_stream_flush(struct utf8_stream *s, char *out, size_t cap)
{
	size_t used = s->n_held ? put(out, 0, cap, "\xef\xbf\xbd", 3) : 0;

	s->n_held = 0;
	return used;
}
