/* The GPU's RoPE and attention, run by the shim, against the reference by memcmp: apart and folded,
 * over positions, shapes of heads, rows, page sizes, grids and schedules; with scratch for all
 * spans and with none. What the plan decides changes no bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/format/cache.h"
#include "kernels/kernels.h"
#include "tests/cuda/shim/shim.h"

enum { MAX_ROWS = 64, MAX_BUFFERS = 41, LAYER = 1, LAYERS = 2 };

static struct k_ctx *ref;
static const struct shim *both[2];
static int n_both;

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

/* ---- one case ---- */

struct shape {
	int32_t head_dim, n_heads, n_kv_heads, page_size;
	int32_t rope_dim; /* 0: head_dim */
	bool neox;
	float softcap;
	bool plain; /* nobody wants 8 bits */
	enum k_cache format;
	enum { SEE_ALL, SEE_WINDOW, SEE_SINKS, SEE_RANDOM } see;
};
enum { MAX_RANGES = 4 };

/* The device's memory that a case has, for freeing it. */
static struct {
	const struct shim *s;
	void *p[MAX_BUFFERS];
	int n;
} held;

static void *hold(size_t bytes)
{
	assert_true(held.n < MAX_BUFFERS);
	return held.p[held.n++] = held.s->alloc(bytes ? bytes : 1);
}

static void *hold_copy(const void *from, size_t bytes)
{
	void *p = hold(bytes);

	held.s->put(p, from, bytes);
	return p;
}

static float *hold_floats(size_t n, float size)
{
	float *p = hold(n * sizeof *p);

	for (size_t i = 0; i < n; i++)
		p[i] = number(size);
	held.s->written(p, n * sizeof *p);
	return p;
}

static void let_go(void)
{
	while (held.n)
		held.s->free(held.p[--held.n]);
}

/* What attention and RoPE write. */
struct results {
	float *q;
	uint8_t *cache;
	struct k_acts out;
	float *share;
	int32_t *near_zero, *nan_row;
};

struct rig {
	struct shape shape;
	int32_t n, n_observed, share_stride;
	int32_t n_ranges;
	struct k_range ranges[MAX_ROWS * MAX_RANGES];
	size_t q_bytes, cache_bytes, share_bytes;
	float *q;       /* before RoPE */
	uint8_t *cache; /* before the step's own tokens */
	struct k_kv kv;
	struct k_rope rope;
	struct k_attention attention;
	struct results want, got;
};

static struct results results_new(const struct rig *g)
{
	size_t values = (size_t)g->n * (size_t)g->attention.out.dim;
	struct results r = { .q = hold(g->q_bytes),
		.cache = hold(g->cache_bytes),
		.out = { .dim = g->attention.out.dim },
		.nan_row = hold(4) };

	r.out.x = hold(values * 4);
	if (!g->shape.plain && r.out.dim % 32 == 0) {
		r.out.q = hold(values);
		r.out.d = hold(values / 32 * 4);
		r.out.sx = hold(values / 32 * 4);
	}
	if (g->n_observed) {
		r.share = hold(g->share_bytes);
		r.near_zero = hold((size_t)g->n_observed * (size_t)g->shape.n_heads * 4);
	}
	return r;
}

/* As it is before a step. */
static void results_begin(const struct rig *g, struct results *r)
{
	const struct shim *s = held.s;
	const int32_t zero = 0;
	size_t values = (size_t)g->n * (size_t)r->out.dim;

	s->put(r->q, g->q, g->q_bytes);
	s->put(r->cache, g->cache, g->cache_bytes);
	s->put(r->nan_row, &zero, 4);
	memset(r->out.x, 0x55, values * 4);
	s->unwritten(r->out.x, values * 4);
	if (r->out.q) {
		memset(r->out.q, 0x55, values);
		s->unwritten(r->out.q, values);
	}
	if (r->share) {
		memset(r->share, 0x55, g->share_bytes);
		memset(r->near_zero, 0x55, (size_t)g->n_observed * (size_t)g->shape.n_heads * 4);
	}
}

static bool results_same(const struct rig *g, bool folded)
{
	const struct results *a = &g->want, *b = &g->got;
	const size_t values = (size_t)g->n * (size_t)a->out.dim;
	const size_t seen = (size_t)g->n_observed * (size_t)g->shape.n_heads * 4;

	return !memcmp(folded ? g->q : a->q, b->q, g->q_bytes) && /* a fold leaves queries alone */
		   !memcmp(a->cache, b->cache, g->cache_bytes) && *a->nan_row == *b->nan_row &&
		   !memcmp(a->out.x, b->out.x, values * 4) &&
		   (!a->out.q || (!memcmp(a->out.q, b->out.q, values) &&
							 !memcmp(a->out.d, b->out.d, values / 32 * 4) &&
							 !memcmp(a->out.sx, b->out.sx, values / 32 * 4))) &&
		   (!a->share || (!memcmp(a->share, b->share, g->share_bytes) &&
							 !memcmp(a->near_zero, b->near_zero, seen)));
}

/* The ops, with what they write going to r. */
static struct k_rope rope_of(const struct rig *g, const struct results *r, const struct k_kv *kv)
{
	struct k_rope a = g->rope;

	a.q = r->q;
	a.kv = kv;
	a.nan_row = (k_atomic_int *)r->nan_row;
	return a;
}
static struct k_attention attention_of(
	const struct rig *g, const struct results *r, const struct k_kv *kv)
{
	struct k_attention a = g->attention;

	a.q = r->q;
	a.out = r->out;
	a.kv = kv;
	a.share = r->share;
	a.near_zero = r->near_zero;
	return a;
}

/* What a row sees. Windows end in the middle of groups; random ranges leave holes of any size. */
static void make_ranges(const struct shape *shape, int32_t pos, struct k_range *out)
{
	const int32_t window = 37, sinks = 4;
	int32_t at = 0, i = 0;

	for (int j = 0; j < MAX_RANGES; j++)
		out[j] = (struct k_range){ pos + 1, pos + 1 };
	for (; shape->see == SEE_RANDOM && i < MAX_RANGES - 1; i++) {
		int32_t first = at + (int32_t)(next() % 90), end = first + 1 + (int32_t)(next() % 90);

		if (end >= pos)
			break;
		out[i] = (struct k_range){ first, end };
		at = end + 1;
	}
	if (shape->see == SEE_SINKS && pos + 1 > window + sinks)
		out[i++] = (struct k_range){ 0, sinks };
	if (shape->see == SEE_RANDOM)
		at += (int32_t)(next() % (uint32_t)(pos + 1 - at));
	else if (shape->see != SEE_ALL && pos + 1 > window + (shape->see == SEE_SINKS ? sinks : 0))
		at = pos + 1 - window;
	out[i] = (struct k_range){ at, pos + 1 };
}

static bool is_seen(
	const struct rig *g, const struct k_row *rows, int32_t seq, int32_t first, int32_t end)
{
	bool seen = false;

	for (int32_t r = 0; r < g->n; r++)
		for (int32_t i = 0; i < g->n_ranges && rows[r].seq == seq; i++) {
			const struct k_range *a = &g->ranges[r * g->n_ranges + i];

			seen = seen || (a->first < end && first < a->end && a->first < a->end);
		}
	return seen;
}

/* Of a sequence's page: positions that no row sees hold NaN, and a page of which none is seen is
 * absent. */
static void poison(
	struct rig *g, const struct k_row *rows, int32_t seq, int32_t block, int32_t *page)
{
	static const uint32_t nans[K_N_UNCODED] = { [K_CACHE_f16] = 0x7e00,
		[K_CACHE_f32] = 0x7fc00000,
		[K_CACHE_bf16] = 0x7fc0,
		[K_CACHE_e4m3] = 0x7f };
	const int32_t size = g->shape.page_size, dim = g->shape.head_dim;

	g->kv.base = g->cache;
	for (int32_t t = 0; t < size; t++) {
		if (is_seen(g, rows, seq, block * size + t, block * size + t + 1))
			continue;
		for (int32_t i = 0; i < g->shape.n_kv_heads * dim; i++) {
			k_cache_put(g->kv.format, k_kv_at(&g->kv, *page, LAYER, 0, i / dim),
				(size_t)((t / K_GROUP * dim + i % dim) * K_GROUP + t % K_GROUP),
				nans[g->kv.format]);
			k_cache_put(g->kv.format, k_kv_at(&g->kv, *page, LAYER, 1, i / dim),
				(size_t)(t * dim + i % dim), nans[g->kv.format]);
		}
	}
	if (!is_seen(g, rows, seq, block * size, (block + 1) * size))
		*page = -1;
}

static void make_pages(struct rig *g, const struct k_row *rows, int32_t n_seqs, int32_t longest)
{
	const int32_t per_seq = longest / g->shape.page_size + 1, n_pages = n_seqs * per_seq;
	int32_t *table = malloc((size_t)n_pages * 4);
	const int32_t **pages = malloc((size_t)n_seqs * sizeof *pages), *on_device;

	g->kv = (struct k_kv){ .format = g->shape.format,
		.page_size = g->shape.page_size,
		.n_layers = LAYERS,
		.n_kv_heads = g->shape.n_kv_heads,
		.head_dim = g->shape.head_dim };
	g->kv.page_bytes = k_kv_page_bytes(&g->kv) + 64;
	g->cache_bytes = (size_t)n_pages * g->kv.page_bytes;
	g->cache = hold(g->cache_bytes);
	for (size_t i = 0; i < g->cache_bytes / (size_t)k_cache_bytes(g->kv.format); i++)
		k_cache_put(g->kv.format, g->cache, i, k_cache_code(g->kv.format, number(3)));
	held.s->written(g->cache, g->cache_bytes);
	for (int32_t i = 0; i < n_pages; i++) {
		int32_t j = (int32_t)(next() % (uint32_t)(i + 1));

		table[i] = table[j];
		table[j] = i;
	}
	for (int32_t i = 0; i < n_pages; i++)
		poison(g, rows, i / per_seq, i % per_seq, &table[i]);
	held.s->written(g->cache, g->cache_bytes);
	on_device = hold_copy(table, (size_t)n_pages * 4);
	for (int32_t s = 0; s < n_seqs; s++)
		pages[s] = on_device + s * per_seq;
	g->rope.pages = g->attention.pages = hold_copy(pages, (size_t)n_seqs * sizeof *pages);
	free(table);
	free(pages);
}

static void make_rope(struct rig *g, int32_t longest)
{
	const int32_t rope_dim = g->shape.rope_dim ? g->shape.rope_dim : g->shape.head_dim;
	const size_t n = (size_t)(longest + 1) * (size_t)rope_dim / 2;
	const size_t kv = (size_t)g->n * (size_t)(g->shape.n_kv_heads * g->shape.head_dim);
	double *freq = malloc((size_t)rope_dim / 2 * sizeof *freq);
	float *cos = hold(n * 4), *sin = hold(n * 4);

	k_rope_freqs(10000, rope_dim, freq);
	k_rope_table(freq, rope_dim / 2, longest + 1, cos, sin);
	held.s->written(cos, n * 4);
	held.s->written(sin, n * 4);
	free(freq);
	g->rope.k = hold_floats(kv, 4);
	g->rope.v = hold_floats(kv, 4);
	g->rope.cos = cos;
	g->rope.sin = sin;
	g->rope.rope_dim = rope_dim;
	g->rope.neox = g->shape.neox;
	g->rope.scale = 0.125f;
	g->rope.n_heads = g->shape.n_heads;
	g->rope.layer = LAYER;
	g->rope.n = g->n;
}

static void rig_open(struct rig *g, const struct shim *s, const struct shape *shape,
	const struct k_row *rows, int32_t n)
{
	int32_t n_seqs = 0, longest = 0;

	*g = (struct rig){ .shape = *shape, .n = n };
	held.s = s;
	for (int32_t r = 0; r < n; r++) {
		n_seqs = rows[r].seq >= n_seqs ? rows[r].seq + 1 : n_seqs;
		longest = rows[r].pos > longest ? rows[r].pos : longest;
		g->n_observed = rows[r].observe >= g->n_observed ? rows[r].observe + 1 : g->n_observed;
	}
	g->share_stride = longest / K_GROUP + 3;
	g->share_bytes = (size_t)(g->n_observed * shape->n_heads * g->share_stride) * 4;
	g->q_bytes = (size_t)n * (size_t)(shape->n_heads * shape->head_dim) * 4;
	g->q = hold_floats(g->q_bytes / 4, 6);
	g->n_ranges = shape->see == SEE_ALL ? 1 : MAX_RANGES;
	for (int32_t r = 0; r < n; r++) {
		struct k_range list[MAX_RANGES];

		make_ranges(shape, rows[r].pos, list);
		memcpy(g->ranges + r * g->n_ranges, list, (size_t)g->n_ranges * sizeof *list);
	}
	make_pages(g, rows, n_seqs, longest);
	make_rope(g, longest);
	g->rope.rows = g->attention.rows = hold_copy(rows, (size_t)n * sizeof *rows);
	g->attention.ranges = hold_copy(g->ranges, (size_t)(n * g->n_ranges) * sizeof *g->ranges);
	g->attention.n_ranges = g->n_ranges;
	g->attention.n_heads = shape->n_heads;
	g->attention.layer = LAYER;
	g->attention.n = n;
	g->attention.softcap = shape->softcap;
	g->attention.threshold = 1e-3f;
	g->attention.sinks = n % 2 ? hold_floats((size_t)shape->n_heads, 2) : NULL;
	g->attention.share_stride = g->share_stride;
	g->attention.out.dim = shape->n_heads * shape->head_dim;
	g->want = results_new(g);
	g->got = results_new(g);
}

static void run_ref(struct rig *g)
{
	struct k_kv kv = g->kv;
	struct k_op op[2] = { { .kind = K_OP_rope }, { .kind = K_OP_attention } };
	struct k_program p = { .op = op, .n_ops = 2 };
	struct err e = { 0 };

	kv.base = g->want.cache;
	results_begin(g, &g->want);
	op[0].u.rope = rope_of(g, &g->want, &kv);
	op[1].u.attention = attention_of(g, &g->want, &kv);
	assert_int_equal(k_run(ref, &p, &e), 0);
}

/* How the device runs it. */
struct way {
	bool folded, no_scratch, no_tickets;
	int n_blocks;
	uint64_t seed;
};

/* True if it went well and gave ref's bits. */
static bool run_device(struct rig *g, const struct way *w)
{
	const struct shim_options o = { .seed = w->seed, .resident = w->seed % 3 ? 2 : 0 };
	struct k_kv kv = g->kv;
	struct shim_op stage[2] = { { .op = { .kind = K_OP_rope } },
		{ .op = { .kind = K_OP_attention } } };
	struct shim_step step;
	int first_buffer = held.n;
	const struct k_kv *on_device;
	bool good = true;

	kv.base = g->got.cache;
	on_device = hold_copy(&kv, sizeof kv);
	results_begin(g, &g->got);
	stage[0].op.u.rope = rope_of(g, &g->got, on_device);
	stage[1].op.u.attention = attention_of(g, &g->got, on_device);
	stage[1].before = stage[0].op;
	stage[1].folds = w->folded;
	shim_step_open(held.s, &step, stage, 2);
	if (w->no_scratch)
		step.work.scratch_bytes = 1000;
	if (w->no_tickets)
		step.work.n_tickets = 1;
	for (int i = w->folded; good && i < 2; i++)
		good = shim_step_one(held.s, &step, i, w->n_blocks, &o);
	shim_step_close(held.s, &step);
	while (held.n > first_buffer)
		held.s->free(held.p[--held.n]);
	return good && results_same(g, w->folded);
}

static void want_same(struct rig *g, const struct way *w)
{
	if (!run_device(g, w))
		fail_msg("%s, head_dim %d, %d rows, %d blocks, seed %d%s: other bits, or: %s", held.s->name,
			(int)g->shape.head_dim, (int)g->n, w->n_blocks, (int)w->seed,
			w->folded ? ", folded" : "", held.s->report());
}

/* The checked build takes its time: one grid. */
static void try_format(const struct shim *s, const struct shape *shape, enum k_cache format,
	const struct k_row *rows, int32_t n)
{
	static const int grids[] = { 3, 1, 14 };
	static uint64_t turn;
	struct shape formed = *shape;
	struct rig g;

	formed.format = format;
	rig_open(&g, s, &formed, rows, n);
	run_ref(&g);
	for (int i = 0; i < (s->checked ? 1 : 3); i++)
		for (int plan = 0; plan < (i ? 2 : 3); plan++) {
			struct way w = { .no_scratch = plan == 1,
				.no_tickets = plan == 2,
				.n_blocks = grids[i],
				.seed = turn++ % 16 };

			if (plan == 2 && s->checked)
				continue;
			w.folded = n <= CU_FOLD_ROWS && turn % 2;
			want_same(&g, &w);
			w.folded = n <= CU_FOLD_ROWS && !w.folded;
			if (!s->checked)
				want_same(&g, &w);
		}
	let_go();
}

static void try_rows(
	const struct shim *s, const struct shape *shape, const struct k_row *rows, int32_t n)
{
	try_format(s, shape, next() % 2 ? K_CACHE_f16 : (enum k_cache)(next() % K_N_UNCODED), rows, n);
}

/* ---- the cases ---- */

#define EACH(s)                                                                                    \
	for (int i_ = 0; i_ < n_both; i_++)                                                            \
		for (const struct shim *s = both[i_]; s; s = NULL)

static const int32_t positions[] = { 0, 15, 16, 127, 128, 129, 1000 };

static void test_positions(void **state)
{
	const struct shape shape = { 32, 6, 2, 32, .neox = true };

	(void)state;
	EACH(s)
	for (int i = 0; i < 7; i++) {
		const struct k_row row = { .pos = positions[i], .seq = 0, .observe = i % 2 - 1 };

		try_rows(s, &shape, &row, 1);
	}
}

/* MHA, GQA and MQA; blocks of 32 outputs across heads; heads of more than 128 and 256 dimensions; a
 * part of a head rotated; softcap; float outputs alone. */
static void test_shapes(void **state)
{
	static const struct shape shapes[] = {
		{ 64, 3, 3, 16, .neox = true },
		{ 64, 9, 3, 48, .neox = false },
		{ 80, 4, 2, 32, .neox = true },
		{ 128, 8, 1, 16, .neox = true },
		{ 128, 20, 1, 16, .softcap = 5 },
		{ 20, 8, 2, 16, .rope_dim = 8 },
		{ 160, 2, 1, 32, .rope_dim = 32 },
		{ 260, 2, 1, 16, .plain = true },
		{ 512, 1, 1, 16, .neox = true },
		{ 48, 2, 2, 64, .plain = true },
	};
	const struct k_row rows[] = { { 130, 1, 0, 0, 0 }, { 131, 1, -1, 0, 0 }, { 20, 0, 1, 0, 0 } };

	(void)state;
	EACH(s)
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i += s->checked ? 3 : 1)
		try_rows(s, &shapes[i], rows, 3);
}

/* One to seventeen rows: sequences of different depth, drafts to check, chunks of prompts. */
static void test_rows(void **state)
{
	const struct shape shape = { 32, 4, 2, 16, .neox = true };
	struct k_row rows[17];

	(void)state;
	EACH(s)
	for (int32_t n = 2; n <= 17; n += s->checked ? 5 : n < 9 ? 1 : 4)
		for (int kind = 0; kind < 2; kind++) {
			for (int32_t r = 0, seq = -1, pos = 0; r < n; r++) {
				if (r == 0 || (kind ? r % 5 == 3 : 1)) {
					seq++;
					pos = (int32_t)(next() % 300);
				}
				rows[r] = (struct k_row){ .pos = pos++, .seq = seq, .observe = r % 3 ? -1 : r / 3 };
			}
			try_rows(s, &shape, rows, n);
		}
}

/* Chunks of prompts: many queries in tiles, which end within a span or not. */
static void test_chunks(void **state)
{
	static const struct shape shapes[] = {
		{ 64, 3, 1, 16, .neox = true },
		{ 32, 2, 2, 32, .softcap = 30 },
		{ 80, 4, 2, 16, .neox = true },
		{ 128, 5, 1, 16, .neox = true },
		{ 160, 4, 1, 16, .neox = true },
		{ 264, 10, 1, 16, .plain = true },
	};
	struct k_row rows[MAX_ROWS];

	(void)state;
	EACH(s)
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i += s->checked ? 3 : 1) {
		int32_t n = i < 2 ? 50 : 23, first = i % 2 ? 0 : 110;

		for (int32_t r = 0; r < n; r++)
			rows[r] = (struct k_row){ .pos = first + r, .seq = 1, .observe = -1 };
		rows[n - 1].observe = 0;
		rows[n / 2].observe = 1;
		rows[n - 2] = (struct k_row){ .pos = 5, .seq = 0, .observe = 2 }; /* others beside it */
		rows[n - 1].seq = 2;
		try_rows(s, &shapes[i], rows, n);
	}
}

/* Each format with few queries and many, small heads and large ones. */
static void test_formats(void **state)
{
	static const struct shape shapes[] = { { 64, 3, 1, 16, .neox = true },
		{ 160, 2, 1, 16, .see = SEE_RANDOM }, { 264, 2, 1, 16, .plain = true } };
	struct k_row rows[MAX_ROWS];

	(void)state;
	EACH(s)
	for (int32_t n = 1; n < 40; n += 22)
		for (int i = 0; i < (s->checked ? 1 : 3); i++)
			for (enum k_cache format = 0; format < K_N_UNCODED; format++) {
				for (int32_t r = 0; r < n; r++)
					rows[r] =
						(struct k_row){ .pos = 140 + r, .seq = 0, .observe = r == n - 1 ? 0 : -1 };
				try_format(s, &shapes[i], format, rows, n);
			}
}

/* Rows that do not see everything: one row deep in its sequence, drafts, chunks; few queries and
 * many. */
static void test_ranges(void **state)
{
	static const struct shape shapes[] = {
		{ 32, 4, 2, 16, .neox = true, .see = SEE_WINDOW },
		{ 32, 6, 1, 32, .see = SEE_SINKS },
		{ 48, 2, 2, 16, .see = SEE_RANDOM, .softcap = 20 },
		{ 160, 2, 1, 16, .see = SEE_RANDOM },
		{ 64, 9, 3, 16, .neox = true, .see = SEE_SINKS },
	};
	static const int32_t counts[] = { 1, 3, 8, 40 };
	struct k_row rows[MAX_ROWS];

	(void)state;
	EACH(s)
	for (int i = 0; i < 20; i += s->checked ? 3 : 1) {
		const int32_t n = counts[i % 4], first = 100 + (int32_t)(next() % 500);

		for (int32_t r = 0; r < n; r++)
			rows[r] = (struct k_row){ .pos = first + r, .seq = 0, .observe = r == n / 2 ? 0 : -1 };
		if (n == 8)
			for (int32_t r = 4; r < n; r++)
				rows[r] = (struct k_row){ .pos = 20 * r, .seq = 1, .observe = r == 5 ? 1 : -1 };
		try_rows(s, &shapes[i % 5], rows, n);
	}
}

/* Keys and values that are no numbers: stored as zeros, the first row is told. Scores beyond all
 * bounds give what ref gives. */
static void test_hostile(void **state)
{
	struct shape shape = { 32, 2, 1, 16, .neox = true };
	const struct k_row rows[] = { { 140, 0, 0, 0, 0 }, { 3, 1, 1, 0, 0 }, { 4, 1, -1, 0, 0 } };
	struct rig g;

	(void)state;
	EACH(s)
	for (int form = 0; form < 2 * K_N_UNCODED; form++) {
		const int folded = form % 2;
		const struct way w = { .folded = folded, .n_blocks = 3, .seed = 7 };
		float *k, *v;

		shape.format = (enum k_cache)(form / 2);
		rig_open(&g, s, &shape, rows, 3);
		k = (float *)(uintptr_t)g.rope.k, v = (float *)(uintptr_t)g.rope.v;
		k[2 * 32 + 5] = NAN;
		v[1 * 32 + 31] = NAN;
		v[7] = 1e30f;
		v[8] = -INFINITY;
		k[9] = 1e-6f;
		for (int i = 0; i < 32; i++)
			g.q[i] = g.q[i] * 1e30f;
		run_ref(&g);
		assert_int_equal(*g.want.nan_row, 2);
		want_same(&g, &w);
		let_go();
	}
}

/* Each barrier, each wait and each ticket is needed: left out, the checked build or the bits
 * tell. */
static const struct {
	struct shape shape;
	struct k_row rows[3];
	int32_t n;
	bool no_scratch;
} samples[] = {
	{ { 32, 4, 2, 16, .neox = true },
		{ { 127, 0, 0, 0, 0 }, { 128, 0, -1, 0, 0 }, { 30, 1, -1, 0, 0 } }, 3, false },
	{ { 64, 8, 1, 16, .neox = true }, { { 150, 0, 0, 0, 0 }, { 40, 1, -1, 0, 0 } }, 2, true },
	{ { 32, 17, 1, 16, .neox = true },
		{ { 130, 0, -1, 0, 0 }, { 131, 0, -1, 0, 0 }, { 9, 1, 0, 0, 0 } }, 3, false },
	{ { 32, 17, 1, 16, .neox = true }, { { 130, 0, 0, 0, 0 }, { 131, 0, 1, 0, 0 } }, 2, true },
	{ { 32, 17, 1, 16, .neox = true }, { { 130, 0, 0, 0, 0 }, { 131, 0, 1, 0, 0 } }, 2, false },
	{ { 160, 2, 1, 16, .neox = true }, { { 150, 0, 0, 0, 0 }, { 128, 1, -1, 0, 0 } }, 2, false },
	{ { 264, 1, 1, 16, .plain = true }, { { 70, 0, 0, 0, 0 } }, 1, false },
	{ { 16, 4, 2, 16, .neox = true }, { { 129, 0, 0, 0, 0 } }, 1, false },
	{ { 16, 4, 2, 16, .neox = true }, { { 9, 0, 0, 0, 0 }, { 129, 1, 1, 0, 0 } }, 2, true },
};

/* All samples run well: false as soon as one does not. */
static bool samples_run(const struct shim *s, int seeds)
{
	bool good = true;

	for (size_t i = 0; good && i < sizeof samples / sizeof *samples; i++) {
		struct rig g;

		rig_open(&g, s, &samples[i].shape, samples[i].rows, samples[i].n);
		run_ref(&g);
		for (int turn = 0; good && turn < 2 * seeds; turn++) {
			const struct way w = { .no_scratch = samples[i].no_scratch,
				.folded = turn % 2,
				.n_blocks = turn / 2 % 2 ? 1 : 3,
				.seed = (uint64_t)turn / 2 * 3 + 1 };

			good = run_device(&g, &w);
		}
		let_go();
	}
	return good;
}

static void test_barriers_are_needed(void **state)
{
	const struct shim *s = both[n_both - 1];
	struct shim_place places[512];
	int n, n_tried = 0, n_idle = 0;

	(void)state;
	if (!s->checked)
		skip();
	assert_true(samples_run(s, 2));
	n = s->places(places, 512);
	for (int i = 0; i < n; i++) {
		if (!places[i].orders || strncmp(places[i].name, "atten", 5))
			continue;
		n_tried++;
		assert_true(s->leave_out(places[i].name));
		if (samples_run(s, 2)) {
			print_error("nobody misses %s (%s)\n", places[i].name, places[i].kind);
			n_idle++;
		}
	}
	s->leave_out(NULL);
	assert_in_range(n_tried, 14, 512);
	assert_int_equal(n_idle, 0);
}

static int setup(void **state)
{
	struct err e = { 0 };

	(void)state;
	n_both = shim_open_both(both);
	return n_both ? k_open(&ref, "ref", NULL, 1, &e) : -1;
}

static int teardown(void **state)
{
	(void)state;
	k_close(ref);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_positions),
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_chunks),
		cmocka_unit_test(test_formats),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_barriers_are_needed),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
