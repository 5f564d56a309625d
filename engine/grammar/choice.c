/* One of some texts: see readers.h. */
#include <cjson/cJSON.h>

#include "base/array.h"
#include "engine/grammar/readers.h"

struct list {
	struct word *word;
	int32_t n, cap;
};

static bool add(struct list *l, const char *text, size_t size)
{
	if (!ARRAY_ROOM(l->word, l->cap, l->n + 1))
		return false;
	l->word[l->n++] = (struct word){ text, size };
	return true;
}

/* A|B|C */
static bool by_bars(struct list *l, const char *text, size_t size)
{
	const char *end = text + size, *bar;

	for (;; text = bar + 1) {
		bar = memchr(text, '|', (size_t)(end - text));
		if (!add(l, text, (size_t)((bar ? bar : end) - text)))
			return false;
		if (!bar)
			return true;
	}
}

static bool by_array(struct grammar *g, struct list *l, const cJSON *array)
{
	const cJSON *one;

	cJSON_ArrayForEach(one, array)
	{
		if (!cJSON_IsString(one)) {
			grammar_fail(g, ERR_USAGE, "a choice is among texts: [\"yes\", \"no\"]");
			return true;
		}
		if (!add(l, one->valuestring, strlen(one->valuestring)))
			return false;
	}
	return true;
}

void choice_read(struct grammar *g, const char *text, size_t size)
{
	const int32_t root = rule_new(g, "choice", 6);
	cJSON *array = size && *text == '[' ? cJSON_ParseWithLength(text, size) : NULL;
	struct list l = { 0 };
	const bool ok = cJSON_IsArray(array) ? by_array(g, &l, array) : by_bars(&l, text, size);

	if (!ok)
		grammar_no_memory(g);
	else if (!g->err.code && (!l.n || (l.n == 1 && !l.word->size)))
		grammar_fail(g, ERR_USAGE, "nothing to choose from: yes|no, or [\"yes\", \"no\"]");
	if (!g->err.code)
		rule_set(g, root, expr_words(g, l.word, l.n));
	free(l.word);
	cJSON_Delete(array);
}
