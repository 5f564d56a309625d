/* The op experts: rows that share an expert are multiplied together on a CPU, and give the bits
 * that each has alone in the reference. Uneven choices, so that groups of all lengths occur. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "kernels/format/formats.h"
#include "tests/support/isa_rig.h"

enum { EXPERTS = 7, ROWS = 43, DIM = 96, MOST = 70, USED = 3 };

static uint8_t *raw[EXPERTS];
static float bias[EXPERTS * ROWS];

/* Blocks of random codes, whose scales are 2^-7. */
static void fill_raw(enum k_type type)
{
	const size_t block = (size_t)k_types[type].block, bytes = (size_t)k_types[type].block_bytes;

	for (int e = 0; e < EXPERTS; e++) {
		if (type == K_F32)
			rig_fill((float *)(void *)raw[e], ROWS * DIM, 1);
		for (size_t i = 0; type != K_F32 && i < ROWS * DIM / block * bytes; i++)
			raw[e][i] = i % bytes == 0 ? 0 : i % bytes == 1 ? 0x20 : (uint8_t)rig_next();
	}
}

static void pack(struct k_ctx *ctx, enum k_type type, struct k_matrix *w)
{
	for (int e = 0; e < EXPERTS; e++) {
		w[e] = (struct k_matrix){ .type = type, .n_rows = ROWS, .n_cols = DIM };
		w[e].data = rig_get(k_packed_bytes(ctx, type, ROWS, DIM));
		k_pack(ctx, &w[e], raw[e]);
	}
}

static void run(struct k_ctx *ctx, struct k_experts a, enum k_type type, float *out)
{
	struct k_matrix w[EXPERTS];
	struct k_op op = { .kind = K_OP_experts };

	pack(ctx, type, w);
	memset(out, 0x55, (size_t)(a.n * a.k * ROWS) * sizeof *out);
	a.w = w;
	a.out = out;
	op.u.experts = a;
	rig_run(ctx, &op);
	for (int e = 0; e < EXPERTS; e++)
		free(w[e].data);
}

/* Half of the rows choose one expert first. */
static void choose(int32_t *ids, int32_t n)
{
	for (int32_t i = 0; i < n * USED; i++)
		ids[i] = rig_next() % 2 ? 2 : (int32_t)(rig_next() % EXPERTS);
}

static void check(enum k_type type, int32_t n, bool each, bool biased)
{
	static int32_t ids[MOST * USED];
	static float want[MOST * USED * ROWS], got[MOST * USED * ROWS];
	struct k_acts in = acts_new(each ? n * USED : n, DIM, true, true);
	const struct k_experts a = { .in = in,
		.bias = biased ? bias : NULL,
		.ids = ids,
		.n_experts = EXPERTS,
		.k = USED,
		.n = n,
		.each = each };

	for (int32_t b = 0; b < (each ? n * USED : n) * DIM / K_QBLOCK; b++) {
		rig_fill(in.x + b * K_QBLOCK, K_QBLOCK, 3);
		k_quantise_block(in.x + b * K_QBLOCK, in.q + b * K_QBLOCK, in.d + b, in.sx + b);
	}
	choose(ids, n);
	run(ref, a, type, want);
	for (int i = 0; i < n_fast; i++) {
		run(fast[i], a, type, got);
		assert_memory_equal(got, want, (size_t)(n * USED * ROWS) * sizeof *got);
	}
	acts_free(&in);
}

static void test_groups(void **state)
{
	static const enum k_type types[] = { K_F32, K_Q4_0, K_Q8_0 };
	static const int32_t lengths[] = { 1, 2, 9, MOST };

	(void)state;
	rig_fill(bias, EXPERTS * ROWS, 1);
	for (int e = 0; e < EXPERTS; e++)
		raw[e] = rig_get(ROWS * DIM * sizeof(float));
	for (int t = 0; t < 3; t++) {
		fill_raw(types[t]);
		for (int i = 0; i < 16; i++)
			check(types[t], lengths[i / 4], i & 1, i & 2);
	}
	for (int e = 0; e < EXPERTS; e++)
		free(raw[e]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_groups) };

	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
