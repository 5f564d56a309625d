/* See array.h. */
#include "base/array.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 16 };

bool array_grow(void *items, size_t each, void *cap, size_t cap_bytes, size_t need)
{
	const size_t most = cap_bytes == sizeof(int32_t) ? INT32_MAX : PTRDIFF_MAX;
	size_t had = 0, more;
	void *p;

	memcpy(&had, cap, cap_bytes); /* little-endian, as all supported machines are */
	if (had >= need)
		return true;
	more = had < LEAST / 2 ? LEAST : had < most / 2 ? 2 * had : most;
	more = more < need ? need : more;
	memcpy(&p, items, sizeof p);
	p = more > most ? NULL : reallocarray(p, more, each);
	if (!p)
		return false;
	memcpy(items, &p, sizeof p);
	memcpy(cap, &more, cap_bytes);
	return true;
}

bool array_text(char **text, size_t *n, size_t *cap, const char *bytes, size_t size)
{
	if (!ARRAY_ROOM(*text, *cap, *n + size + 1))
		return false;
	memcpy(*text + *n, bytes, size);
	*n += size;
	(*text)[*n] = '\0';
	return true;
}
