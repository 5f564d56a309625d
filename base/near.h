/* How near two names are, for "did you mean". Pure. Thread: any. */
#ifndef CUTAWAY_BASE_NEAR_H
#define CUTAWAY_BASE_NEAR_H

enum { NEAR_LONGEST = 31, NEAR_ENOUGH = 2 }; /* edits that still suggest a name */

/* Edits that make b of a, a swap of adjacent characters counting as one (Damerau 1964, restricted);
 * NEAR_LONGEST if a name is longer than that. */
int near_edits(const char *a, const char *b);

#endif
