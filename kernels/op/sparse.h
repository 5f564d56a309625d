/* Which of a row's activations matter (Liu et al. 2023, "Deja Vu"; Lee et al. 2024, "CATS"): those
 * of at least a share of the row's largest. Smaller ones become 0 where `least` says so, so that a
 * product by columns need not read their columns; without, they are only counted, perhaps of
 * several layers together. A unit is a row of a layer. Vectors of 8 have a kernel of their own for
 * it. */
#pragma once

#include "kernels/op/op.h"

enum { K_NEAR = 4 }; /* thresholds that are counted: a tenth to a ten-thousandth of the largest */

struct k_sparse {
	struct k_acts a; /* [layers, n, dim], x filled; where least > 0 written again in its forms */
	float least;     /* share of a row's largest below which a value becomes 0 */
	float mark;      /* share from which a bit of `mask` is set; 0: of all that are not 0 */
	const struct k_row *rows; /* [n]; with observe < 0 nothing is counted */
	uint32_t *mask;     /* [layers, n, dim / 32] bit i % 32: value i counts; NULL: not wanted */
	int32_t *near_zero; /* [layers, n_observed, K_NEAR] values below 10^-1, 10^-2 … of the largest
						 */
	int32_t n, layers, n_observed; /* of one layer, n_observed is not needed */
};
#define K_INPUTS_sparse(PLAIN, a) PLAIN(a->rows, a->n)
K_COUNT(sparse, a->n * a->layers, a->a.dim, 8, 4)
K_RESULT(sparse, a->a)
K_UNITS(sparse, (int64_t)a->n * a->layers)

/* What a layer has of it. */
K_INLINE struct k_sparse k_sparse_layer(const struct k_sparse *a, int32_t layer)
{
	const size_t row = (size_t)layer * (size_t)a->n;
	struct k_sparse one = *a;

	if (!layer)
		return one;
	one.a.x += row * (size_t)a->a.dim;
	one.near_zero += (size_t)layer * (size_t)a->n_observed * K_NEAR;
	if (one.mask)
		one.mask += row * (size_t)(a->a.dim / 32);
	return one;
}

K_INLINE float k_near_share(int k)
{
	const float share[K_NEAR] = { 1e-1f, 1e-2f, 1e-3f, 1e-4f };

	return share[k];
}

/* What each of the warps that share a row found in its part. */
enum { K_SPARSE_PARTS = 8 };
struct k_sparse_room {
	float most[K_SPARSE_PARTS];
	int32_t count[K_SPARSE_PARTS][K_NEAR];
};

K_UNIT_FN float k_sparse_largest(const float *x, int32_t dim, int32_t each, struct k_sparse_room *s)
{
	float most = 0;

	K_WARPS(w, K_SPARSE_PARTS) {
		const int32_t first = w * each, left = dim - first;
		const float own = k_largest(x + first, k_min(left, each));

		if (k_lane() == 0)
			s->most[w] = own;
	}
	K_MEET();
	for (int32_t w = 0; w < K_SPARSE_PARTS; w++) /* a NaN is the largest */
		most = k_bits(s->most[w]) > k_bits(most) ? s->most[w] : most;
	return most;
}

K_UNIT_FN void k_sparse_near(const float *x, int32_t dim, int32_t each, float largest,
	struct k_sparse_room *s, int32_t *near_zero)
{
	K_WARPS(w, K_SPARSE_PARTS) {
		const int32_t first = w * each, left = dim - first;
		int32_t own[K_NEAR] = { 0 };

		K_UNROLL
		K_LANES(i, k_min(left, each))
			for (int k = 0; k < K_NEAR; k++)
				own[k] += k_float(k_bits(x[first + i]) & 0x7fffffffu) < k_near_share(k) * largest;
		for (int k = 0; k < K_NEAR; k++) {
			const int32_t all = k_lanes_total(own[k]);

			if (k_lane() == 0)
				s->count[w][k] = all;
		}
	}
	K_MEET();
	K_THREADS(k, K_NEAR) {
		near_zero[k] = 0;
		for (int32_t w = 0; w < K_SPARSE_PARTS; w++)
			near_zero[k] += s->count[w][k];
	}
}

/* A row that nobody asks for. */
K_INLINE bool k_sparse_rests(const struct k_sparse *a, int32_t observe)
{
	return !(a->least > 0) && a->mark > 0 && observe < 0;
}

/* The masks, and the values that become 0. */
K_UNIT_FN void k_sparse_cut(const struct k_sparse *a, int32_t r, float largest)
{
	const int32_t dim = a->a.dim;
	const float *x = a->a.x + (size_t)r * (size_t)dim;

	K_WARPS(b, dim / 32) {
		float y[K_OWN];
		uint32_t bits = 0;

		K_LANES(i, 32) {
			const float size = k_float(k_bits(x[b * 32 + i]) & 0x7fffffffu);

			bits |= (uint32_t)(a->mark > 0 ? !(size < a->mark * largest) : size != 0) << i;
			y[K_AT(i)] = size < a->least * largest ? 0.0f : x[b * 32 + i];
		}
		bits = (uint32_t)k_lanes_total((int32_t)bits); /* different bits */
		if (a->mask && k_lane() == 0)
			a->mask[k_index(r, dim / 32, b)] = bits;
		if (a->least > 0)
			k_put(&a->a, r, b * 32, y, 32);
	}
}

K_UNIT_FN void k_sparse_unit(const struct k_sparse *a, int64_t unit)
{
	const struct k_sparse of = k_sparse_layer(a, (int32_t)(unit / a->n));
	const int32_t r = (int32_t)(unit % a->n), observe = a->rows[r].observe, dim = of.a.dim;
	const int32_t each = k_pieces(dim, K_SPARSE_PARTS);
	const float *x = of.a.x + (size_t)r * (size_t)dim;
	float largest;
	K_ROOM(struct k_sparse_room, s);

	if (k_sparse_rests(a, observe))
		return;
	K_MEET();
	largest = k_sparse_largest(x, dim, each, s);
	if (observe >= 0)
		k_sparse_near(x, dim, each, largest, s, of.near_zero + (size_t)observe * K_NEAR);
	if (a->least > 0 || a->mask)
		k_sparse_cut(&of, r, largest);
}
