/* Low-rank adapters (LoRA, Hu et al. 2021): of a product y = W x, for rows whose request has an
 * adapter, y += scale B (A x), with A [rank, cols] and B [width, rank] (rule 26). The rows of a
 * step may have different ones, or none: each reads its own (Chen et al. 2023, "Punica", whose
 * names for the two halves these are). Adapters are numbered from 1 on; of one with rank 0 in a
 * matrix its rows are left as they are. */
#pragma once

#include "kernels/op/op.h"

#define K_ADAPTED 3 /* matrices over the same input, as of a product */

/* Of one matrix, in the kernels' memory; all NULL: no adapter has it. */
struct k_adapted {
	const float *a;      /* [adapters, most, cols] */
	const float *b;      /* [adapters, most, width] */
	const int32_t *rank; /* [adapters] at most `most` */
	const float *scale;  /* [adapters] */
	int32_t width;       /* outputs of the matrix */
};

struct k_shrink {     /* t = A x, of each matrix */
	struct k_acts in; /* [n, cols] */
	bool floats;      /* the product reads in.x; else in.q */
	struct k_adapted of[K_ADAPTED];
	float *t; /* [n, n_of, most] */
	int32_t n_of, most, n;
	const struct k_row *rows; /* [n] */
};
#define K_INPUTS_shrink(PLAIN, a) PLAIN(a->rows, a->n)
/* As if each row had an adapter of the highest rank. */
K_COUNT(shrink, a->n * a->n_of * a->most, a->in.dim, 4, 2)
K_RESULT(shrink, k_floats(a->t, a->n_of * a->most))
K_UNITS(shrink, (int64_t)a->n * a->n_of * a->most)

/* Rule 7's sum; a unit is one of its values. */
K_UNIT_FN void k_shrink_unit(const struct k_shrink *a, int64_t unit)
{
	const int32_t each = a->n_of * a->most, r = (int32_t)(unit / each);
	const int32_t at = (int32_t)(unit % each), i = at % a->most, own = a->rows[r].adapter - 1;
	const struct k_adapted *m = &a->of[at / a->most];
	const struct k_acts in = k_acts_row(&a->in, r);
	float lane[K_OWN] = { 0 }, sum;
	const float *w;

	if (own < 0 || !m->a || i >= m->rank[own])
		return;
	w = m->a + ((size_t)own * (size_t)a->most + (size_t)i) * (size_t)in.dim;
	if (a->floats) {
		K_LANES(k, in.dim)
			lane[K_CHAIN(k)] = k_fma(w[k], in.x[k], lane[K_CHAIN(k)]);
	} else {
		K_LANES(k, in.dim)
			lane[K_CHAIN(k)] = k_fma(w[k], in.d[k / K_QBLOCK] * (float)in.q[k], lane[K_CHAIN(k)]);
	}
	sum = k_lanes_sum(lane);
	if (k_lane() == 0)
		a->t[unit] = sum;
}

struct k_expand {   /* y += scale B t, of each matrix */
	const float *t; /* of shrink */
	struct k_adapted of[K_ADAPTED];
	float *y[K_ADAPTED]; /* [n, width] */
	int32_t n_of, most, n;
	const struct k_row *rows;
};
#define K_INPUTS_expand(PLAIN, a) PLAIN(a->rows, a->n)

/* Pieces of 32 outputs of a row. */
K_INLINE int32_t k_expand_pieces(const struct k_expand *a, int32_t of)
{
	return (a->of[of].width + 31) / 32;
}
K_INLINE int32_t k_expand_width(const struct k_expand *a)
{
	int32_t width = 0;

	for (int32_t m = 0; m < a->n_of; m++)
		width += 32 * k_expand_pieces(a, m);
	return width;
}
K_COUNT(expand, a->n * a->most, k_expand_width(a), 4, 2)
K_RESULT(expand, k_floats(a->y[0], a->of[0].width))
K_UNITS(expand, (int64_t)a->n *(k_expand_width(a) / 32))

K_UNIT_FN void k_expand_unit(const struct k_expand *a, int64_t unit)
{
	const int32_t pieces = k_expand_width(a) / 32, r = (int32_t)(unit / pieces);
	const int32_t own = a->rows[r].adapter - 1;
	int32_t piece = (int32_t)(unit % pieces), of = 0;

	while (piece >= k_expand_pieces(a, of))
		piece -= k_expand_pieces(a, of++);
	const struct k_adapted *m = &a->of[of];
	const int32_t at = 32 * piece, left = m->width - at, count = left < 32 ? left : 32;
	const float *t = a->t + ((size_t)r * (size_t)a->n_of + (size_t)of) * (size_t)a->most;
	float sum[K_OWN] = { 0 }, *y = a->y[of] + (size_t)r * (size_t)m->width + at;

	if (own < 0 || !m->b || !m->rank[own])
		return;
	const float *b = m->b + (size_t)own * (size_t)a->most * (size_t)m->width + at;
	for (int32_t k = 0; k < m->rank[own]; k++, b += m->width)
		K_LANES(i, count)
			sum[K_AT(i)] = k_fma(b[i], t[k], sum[K_AT(i)]);
	K_LANES(i, count)
		y[i] = k_fma(m->scale[own], sum[K_AT(i)], y[i]);
}
