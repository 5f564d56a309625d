/* How well a text answers what somebody types to find it, as in fzf: letters in order. Pure; ASCII
 * letters in any case. Thread: any. */
#ifndef CUTAWAY_BASE_FUZZY_H
#define CUTAWAY_BASE_FUZZY_H

#include <stddef.h>

enum { FUZZY_NONE = -1, FUZZY_BEST = 100 };

/* A word of n bytes in a text: FUZZY_BEST, it is the text; less where it begins so, less where a
 * word of it does, where it stands within one, where its letters are scattered in order;
 * FUZZY_NONE: not at all. */
int fuzzy_score(const char *text, const char *word, size_t n);
/* Whether it stands in the text in one piece. */
int fuzzy_within(const char *text, const char *word, size_t n);

#endif
