/* See texts.h. */
#include "event/texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

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

bool ev_text_same(const struct ev_text *a, const struct ev_text *b)
{
	return a && b && a->size == b->size && !memcmp(a->bytes, b->bytes, a->size);
}

bool ev_texts_agree(const struct ev_texts *a, const struct ev_texts *b)
{
	for (int32_t id = 0; id < a->n && id < b->n; id++)
		if (a->at[id].bytes && b->at[id].bytes && !ev_text_same(&a->at[id], &b->at[id]))
			return false;
	return true;
}

const char *ev_texts_quoted(const struct ev_texts *t, int64_t id, int most, char *buf, size_t cap)
{
	const struct ev_text *p = ev_texts_get(t, id);
	char *text = p ? text_json(p->bytes, p->size) : NULL;

	snprintf(buf, cap, "%lld%s%.*s", (long long)id, text ? " " : "", most, text ? text : "");
	free(text);
	return buf;
}

void ev_texts_free(struct ev_texts *t)
{
	for (int32_t i = 0; i < t->n; i++)
		free(t->at[i].bytes);
	free(t->at);
	*t = (struct ev_texts){ 0 };
}
