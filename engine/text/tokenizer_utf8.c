/* Streaming decode: bytes of tokens in, whole characters out. See tokenizer.h.
 *
 * Ill-formed input follows the Unicode Standard, 3.9, "U+FFFD substitution of maximal subparts". */
#include <string.h>

#include "base/text.h"
#include "engine/text/tokenizer.h"

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
		int missing = text_utf8(s->missing, p[i]);

		if (missing < 0 && s->n_held) {
			/* The byte before ended an ill-formed character; this one may begin the next. */
			used = put(out, used, cap, "\xef\xbf\xbd", 3);
			s->n_held = 0;
			missing = text_utf8(0, p[i]);
		}
		s->held[s->n_held++] = p[i];
		s->missing = missing > 0 ? missing : 0;
		if (s->missing)
			continue;
		used = missing ? put(out, used, cap, "\xef\xbf\xbd", 3)
					   : put(out, used, cap, s->held, (size_t)s->n_held);
		s->n_held = 0;
	}
	return used;
}

size_t utf8_stream_flush(struct utf8_stream *s, char *out, size_t cap)
{
	size_t used = s->n_held ? put(out, 0, cap, "\xef\xbf\xbd", 3) : 0;

	s->n_held = s->missing = 0;
	return used;
}
