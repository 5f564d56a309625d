/* Parts of matrices: rows of one, or of each expert. See ranks.h. */
#include <stdlib.h>

#include "base/array.h"
#include "engine/ranks/split.h"

static bool same_part(
	const struct ranks_part *p, const struct k_matrix *of, int32_t n, struct ranks_span rows)
{
	return p->of == of && p->n == n && p->rows.first == rows.first && p->rows.end == rows.end;
}

static struct k_matrix *make_part(
	struct ranks *k, const struct k_matrix *of, int32_t n, struct ranks_span rows, bool by_expert)
{
	const struct ranks_span own = ranks_span(n, k->rank, k->n);
	struct k_matrix *is = calloc((size_t)n, sizeof *is);

	if (!is || !ARRAY_ROOM(k->part, k->cap_parts, k->n_parts + 1)) {
		free(is);
		return NULL;
	}
	for (int32_t i = 0; i < n; i++) {
		size_t at;

		is[i] = of[i];
		is[i].n_rows = rows.first;
		at = k_matrix_bytes(k->kernels, &is[i]);
		is[i].n_rows = rows.end - rows.first;
		is[i].data =
			by_expert && (i < own.first || i >= own.end) ? NULL : (uint8_t *)of[i].data + at;
	}
	k->part[k->n_parts++] = (struct ranks_part){ of, n, rows, is };
	return is;
}

/* Programs ask for the same parts in the same order, so the search begins after the last one. NULL:
 * no memory; then the op stays whole. */
const struct k_matrix *ranks_part_of(
	struct ranks *k, const struct k_matrix *of, int32_t n, struct ranks_span rows, bool by_expert)
{
	for (int32_t i = 0; i < k->n_parts; i++) {
		const int32_t at = (k->at_part + i) % k->n_parts;

		if (same_part(&k->part[at], of, n, rows)) {
			k->at_part = at + 1;
			return k->part[at].is;
		}
	}
	return make_part(k, of, n, rows, by_expert);
}
