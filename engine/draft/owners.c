/* See owners.h. */
#include "engine/draft/owners.h"

#include <stdlib.h>
#include <string.h>

bool owners_open(struct owners *o, int32_t n, size_t size)
{
	*o = (struct owners){ .at = calloc((size_t)n, sizeof *o->at), .size = size, .n = n };
	o->place = size ? calloc((size_t)n, size) : NULL;
	return o->at && (o->place || !size);
}

void owners_close(struct owners *o)
{
	free(o->at);
	free(o->place);
	memset(o, 0, sizeof *o);
}

int32_t owners_find(struct owners *o, int64_t request)
{
	for (int32_t i = 0; i < o->n; i++)
		if (o->at[i].request == request) {
			o->at[i].used = ++o->clock;
			return i;
		}
	return -1;
}

int32_t owners_take(struct owners *o, int64_t request, bool *is_new)
{
	int32_t at = owners_find(o, request);

	*is_new = at < 0;
	if (!*is_new)
		return at;
	at = 0;
	for (int32_t i = 1; i < o->n; i++)
		if (o->at[i].used < o->at[at].used)
			at = i;
	o->at[at] = (struct owner){ request, ++o->clock };
	return at;
}

void *owners_place(struct owners *o, int64_t request)
{
	int32_t at = owners_find(o, request);

	return at < 0 ? NULL : o->place + (size_t)at * o->size;
}

void *owners_take_place(struct owners *o, int64_t request)
{
	bool is_new;
	void *place = o->place + (size_t)owners_take(o, request, &is_new) * o->size;

	if (is_new)
		memset(place, 0, o->size);
	return place;
}

void owners_drop(struct owners *o, int64_t request)
{
	int32_t at = owners_find(o, request);

	if (at >= 0)
		o->at[at] = (struct owner){ 0, 0 };
}
