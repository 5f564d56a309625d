/* Values times a gate and an RMS norm of groups of them, in either order (rules 7, 8): what follows
 * a state matrix (Mamba-2: gate, then norm; gated delta rule: norm, then gate), gated attention,
 * and with neither weight nor gate the length of keys or values. A unit is a group of a row, or a
 * row where groups are not of whole blocks. */
#ifndef CUTAWAY_KERNELS_OP_GATED_H
#define CUTAWAY_KERNELS_OP_GATED_H

#include "kernels/op/op.h"

enum k_gate_by { K_GATE_silu, K_GATE_sigmoid, K_GATE_gelu };

struct k_gated {
	const float *x, *z; /* [n, groups, group] in wider rows; z NULL: no gate */
	int32_t x_stride, x_pitch, z_stride, z_pitch; /* from row to row, from group to group */
	const float *w; /* [weights]: of column i of a row w[i mod weights]; NULL: no weights */
	int32_t weights;
	int32_t groups, group;
	float eps, factor; /* factor: of the result; 0: none */
	bool norm, first;  /* first: the gate is before the norm */
	enum k_gate_by by;
	struct k_acts out; /* [n, groups * group], rows out.dim apart; out.x may be x */
	int32_t n;
};
#define K_GATED_INPUTS(PLAIN, a)

K_INLINE struct k_count k_gated_count(const struct k_gated *a)
{
	return k_count_values(a->n, a->groups * a->group, 12, 20);
}

K_INLINE struct k_acts k_gated_result(const struct k_gated *a)
{
	return a->out;
}

/* Groups of a unit: so many that blocks of 8-bit activations are whole. */
K_INLINE int32_t k_gated_together(const struct k_gated *a)
{
	return a->out.q && a->group % K_QBLOCK ? a->groups : 1;
}

K_INLINE int64_t k_gated_units(const struct k_gated *a)
{
	return (int64_t)a->n * (a->groups / k_gated_together(a));
}

K_INLINE float k_gated_by(const struct k_gated *a, float z)
{
	return a->by == K_GATE_silu ? k_silu(z) : a->by == K_GATE_gelu ? k_gelu(z) : k_sigmoid(z);
}

/* Factor of the norm of a group. */
K_INLINE float k_gated_scale(const struct k_gated *a, const float *x, const float *z)
{
	float lane[32] = { 0 };

	for (int32_t i = 0; i < a->group; i++) {
		const float y = z && a->first ? x[i] * k_gated_by(a, z[i]) : x[i];

		lane[i % 32] = k_fma(y, y, lane[i % 32]);
	}
	return 1.0f / sqrtf(k_tree_sum(lane, 32) / (float)a->group + a->eps);
}

struct k_gated_group {
	const float *x, *z;
	float scale;
};

K_INLINE float k_gated_value(
	const struct k_gated *a, const struct k_gated_group *g, int32_t i, int32_t column)
{
	const float by = g->z ? k_gated_by(a, g->z[i]) : 1.0f;
	float y = g->z && a->first ? g->x[i] * by : g->x[i];

	if (a->norm)
		y = a->w ? (y * g->scale) * a->w[column % a->weights] : y * g->scale;
	if (g->z && !a->first)
		y *= by;
	return a->factor != 0 ? y * a->factor : y;
}

K_INLINE struct k_gated_group k_gated_group(const struct k_gated *a, int32_t r, int32_t at)
{
	struct k_gated_group g = { a->x + (size_t)r * (size_t)a->x_stride + at * a->x_pitch, a->z, 0 };

	if (g.z)
		g.z += (size_t)r * (size_t)a->z_stride + at * a->z_pitch;
	g.scale = a->norm ? k_gated_scale(a, g.x, g.z) : 1.0f;
	return g;
}

K_INLINE void k_gated_unit(const struct k_gated *a, int64_t unit)
{
	const int32_t together = k_gated_together(a), units = a->groups / together;
	const int32_t r = (int32_t)(unit / units), first = (int32_t)(unit % units) * together;
	const int32_t begin = first * a->group, end = begin + together * a->group;
	struct k_gated_group g = { 0 };
	float y[K_QBLOCK];

	for (int32_t at = begin, n = 0; at < end; at++) {
		if (at % a->group == 0)
			g = k_gated_group(a, r, at / a->group);
		y[n++] = k_gated_value(a, &g, at % a->group, at);
		if (n < K_QBLOCK && at + 1 < end)
			continue;
		k_put(&a->out, r, at + 1 - n, y, n);
		n = 0;
	}
}

#endif
