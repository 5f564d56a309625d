/* See lossy.h. */
#include "engine/lossy.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "engine/core/engine.h"

static void default_of(const struct setting *s, char value[LOSSY_VALUE])
{
	const struct engine_options defaults = ENGINE_DEFAULTS;

	setting_text(s, &defaults, value, LOSSY_VALUE);
}

struct lossy_settings lossy_query(const char *(*value)(void *of, const char *name), void *of)
{
	struct lossy_settings l = { 0 };

	for (const struct setting *s = engine_settings; s->name; s++) {
		const char *chosen = value && s->effect == SETTING_LOSSY ? value(of, s->name) : NULL;

		if (s->effect != SETTING_LOSSY)
			continue;
		assert(l.n < LOSSY_SETTINGS);
		if (chosen && *chosen)
			text_cleaned(l.value[l.n], LOSSY_VALUE, chosen, strlen(chosen)); /* a file's, perhaps */
		else
			default_of(s, l.value[l.n]);
		l.row[l.n++] = s;
	}
	return l;
}

struct asking {
	const struct engine *engine;
	char value[LOSSY_VALUE];
};

static const char *value_now(void *of, const char *name)
{
	struct asking *a = of;

	return engine_get(a->engine, name, a->value, sizeof a->value) ? NULL : a->value;
}

struct lossy_settings lossy_of(const struct engine *e)
{
	return lossy_query(value_now, &(struct asking){ e, "" });
}

struct lossy_settings lossy_of_options(const struct engine_options *o)
{
	struct lossy_settings l = lossy_query(NULL, NULL);

	for (int i = 0; i < l.n; i++)
		setting_text(l.row[i], o, l.value[i], LOSSY_VALUE);
	return l;
}

bool lossy_same(const struct lossy_settings *a, const struct lossy_settings *b)
{
	for (int i = 0; i < a->n && i < b->n; i++)
		if (strcmp(a->value[i], b->value[i]) != 0)
			return false;
	return a->n == b->n;
}

int lossy_put(const struct lossy_settings *l, struct engine_options *to, struct err *err)
{
	for (int i = 0; i < l->n; i++)
		if (setting_put(l->row[i], to, l->value[i], err))
			return -1;
	/* what is rounded is what ranks exchange: the same bits with any number of them from two on */
	if (!strcmp(to->exchange, "f16") && to->tensor_parallel < 2)
		to->tensor_parallel = 2;
	return 0;
}

int lossy_apply(const struct lossy_settings *l, struct engine *e, struct err *err)
{
	bool refused[LOSSY_SETTINGS] = { false };

	for (int i = 0; i < l->n; i++) {
		struct err ignored = { 0 };

		refused[i] = engine_set(e, l->row[i]->name, l->value[i], &ignored);
	}
	/* beside the old value of a later one, perhaps */
	for (int i = 0; i < l->n; i++)
		if (refused[i] && engine_set(e, l->row[i]->name, l->value[i], err))
			return -1;
	return 0;
}

const char *lossy_print(const struct lossy_settings *l, char *buf, size_t cap)
{
	char exact[LOSSY_VALUE];
	size_t n = 0;

	*buf = '\0';
	for (int i = 0; i < l->n && n < cap; i++) {
		/* window:128 says itself what it is */
		const bool named = !strchr(l->value[i], ':');

		default_of(l->row[i], exact);
		if (strcmp(l->value[i], exact) != 0 &&
			(!l->row[i]->exact || strcmp(l->value[i], l->row[i]->exact) != 0))
			n += (size_t)snprintf(buf + n, cap - n, "%s%s%s%s", n ? ", " : "",
				named ? l->row[i]->name : "", named ? " " : "", l->value[i]);
	}
	return buf;
}
