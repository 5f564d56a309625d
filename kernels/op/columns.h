/* A matrix product that reads its weights by columns (rule 5), and of a column whose activation is
 * 0 nothing: the bits are those of the product by rows. With `skip` a block of 32 columns that are
 * all 0 is left out whole, with its scales. A unit is a strip of 64 outputs of a row.
 *
 * Of each block of 32 columns: the scale of each output, then (has_min) the minima, all f16, then
 * the columns one after the other, a code for each output. n_pad is the outputs rounded up to
 * strips. Codes of 4 bits: 64 of a strip are 32 bytes, in the order in which a vector wants them.
 * Vectors of 8 have a kernel of their own for it. */
#pragma once

#include "kernels/op/op.h"

#define K_STRIP 64

struct k_columns {
	struct k_acts in; /* [n, n_cols], q filled */
	const uint8_t *w;
	int32_t type;           /* enum k_type of the matrix, for what counts products */
	int32_t n_rows, n_cols; /* outputs; inputs, a multiple of 32 */
	int32_t bits, bias; /* of a code: 4 or 8; what is taken off it. Codes of 8 bits are signed */
	bool has_min, skip;
	const float *residual; /* [n, n_rows] or NULL; may equal out */
	float *out;            /* [n, n_rows] */
	const uint32_t *mask; /* [n, n_cols / 32] of the op sparse, for counting; NULL: there is none */
	int32_t n;
};
#define K_INPUTS_columns(PLAIN, a)

K_INLINE int32_t k_columns_pad(int32_t n_rows)
{
	return k_up(n_rows, K_STRIP);
}
/* Bytes of a block before its columns. */
K_INLINE size_t k_columns_entries(const struct k_columns *a)
{
	return (size_t)k_columns_pad(a->n_rows) * (a->has_min ? 4 : 2);
}
K_INLINE size_t k_column_bytes(const struct k_columns *a)
{
	return (size_t)(k_columns_pad(a->n_rows) * a->bits / 8);
}
K_INLINE const uint8_t *k_columns_block(const struct k_columns *a, int32_t block)
{
	return a->w + (size_t)block * (k_columns_entries(a) + K_QBLOCK * k_column_bytes(a));
}
/* Where the code of output i of a strip is, in bytes from the strip's part of a column; of 4 bits,
 * the high half has i >= 32. */
K_INLINE int32_t k_column_at(int32_t bits, int32_t i)
{
	return bits == 8 ? i : (i & 7) | (i & 8) << 1 | (i & 16) >> 1;
}

/* Blocks and columns that a step's rows read together: all, unless a mask says which. The scales of
 * a block that is not left out are always read. */
K_INLINE struct k_count k_columns_count(const struct k_columns *a)
{
	const uint64_t pad = (uint64_t)k_columns_pad(a->n_rows);
	const uint64_t values = (uint64_t)a->n * (uint64_t)(a->n_rows + a->n_cols) * 4;
	struct k_count c = { values, 0 };

	for (int32_t b = 0; b < a->n_cols / K_QBLOCK; b++) {
		uint32_t any = a->mask ? 0 : 0xffffffffu;

		for (int32_t r = 0; a->mask && r < a->n; r++)
			any |= a->mask[k_index(r, a->n_cols / K_QBLOCK, b)];
		for (uint32_t left = any; left; left &= left - 1) {
			c.bytes += k_column_bytes(a);
			c.ops += 2 * pad * (uint64_t)a->n;
		}
		c.bytes += any || !a->skip ? k_columns_entries(a) : 0;
	}
	return c;
}

K_RESULT(columns, k_floats(a->out, a->n_rows))
K_UNITS(columns, (int64_t)a->n *(k_columns_pad(a->n_rows) / K_STRIP))

K_INLINE bool k_is_zero_block(const int8_t *q)
{
	uint64_t w[4];

	memcpy(w, q, sizeof w);
	return !(w[0] | w[1] | w[2] | w[3]);
}

enum { K_COLUMNS_BLOCKS = 64 }; /* whose sums are there at a time */

/* What the threads of a strip share: the exact sums of blocks of columns, and its chains. */
struct k_columns_room {
	int32_t sum[K_COLUMNS_BLOCKS][K_STRIP];
	bool skipped[K_COLUMNS_BLOCKS];
	float acc[K_STRIP];
};

/* The exact sums of a block; column: the strip's part of its first. */
K_UNIT_FN void k_columns_sums(
	const struct k_columns *a, const uint8_t *column, const int8_t *q, int32_t sum[K_STRIP])
{
	int32_t low[K_OWN] = { 0 }, high[K_OWN] = { 0 }, sum_q = 0;

	K_UNROLL
	for (int32_t k = 0; k < K_QBLOCK; k++, column += k_column_bytes(a)) {
		K_LANES(i, 32) {
			const uint8_t *at = column + k_column_at(a->bits, i);
			const uint8_t one = q[k] ? *at : 0, two = q[k] && a->bits == 8 ? at[32] : one;

			low[K_AT(i)] += (a->bits == 8 ? (int8_t)one : one & 15) * q[k];
			high[K_AT(i)] += (a->bits == 8 ? (int8_t)two : two >> 4) * q[k];
		}
		sum_q += q[k];
	}
	K_LANES(i, 32) {
		sum[i] = low[K_AT(i)] - a->bias * sum_q;
		sum[i + 32] = high[K_AT(i)] - a->bias * sum_q;
	}
}

/* The sum of output i, if there is one. */
K_INLINE void k_columns_put(const struct k_columns *a, int32_t r, int32_t i, float sum)
{
	const size_t at = k_index(r, a->n_rows, i);

	if (i < a->n_rows)
		a->out[at] = a->residual ? sum + a->residual[at] : sum;
}
K_INLINE void k_columns_end(const struct k_columns *a, int32_t r, int32_t first, const float *sum)
{
	for (int32_t i = 0; i < K_STRIP; i++)
		k_columns_put(a, r, first + i, sum[i]);
}

/* Goes on with the chain of output i of a strip over blocks from `first` to before `end`. */
K_INLINE float k_columns_chain(const struct k_columns *a, const struct k_acts *in, int32_t strip,
	int32_t first, int32_t end, int32_t i, const struct k_columns_room *s)
{
	float acc = s->acc[i];

	K_UNROLL
	for (int32_t b = first; b < end; b++) {
		const uint16_t *dw = (const uint16_t *)(const void *)k_columns_block(a, b) + strip + i;

		if (s->skipped[b - first])
			continue;
		acc = k_fma(in->d[b], k_f16_to_f32(*dw) * (float)s->sum[b - first][i], acc);
		if (a->has_min)
			acc = k_fma(k_f16_to_f32(dw[k_columns_pad(a->n_rows)]), in->sx[b], acc);
	}
	return acc;
}

K_UNIT_FN void k_columns_unit(const struct k_columns *a, int64_t unit)
{
	const int32_t r = (int32_t)(unit % a->n), strip = (int32_t)(unit / a->n) * K_STRIP;
	const int32_t all = a->n_cols / K_QBLOCK;
	const size_t column = k_columns_entries(a) + (size_t)(strip * a->bits / 8);
	const struct k_acts in = k_acts_row(&a->in, r);
	K_ROOM(struct k_columns_room, s);

	K_THREADS(i, K_STRIP)
		s->acc[i] = 0;
	for (int32_t first = 0; first < all; first += K_COLUMNS_BLOCKS) {
		const int32_t end = all - first < K_COLUMNS_BLOCKS ? all : first + K_COLUMNS_BLOCKS;

		K_MEET(); /* the sums before have been read */
		K_WARPS(i, end - first) {
			const int8_t *q = in.q + (first + i) * K_QBLOCK;
			const bool skipped = a->skip && k_is_zero_block(q);

			if (k_lane() == 0)
				s->skipped[i] = skipped;
			if (!skipped)
				k_columns_sums(a, k_columns_block(a, first + i) + column, q, s->sum[i]);
		}
		K_MEET(); /* these are there */
		K_THREADS(i, K_STRIP)
			s->acc[i] = k_columns_chain(a, &in, strip, first, end, i, s);
	}
	K_THREADS(i, K_STRIP)
		k_columns_put(a, r, strip + i, s->acc[i]);
}
