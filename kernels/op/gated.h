/* Values times a gate and an RMS norm of groups of them, in either order (rules 7, 8): what follows
 * a state matrix (Mamba-2: gate, then norm; gated delta rule: norm, then gate), gated attention,
 * and with neither weight nor gate the length of keys or values. A unit is some groups of a
 * row. */
#pragma once

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
#define K_INPUTS_gated(PLAIN, a)
K_COUNT(gated, a->n, a->groups * a->group, 12, 20)
K_RESULT(gated, a->out)

enum {
	K_GATED_GROUPS = 32,  /* of a unit at most, so that blocks of 8-bit activations are whole */
	K_GATED_NARROW = 512, /* a wider group is a block's of a GPU, a narrower one a warp's */
	K_GATED_COLUMNS = 256 /* of a unit where there is no norm */
};

/* Groups of a unit. */
K_INLINE int32_t k_gated_together(const struct k_gated *a)
{
	const int32_t most = a->out.q && a->group % K_QBLOCK            ? K_GATED_GROUPS
						 : K_OWN == 1 && a->group <= K_GATED_NARROW ? 8
																	: 1;

	return k_min(a->groups, most);
}

K_INLINE int32_t k_gated_span(const struct k_gated *a)
{
	return a->norm ? k_gated_together(a) * a->group : K_GATED_COLUMNS;
}

K_INLINE int64_t k_gated_units(const struct k_gated *a)
{
	const int32_t span = k_gated_span(a);

	return (int64_t)a->n * (k_pieces(a->groups * a->group, span));
}

K_INLINE float k_gated_by(const struct k_gated *a, float z)
{
	return a->by == K_GATE_silu ? k_silu(z) : a->by == K_GATE_gelu ? k_gelu(z) : k_sigmoid(z);
}

/* A group of a row, and the factor of its norm. */
struct k_gated_group {
	const float *x, *z;
	float scale;
};

K_INLINE struct k_gated_group k_gated_group(const struct k_gated *a, int32_t r, int32_t at)
{
	struct k_gated_group g = { a->x + (size_t)r * (size_t)a->x_stride + at * a->x_pitch, a->z, 1 };

	if (g.z)
		g.z += (size_t)r * (size_t)a->z_stride + at * a->z_pitch;
	return g;
}

K_INLINE float k_gated_factor(const struct k_gated *a, float squares)
{
	return 1.0f / sqrtf(squares / (float)a->group + a->eps);
}

/* What the norm reads. */
K_INLINE float k_gated_normed(const struct k_gated *a, const struct k_gated_group *g, int32_t i)
{
	return g->z && a->first ? g->x[i] * k_gated_by(a, g->z[i]) : g->x[i];
}

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

enum { K_ROW_PIECE = 4096 };

/* What the threads of a row share: scales of groups, and some of its values. */
struct k_row_room {
	float scale[K_GATED_GROUPS], piece[K_ROW_PIECE];
};

/* Rule 7's sum of n values, or of the squares of what they are from `mean`: values of g, or what
 * the norm of `a` reads. Of a block, each thread makes some, which are then near for all. */
K_UNIT_FN float k_row_sum(
	const struct k_gated *a, const struct k_gated_group *g, int32_t n, bool squares, float mean)
{
	float lane[K_OWN] = { 0 };
	K_ROOM(struct k_row_room, s);

	for (int32_t at = 0; at < n; at += K_ROW_PIECE) {
		const int32_t count = k_min(n - at, K_ROW_PIECE);

		K_MEET(); /* what was there has been read */
		K_UNROLL
		K_THREADS(i, count)
			s->piece[i] = a ? k_gated_normed(a, g, at + i) : g->x[at + i];
		K_MEET(); /* this piece is there */
		K_UNROLL
		K_LANES(i, count) {
			const float v = s->piece[i] - mean;

			lane[K_CHAIN(i)] = squares ? k_fma(v, v, lane[K_CHAIN(i)]) : lane[K_CHAIN(i)] + v;
		}
	}
	return k_lanes_sum(lane);
}

/* Scales of n groups of row r from `first` on, to s. */
K_UNIT_FN void k_gated_scales(
	const struct k_gated *a, int32_t r, int32_t first, int32_t n, struct k_row_room *s)
{
	const struct k_gated_group wide = k_gated_group(a, r, first);

	if (K_OWN == 1 && n == 1 && a->group > K_GATED_NARROW) {
		const float sum = k_row_sum(a, &wide, a->group, true, 0);

		K_THREADS(i, 1)
			s->scale[i] = k_gated_factor(a, sum);
		return;
	}
	K_MEET(); /* those of the unit before have been read */
	K_WARPS(i, n) {
		const struct k_gated_group g = k_gated_group(a, r, first + i);
		float lane[K_OWN] = { 0 }, sum;

		K_LANES(k, a->group) {
			const float y = k_gated_normed(a, &g, k);

			lane[K_CHAIN(k)] = k_fma(y, y, lane[K_CHAIN(k)]);
		}
		sum = k_lanes_sum(lane);
		if (k_lane() == 0)
			s->scale[i] = k_gated_factor(a, sum);
	}
}

K_UNIT_FN void k_gated_unit(const struct k_gated *a, int64_t unit)
{
	const int32_t width = a->groups * a->group, span = k_gated_span(a),
				  in_row = k_pieces(width, span), r = (int32_t)unit / in_row,
				  begin = (int32_t)unit % in_row * span, end = k_min(begin + span, width),
				  first = begin / a->group;
	K_ROOM(struct k_row_room, s);

	if (a->norm) {
		k_gated_scales(a, r, first, (end - begin) / a->group, s);
		K_MEET(); /* they are there, and what was summed may be replaced */
	}
	K_WARPS(b, k_pieces(end - begin, 32)) {
		const int32_t at = begin + b * 32, count = k_min(end - at, 32);
		float y[K_OWN];

		K_LANES(c, count) {
			const int32_t i = at + c;
			struct k_gated_group g = k_gated_group(a, r, i / a->group);

			g.scale = a->norm ? s->scale[i / a->group - first] : 1.0f;
			y[K_AT(c)] = k_gated_value(a, &g, i % a->group, i);
		}
		k_put(&a->out, r, at, y, count);
	}
}
