/* See fuzzy.h. */
#include "base/fuzzy.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

enum { WORD_BEGINS = 80, WITHIN = 60, SCATTERED = 20 };

static bool begins_word(const char *text, const char *at)
{
	return at == text || !isalnum((unsigned char)at[-1]);
}

int fuzzy_within(const char *text, const char *word, size_t n)
{
	int best = FUZZY_NONE;

	for (const char *at = text; *at; at++)
		if (!strncasecmp(at, word, n)) {
			const int score = at == text              ? FUZZY_BEST - (text[n] != 0)
							  : begins_word(text, at) ? WORD_BEGINS
													  : WITHIN;

			best = score > best ? score : best;
		}
	return best;
}

/* The fewer gaps between its letters, the better: each costs what a letter out of place is worth.
 */
static int scattered(const char *text, const char *word, size_t n)
{
	const char *at = text;
	int gaps = 0;

	for (size_t i = 0; i < n; i++, at++) {
		const char *from = at;

		while (*at && tolower((unsigned char)*at) != tolower((unsigned char)word[i]))
			at++;
		if (!*at)
			return FUZZY_NONE;
		gaps += i && at > from && !begins_word(text, at);
	}
	return gaps * 2 <= (int)n ? SCATTERED - gaps : FUZZY_NONE;
}

int fuzzy_score(const char *text, const char *word, size_t n)
{
	const int score = n ? fuzzy_within(text, word, n) : FUZZY_BEST;

	return score > FUZZY_NONE ? score : scattered(text, word, n);
}
