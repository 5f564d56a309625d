/* For the reader of turns alone. See parts.h. */
#pragma once

#include "engine/text/parts.h"

/* What there is of the turn. */
struct parts_raw {
	const char *text;
	size_t n;
	bool last;
};

static inline struct parts_call *parts_now(struct parts *t)
{
	return &t->call[t->n_calls - 1];
}

void parts_put(struct parts *t, struct parts_text *to, const char *text, size_t n);
void parts_word(struct parts *t, struct parts_text *to, const char *word);
/* Whether a word is at a place: it cannot come; it has begun where the raw text ends; it is. */
enum parts_is { PARTS_NOT, PARTS_BEGUN, PARTS_WHOLE };
enum parts_is parts_begins(const struct parts_raw *r, size_t at, const char *word);
/* Where a word begins, or may begin at the raw text's end; the end: it does not. *whole: it is
 * there. */
size_t parts_find(const struct parts_raw *r, size_t from, const char *word, bool *whole);
/* parts_args.c: reads on in the arguments of the newest call; true: they are whole. */
bool parts_value(struct parts *t, const struct parts_raw *r);
