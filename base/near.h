/* How near two names are, for "did you mean", and how well a text answers what somebody types to
 * find it. Pure. Thread: any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Edits that still suggest a name, and of how many of its characters one may be: a third. */
enum { NEAR_ENOUGH = 2, NEAR_PART = 3 };

/* The nearest to what was typed, of the names that were tried; begins as NEAR_NONE. Of two that are
 * as near the one that begins alike, since the first letter is seldom wrong. */
struct near {
	const char *best;
	int least;
};
#define NEAR_NONE ((struct near){ NULL, 2 * (NEAR_ENOUGH + 1) })
/* True: it is near, and nearer than those before. */
bool near_try(struct near *n, const char *typed, const char *name);

/* Finding as in fzf: letters in order; ASCII letters in any case. */
enum { FUZZY_NONE = -1, FUZZY_BEST = 100 };

/* A word of n bytes in a text: FUZZY_BEST, it is the text; less where it begins so, less where a
 * word of it does, where it stands within one, where its letters are scattered in order;
 * FUZZY_NONE: not at all. */
int fuzzy_score(const char *text, const char *word, size_t n);
/* Whether it stands in the text in one piece. */
int fuzzy_within(const char *text, const char *word, size_t n);
