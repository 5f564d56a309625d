/* What the definitions of ops share. An op is one file of this folder and one line of ops.h: its
 * arguments, which of them are in the host's memory, its counts, its result, and its definition:
 * independent units of work, in the C of lanes.h that gcc and nvcc both compile. Any split of the
 * units over threads gives the same bits. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/op/lanes.h"

#define K_QBLOCK 32 /* activations are quantised in blocks of 32 (rule 4) */

/* Activations of n rows of width dim. Quantised weights read q, d, sx; float weights read x. An op
 * that writes activations fills x if it is not NULL and q, d, sx if q is not NULL. */
struct k_acts {
	float *x;    /* [n, dim] */
	int8_t *q;   /* [n, dim] */
	float *d;    /* [n, dim / 32] scale of a block */
	float *sx;   /* [n, dim / 32] d * sum of q (rule 4) */
	int32_t dim; /* a multiple of 32 when q is used */
};

/* Row r alone. */
K_INLINE struct k_acts k_acts_row(const struct k_acts *a, int32_t r)
{
	size_t at = (size_t)r * (size_t)a->dim, block = at / K_QBLOCK;
	struct k_acts row = *a;

	row.x = a->x ? a->x + at : NULL;
	row.q = a->q ? a->q + at : NULL;
	row.d = a->q ? a->d + block : NULL;
	row.sx = a->q ? a->sx + block : NULL;
	return row;
}

/* Value i of a row as a product reads it: rounded to 8 bits where x is not kept. */
K_INLINE float k_acts_value(const struct k_acts *row, int32_t i)
{
	return row->x ? row->x[i] : row->d[i / K_QBLOCK] * (float)row->q[i];
}

/* A NaN is, too. */
K_INLINE bool k_beyond(float x, float most)
{
	return !(x <= most && x >= -most);
}

/* The largest magnitude. Its bits are compared as an integer, so that the order does not matter and
 * a NaN is the largest. */
K_UNIT_FN float k_largest(const float *x, int32_t n)
{
	uint32_t most = 0;

	K_UNROLL
	K_LANES(i, n) {
		const uint32_t b = k_bits(x[i]) & 0x7fffffffu;

		most = b > most ? b : most;
	}
	return k_float(k_lanes_most(most));
}

/* The greatest, which a NaN is not. */
K_UNIT_FN float k_greatest(const float *x, int32_t n)
{
	uint32_t most = 0;

	K_LANES(i, n) {
		const uint32_t key = x[i] > -INFINITY ? k_order_key(x[i]) : 0;

		most = key > most ? key : most;
	}
	most = k_lanes_most(most);
	return most ? k_order_float(most) : -INFINITY;
}

/* Writes `count` values of row r from column `at` in the forms that out has: x, and q, d, sx (then
 * both are multiples of 32). On a GPU at most 32, each its lane's own. */
#ifdef __cplusplus
K_UNIT_FN void k_put(const struct k_acts *out, int32_t r, int32_t at, const float *y, int32_t count)
{
	const float own = k_lane() < count ? *y : 0.0f;
	struct k_acts rest = *out;

	if (out->x && k_lane() < count)
		out->x[k_index(r, out->dim, at + k_lane())] = own;
	rest.x = NULL;
	cu_put(&rest, r, at, k_lane(), own);
}
#else
K_INLINE void k_put(const struct k_acts *out, int32_t r, int32_t at, const float *y, int32_t count)
{
	size_t row = k_index(r, out->dim, at);

	if (out->x && out->x + row != y)
		memcpy(out->x + row, y, (size_t)count * sizeof *y);
	if (!out->q)
		return;
	for (int32_t i = 0; i < count; i += K_QBLOCK) {
		size_t at_q = row + (size_t)i, block = at_q / K_QBLOCK;

		k_quantise_block(y + i, out->q + at_q, out->d + block, out->sx + block);
	}
}
#endif

/* The bytes that an op reads and writes, and about how many operations it does: counted from
 * shapes, for the time view. */
struct k_count {
	uint64_t bytes, ops;
};
/* Bytes and operations for each of [rows, dim] values. */
K_INLINE struct k_count k_count_values(int32_t rows, int32_t dim, uint64_t bytes, uint64_t ops)
{
	const uint64_t n = (uint64_t)rows * (uint64_t)dim;
	struct k_count c = { n * bytes, n * ops };

	return c;
}
/* Values [n, dim] in f32, as an op's result. */
K_INLINE struct k_acts k_floats(float *x, int32_t dim)
{
	struct k_acts a = { x, NULL, NULL, NULL, dim };

	return a;
}

/* The result of an op that shows in what attention gives. */
#define K_NO_RESULT k_floats(NULL, 0)

/* What is said of an op `a` by an expression alone: what it is counted as (k_count_values), what it
 * gives, and how many units it has. */
#define K_COUNT(name, ...)                                                                         \
	K_INLINE struct k_count k_##name##_count(const struct k_##name *a)                             \
	{                                                                                              \
		return k_count_values(__VA_ARGS__);                                                        \
	}
#define K_RESULT(name, ...)                                                                        \
	K_INLINE struct k_acts k_##name##_result(const struct k_##name *a)                             \
	{                                                                                              \
		(void)a;                                                                                   \
		return __VA_ARGS__;                                                                        \
	}
#define K_UNITS(name, ...)                                                                         \
	K_INLINE int64_t k_##name##_units(const struct k_##name *a)                                    \
	{                                                                                              \
		return __VA_ARGS__;                                                                        \
	}

/* The units of an op whose values each depend on their row and column alone, by k_<op>_value(a, r,
 * i): 32 of n rows of `width` columns. */
#define K_VALUE_UNITS(name, n, width)                                                              \
	K_UNITS(name, (int64_t)(n) * (k_pieces(width, 32)))                                            \
	K_UNIT_FN void k_##name##_unit(const struct k_##name *a, int64_t unit)                         \
	{                                                                                              \
		const int32_t blocks = k_pieces(width, 32), r = (int32_t)unit / blocks;                    \
		const int32_t at = (int32_t)unit % blocks * 32, left = (width)-at;                         \
		const int32_t count = k_min(left, 32);                                                     \
		const struct k_acts out = k_##name##_result(a);                                            \
		float y[K_OWN];                                                                            \
                                                                                                   \
		K_LANES(i, count)                                                                          \
			y[K_AT(i)] = k_##name##_value(a, r, at + i);                                           \
		k_put(&out, r, at, y, count);                                                              \
	}

/* One row of a step: the token at `pos` of sequence `seq`, whose positions are found through the
 * sequence's block table. */
struct k_row {
	int32_t pos;
	int32_t seq;
	int32_t observe; /* index into the observation buffers of an op, or -1 */
	int32_t input;   /* positions 0 … input - 1 are an encoder's; 0: there is none */
	int32_t adapter; /* 1 …: which of the model's its request has (adapter.h); 0: none */
};

/* A further page to store a row's key and value in: that of another sequence at the same position.
 * So branches of a tree, each a sequence with its own tail, see their common ancestors. */
struct k_also {
	int32_t row, seq;
};

/* Where a row's recurrent state is read and written: pages of a group whose page is the whole state
 * of a sequence. Rows of a sequence are neighbours in a step, in the order of their positions. */
enum {
	K_STATE_ROW = -1,  /* from: the row before, in this step; to: nowhere */
	K_STATE_ZERO = -2, /* from: the state before the first token */
};
struct k_state_row {
	int32_t from, to; /* pages; `to` may be the page that an earlier row read */
};
struct k_state {
	uint8_t *base;
	size_t page_bytes;
};
K_INLINE float *k_state_at(const struct k_state *s, int32_t page, size_t at)
{
	return (float *)(void *)(s->base + (size_t)page * s->page_bytes) + at;
}
