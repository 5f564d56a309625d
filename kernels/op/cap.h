/* What some families do to logits, in place: times a factor, then the soft cap tanh(x / cap) * cap
 * (Bello et al. 2017; Gemma 2; rule 8). A unit is K_CAP_COLUMNS of a row. */
#ifndef CUTAWAY_KERNELS_OP_CAP_H
#define CUTAWAY_KERNELS_OP_CAP_H

#include "kernels/op/op.h"

enum { K_CAP_COLUMNS = 256 };

struct k_cap {
	float *x;          /* [n, dim] */
	float scale, most; /* most 0: no cap */
	int32_t dim, n;
};
#define K_CAP_INPUTS(PLAIN, a)

K_INLINE struct k_count k_cap_count(const struct k_cap *a)
{
	return k_count_values(a->n, a->dim, 8, a->most > 0 ? 20 : 1);
}

K_INLINE struct k_acts k_cap_result(const struct k_cap *a)
{
	return k_floats(a->x, a->dim);
}

K_INLINE int64_t k_cap_units(const struct k_cap *a)
{
	return (int64_t)a->n * ((a->dim + K_CAP_COLUMNS - 1) / K_CAP_COLUMNS);
}

K_INLINE void k_cap_unit(const struct k_cap *a, int64_t unit)
{
	const int32_t blocks = (a->dim + K_CAP_COLUMNS - 1) / K_CAP_COLUMNS,
				  first = (int32_t)(unit % blocks) * K_CAP_COLUMNS,
				  end = first + K_CAP_COLUMNS < a->dim ? first + K_CAP_COLUMNS : a->dim;
	float *x = a->x + (size_t)(unit / blocks) * (size_t)a->dim;

	for (int32_t i = first; i < end; i++) {
		x[i] *= a->scale;
		if (a->most > 0)
			x[i] = k_softcap(x[i], a->most);
	}
}

#endif
