/* Inside sessions/diff/ alone. */
#pragma once

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sessions/diff/diff.h"

enum { DIFF_MOST_EDITS = 1000 };

/* Is token i of one side equal to token k of the other, counted from where the comparison
 * begins? */
bool diff_same_token(const struct diff *d, const struct diff_pair *p, int32_t i, int32_t k);
/* Fills everything of a pair but its sides and `from`. */
int diff_compare(struct diff *d, struct diff_pair *p, struct err *e);

static inline const struct history_row *diff_row_at(
	const struct diff_pair *p, int side, int32_t index)
{
	const struct diff_side *s = &p->side[side];
	int32_t row = index < 0 || index >= s->n ? -1 : s->row[index];

	return row < 0 ? NULL : &s->request->row[row];
}

/* Where the two part; NULL: there is none. */
static inline const struct history_row *diff_row(const struct diff_pair *p, int side)
{
	return diff_row_at(p, side, p->from[side] + p->at);
}
