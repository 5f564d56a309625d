/* See sse.h. */
#include "sessions/client/sse.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum { MOST_BYTES = 1 << 20, MOST_OF_ALL = 1 << 30 };

static bool add(char **text, size_t *n, size_t *cap, const char *bytes, size_t size)
{
	return *n + size <= MOST_BYTES && array_text(text, n, cap, bytes, size);
}

static bool add_data(struct sse *s, const char *value, size_t size)
{
	if (s->any && !add(&s->data, &s->n_data, &s->cap_data, "\n", 1))
		return false;
	s->any = true;
	return add(&s->data, &s->n_data, &s->cap_data, value, size);
}

/* A whole line without its end. */
static bool end_line(struct sse *s, bool (*event)(void *who, char *data, size_t size), void *who)
{
	const char *l = s->line;
	size_t n = s->n_line, skip;
	bool ok = true;

	s->n_line = 0;
	if (!n) {
		if (s->any)
			ok = event(who, s->data, s->n_data);
		s->any = false;
		s->n_data = 0;
	} else if (n >= 4 && !memcmp(l, "data", 4) && (n == 4 || l[4] == ':')) {
		skip = n == 4 ? 4 : n > 5 && l[5] == ' ' ? 6 : 5;
		ok = add_data(s, l + skip, n - skip);
	}
	return ok;
}

bool sse_feed(struct sse *s, const char *bytes, size_t size,
	bool (*event)(void *who, char *data, size_t size), void *who)
{
	size_t at = 0, end;

	s->n_all += size;
	if (s->n_all > MOST_OF_ALL)
		return false;
	while (at < size) {
		if (s->cr && bytes[at] == '\n') {
			s->cr = false;
			at++;
			continue;
		}
		s->cr = false;
		for (end = at; end < size && bytes[end] != '\n' && bytes[end] != '\r'; end++)
			;
		if (!add(&s->line, &s->n_line, &s->cap_line, bytes + at, end - at))
			return false;
		at = end;
		if (end == size)
			break;
		s->cr = bytes[at++] == '\r';
		if (!end_line(s, event, who))
			return false;
	}
	return true;
}

void sse_free(struct sse *s)
{
	free(s->line);
	free(s->data);
	*s = (struct sse){ 0 };
}
