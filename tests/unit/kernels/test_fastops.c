/* Every instruction set's kernels against the reference, by memcmp: norm, rope and the cache,
 * gated activations, statistics; over head shapes, positions, rows and threads. (Matrix products
 * and attention have tests of their own.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/arith.h"
#include "tests/support/isa_rig.h"

/* Blocks of zeros, of tiny values and of huge ones: rule 4's cases. */
static void add_odd_blocks(float *x, int32_t n, int32_t dim)
{
	for (int32_t b = 0; b + 32 <= n * dim; b += 32) {
		int kind = (int)(rig_next() % 12);

		for (int32_t i = b; i < b + 32 && kind < 4; i++)
			x[i] = kind == 0   ? 0.0f
				   : kind == 1 ? -0.0f
				   : kind == 2 ? x[i] * 0x1p-140f
							   : x[i] * 1e12f;
	}
}

static void try_norm(int32_t n, int32_t dim, bool x, bool q)
{
	struct k_acts want = acts_new(n, dim, x, q), got = acts_new(n, dim, x, q);
	float *in = rig_get((size_t)(n + 3) * (size_t)dim * 4), *w = rig_get((size_t)dim * 4);
	int32_t *pick = rig_get((size_t)n * 4);
	struct k_op op = { .kind = K_OP_norm,
		.u.norm = { .x = in, .w = w, .eps = 1e-5f, .n = n, .out = want } };

	rig_fill(in, (size_t)(n + 3) * (size_t)dim, 3);
	rig_fill(w, (size_t)dim, 2);
	add_odd_blocks(in, n + 3, dim);
	for (int32_t i = 0; i < n; i++)
		pick[i] = (int32_t)(rig_next() % (uint32_t)(n + 3));
	op.u.norm.pick = n % 2 ? pick : NULL;
	rig_run(ref, &op);
	op.u.norm.out = got;
	for (int i = 0; i < n_fast; i++) {
		rig_run(fast[i], &op);
		acts_same(&want, &got, n);
	}
	acts_free(&want);
	acts_free(&got);
	rig_free_all((void *[]){ in, w, pick, NULL });
}

static void test_norm(void **state)
{
	static const int32_t dims[] = { 32, 96, 576, 2048 };

	(void)state;
	for (int d = 0; d < 4; d++)
		for (int32_t n = 1; n <= 17; n += n < 4 ? 1 : 13)
			for (int form = 1; form < 4; form++)
				try_norm(n, dims[d], form & 1, form & 2);
	try_norm(3, 40, true, false);
}

static void test_glu(void **state)
{
	static const int32_t dims[] = { 32, 1536, 352 };

	(void)state;
	for (int d = 0; d < 3; d++)
		for (int32_t n = 1; n <= 17; n += n < 3 ? 1 : 14)
			for (int form = 1; form < 12; form += form % 4 == 3 ? 2 : 1) {
				size_t all = (size_t)n * (size_t)dims[d];
				struct k_acts want = acts_new(n, dims[d], form & 1, form & 2);
				struct k_acts got = acts_new(n, dims[d], form & 1, form & 2);
				float *gate = rig_get(all * 4), *up = rig_get(all * 4);
				struct k_op op = { .kind = K_OP_glu,
					.u.glu = { .gate = gate,
						.up = up,
						.out = want,
						.n = n,
						.act = (enum k_act)(form >> 2) } };

				rig_fill(gate, all, 40);
				rig_fill(up, all, 4);
				add_odd_blocks(up, n, dims[d]);
				gate[0] = 200;
				gate[1] = -200;
				gate[2] = -0.0f;
				rig_run(ref, &op);
				op.u.glu.out = got;
				for (int i = 0; i < n_fast; i++) {
					rig_run(fast[i], &op);
					acts_same(&want, &got, n);
				}
				acts_free(&want);
				acts_free(&got);
				free(gate);
				free(up);
			}
}

static void try_stats(int32_t n, int32_t vocab, int shape)
{
	size_t all = (size_t)n * (size_t)vocab;
	float *l = rig_get(all * 4);
	struct k_logit_stats *want = calloc((size_t)n, sizeof *want),
						 *got = calloc((size_t)n, sizeof *got);
	struct k_op op = { .kind = K_OP_stats, .u.stats = { .logits = l, .vocab = vocab, .n = n } };

	rig_fill(l, all, 12);
	for (size_t i = 0; i < all; i++) {
		if (shape == 1)
			l[i] = (float)(int)(l[i] * 0.5f); /* ties, both zeros */
		if (shape == 2 && i % 3)
			l[i] = -INFINITY;
		if (shape == 3)
			l[i] = rig_next() % 2 ? 0.0f : -0.0f;
		if (shape == 4)
			l[i] = -INFINITY;
	}
	op.u.stats.out = want;
	rig_run(ref, &op);
	op.u.stats.out = got;
	for (int i = 0; i < n_fast; i++) {
		memset(got, 0x33, (size_t)n * sizeof *got);
		rig_run(fast[i], &op);
		assert_memory_equal(want, got, (size_t)n * sizeof *got);
	}
	rig_free_all((void *[]){ l, want, got, NULL });
}

static void test_stats(void **state)
{
	static const int32_t vocabs[] = { 1, 7, 8, 300, 1024, 1031, 5000, 49152 };

	(void)state;
	for (int v = 0; v < 8; v++)
		for (int shape = 0; shape < 5; shape++) {
			try_stats(1, vocabs[v], shape);
			if (vocabs[v] < 10000) {
				try_stats(2, vocabs[v], shape);
				try_stats(5, vocabs[v], shape);
				try_stats(40, vocabs[v], shape);
			}
		}
}

static void try_rope(enum k_cache format, int32_t head_dim, int32_t rope_dim, bool neox, bool bad)
{
	enum { N = 5, HEADS = 6, KV = 2, LONGEST = 200 };
	size_t q_all = (size_t)N * HEADS * (size_t)head_dim, k_all = (size_t)N * KV * (size_t)head_dim;
	float *q0 = rig_get(q_all * 4), *want = rig_get(q_all * 4), *q = rig_get(q_all * 4),
		  *k = rig_get(k_all * 4);
	float *v = rig_get(k_all * 4);
	size_t table = (size_t)LONGEST * (size_t)rope_dim / 2;
	float *cos = rig_get(table * 4), *sin = rig_get(table * 4);
	double *freq = rig_get((size_t)rope_dim / 2 * sizeof *freq);
	atomic_int nan_row = 0, want_nan;
	struct k_row rows[N];
	struct cache c;
	uint8_t *before, *after;
	struct k_op op = { .kind = K_OP_rope,
		.u.rope = { .q = q,
			.k = k,
			.v = v,
			.cos = cos,
			.sin = sin,
			.rope_dim = rope_dim,
			.neox = neox,
			.scale = 0.125f,
			.n_heads = HEADS,
			.layer = 1,
			.n = N,
			.rows = rows,
			.nan_row = &nan_row } };

	cache_open(&c, format, 32, 2, KV, head_dim, 2, LONGEST);
	op.u.rope.kv = &c.kv;
	op.u.rope.pages = c.pages;
	before = rig_get(c.bytes);
	after = rig_get(c.bytes);
	memcpy(before, c.kv.base, c.bytes);
	k_rope_freqs(10000, rope_dim, freq);
	k_rope_table(freq, rope_dim / 2, LONGEST, cos, sin);
	rig_fill(q0, q_all, 5);
	rig_fill(k, k_all, 5);
	rig_fill(v, k_all, 5);
	v[3] = 1e9f;
	v[4] = -INFINITY;
	v[5] = 65519.0f;
	v[6] = 1e-6f;
	k[7] = 1e30f;
	if (bad) {
		v[(size_t)(2 * KV + 1) * (size_t)head_dim + 1] = NAN;
		k[(size_t)(4 * KV) * (size_t)head_dim + (size_t)head_dim - 1] = NAN;
	}
	for (int32_t r = 0; r < N; r++)
		rows[r] = (struct k_row){ .pos = r * (LONGEST / N) + (int32_t)(rig_next() % (LONGEST / N)),
			.seq = r % 2,
			.observe = -1 }; /* no two at one place */
	memcpy(q, q0, q_all * 4);
	rig_run(ref, &op);
	want_nan = atomic_load(&nan_row);
	assert_int_equal(want_nan, bad ? 3 : 0);
	memcpy(want, q, q_all * 4);
	memcpy(after, c.kv.base, c.bytes);
	assert_true(memcmp(before, after, c.bytes) != 0);
	for (int i = 0; i < n_fast; i++) {
		memcpy(q, q0, q_all * 4);
		memcpy(c.kv.base, before, c.bytes);
		nan_row = 0;
		rig_run(fast[i], &op);
		assert_memory_equal(q, want, q_all * 4);
		assert_memory_equal(c.kv.base, after, c.bytes);
		assert_int_equal(atomic_load(&nan_row), want_nan);
	}
	cache_close(&c);
	rig_free_all((void *[]){ before, after, q0, want, q, k, v, cos, sin, freq, NULL });
}

static void test_rope(void **state)
{
	static const int32_t shapes[][2] = { { 32, 32 }, { 64, 64 }, { 80, 32 }, { 96, 96 },
		{ 128, 128 }, { 256, 64 }, { 20, 20 }, { 16, 12 }, { 80, 80 } };

	(void)state;
	for (int s = 0; s < 9; s++)
		for (int form = 0; form < 4 * K_N_UNCODED; form++)
			try_rope((enum k_cache)(form / 4), shapes[s][0], shapes[s][1], form & 1, form & 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_norm),
		cmocka_unit_test(test_glu),
		cmocka_unit_test(test_stats),
		cmocka_unit_test(test_rope),
	};

	return cmocka_run_group_tests_name("fastops", tests, rig_setup, rig_teardown);
}
