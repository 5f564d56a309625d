/* See diff_hunks in diff.h. */
#include <stdlib.h>

#include "sessions/diff/diff.h"

/* The furthest i reached with d edits on each diagonal k = i - j, for every d: [d][k + d]. */
struct search {
	int32_t n_a, n_b, most;
	bool (*same)(void *arg, int32_t i, int32_t k);
	void *arg;
	int32_t **reach; /* [d]: 2 d + 1 values */
	int32_t found_d, found_i, found_k;
};

static int32_t slide(const struct search *s, int32_t i, int32_t k)
{
	while (i < s->n_a && i - k < s->n_b && s->same(s->arg, i, i - k))
		i++;
	return i;
}

/* Furthest i on diagonal k before sliding, one edit after the row of d - 1; *down: by a token of
 * B. */
static int32_t step_into(const struct search *s, int32_t d, int32_t k, bool *down)
{
	const int32_t *was = s->reach[d - 1] + (d - 1); /* indexed by diagonal */

	*down = k == -d || (k != d && was[k - 1] < was[k + 1]);
	return *down ? was[k + 1] : was[k - 1] + 1;
}

/* One row; true at the end of both. Diagonals outside the table are walked too: slide() stops
 * there. */
static bool search_row(struct search *s, int32_t d)
{
	for (int32_t k = -d; k <= d; k += 2) {
		bool down;
		int32_t i = d ? step_into(s, d, k, &down) : 0;

		i = slide(s, i, k);
		s->reach[d][k + d] = i;
		if (i >= s->n_a && i - k >= s->n_b) {
			s->found_d = d;
			s->found_i = i;
			s->found_k = k;
			return true;
		}
	}
	return false;
}

/* At the limit of edits: takes the diagonal with the most matches. */
static void give_up(struct search *s, int32_t d)
{
	int32_t best = -1;

	for (int32_t k = -d; k <= d; k += 2) {
		int32_t i = s->reach[d][k + d], j = i - k;

		if (i <= s->n_a && j >= 0 && j <= s->n_b && i + j > best) {
			best = i + j;
			s->found_d = d;
			s->found_i = i;
			s->found_k = k;
		}
	}
}

/* Adds an edit in front of the first hunk (they are found from the back); joins neighbours. */
static void add_edit(struct diff_hunk *h, int32_t *n, int32_t i, int32_t j, bool down)
{
	struct diff_hunk edit = { i, i + !down, j, j + down };
	struct diff_hunk *last = *n ? &h[*n - 1] : NULL;

	if (last && last->a == edit.a_end && last->b == edit.b_end) {
		last->a = edit.a;
		last->b = edit.b;
	} else {
		h[(*n)++] = edit;
	}
}

static void walk_back(const struct search *s, struct diff_hunk *h, int32_t *n)
{
	int32_t k = s->found_k;

	*n = 0;
	if (s->found_i < s->n_a || s->found_i - s->found_k < s->n_b)
		h[(*n)++] = (struct diff_hunk){ s->found_i, s->n_a, s->found_i - s->found_k, s->n_b };
	for (int32_t d = s->found_d; d > 0; d--) {
		bool down;
		int32_t i = step_into(s, d, k, &down);

		k += down ? 1 : -1;
		if (down)
			add_edit(h, n, i, i - k, true);
		else
			add_edit(h, n, i - 1, i - 1 - k, false);
	}
	for (int32_t i = 0; i < *n / 2; i++) {
		struct diff_hunk swap = h[i];

		h[i] = h[*n - 1 - i];
		h[*n - 1 - i] = swap;
	}
}

struct diff_hunk *diff_hunks(int32_t n_a, int32_t n_b,
	bool (*same)(void *arg, int32_t i, int32_t k), void *arg, int32_t most, int32_t *n)
{
	struct search s = {
		.n_a = n_a, .n_b = n_b, .most = most, .same = same, .arg = arg, .found_d = -1
	};
	struct diff_hunk *h = NULL;
	int32_t d = 0, rows = 0;

	*n = -1;
	s.reach = calloc((size_t)most + 1, sizeof *s.reach);
	for (; s.reach && s.found_d < 0 && d <= most; d++) {
		s.reach[d] = malloc((2 * (size_t)d + 1) * sizeof **s.reach);
		if (!s.reach[d])
			goto out;
		rows = d + 1;
		if (!search_row(&s, d) && d == most)
			give_up(&s, d);
	}
	if (s.found_d >= 0)
		h = malloc(((size_t)s.found_d + 2) * sizeof *h);
	if (h)
		walk_back(&s, h, n);
out:
	for (int32_t i = 0; s.reach && i < rows; i++)
		free(s.reach[i]);
	free(s.reach);
	if (*n <= 0) {
		free(h);
		h = NULL;
	}
	return h;
}
