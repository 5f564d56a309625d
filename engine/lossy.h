/* The lossy settings: by these alone, beside model and arithmetic, logits may be other than the
 * model's own. Which ones they are is a field of the table (settings.h). Thread: any. */
#ifndef CUTAWAY_ENGINE_LOSSY_H
#define CUTAWAY_ENGINE_LOSSY_H

#include "engine/core/settings.h"

enum { LOSSY_SETTINGS = 8, LOSSY_VALUE = 64 };

struct lossy_settings {
	int n; /* 0: not known; else all that the table has */
	const struct setting *row[LOSSY_SETTINGS];
	char value[LOSSY_SETTINGS][LOSSY_VALUE];
};

/* Asks for the value of each; "" or NULL: it was not told, and has its default. */
struct lossy_settings lossy_ask(const char *(*value)(void *of, const char *name), void *of);
bool lossy_same(const struct lossy_settings *a, const struct lossy_settings *b);
/* Makes an idle engine compute so. */
int lossy_apply(const struct lossy_settings *l, struct engine *e, struct err *err);
/* Those that are not at their default, as "window:512, cache-format e4m3"; "" if there are none.
 * Returns buf. */
const char *lossy_print(const struct lossy_settings *l, char *buf, size_t cap);

#endif
