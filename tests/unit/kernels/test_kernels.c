/* Matrix products and embedding rows of every instruction set against the reference, by memcmp: all
 * formats, numbers of rows, odd shapes, threads, and numbers that are no pleasure; then the pool
 * and the back end's doors. (The other ops have test_fastops.c, the scalar functions
 * test_arith.c.) */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include "kernels/arith.h"
#include "kernels/format/formats.h"
#include "kernels/kernels.h"
#include "tests/support/contexts.h"
#include "tests/support/blocks.h"

enum { MAX_N = 64, GUARD = 64 };

static const int threads[] = { 1, 2, 3, 7 };
static const int counts[] = { 1, 2, 3, 4, 5, 7, 8, 16, 17, 51, 64 };

static struct k_ctx *ref;
static struct contexts all;

static uint32_t random32(void)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13; /* xorshift64* (Vigna 2016) */
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state * 2685821657736338717u >> 32);
}

static void *get(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 64 + 63) / 64 * 64);

	assert_non_null(p);
	return p;
}

static int open_all(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(k_open(&ref, "ref", NULL, 1, &e), 0);
	if (contexts_open(&all, threads, (int)(sizeof threads / sizeof *threads), true, &e)) {
		print_error("%s\n", e.text);
		return -1;
	}
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	contexts_close(&all);
	k_close(ref);
	return 0;
}

static void run(struct k_ctx *c, struct k_op *op)
{
	struct k_program p = { .op = op, .n_ops = 1 };

	k_run(c, &p, NULL);
}

/* Equal bits; a NaN's own bits are no part of the contract. */
static void same(
	const float *got, const float *expected, size_t n, const char *what, const struct k_ctx *c)
{
	for (size_t i = 0; i < n; i++)
		if (k_bits(got[i]) != k_bits(expected[i]) &&
			(got[i] == got[i] || expected[i] == expected[i]))
			fail_msg("%s, %s with %d threads: value %zu is %a, not %a", what, k_isa_name(c),
				k_n_threads(c), i, (double)got[i], (double)expected[i]);
}

/* A width near `cols` that the format allows. */
static int32_t fitting(enum k_type type, int32_t cols)
{
	const int32_t block = k_types[type].block;

	return (cols + block - 1) / block * block;
}

/* Rows of GGUF blocks. */
static uint8_t *random_weights(enum k_type type, int32_t rows, int32_t cols, enum mood mood)
{
	const size_t n = (size_t)rows * (size_t)(cols / k_types[type].block);
	uint8_t *raw = get(n * (size_t)k_types[type].block_bytes);

	blocks_fill(raw, type, n, mood, random32);
	return raw;
}

/* MAX_N rows; only what the format reads is there. */
static struct k_acts random_acts(enum k_type type, int32_t dim, enum mood mood)
{
	const size_t n = (size_t)MAX_N * (size_t)dim;
	struct k_acts a = { .x = get(n * 4), .dim = dim };

	for (size_t i = 0; i < n; i++)
		a.x[i] = mood == EXTREME ? (i / (size_t)dim % 2 ? 1.0f : -1.0f)
								 : blocks_float(i % 96 < 64 ? TAME : mood, random32);
	if (k_types[type].block == 1)
		return a;
	a.q = get(n);
	a.d = get(n / 8);
	a.sx = get(n / 8);
	for (size_t b = 0; b < n / 32; b++)
		k_quantise_block(a.x + b * 32, a.q + b * 32, a.d + b, a.sx + b);
	free(a.x);
	a.x = NULL;
	return a;
}

/* The values beyond it are not among the integers: in most blocks none. */
#define MOST 1.97f

static void acts_split(struct k_acts *a)
{
	const size_t n = (size_t)MAX_N * (size_t)a->dim;

	a->q = get(n);
	a->d = get(n / 8);
	a->sx = get(n / 8);
	for (size_t b = 0; b < n / 32; b++) {
		float x[32];

		for (int i = 0; i < 32; i++)
			x[i] = k_beyond(a->x[b * 32 + (size_t)i], MOST) ? 0 : a->x[b * 32 + (size_t)i];
		k_quantise_block(x, a->q + b * 32, a->d + b, a->sx + b);
	}
}

static void acts_free(struct k_acts *a)
{
	free(a->x);
	free(a->q);
	free(a->d);
	free(a->sx);
}

struct weights {
	struct k_matrix m;
	uint8_t *raw;
	bool two_of_four; /* and packed so, where that can be */
};

/* Of each four neighbours at least two become +0, sometimes three or all. */
static void weights_thin(struct weights *w)
{
	const size_t bytes = (size_t)k_types[w->m.type].block_bytes;
	const size_t n = (size_t)w->m.n_rows * (size_t)w->m.n_cols;

	for (size_t i = 0; i < n; i += 4) {
		const uint32_t some = random32();

		memset(w->raw + (i + some % 4) * bytes, 0, bytes);
		memset(w->raw + (i + (some + 1 + some / 4 % 3) % 4) * bytes, 0, bytes);
		if (some >> 28 == 0)
			memset(w->raw + (i + some / 16 % 4) * bytes, 0, bytes);
		if (some >> 28 == 1)
			memset(w->raw + i * bytes, 0, 4 * bytes);
	}
	w->two_of_four = true;
	assert_true(k_pairs_hold(w->m.type, w->raw, n));
}

static void weights_load(struct k_ctx *c, struct weights *w)
{
	w->m.pairs = w->two_of_four && k_keeps_pairs(c, w->m.type, w->m.n_cols);
	w->m.data = get(k_matrix_bytes(c, &w->m));
	k_pack(c, &w->m, w->raw);
}

/* Three parts: one with bias, one with residual in place, one with both. */
/* APART: with the values beyond MOST as floats. PAIRS: two weights of four, FINITE: and such x. */
enum way { PLAIN, AS_FLOATS, APART, PAIRS, FINITE };

struct product {
	enum way way;
	struct weights w[3];
	struct k_acts in;
	float *bias, *residual, *expected[3], *out[3];
};

static size_t out_size(const struct product *p, int part, int n)
{
	return (size_t)n * (size_t)p->w[part].m.n_rows;
}

static void multiply(struct k_ctx *c, struct product *p, int n, float *const out[3])
{
	struct k_op op = { .kind = K_OP_matmul, .u.matmul = { .in = p->in, .n_parts = 3, .n = n } };

	op.u.matmul.as_floats = p->way == AS_FLOATS;
	op.u.matmul.above = p->way == APART ? MOST : 0;
	for (int i = 0; i < 3; i++) {
		const size_t size = out_size(p, i, n);

		op.u.matmul.part[i].w = &p->w[i].m;
		op.u.matmul.part[i].bias = i == 1 ? NULL : p->bias;
		op.u.matmul.part[i].residual = i == 0 ? NULL : i == 1 ? out[i] : p->residual;
		op.u.matmul.part[i].out = out[i];
		memset(out[i], 0x55, (size + GUARD) * 4);
		if (i == 1)
			memcpy(out[i], p->residual, size * 4);
	}
	run(c, &op);
	for (int i = 0; i < 3; i++)
		for (size_t g = 0; g < GUARD; g++)
			assert_int_equal(k_bits(out[i][out_size(p, i, n) + g]), 0x55555555);
}

/* What rule 21 says: the reference's product of matrices of floats, whose values are the quantised
 * ones' as the embedding reads them. */
static void multiply_expanded(struct product *p)
{
	struct k_matrix own[3];

	for (int i = 0; i < 3; i++) {
		struct k_matrix *m = &p->w[i].m;
		int32_t *ids = get((size_t)m->n_rows * sizeof *ids);
		struct k_op op = { .kind = K_OP_embed,
			.u.embed = { .w = &own[i], .ids = ids, .n = m->n_rows } };

		own[i] = *m;
		m->type = K_F32;
		m->data = op.u.embed.x = get((size_t)m->n_rows * (size_t)m->n_cols * 4);
		for (int32_t r = 0; r < m->n_rows; r++)
			ids[r] = r;
		run(ref, &op);
		free(ids);
	}
	multiply(ref, p, MAX_N, p->expected);
	for (int i = 0; i < 3; i++) {
		free(p->w[i].m.data);
		p->w[i].m = own[i];
	}
}

static void product_open(
	struct product *p, enum k_type type, int32_t rows, int32_t cols, enum mood mood, enum way way)
{
	const int32_t part_rows[3] = { rows, 1, rows / 2 + 3 };
	const size_t most = (size_t)(rows + 3) * MAX_N;

	*p = (struct product){ .way = way, .in = random_acts(way ? K_F32 : type, cols, mood) };
	if (way == APART)
		acts_split(&p->in);
	for (size_t i = 0; way == FINITE && i < (size_t)MAX_N * (size_t)cols; i++)
		p->in.x[i] = p->in.x[i] - p->in.x[i] == 0 ? p->in.x[i] : -0x1p-140f;
	p->bias = get(most * 4);
	p->residual = get(most * 4);
	for (size_t i = 0; i < most; i++) {
		p->bias[i] = blocks_float(TAME, random32);
		p->residual[i] = blocks_float(TAME, random32);
	}
	for (int i = 0; i < 3; i++) {
		p->w[i].m = (struct k_matrix){ .type = type, .n_rows = part_rows[i], .n_cols = cols };
		p->w[i].raw = random_weights(type, part_rows[i], cols, mood);
		if (way >= PAIRS)
			weights_thin(&p->w[i]);
		p->expected[i] = get((most + GUARD) * 4);
		p->out[i] = get((most + GUARD) * 4);
		weights_load(ref, &p->w[i]);
	}
	if (way == AS_FLOATS)
		multiply_expanded(p);
	else
		multiply(ref, p, MAX_N, p->expected);
	for (int i = 0; i < 3; i++)
		free(p->w[i].m.data);
}

static void product_close(struct product *p)
{
	for (int i = 0; i < 3; i++) {
		free(p->w[i].raw);
		free(p->expected[i]);
		free(p->out[i]);
	}
	free(p->bias);
	free(p->residual);
	acts_free(&p->in);
}

/* That the first n of the reference's 64 rows are what n rows give is rows' independence of their
 * company. */
static void try_product(enum k_type type, int32_t rows, int32_t cols, enum mood mood, enum way way)
{
	struct product p;

	product_open(&p, type, rows, cols, mood, way);
	for (int c = 0; c < all.n; c++) {
		for (int i = 0; i < 3; i++)
			weights_load(all.ctx[c], &p.w[i]);
		for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
			if (k_n_threads(all.ctx[c]) > 2 && counts[k] % 4 == 0)
				continue;
			if (strcmp(k_isa_name(all.ctx[c]), "scalar") == 0 && counts[k] > 5)
				continue; /* it is the reference but for the split */
			multiply(all.ctx[c], &p, counts[k], p.out);
			for (int i = 0; i < 3; i++)
				same(p.out[i], p.expected[i], out_size(&p, i, counts[k]), k_types[type].name,
					all.ctx[c]);
		}
		for (int i = 0; i < 3; i++)
			free(p.w[i].m.data);
	}
	product_close(&p);
}

static void test_matmul(void **state)
{
	static const int32_t quantised[][2] = { { 1, 32 }, { 8, 64 }, { 43, 96 }, { 65, 160 },
		{ 150, 576 } };
	static const int32_t floats[][2] = { { 1, 1 }, { 8, 33 }, { 43, 64 }, { 65, 100 },
		{ 150, 200 } };

	(void)state;
	for (int type = 0; type < K_N_TYPES; type++)
		for (int mood = TAME; mood <= EXTREME; mood++)
			for (int i = 0; i < 5; i++) {
				const int32_t *shape = k_types[type].block == 1 ? floats[i] : quantised[i];

				try_product((enum k_type)type, shape[0], fitting((enum k_type)type, shape[1]),
					(enum mood)mood, PLAIN);
			}
}

/* Of each four weights two alone are kept, and the bits are those of all of them: also where values
 * underflow to zeros of either sign, and where a number is infinite or none. */
static void test_matmul_pairs(void **state)
{
	static const int32_t shapes[][2] = { { 1, 32 }, { 8, 64 }, { 43, 96 }, { 65, 160 },
		{ 150, 576 }, { 9, 2112 } };

	(void)state;
	for (int type = 0; type < K_N_TYPES; type++)
		for (int mood = TAME; mood <= EXTREME; mood++)
			for (int i = 0; i < 12 && k_types[type].block == 1; i++)
				try_product((enum k_type)type, shapes[i / 2][0], shapes[i / 2][1], (enum mood)mood,
					i % 2 ? FINITE : PAIRS);
}

/* Element k of a row by the format's definition; exact in double. Without a minimum, + 0 is added
 * all the same: rule 5. Scales and codes are as formats.c reads them, which test_formats holds
 * against the gguf package. */
static double decode(enum k_type type, const uint8_t *raw, int32_t k)
{
	const struct k_type_info *t = &k_types[type];
	const uint8_t *b = raw + k / t->block * t->block_bytes;
	struct k_scales s;
	uint8_t code[K_QBLOCK];
	int8_t value[K_QBLOCK];
	uint16_t h;
	float x;

	memcpy(&h, b, 2);
	if (type == K_F32) {
		memcpy(&x, b, 4);
		return (double)x;
	}
	if (!k_is_quantised(type))
		return (double)(type == K_F16 ? k_f16_to_f32(h) : k_bf16_to_f32(h));
	k_read_scales(type, b, k % t->block / K_QBLOCK, &s);
	k_read_codes(type, b, k % t->block / K_QBLOCK, code);
	k_values(type, code, value);
	k %= K_QBLOCK;
	return (double)s.dw * s.sub[k / 16] * value[k] + (double)s.mw * s.min[k / 16];
}

/* Weight-only products have the bits of those by matrices of floats, and LLM.int8()'s those of the
 * reference. */
static void test_matmul_by_floats(void **state)
{
	static const int32_t shapes[][2] = { { 1, 32 }, { 43, 96 }, { 65, 576 } };

	(void)state;
	for (int type = 0; type < K_N_TYPES; type++)
		for (int mood = TAME; mood <= EXTREME; mood++)
			for (int i = 0; i < 6 && k_types[type].block > 1; i++)
				try_product((enum k_type)type, shapes[i / 2][0],
					fitting((enum k_type)type, shapes[i / 2][1]), (enum mood)mood,
					i % 2 ? APART : AS_FLOATS);
}

/* The reference of LLM.int8()'s product, against a sum in double of what either part stands for:
 * Dettmers et al. 2022, equation 8. */
static void test_ref_apart(void **state)
{
	enum { ROWS = 7, COLS = 256 };
	int n_apart = 0;

	(void)state;
	for (int type = 0; type < K_N_TYPES; type++) {
		struct weights w = { .m = { .type = (enum k_type)type, .n_rows = ROWS, .n_cols = COLS } };
		struct k_acts in = random_acts(K_F32, COLS, TAME);
		const size_t row_bytes = (size_t)(COLS / k_types[type].block * k_types[type].block_bytes);
		float y[ROWS];
		struct k_op op = { .kind = K_OP_matmul,
			.u.matmul = { .in = in, .n_parts = 1, .n = 1, .part = { { .w = &w.m, .out = y } } } };

		if (k_types[type].block == 1) {
			acts_free(&in);
			continue;
		}
		acts_split(&in);
		op.u.matmul.in = in;
		op.u.matmul.above = MOST;
		w.raw = random_weights(w.m.type, ROWS, COLS, TAME);
		weights_load(ref, &w);
		run(ref, &op);
		for (int i = 0; i < ROWS; i++) {
			double sum = 0, size = 0;

			for (int k = 0; k < COLS; k++) {
				const bool apart = fabsf(in.x[k]) > MOST;
				const double x = apart ? (double)in.x[k] : (double)in.d[k / 32] * in.q[k];
				const double v = decode(w.m.type, w.raw + (size_t)i * row_bytes, k) * x;

				n_apart += apart;
				sum += v;
				size += fabs(v);
			}
			assert_true(fabs((double)y[i] - sum) <= 1e-5 * size);
		}
		free(w.raw);
		free(w.m.data);
		acts_free(&in);
	}
	assert_true(n_apart > 0);
}

/* Rows of activations that no longer fit a strip, and chains of many blocks. */
static void test_matmul_wide(void **state)
{
	(void)state;
	for (int type = 0; type < K_N_TYPES; type++)
		try_product((enum k_type)type, 9,
			fitting((enum k_type)type, k_types[type].block == 1 ? 2112 : 6208), TAME, PLAIN);
	/* no tile fits what it is decoded to, nor do all rows of a call what is beyond */
	try_product(K_Q4_1, 20, 65568, TAME, AS_FLOATS);
	try_product(K_Q4_1, 5, 262176, TAME, APART);
}

/* The reference itself, against sums in double: right but for rounding. */
static void test_ref_matmul_value(void **state)
{
	enum { ROWS = 7, COLS = 256 };

	(void)state;
	for (int type = 0; type < K_N_TYPES; type++) {
		struct weights w = { .m = { .type = (enum k_type)type, .n_rows = ROWS, .n_cols = COLS } };
		struct k_acts in = random_acts(w.m.type, COLS, TAME);
		float y[ROWS], row[ROWS * COLS];
		int32_t ids[ROWS] = { 0, 1, 2, 3, 4, 5, 6 };
		struct k_op embed = { .kind = K_OP_embed,
			.u.embed = { .w = &w.m, .ids = ids, .x = row, .n = ROWS } };
		struct k_op op = { .kind = K_OP_matmul,
			.u.matmul = { .in = in, .n_parts = 1, .n = 1, .part = { { .w = &w.m, .out = y } } } };

		w.raw = random_weights(w.m.type, ROWS, COLS, TAME);
		weights_load(ref, &w);
		run(ref, &embed);
		run(ref, &op);
		for (int i = 0; i < ROWS; i++) {
			double sum = 0, size = 0;

			for (int k = 0; k < COLS; k++) {
				double x = in.x ? (double)in.x[k] : (double)in.d[k / 32] * in.q[k];

				sum += (double)row[i * COLS + k] * x;
				size += fabs((double)row[i * COLS + k] * x);
			}
			assert_true(size > 0);
			assert_true(fabs((double)y[i] - sum) <= 1e-5 * size);
		}
		free(w.raw);
		free(w.m.data);
		acts_free(&in);
	}
}

static void test_embed(void **state)
{
	enum { ROWS = 45, COLS = 512 };
	static float x[ROWS * COLS], expected[ROWS * COLS];
	int32_t ids[ROWS];

	(void)state;
	for (int32_t i = 0; i < ROWS; i++)
		ids[i] = i * 7 % ROWS;
	for (int k = 0; k < 2 * K_N_TYPES; k++) { /* the second time pairs */
		const int type = k / 2;
		struct weights w = { .m = { .type = (enum k_type)type, .n_rows = ROWS, .n_cols = COLS } };
		const size_t row_bytes = (size_t)(COLS / k_types[type].block * k_types[type].block_bytes);

		if (k % 2 && k_types[type].block > 1)
			continue;
		w.raw = random_weights(w.m.type, ROWS, COLS, NASTY);
		if (k % 2)
			weights_thin(&w);
		for (int32_t i = 0; i < ROWS * COLS; i++)
			expected[i] =
				(float)decode(w.m.type, w.raw + (size_t)ids[i / COLS] * row_bytes, i % COLS);
		for (int c = -1; c < all.n; c++) {
			struct k_ctx *use = c < 0 ? ref : all.ctx[c];
			struct k_op op = { .kind = K_OP_embed,
				.u.embed = { .w = &w.m, .ids = ids, .x = x, .n = ROWS } };

			weights_load(use, &w);
			memset(x, 0, sizeof x);
			run(use, &op);
			same(x, expected, ROWS * COLS, k_types[type].name, use);
			free(w.m.data);
		}
		free(w.raw);
	}
}

static void test_types(void **state)
{
	(void)state;
	assert_string_equal(k_types[K_Q4_1].name, "Q4_1");
	for (int t = 0; t < K_N_TYPES; t++)
		for (int c = 0; c < all.n; c++) {
			struct k_matrix m = { .type = (enum k_type)t, .n_rows = 64, .n_cols = 512 };
			size_t raw = (size_t)(64 * 512 / k_types[t].block * k_types[t].block_bytes);
			size_t packed = k_packed_bytes(all.ctx[c], m.type, 64, 512);

			const bool twice = k_has_halves(t) && !k_has_min(t);

			const size_t rest = k_pack_unit(all.ctx[c]) == 4 ? 64 / 4 * 32 : 0; /* of lines */

			/* nothing but weights is read, and twice a scale with nothing beside it */
			assert_true(packed >= raw && packed - raw <= (twice ? 2 * 2 * 64 : 0) + rest);
			assert_true(k_matrix_bytes(all.ctx[c], &m) == packed);
			assert_true(k_packed_bytes(all.ctx[c], m.type, 65, 512) > packed);
		}
}

static void flush_subnormals(void)
{
#if defined(__x86_64__)
	_mm_setcsr(0x9FC0); /* flush to zero, denormals are zero */
#elif defined(__aarch64__)
	__asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)1 << 24));
#endif
}

static bool flushes_subnormals(void)
{
#if defined(__x86_64__)
	return (_mm_getcsr() & 0xffc0) != 0x1F80;
#elif defined(__aarch64__)
	uint64_t fpcr;

	__asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
	return fpcr != 0;
#else
	return false;
#endif
}

/* What packing leaves in memory does not depend on what was there: rows, blocks and bytes that fill
 * a tile up are zeros. */
static void test_pack_fills(void **state)
{
	(void)state;
	for (int k = 0; k < 2 * K_N_TYPES; k++) /* the second time pairs */
		for (int32_t rows = 1; rows <= 33; rows += rows < 18 ? 1 : 15) {
			const enum k_type type = (enum k_type)(k / 2);
			struct weights w = { .m = {
									 .type = type, .n_rows = rows, .n_cols = fitting(type, 96) } };

			if (k % 2 && k_types[type].block > 1)
				continue;
			w.raw = random_weights(type, rows, w.m.n_cols, NASTY);
			if (k % 2)
				weights_thin(&w);
			for (int c = 0; c < all.n; c++) {
				w.m.pairs = w.two_of_four && k_keeps_pairs(all.ctx[c], type, w.m.n_cols);
				const size_t bytes = k_matrix_bytes(all.ctx[c], &w.m);
				uint8_t *over[2] = { get(bytes), get(bytes) };

				for (int i = 0; i < 2; i++) {
					memset(over[i], i ? 0xff : 0, bytes + GUARD);
					w.m.data = over[i];
					k_pack(all.ctx[c], &w.m, w.raw);
				}
				assert_memory_equal(over[0], over[1], bytes);
				for (int i = 0; i < GUARD; i++)
					assert_int_equal(over[1][bytes + (size_t)i], 0xff);
				free(over[0]);
				free(over[1]);
			}
			free(w.raw);
		}
}

/* A library that flushed subnormals in the caller's thread changes nothing. */
static void test_environment(void **state)
{
	float x[64], out[64], w[64];

	(void)state;
	for (int i = 0; i < 64; i++) {
		x[i] = 0x1p-135f * (float)i;
		w[i] = 1;
	}
	for (int c = 0; c < all.n; c++) {
		struct k_op op = { .kind = K_OP_norm,
			.u.norm = { .x = x, .w = w, .eps = 1, .n = 1, .out = { .x = out, .dim = 64 } } };

		flush_subnormals();
		run(all.ctx[c], &op);
		assert_true(!flushes_subnormals());
		assert_memory_equal(out, x, sizeof x);
	}
}

/* Many short programs of several ops: every barrier is passed by all, and all ops are timed. */
static void test_pool(void **state)
{
	enum { OPS = 5, DIM = 32 };
	float x[DIM], y[OPS][DIM], w[DIM];

	(void)state;
	for (int i = 0; i < DIM; i++) {
		x[i] = (float)(i + 1);
		w[i] = 2;
	}
	for (int c = 0; c < all.n; c++) {
		struct k_op op[OPS] = { 0 };
		struct k_program p = { .op = op, .n_ops = OPS, .timed = true };
		uint64_t took[OPS] = { 0 }; /* a coarse clock calls some of them 0 */

		for (int i = 0; i < OPS; i++) {
			op[i].kind = K_OP_norm;
			op[i].u.norm = (struct k_norm){
				.x = i ? y[i - 1] : x, .w = w, .eps = 0, .n = 1, .out = { .x = y[i], .dim = DIM }
			};
		}
		for (int t = 0; t < 100; t++) {
			memset(y, 0, sizeof y);
			k_run(all.ctx[c], &p, NULL);
			for (int i = 0; i < OPS; i++) {
				assert_true(y[i][DIM - 1] > y[i][0] && y[i][0] > 0);
				took[i] += op[i].ns;
			}
		}
		for (int i = 0; i < OPS; i++)
			assert_true(took[i] > 0);
		p.n_ops = 0;
		k_run(all.ctx[c], &p, NULL);
	}
}

static void test_open(void **state)
{
	struct err e = { 0 };
	struct k_ctx *c;

	(void)state;
	assert_int_equal(k_open(&c, "gpu", NULL, 1, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	assert_null(c);
	e.code = ERR_NONE;
	assert_int_equal(k_open(&c, "cpu", "mmx", 1, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	assert_non_null(strstr(e.text, "mmx"));
	e.code = ERR_NONE;
	assert_int_equal(k_open(&c, "ref", "avx2", 1, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	e.code = ERR_NONE;
	assert_int_equal(k_open(&c, "cpu", NULL, 2, &e), 0);
	assert_string_equal(k_backend_name(c), "cpu");
	assert_string_equal(k_isa_name(c), k_isas()[0]);
	assert_int_equal(k_n_threads(c), 2);
	double least = 0, best = k_measure_read(c, 1 << 20, 16, &least);

	assert_true(least > 0 && best >= least);
	assert_true(k_measure_int(c) > 0);
	assert_true(k_measure_float(c) > 0);
	k_close(c);
	k_close(NULL);
	assert_string_equal(k_backend_name(ref), "ref");
	assert_string_equal(k_isa_name(ref), "scalar");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matmul),
		cmocka_unit_test(test_matmul_pairs),
		cmocka_unit_test(test_matmul_by_floats),
		cmocka_unit_test(test_ref_apart),
		cmocka_unit_test(test_matmul_wide),
		cmocka_unit_test(test_ref_matmul_value),
		cmocka_unit_test(test_embed),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_pack_fills),
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_pool),
		cmocka_unit_test(test_open),
	};

	return cmocka_run_group_tests(tests, open_all, close_all);
}
