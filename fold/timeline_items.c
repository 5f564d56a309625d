/* See timeline_fields.h: what goes along the tables. */
#include <stdlib.h>
#include <string.h>

#include "fold/timeline_fields.h"

const char *tl_items(const struct tl_field *f, const void *of, int32_t *n)
{
	const char *s = of, *items = s + f->at;

	if (f->count)
		*n = f->count(of);
	else if (f->size_n)
		*n = f->size_n == 1 ? *(const uint8_t *)(s + f->at_n)
							: *(const int32_t *)(const void *)(s + f->at_n);
	else
		*n = (int32_t)(f->size / f->of->size);
	if (f->pointed)
		memcpy(&items, s + f->at, sizeof items);
	return items;
}

int64_t tl_number(const struct tl_field *f, const void *of)
{
	const void *at = (const char *)of + f->at;

	switch (f->type) {
	case TL_I64: return *(const int64_t *)at;
	case TL_I32: return *(const int32_t *)at;
	case TL_U32: return *(const uint32_t *)at;
	default: return *(const uint8_t *)at;
	}
}

static bool owns(const struct tl_shape *s)
{
	for (const struct tl_field *f = s->field; f->name; f++)
		if (f->type == TL_STRING || (f->type == TL_ITEMS && (f->pointed || owns(f->of))))
			return true;
	return false;
}

void tl_free(const struct tl_shape *s, void *of)
{
	for (const struct tl_field *f = s->field; f->name; f++) {
		char *at = (char *)of + f->at;
		int32_t n;

		if (f->type == TL_STRING)
			free(*(char **)(void *)at);
		if (f->type != TL_ITEMS)
			continue;
		char *items = (char *)tl_items(f, of, &n);
		for (int32_t i = 0; owns(f->of) && i < n; i++)
			tl_free(f->of, items + (size_t)i * f->of->size);
		if (f->pointed)
			free(items);
	}
}
