/* See near.h. */
#include "base/near.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum { NEAR_LONGEST = 31 };
enum { WORD_BEGINS = 80, WITHIN = 60, SCATTERED = 20 };

/* Edits that make b of a, a swap of adjacent characters counting as one (Damerau 1964, restricted);
 * NEAR_LONGEST if a name is longer than that. */
static int near_edits(const char *a, const char *b)
{
	int n = (int)strlen(a), m = (int)strlen(b);
	int d[NEAR_LONGEST + 1][NEAR_LONGEST + 1];

	if (n > NEAR_LONGEST || m > NEAR_LONGEST)
		return NEAR_LONGEST;
	for (int i = 0; i <= n; i++) {
		for (int j = 0; j <= m; j++) {
			int best = i ? d[i - 1][j] + 1 : j;

			if (j && (!i || d[i][j - 1] + 1 < best))
				best = d[i][j - 1] + 1;
			if (i && j && d[i - 1][j - 1] + (a[i - 1] != b[j - 1]) < best)
				best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
				d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	}
	return d[n][m];
}

bool near_try(struct near *n, const char *typed, const char *name)
{
	const size_t a = strlen(typed), b = strlen(name);
	const int edits = near_edits(typed, name), most = ((int)(a > b ? a : b) + 1) / NEAR_PART;
	const int cost = 2 * edits + (*typed != *name);

	if (cost >= n->least || edits > most)
		return false;
	*n = (struct near){ name, cost };
	return true;
}

/* ---- finding ---- */

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
