/* The reference twice: as built for any processor, with an emulated fused multiply-add, and once
 * more here with the processor's own and all that the optimiser does with wide vectors. The bits
 * must be the same (docs/arithmetic.md, rule 2). */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* A second set of names for everything that is compiled here anew: the reference, the back end that
 * runs it and the known answers. The pool is shared. */
#define k_types fma_types
#define k_ref_embed fma_ref_embed
#define k_ref_norm fma_ref_norm
#define k_ref_matmul fma_ref_matmul
#define k_ref_rope fma_ref_rope
#define k_ref_attention fma_ref_attention
#define k_ref_glu fma_ref_glu
#define k_ref_stats fma_ref_stats
#define k_ref_experts fma_ref_experts
#define K_REF_PLAIN(name) fma_ref_##name
#define k_each_expert fma_each_expert
#define k_ref_floats fma_ref_floats
#define k_ref_packed_bytes fma_ref_packed_bytes
#define k_ref_pack fma_ref_pack
#define k_ref_rotate fma_ref_rotate
#define k_ref_append fma_ref_append
#define k_cache_name fma_cache_name
#define k_ref_note_nan fma_ref_note_nan
#define k_attention_row fma_attention_row
#define k_attention_reads fma_attention_reads
#define k_ref_stats_row fma_ref_stats_row
#define k_ref_draw_row fma_ref_draw_row
#define k_ref_entropy fma_ref_entropy
#define k_rope_freqs fma_rope_freqs
#define k_rope_table fma_rope_table
#define k_rope_rows fma_rope_rows

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O3")
#pragma GCC target("avx2,fma,f16c")
#define HAS_FMA_BUILD 1
#endif
#include "kernels/cpu/isa.h" /* with the definitions of kernels/op/ */
#include "kernels/ref/ref.c"
#include "kernels/ref/ref_attention.c"
#include "kernels/ref/ref_matmul.c"
#include "kernels/rope_table.c"
#ifdef HAS_FMA_BUILD
#ifndef __FMA__
#error "the second build of the reference has no fused multiply-add"
#endif
#pragma GCC pop_options
#endif
#include "tests/support/blocks.h"

#undef k_ref_embed
#undef k_ref_norm
#undef k_ref_matmul
#undef k_ref_rope
#undef k_ref_attention
#undef k_ref_glu
#undef k_ref_stats
#undef k_ref_experts
#undef k_rope_freqs
#undef k_rope_table
k_fn k_ref_embed, k_ref_norm, k_ref_matmul, k_ref_rope, k_ref_attention, k_ref_glu, k_ref_stats,
	k_ref_experts;
void k_rope_table(
	const double *freq, int32_t n_freqs, int32_t n_pos, float *cos_out, float *sin_out);
void k_rope_freqs(double theta, int32_t rope_dim, double *freq);

enum {
	ROWS = 5,
	DIM = 320,
	HEAD_DIM = 64,
	HEADS = 5,
	OUT = 33,
	VOCAB = 3001,
	PAGE = 48,
	PAGES = 7
};

struct pair {
	k_fn *plain, *fused;
};
static const struct pair pairs[K_N_KINDS] = {
#define X(name, ...) { k_ref_##name, fma_ref_##name },
	K_KINDS(X)
#undef X
};

static void *scratch;

static int setup(void **state)
{
	(void)state;
	return posix_memalign(&scratch, 64, K_SCRATCH_BYTES);
}

static int teardown(void **state)
{
	(void)state;
	free(scratch);
	return 0;
}

static bool can_run(void)
{
#ifdef HAS_FMA_BUILD
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
	return false;
#endif
}

static uint32_t random32(void)
{
	static uint32_t i;
	uint32_t w[4];

	k_draw_words(98, i++, 0, 0, 0, w);
	return w[0];
}

/* Mostly of size one; some tiny, some huge. */
static void fill(float *x, size_t n, uint32_t stream)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t w[4];

		k_draw_words(99, (uint32_t)i, stream, 0, 0, w);
		x[i] = (k_uniform(w[0]) - 0.5f) * (w[1] % 64 == 0      ? 0x1p-128f
											  : w[1] % 64 == 1 ? 1e15f
															   : 4.0f);
	}
}

/* Runs both on the same op, with the results of the plain one put aside. */
static void both(enum k_kind kind, struct k_op *op, void *out, size_t bytes)
{
	void *plain = malloc(bytes), *before = malloc(bytes);

	op->kind = kind;
	memcpy(before, out, bytes);
	pairs[kind].plain(op, 0, 1, scratch);
	memcpy(plain, out, bytes);
	memcpy(out, before, bytes);
	pairs[kind].fused(op, 0, 1, scratch);
	assert_memory_equal(out, plain, bytes);
	assert_memory_not_equal(out, before, bytes);
	free(plain);
	free(before);
}

static void test_rows(void **state)
{
	static float x[ROWS * DIM], w[DIM], logits[ROWS * VOCAB];
	static struct {
		float x[ROWS * DIM], d[ROWS * DIM / 32], sx[ROWS * DIM / 32];
		int8_t q[ROWS * DIM];
	} out;
	static struct k_logit_stats stats[ROWS];
	const struct k_acts acts = { .x = out.x, .q = out.q, .d = out.d, .sx = out.sx, .dim = DIM };
	struct k_op op = { .u.norm = { .x = x, .w = w, .eps = 1e-5f, .n = ROWS, .out = acts } };

	(void)state;
	if (!can_run())
		skip();
	fill(x, ROWS * DIM, 1);
	fill(w, DIM, 2);
	fill(logits, ROWS * VOCAB, 3);
	for (int i = 0; i < ROWS * VOCAB; i++)
		logits[i] = fabsf(logits[i]) > 100 ? 3 : logits[i] * 4;
	both(K_OP_norm, &op, &out, sizeof out);
	op.u.glu = (struct k_glu){ .gate = x, .up = x + DIM, .n = ROWS - 1, .out = acts };
	both(K_OP_glu, &op, &out, sizeof out);
	op.u.stats = (struct k_stats){ .logits = logits, .vocab = VOCAB, .n = ROWS, .out = stats };
	both(K_OP_stats, &op, stats, sizeof stats);
}

static void test_weights(void **state)
{
	static float x[ROWS * DIM], y[ROWS * OUT], rows[ROWS * DIM], d[ROWS * DIM / 32],
		sx[ROWS * DIM / 32];
	static int8_t q[ROWS * DIM];
	static uint8_t raw[OUT * DIM * 4];
	const int32_t ids[ROWS] = { 3, 0, 32, 7, 7 };

	(void)state;
	if (!can_run())
		skip();
	fill(x, ROWS * DIM, 4);
	for (int i = 0; i < ROWS * DIM / 32; i++)
		k_quantise_block(x + i * 32, q + i * 32, d + i, sx + i);
	for (int type = 0; type < K_N_TYPES; type++) {
		const int32_t step = fma_types[type].block_bytes;
		const int32_t cols = DIM / fma_types[type].block * fma_types[type].block;
		struct k_matrix m = {
			.type = (enum k_type)type, .n_rows = OUT, .n_cols = cols, .data = raw
		};
		struct k_op op = { .u.matmul = { .in = { .x = x, .q = q, .d = d, .sx = sx, .dim = DIM },
							   .n_parts = 1,
							   .n = ROWS,
							   .part = { { .w = &m, .out = y } } } };

		blocks_fill(raw, m.type, sizeof raw / (size_t)step, TAME, random32);
		memset(y, 0xff, sizeof y);
		memset(rows, 0xff, sizeof rows);
		both(K_OP_matmul, &op, y, sizeof y);
		op.u.embed = (struct k_embed){ .w = &m, .ids = ids, .x = rows, .n = ROWS };
		both(K_OP_embed, &op, rows, sizeof rows);
	}
}

static void test_sequence(void **state)
{
	static float heads[ROWS * DIM], k[ROWS * HEAD_DIM], v[ROWS * HEAD_DIM];
	static float c[PAGE * PAGES * HEAD_DIM / 2], s[PAGE * PAGES * HEAD_DIM / 2];
	static float c2[PAGE * PAGES * HEAD_DIM / 2], s2[PAGE * PAGES * HEAD_DIM / 2];
	static uint32_t cache[PAGES * PAGE * 2 * HEAD_DIM]; /* room for f32 */
	static struct {
		float x[ROWS * DIM], d[ROWS * DIM / 32], sx[ROWS * DIM / 32], share[ROWS * HEADS * 21];
		int32_t near_zero[ROWS * HEADS];
		int8_t q[ROWS * DIM];
	} out;
	struct k_kv kv = { .base = (uint8_t *)cache,
		.page_bytes = sizeof cache / PAGES,
		.page_size = PAGE,
		.n_layers = 1,
		.n_kv_heads = 1,
		.head_dim = HEAD_DIM };
	const struct k_kv recent = kv;
	const int32_t table[PAGES] = { 2, 0, 1, 6, 5, 4, 3 }, *tables[1] = { table };
	const struct k_row row[ROWS] = { { 0, 0, 0, 0, 0 }, { 127, 0, 1, 0, 0 }, { 128, 0, 2, 0, 0 },
		{ 200, 0, -1, 0, 0 }, { 300, 0, 4, 0, 0 } };
	struct k_range range[ROWS];
	atomic_int nan_row = 0;
	double freq[HEAD_DIM / 2], freq2[HEAD_DIM / 2];
	struct k_op op = { .u.rope = { .q = heads,
						   .k = k,
						   .v = v,
						   .cos = c,
						   .sin = s,
						   .rope_dim = HEAD_DIM,
						   .scale = 0.125f,
						   .n_heads = HEADS,
						   .n = ROWS,
						   .rows = row,
						   .pages = tables,
						   .kv = &kv,
						   .nan_row = &nan_row } };

	(void)state;
	if (!can_run())
		skip();
	k_rope_freqs(10000, HEAD_DIM, freq);
	fma_rope_freqs(10000, HEAD_DIM, freq2);
	assert_memory_equal(freq, freq2, sizeof freq);
	k_rope_table(freq, HEAD_DIM / 2, PAGE * PAGES, c, s);
	fma_rope_table(freq, HEAD_DIM / 2, PAGE * PAGES, c2, s2);
	assert_memory_equal(c, c2, sizeof c);
	assert_memory_equal(s, s2, sizeof s);
	fill(heads, ROWS * DIM, 5);
	fill(k, ROWS * HEAD_DIM, 6);
	fill(v, ROWS * HEAD_DIM, 7);
	both(K_OP_rope, &op, heads, sizeof heads);
	for (kv.format = 0; kv.format <= K_CACHE_q8; kv.format++) {
		memset(cache, 0, sizeof cache);
		both(K_OP_rope, &op, cache, sizeof cache);
	}
	fill(heads, ROWS * DIM, 8);
	k_see_all(row, ROWS, range);
	op.u.attention = (struct k_attention){ .q = heads,
		.n_heads = HEADS,
		.n = ROWS,
		.rows = row,
		.ranges = range,
		.n_ranges = 1,
		.pages = tables,
		.kv = &kv,
		.share = out.share,
		.near_zero = out.near_zero,
		.share_stride = 21,
		.threshold = 1e-4f,
		.out = { .x = out.x, .q = out.q, .d = out.d, .sx = out.sx, .dim = DIM } };
	for (kv.format = 0; kv.format < K_N_UNCODED; kv.format++) {
		for (size_t i = 0; i < sizeof cache / (size_t)k_cache_bytes(kv.format); i++)
			k_cache_put(kv.format, cache, i,
				k_cache_code(kv.format, (float)(i * 2654435761u % 8191) * 0x1p-12f - 1));
		both(K_OP_attention, &op, &out, sizeof out);
	}
	kv.format = K_CACHE_e4m3;
	op.u.attention.softcap = 20;
	both(K_OP_attention, &op, &out, sizeof out);
	for (kv.format = K_N_UNCODED; kv.format < K_N_CACHES; kv.format++) {
		struct k_op make = { .u.encode = { .n = ROWS,
								 .rows = row,
								 .recent_pages = tables,
								 .pages = tables,
								 .recent = &recent,
								 .kv = &kv } };

		for (size_t i = 0; i < sizeof cache / 2; i++)
			((uint16_t *)(void *)cache)[i] = (uint16_t)(i * 2654435761u >> 13 & 0xbfff);
		op.u.attention.recent = kv.format == K_CACHE_q8 ? NULL : &recent;
		op.u.attention.recent_pages = tables;
		both(K_OP_attention, &op, &out, sizeof out);
		if (kv.format != K_CACHE_q8)
			both(K_OP_encode, &make, cache, sizeof cache);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_weights),
		cmocka_unit_test(test_sequence),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
