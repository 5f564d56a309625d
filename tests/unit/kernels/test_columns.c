/* The ops sparse and columns: products by columns against those by rows, and every instruction set
 * against the definition, by memcmp. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/arith.h"
#include "kernels/format/columns.h"
#include "tests/support/blocks.h"
#include "tests/support/isa_rig.h"

enum { MOST = 33 };

static const int32_t rows_of[] = { 1, 63, 64, 65, 200 }, counts[] = { 1, 2, 3, MOST };

/* A matrix of the file's blocks. */
static uint8_t *raw_of(enum k_type type, int32_t rows, int32_t cols, enum mood mood)
{
	const size_t n = (size_t)(rows * (cols / K_QBLOCK));
	uint8_t *raw = rig_get(n * (size_t)k_types[type].block_bytes);

	blocks_fill(raw, type, n, mood, rig_next);
	return raw;
}

static struct k_matrix packed(
	struct k_ctx *c, enum k_type type, int32_t rows, int32_t cols, bool by_column, uint8_t *raw)
{
	struct k_matrix m = { type, rows, cols, by_column, NULL, false };

	m.data = rig_get(k_matrix_bytes(c, &m));
	k_pack(c, &m, raw);
	return m;
}

/* Of n rows; `share` of 8 values are not zero, and some blocks are all zero. */
static struct k_acts some_zero(int32_t n, int32_t dim, uint32_t share, bool nan)
{
	struct k_acts a = acts_new(n, dim, true, true);

	for (int32_t i = 0; i < n * dim; i++)
		a.x[i] = rig_next() % 8 < share && rig_next() % 97 / 32 ? rig_number(10) : 0;
	for (int32_t i = 0; i < n * dim; i += 5 * K_QBLOCK)
		memset(a.x + i, 0, K_QBLOCK * sizeof *a.x);
	if (nan)
		a.x[(n - 1) * dim] = NAN;
	for (int32_t i = 0; i < n * dim; i += K_QBLOCK)
		k_quantise_block(a.x + i, a.q + i, a.d + i / K_QBLOCK, a.sx + i / K_QBLOCK);
	return a;
}

static float *result(
	struct k_ctx *c, struct k_op *op, int32_t n, int32_t rows, const float *residual)
{
	float *out = rig_get((size_t)(n * rows) * sizeof *out);

	if (op->kind == K_OP_columns) {
		op->u.columns.out = out;
		op->u.columns.residual = residual;
	} else {
		op->u.matmul.part[0].out = out;
		op->u.matmul.part[0].residual = residual;
	}
	rig_run(c, op);
	return out;
}

static struct k_op columns_op(const struct k_matrix *m, struct k_acts in, int32_t n, bool skip)
{
	struct k_op op = { .kind = K_OP_columns };

	op.u.columns = k_columns_of(m);
	op.u.columns.in = in;
	op.u.columns.skip = skip;
	op.u.columns.n = n;
	return op;
}

/* A NaN's payload is no part of the contract. */
static void same_bits(const float *a, const float *b, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		assert_true(isnan(a[i]) ? isnan(b[i]) : k_bits(a[i]) == k_bits(b[i]));
}

/* Without skipping: the bits of rule 5, from ref and from every instruction set. */
static void check_products(
	enum k_type type, int32_t rows, int32_t n, enum mood mood, uint32_t share)
{
	const int32_t cols = 6 * K_QBLOCK;
	uint8_t *raw = raw_of(type, rows, cols, mood);
	const struct k_matrix by_row = packed(ref, type, rows, cols, false, raw);
	const struct k_matrix by_column = packed(ref, type, rows, cols, true, raw);
	struct k_acts in = some_zero(n, cols, share, mood == NASTY);
	float *residual = rig_get((size_t)(n * rows) * sizeof *residual), *expected, *got;
	struct k_op op = { .kind = K_OP_matmul, .u.matmul = { .in = in, .n_parts = 1, .n = n } };

	rig_fill(residual, (size_t)(n * rows), 3);
	op.u.matmul.part[0].w = &by_row;
	expected = result(ref, &op, n, rows, residual);
	op = columns_op(&by_column, in, n, false);
	got = result(ref, &op, n, rows, residual);
	same_bits(expected, got, n * rows);
	for (int skip = 0; skip < 2; skip++) {
		op = columns_op(&by_column, in, n, skip);
		free(got);
		got = result(ref, &op, n, rows, skip ? NULL : residual);
		for (int i = 0; i < n_fast; i++) {
			float *other = result(fast[i], &op, n, rows, skip ? NULL : residual);

			same_bits(got, other, n * rows);
			free(other);
		}
	}
	rig_free_all((void *[]){ raw, by_row.data, by_column.data, residual, expected, got, NULL });
	acts_free(&in);
}

static void products_by_columns(void **state)
{
	int n_types = 0;

	(void)state;
	for (int type = 0; type < K_N_TYPES; type++) {
		if (!k_columns_fit((enum k_type)type))
			continue;
		n_types++;
		for (size_t r = 0; r < sizeof rows_of / sizeof *rows_of; r++)
			for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
				check_products(
					(enum k_type)type, rows_of[r], counts[c], TAME, (uint32_t)(2 * c + 1));
		check_products((enum k_type)type, 70, 3, EXTREME, 8);
		check_products((enum k_type)type, 70, 3, NASTY, 4);
	}
	assert_int_equal(n_types, 6); /* Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL */
	assert_false(k_columns_fit(K_F16) || k_columns_fit(K_Q4_K) || k_columns_fit(K_MXFP4));
}

/* What a step read, counted: all without a mask; with one, columns that any row has. */
static void bytes_that_were_read(void **state)
{
	const struct k_matrix m = { K_Q4_1, 128, 64, true, NULL, false };
	const uint32_t mask[4] = { 0x1, 0, 0x3, 0 }; /* two rows of two blocks */
	struct k_columns a = k_columns_of(&m);
	const uint64_t values = 2 * (128 + 64) * 4, entries = 128 * 4, column = 64;

	(void)state;
	a.n = 2;
	a.skip = true;
	assert_int_equal(k_columns_count(&a).bytes, values + 2 * (entries + 32 * column));
	a.mask = mask;
	assert_int_equal(k_columns_count(&a).bytes, values + entries + 2 * column);
	a.skip = false; /* the scales of the second block, too */
	assert_int_equal(k_columns_count(&a).bytes, values + 2 * entries + 2 * column);
}

/* ---- sparse ---- */

struct marked {
	struct k_acts a;
	uint32_t *mask;
	int32_t *near_zero;
};

static struct marked marked_of(
	struct k_ctx *c, const struct k_acts *x, int32_t n, float least, const struct k_row *rows)
{
	struct marked m = { acts_new(n, x->dim, true, true), NULL, rig_get(2 * K_NEAR * 4) };
	struct k_op op = { .kind = K_OP_sparse };

	m.mask = rig_get((size_t)(n * x->dim / 32) * 4);
	memcpy(m.a.x, x->x, (size_t)(n * x->dim) * sizeof *x->x);
	memcpy(m.a.q, x->q, (size_t)(n * x->dim));
	memcpy(m.a.d, x->d, (size_t)(n * x->dim / 32) * sizeof *x->d);
	memcpy(m.a.sx, x->sx, (size_t)(n * x->dim / 32) * sizeof *x->sx);
	op.u.sparse = (struct k_sparse){ .a = m.a,
		.least = least > 0 ? least : 0,
		.mark = least > 0   ? least
				: least < 0 ? 0
							: 0.01f,
		.rows = rows,
		.mask = m.mask,
		.near_zero = m.near_zero,
		.n = n,
		.layers = 1 };
	rig_run(c, &op);
	return m;
}

static void marked_free(struct marked *m)
{
	acts_free(&m->a);
	free(m->mask);
	free(m->near_zero);
}

/* Each value against the definition, in double. least < 0: all stay, and what is not 0 is marked.
 */
static void check_row(const struct marked *m, const struct k_acts *x, int32_t r, float least)
{
	const float *was = x->x + r * x->dim, *is = m->a.x + r * x->dim;
	float largest = 0;

	for (int32_t i = 0; i < x->dim; i++)
		largest = fmaxf(largest, fabsf(was[i]));
	for (int32_t i = 0; i < x->dim; i++) {
		const bool kept = least < 0 ? was[i] != 0 : !(fabsf(was[i]) < least * largest);
		const uint32_t bit = m->mask[r * x->dim / 32 + i / 32] >> i % 32 & 1;

		assert_int_equal(bit, kept);
		assert_true(is[i] == (kept || least < 0 ? was[i] : 0));
	}
}

static void small_values_become_zero(void **state)
{
	enum { N = 5, DIM = 160 };
	const struct k_row rows[N] = { { .observe = -1 }, { .pos = 1, .observe = 1 },
		{ .pos = 2, .observe = -1 }, { .pos = 3 }, { .pos = 4, .observe = -1 } };
	struct k_acts x = acts_new(N, DIM, true, true);

	(void)state;
	for (int32_t i = 0; i < N * DIM; i++)
		x.x[i] = i % 7 == 3 ? 0 : rig_number(1) * rig_number(1) * rig_number(1);
	for (int32_t i = 0; i < N * DIM; i += K_QBLOCK)
		k_quantise_block(x.x + i, x.q + i, x.d + i / K_QBLOCK, x.sx + i / K_QBLOCK);
	for (int step = 0; step < 3; step++) {
		const float least = (const float[]){ 0, 0.1f, -1 }[step];
		struct marked m = marked_of(ref, &x, N, least, rows);

		for (int32_t r = 0; step && r < N; r++)
			check_row(&m, &x, r, least);
		assert_true(m.near_zero[0] > m.near_zero[1] && m.near_zero[1] > m.near_zero[2]);
		for (int i = 0; i < n_fast; i++) {
			struct marked other = marked_of(fast[i], &x, N, least, rows);

			acts_same(&m.a, &other.a, N);
			assert_memory_equal(m.mask, other.mask, N * DIM / 8);
			assert_memory_equal(m.near_zero, other.near_zero, 2 * K_NEAR * 4);
			marked_free(&other);
		}
		marked_free(&m);
	}
	acts_free(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(products_by_columns),
		cmocka_unit_test(bytes_that_were_read),
		cmocka_unit_test(small_values_become_zero),
	};

	return cmocka_run_group_tests_name("columns", tests, rig_setup, rig_teardown);
}
