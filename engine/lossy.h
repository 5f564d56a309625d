/* The lossy settings: only these can make logits differ from the model's own. A field of the table
 * marks them (settings.h). Thread: any. */
#pragma once

#include "engine/settings/options.h"

struct engine;

enum { LOSSY_SETTINGS = 8, LOSSY_VALUE = 64 };

struct lossy_settings {
	int n; /* 0: not known; else the number of lossy settings in the table */
	const struct setting *row[LOSSY_SETTINGS];
	char value[LOSSY_SETTINGS][LOSSY_VALUE];
};

/* Reads each by value(); "" or NULL: not given, so it has its default. No value(): all have. */
struct lossy_settings lossy_query(const char *(*value)(void *of, const char *name), void *of);
/* What is in force in an engine. */
struct lossy_settings lossy_of(const struct engine *e);
/* What an engine opened with these options would have. */
struct lossy_settings lossy_of_options(const struct engine_options *o);
bool lossy_same(const struct lossy_settings *a, const struct lossy_settings *b);
/* Puts them into the options of an engine to open, where texts point to l's; with --exchange f16 it
 * has two ranks at least. */
int lossy_put(const struct lossy_settings *l, struct engine_options *to, struct err *err);
/* Applies them to an idle engine. */
int lossy_apply(const struct lossy_settings *l, struct engine *e, struct err *err);
/* Prints those that are not at their default, as "window:512, cache-format e4m3"; "" if there are
 * none. Returns buf. */
const char *lossy_print(const struct lossy_settings *l, char *buf, size_t cap);
