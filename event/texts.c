/* See texts.h. */
#include "event/texts.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_IDS = 1 << 22 };

static bool ev_texts_grow(struct ev_texts *t, int32_t id)
{
	int32_t n = id / 2 * 3 + 1024; /* and so not more than 6 million */
	struct ev_text *more = realloc(t->at, (size_t)n * sizeof *more);

	if (!more)
		return false;
	memset(more + t->n, 0, (size_t)(n - t->n) * sizeof *more);
	t->at = more;
	t->n = n;
	return true;
}

bool ev_texts_keep(struct ev_texts *t, const struct ev_vocab *v)
{
	struct ev_text *text;
	char *bytes;

	if (v->id < 0 || v->id >= MOST_IDS)
		return true;
	if (v->id >= t->n && !ev_texts_grow(t, (int32_t)v->id))
		return false;
	bytes = malloc(v->bytes.size + 1);
	if (!bytes)
		return false;
	memcpy(bytes, v->bytes.data ? v->bytes.data : "", v->bytes.size);
	text = &t->at[v->id];
	free(text->bytes);
	*text = (struct ev_text){ bytes, (uint32_t)v->bytes.size };
	return true;
}

const struct ev_text *ev_texts_get(const struct ev_texts *t, int64_t id)
{
	return id >= 0 && id < t->n && t->at[id].bytes ? &t->at[id] : NULL;
}

void ev_texts_free(struct ev_texts *t)
{
	for (int32_t i = 0; i < t->n; i++)
		free(t->at[i].bytes);
	free(t->at);
	*t = (struct ev_texts){ 0 };
}
