/* Every instruction set's kernels against the reference, by memcmp: norm, rope and the cache,
 * attention, SwiGLU, statistics; over page sizes, head shapes, positions, rows and threads. (Matrix
 * products have a test of their own.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/arith.h"
#include "kernels/kernels.h"
#include "tests/avx512_simde.h"

enum { N_THREADS = 4, MAX_ISAS = 4 };
static const int thread_counts[N_THREADS] = {1, 2, 3, 7};

static struct k_ctx *ref, *fast[(MAX_ISAS + 1) * N_THREADS]; /* also the emulated one */
static int n_fast;

static uint32_t next(void)
{
	static uint64_t x = 0x9E3779B97F4A7C15u;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (uint32_t)(x >> 32);
}

static float number(float size)
{
	float s = 0;

	for (int i = 0; i < 4; i++)
		s += (float)(next() >> 8) * 0x1p-24f - 0.5f;
	return s * size;
}

static void fill(float *x, size_t n, float size)
{
	for (size_t i = 0; i < n; i++)
		x[i] = number(size);
}

static void *get(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);

	assert_non_null(p);
	memset(p, 0x55, bytes);
	return p;
}

static void free_all(void **p)
{
	for (; *p; p++)
		free(*p);
}

static int setup(void **state)
{
	struct err e = {0};

	(void)state;
	if (k_open(&ref, "ref", NULL, 1, &e)) {
		print_error("%s\n", e.text);
		return -1;
	}
	for (int i = 0; k_isas()[i]; i++) {
		if (strcmp(k_isas()[i], "scalar") == 0)
			continue;
		for (int t = 0; t < N_THREADS; t++)
			if (k_open(&fast[n_fast++], "cpu", k_isas()[i], thread_counts[t], &e)) {
				print_error("%s\n", e.text);
				return -1;
			}
	}
	/* the kernels of AVX-512 also where the processor has none */
	for (int t = 0; t < N_THREADS; t++) {
		if (simde_open(&fast[n_fast], thread_counts[t], &e)) {
			print_error("%s\n", e.text);
			return -1;
		}
		n_fast += fast[n_fast] != NULL;
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	k_close(ref);
	for (int i = 0; i < n_fast; i++)
		k_close(fast[i]);
	return 0;
}

static void run(struct k_ctx *ctx, struct k_op *op)
{
	struct k_program p = {.op = op, .n_ops = 1};

	k_run(ctx, &p, NULL);
}

/* Activations of n rows, made to be compared. */
static struct k_acts acts_new(int32_t n, int32_t dim, bool x, bool q)
{
	size_t all = (size_t)n * (size_t)dim;
	struct k_acts a = {.dim = dim};

	a.x = x ? get(all * sizeof *a.x) : NULL;
	if (q) {
		a.q = get(all);
		a.d = get(all / K_QBLOCK * sizeof *a.d);
		a.sx = get(all / K_QBLOCK * sizeof *a.sx);
	}
	return a;
}

static void acts_free(struct k_acts *a)
{
	free(a->x);
	free(a->q);
	free(a->d);
	free(a->sx);
}

static void acts_same(const struct k_acts *a, const struct k_acts *b, int32_t n)
{
	size_t all = (size_t)n * (size_t)a->dim;

	if (a->x)
		assert_memory_equal(a->x, b->x, all * sizeof *a->x);
	if (a->q) {
		assert_memory_equal(a->q, b->q, all);
		assert_memory_equal(a->d, b->d, all / K_QBLOCK * sizeof *a->d);
		assert_memory_equal(a->sx, b->sx, all / K_QBLOCK * sizeof *a->sx);
	}
}

/* Blocks of zeros, of tiny values and of huge ones: rule 4's cases. */
static void add_odd_blocks(float *x, int32_t n, int32_t dim)
{
	for (int32_t b = 0; b + 32 <= n * dim; b += 32) {
		int kind = (int)(next() % 12);

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
	float *in = get((size_t)(n + 3) * (size_t)dim * 4), *w = get((size_t)dim * 4);
	int32_t *pick = get((size_t)n * 4);
	struct k_op op = {.kind = K_OP_norm,
					  .u.norm = {.x = in, .w = w, .eps = 1e-5f, .n = n, .out = want}};

	fill(in, (size_t)(n + 3) * (size_t)dim, 3);
	fill(w, (size_t)dim, 2);
	add_odd_blocks(in, n + 3, dim);
	for (int32_t i = 0; i < n; i++)
		pick[i] = (int32_t)(next() % (uint32_t)(n + 3));
	op.u.norm.pick = n % 2 ? pick : NULL;
	run(ref, &op);
	op.u.norm.out = got;
	for (int i = 0; i < n_fast; i++) {
		run(fast[i], &op);
		acts_same(&want, &got, n);
	}
	acts_free(&want);
	acts_free(&got);
	free_all((void *[]){in, w, pick, NULL});
}

static void test_norm(void **state)
{
	static const int32_t dims[] = {32, 96, 576, 2048};

	(void)state;
	for (int d = 0; d < 4; d++)
		for (int32_t n = 1; n <= 17; n += n < 4 ? 1 : 13)
			for (int form = 1; form < 4; form++)
				try_norm(n, dims[d], form & 1, form & 2);
	try_norm(3, 40, true, false);
}

static void test_glu(void **state)
{
	static const int32_t dims[] = {32, 1536, 352};

	(void)state;
	for (int d = 0; d < 3; d++)
		for (int32_t n = 1; n <= 17; n += n < 3 ? 1 : 14)
			for (int form = 1; form < 8; form += form == 3 ? 2 : 1) {
				size_t all = (size_t)n * (size_t)dims[d];
				struct k_acts want = acts_new(n, dims[d], form & 1, form & 2);
				struct k_acts got = acts_new(n, dims[d], form & 1, form & 2);
				float *gate = get(all * 4), *up = get(all * 4);
				struct k_op op = {.kind = K_OP_glu,
								  .u.glu = {.gate = gate, .up = up, .out = want, .n = n,
											.act = form & 4 ? K_ACT_gelu : K_ACT_silu}};

				fill(gate, all, 40);
				fill(up, all, 4);
				add_odd_blocks(up, n, dims[d]);
				gate[0] = 200;
				gate[1] = -200;
				gate[2] = -0.0f;
				run(ref, &op);
				op.u.glu.out = got;
				for (int i = 0; i < n_fast; i++) {
					run(fast[i], &op);
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
	float *l = get(all * 4);
	struct k_logit_stats *want = calloc((size_t)n, sizeof *want),
						 *got = calloc((size_t)n, sizeof *got);
	struct k_op op = {.kind = K_OP_stats, .u.stats = {.logits = l, .vocab = vocab, .n = n}};

	fill(l, all, 12);
	for (size_t i = 0; i < all; i++) {
		if (shape == 1)
			l[i] = (float)(int)(l[i] * 0.5f); /* ties, both zeros */
		if (shape == 2 && i % 3)
			l[i] = -INFINITY;
		if (shape == 3)
			l[i] = next() % 2 ? 0.0f : -0.0f;
		if (shape == 4)
			l[i] = -INFINITY;
	}
	op.u.stats.out = want;
	run(ref, &op);
	op.u.stats.out = got;
	for (int i = 0; i < n_fast; i++) {
		memset(got, 0x33, (size_t)n * sizeof *got);
		run(fast[i], &op);
		assert_memory_equal(want, got, (size_t)n * sizeof *got);
	}
	free_all((void *[]){l, want, got, NULL});
}

static void test_stats(void **state)
{
	static const int32_t vocabs[] = {1, 7, 8, 300, 1024, 1031, 5000, 49152};

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

/* Sequences in a cache of shuffled pages. */
struct cache {
	struct k_kv kv;
	size_t bytes;
	int32_t n_seqs, n_blocks;
	int32_t *table;
	const int32_t **pages;
};

static void cache_open(struct cache *c, int32_t page_size, int32_t n_layers, int32_t n_kv_heads,
					   int32_t head_dim, int32_t n_seqs, int32_t longest)
{
	int32_t n_pages;

	c->kv = (struct k_kv){.page_size = page_size,
						  .n_layers = n_layers,
						  .n_kv_heads = n_kv_heads,
						  .head_dim = head_dim};
	c->kv.page_bytes = (k_kv_page_bytes(&c->kv) + 63) / 64 * 64 + 64;
	c->n_seqs = n_seqs;
	c->n_blocks = (longest + page_size - 1) / page_size;
	n_pages = n_seqs * c->n_blocks;
	c->bytes = (size_t)n_pages * c->kv.page_bytes;
	c->kv.base = get(c->bytes);
	c->table = get((size_t)n_pages * 4);
	c->pages = get((size_t)n_seqs * sizeof *c->pages);
	for (int32_t i = 0; i < n_pages; i++) {
		int32_t j = (int32_t)(next() % (uint32_t)(i + 1));

		c->table[i] = c->table[j];
		c->table[j] = i;
	}
	for (int32_t s = 0; s < n_seqs; s++)
		c->pages[s] = c->table + s * c->n_blocks;
	for (size_t i = 0; i < c->bytes / 2; i++)
		((uint16_t *)(void *)c->kv.base)[i] = k_f32_to_f16(number(3));
}

static void cache_close(struct cache *c)
{
	free(c->kv.base);
	free(c->table);
	free(c->pages);
}

static void try_rope(int32_t head_dim, int32_t rope_dim, bool neox, bool bad)
{
	enum { N = 5, HEADS = 6, KV = 2, LONGEST = 200 };
	size_t q_all = (size_t)N * HEADS * (size_t)head_dim, k_all = (size_t)N * KV * (size_t)head_dim;
	float *q0 = get(q_all * 4), *want = get(q_all * 4), *q = get(q_all * 4), *k = get(k_all * 4);
	float *v = get(k_all * 4);
	size_t table = (size_t)LONGEST * (size_t)rope_dim / 2;
	float *cos = get(table * 4), *sin = get(table * 4);
	double *freq = get((size_t)rope_dim / 2 * sizeof *freq);
	atomic_int nan_row = 0, want_nan;
	struct k_row rows[N];
	struct cache c;
	uint8_t *before, *after;
	struct k_op op = {.kind = K_OP_rope,
					  .u.rope = {.q = q,
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
								 .nan_row = &nan_row}};

	cache_open(&c, 32, 2, KV, head_dim, 2, LONGEST);
	op.u.rope.kv = &c.kv;
	op.u.rope.pages = c.pages;
	before = get(c.bytes);
	after = get(c.bytes);
	memcpy(before, c.kv.base, c.bytes);
	k_rope_freqs(10000, rope_dim, freq);
	k_rope_table(freq, rope_dim / 2, LONGEST, cos, sin);
	fill(q0, q_all, 5);
	fill(k, k_all, 5);
	fill(v, k_all, 5);
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
		rows[r] = (struct k_row){.pos = (int32_t)(next() % LONGEST), .seq = r % 2, .observe = -1};
	memcpy(q, q0, q_all * 4);
	run(ref, &op);
	want_nan = atomic_load(&nan_row);
	assert_int_equal(want_nan, bad ? 3 : 0);
	memcpy(want, q, q_all * 4);
	memcpy(after, c.kv.base, c.bytes);
	assert_true(memcmp(before, after, c.bytes) != 0);
	for (int i = 0; i < n_fast; i++) {
		memcpy(q, q0, q_all * 4);
		memcpy(c.kv.base, before, c.bytes);
		nan_row = 0;
		run(fast[i], &op);
		assert_memory_equal(q, want, q_all * 4);
		assert_memory_equal(c.kv.base, after, c.bytes);
		assert_int_equal(atomic_load(&nan_row), want_nan);
	}
	cache_close(&c);
	free_all((void *[]){before, after, q0, want, q, k, v, cos, sin, freq, NULL});
}

static void test_rope(void **state)
{
	static const int32_t shapes[][2] = {{32, 32},  {64, 64}, {80, 32}, {96, 96}, {128, 128},
										{256, 64}, {20, 20}, {16, 12}, {80, 80}};

	(void)state;
	for (int s = 0; s < 9; s++)
		for (int form = 0; form < 4; form++)
			try_rope(shapes[s][0], shapes[s][1], form & 1, form & 2);
}

struct shape {
	int32_t head_dim, n_heads, n_kv_heads, page_size;
};

struct seen {
	struct k_acts out;
	float *share;
	int32_t *near_zero;
};

static struct seen seen_new(const struct k_attention *a, int32_t n_observed, bool x_only)
{
	struct seen s = {.out = acts_new(a->n, a->out.dim, true, !x_only && a->out.dim % 32 == 0)};
	size_t rows = (size_t)n_observed * (size_t)a->n_heads;

	if (rows) {
		s.share = get(rows * (size_t)a->share_stride * 4);
		s.near_zero = get(rows * 4);
	}
	return s;
}

static void seen_free(struct seen *s)
{
	acts_free(&s->out);
	free(s->share);
	free(s->near_zero);
}

static void use(struct k_op *op, const struct seen *s)
{
	op->u.attention.out = s->out;
	op->u.attention.share = s->share;
	op->u.attention.near_zero = s->near_zero;
}

/* n rows at the positions and sequences of `rows`; every third is observed. */
static void try_attention(const struct shape *shape, struct k_row *rows, int32_t n, float softcap)
{
	const int32_t dim = shape->n_heads * shape->head_dim;
	float *q = get((size_t)n * (size_t)dim * 4);
	struct k_op op = {.kind = K_OP_attention};
	struct k_attention *a = &op.u.attention;
	int32_t n_observed = 0, longest = 1;
	struct seen want, got, plain;
	struct cache c;

	for (int32_t r = 0; r < n; r++)
		longest = rows[r].pos + 1 > longest ? rows[r].pos + 1 : longest;
	cache_open(&c, shape->page_size, 2, shape->n_kv_heads, shape->head_dim, 3, longest);
	fill(q, (size_t)n * (size_t)dim, 1.5f);
	for (int32_t r = 0; r < n; r++)
		rows[r].observe = r % 3 == n % 3 ? n_observed++ : -1;
	*a = (struct k_attention){.q = q,
							  .out.dim = dim,
							  .n_heads = shape->n_heads,
							  .layer = 1,
							  .n = n,
							  .rows = rows,
							  .pages = c.pages,
							  .kv = &c.kv,
							  .softcap = softcap,
							  .share_stride = longest / K_GROUP + 3,
							  .threshold = 1e-3f};
	want = seen_new(a, n_observed, false);
	got = seen_new(a, n_observed, false);
	plain = seen_new(a, 0, false);
	use(&op, &want);
	run(ref, &op);
	for (int i = 0; i < n_fast; i++) {
		size_t heads = (size_t)n_observed * (size_t)a->n_heads;

		use(&op, &got);
		run(fast[i], &op);
		acts_same(&want.out, &got.out, n);
		if (n_observed) {
			assert_memory_equal(want.share, got.share, heads * (size_t)a->share_stride * 4);
			assert_memory_equal(want.near_zero, got.near_zero, heads * 4);
		}
	}
	for (int32_t r = 0; r < n; r++)
		rows[r].observe = -1;
	use(&op, &plain);
	for (int i = 0; i < n_fast; i++) {
		run(fast[i], &op);
		acts_same(&want.out, &plain.out, n);
	}
	seen_free(&want);
	seen_free(&got);
	seen_free(&plain);
	cache_close(&c);
	free(q);
}

static const struct shape shapes[] = {
	{64, 9, 3, 64},	 {32, 4, 4, 16},  {80, 4, 2, 32},	{96, 6, 1, 32},
	{128, 8, 2, 16}, {256, 2, 1, 64}, {64, 8, 1, 16},	{32, 1, 1, 32},
	{48, 7, 7, 64},	 {24, 4, 2, 16},  {64, 14, 1, 128},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* One row at every residue of a group and of a span, near every border. */
static void test_attention_positions(void **state)
{
	(void)state;
	for (int32_t pos = 0; pos < 700; pos += pos < 145 ? 1 : pos < 250 ? 9 : pos < 262 ? 1 : 87) {
		struct k_row row = {.pos = pos, .seq = pos % 3};

		try_attention(&shapes[pos % 2 ? 0 : pos / 2 % N_SHAPES], &row, 1, pos % 5 ? 0 : 20);
	}
}

/* Many spans, some of which no thread has alone. */
static void test_attention_long(void **state)
{
	(void)state;
	for (int s = 0; s < N_SHAPES; s++) {
		struct k_row rows[3] = {
			{.pos = 2555 + s, .seq = 2}, {.pos = 40, .seq = 0}, {.pos = 1023, .seq = 1}};

		if (shapes[s].head_dim <= 64 && shapes[s].n_heads <= 9)
			try_attention(&shapes[s], rows, 1 + s % 3, 0);
	}
}

/* A chunk of a prompt; rows of several requests; drafts behind a token. */
static void test_attention_rows(void **state)
{
	static const int32_t counts[] = {2, 5, 17, 64};

	(void)state;
	for (int s = 0; s < N_SHAPES; s++)
		for (int k = 0; k < 4; k++) {
			struct k_row rows[64];
			int32_t n = s % 2 && k == 3 ? 40 : counts[k],
					first = (int32_t)(next() % (n > 17 ? 200 : 640));

			for (int32_t r = 0; r < n; r++)
				rows[r] = (struct k_row){.pos = first + r, .seq = 1};
			try_attention(&shapes[s], rows, n, 0);
			for (int32_t r = 0; r < n && k < 3; r++)
				rows[r] =
					(struct k_row){.pos = (int32_t)(next() % (n > 5 ? 200 : 700)), .seq = r % 3};
			try_attention(&shapes[s], rows, n, 30);
			for (int32_t r = 0; r < n && k < 3; r++)
				rows[r] = (struct k_row){.pos = 126 + r % 4, .seq = r / 4 % 3};
			try_attention(&shapes[s], rows, n, 0);
		}
}

/* Page size and placement do not show: the same tokens in other pages. */
static void test_attention_pages(void **state)
{
	static const int32_t sizes[] = {16, 32, 64, 128};
	enum { DIM = 64, LONGEST = 640 };
	float *q = get(9 * DIM * 4), *x[4];
	struct k_row row = {.pos = 600, .seq = 0, .observe = -1};

	(void)state;
	fill(q, 9 * DIM, 1);
	for (int s = 0; s < 4; s++) {
		struct k_op op = {.kind = K_OP_attention};
		struct cache c;
		uint32_t w = 1;

		cache_open(&c, sizes[s], 1, 3, DIM, 1, LONGEST);
		for (int32_t pos = 0; pos < LONGEST; pos++)
			for (int32_t at = 0; at < 3 * DIM; at++) {
				int32_t page = c.pages[0][pos / sizes[s]], token = pos % sizes[s], i = at % DIM;
				uint16_t *k = k_kv_at(&c.kv, page, 0, 0, at / DIM);
				uint16_t *v = k_kv_at(&c.kv, page, 0, 1, at / DIM);

				w = w * 1664525u + 1013904223u;
				k[(token / 16 * DIM + i) * 16 + token % 16] =
					k_f32_to_f16((float)(w >> 8) * 0x1p-23f - 1);
				w = w * 1664525u + 1013904223u;
				v[token * DIM + i] = k_f32_to_f16((float)(w >> 8) * 0x1p-23f - 1);
			}
		x[s] = get(9 * DIM * 4);
		op.u.attention = (struct k_attention){.q = q,
											  .out = {.x = x[s], .dim = 9 * DIM},
											  .n_heads = 9,
											  .n = 1,
											  .rows = &row,
											  .pages = c.pages,
											  .kv = &c.kv};
		run(n_fast ? fast[s % n_fast] : ref, &op);
		assert_memory_equal(x[s], x[0], 9 * DIM * 4);
		cache_close(&c);
	}
	free_all((void *[]){x[0], x[1], x[2], x[3], q, NULL});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_norm),
		cmocka_unit_test(test_glu),
		cmocka_unit_test(test_stats),
		cmocka_unit_test(test_rope),
		cmocka_unit_test(test_attention_positions),
		cmocka_unit_test(test_attention_long),
		cmocka_unit_test(test_attention_rows),
		cmocka_unit_test(test_attention_pages),
	};

	return cmocka_run_group_tests_name("fastops", tests, setup, teardown);
}
