/* A whole small step on the shim against the reference's run of the same program: folded and
 * joined and not, grids, schedules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/arith.h"
#include "kernels/cuda/plan.h"
#include "tests/cuda/shim/shim.h"

enum {
	LAYERS = 2,
	HEADS = 3,
	KV_HEADS = 1,
	HEAD_DIM = 32,
	DIM = 96,
	FFN = 128,
	VOCAB = 1100,
	Q = HEADS * HEAD_DIM,
	KV = KV_HEADS * HEAD_DIM,
	PAGE = 16,
	PAGES = 24,
	LONGEST = PAGE * PAGES - 1,
	MAX_ROWS = 12,
	SEQS = 6,
	OBSERVED = 6,
	STRIDE = LONGEST / K_GROUP + 1,
	MAX_OPS = 32,
	PER_LAYER = 7,
	MATRICES = LAYERS * PER_LAYER + 2
};

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
	return ((float)(next() >> 8) * 0x1p-24f - 0.5f) * size;
}

/* ---- memory, all of it the device's; the host sees it too ---- */

static const struct shim *device;
static void *held[256];
static int n_held;

static void *hold(size_t bytes)
{
	assert_true(n_held < 256);
	return held[n_held++] = device->alloc(bytes);
}
static void *hold_copy(const void *from, size_t bytes)
{
	void *p = hold(bytes);

	device->put(p, from, bytes);
	return p;
}
static float *hold_floats(size_t n, float size)
{
	float *p = hold(n * sizeof *p);

	for (size_t i = 0; i < n; i++)
		p[i] = number(size);
	device->written(p, n * sizeof *p);
	return p;
}
static void let_go(int down_to)
{
	while (n_held > down_to)
		device->free(held[--n_held]);
}

/* ---- the model ---- */

struct model {
	struct k_matrix host[MATRICES]; /* the file's rows */
	struct k_matrix *device[MATRICES];
	float *norm, *cos, *sin, *bias;
	int32_t *table[SEQS];
	const int32_t *const *pages;
	uint8_t *cache; /* before the step */
	struct k_kv kv;
	size_t cache_bytes;
};

static void add_matrix(struct model *m, int i, enum k_type type, int32_t rows, int32_t cols)
{
	const size_t n_blocks = (size_t)(rows * (cols / 32)), bytes = (size_t)k_types[type].block_bytes;
	struct k_matrix packed = { .type = type, .n_rows = rows, .n_cols = cols };
	uint8_t *raw = hold(n_blocks * bytes);
	const size_t packed_bytes = cu_matrix_bytes((int32_t)type, rows, cols);

	for (size_t b = 0; b < n_blocks * bytes; b++)
		raw[b] = (uint8_t)next();
	for (size_t b = 0; b < n_blocks; b++)
		for (size_t half = 0; half < (type == K_Q4_1 ? 2 : 1); half++) {
			uint16_t h = k_f32_to_f16(number(type == K_Q4_1 ? 0.1f : 0.01f));

			memcpy(raw + b * bytes + 2 * half, &h, 2);
		}
	m->host[i] = packed;
	m->host[i].data = raw;
	packed.data = hold(packed_bytes);
	cu_pack(&packed, raw, 0, rows);
	device->written(packed.data, packed_bytes);
	m->device[i] = hold_copy(&packed, sizeof packed);
}

static void model_open(struct model *m)
{
	static const int32_t shape[PER_LAYER][2] = { { Q, DIM }, { KV, DIM }, { KV, DIM }, { DIM, Q },
		{ FFN, DIM }, { FFN, DIM }, { DIM, FFN } };
	double freq[HEAD_DIM / 2];
	int32_t ids[PAGES];

	for (int i = 0; i < LAYERS * PER_LAYER; i++)
		add_matrix(m, i, i % 3 ? K_Q4_1 : K_Q8_0, shape[i % PER_LAYER][0], shape[i % PER_LAYER][1]);
	add_matrix(m, MATRICES - 2, K_Q8_0, VOCAB, DIM);
	add_matrix(m, MATRICES - 1, K_Q4_1, VOCAB, DIM);
	m->norm = hold_floats(DIM, 2);
	m->bias = hold_floats(Q, 1);
	m->cos = hold((LONGEST + 1) * sizeof freq);
	m->sin = hold((LONGEST + 1) * sizeof freq);
	k_rope_freqs(10000, HEAD_DIM, freq);
	k_rope_table(freq, HEAD_DIM / 2, LONGEST + 1, m->cos, m->sin);
	device->written(m->cos, (LONGEST + 1) * sizeof freq);
	device->written(m->sin, (LONGEST + 1) * sizeof freq);
	m->kv = (struct k_kv){
		.page_size = PAGE, .n_layers = LAYERS, .n_kv_heads = KV_HEADS, .head_dim = HEAD_DIM
	};
	m->kv.page_bytes = k_kv_page_bytes(&m->kv);
	m->cache_bytes = m->kv.page_bytes * SEQS * PAGES;
	m->cache = hold(m->cache_bytes);
	for (size_t i = 0; i < m->cache_bytes / 2; i++)
		((uint16_t *)(void *)m->cache)[i] = k_f32_to_f16(number(2));
	for (int32_t s = 0; s < SEQS; s++) {
		for (int32_t i = 0; i < PAGES; i++)
			ids[i] = (i * 7 + 3) % PAGES * SEQS + s;
		m->table[s] = hold_copy(ids, sizeof ids);
	}
	m->pages = hold_copy(m->table, sizeof m->table);
}

/* ---- a step ---- */

/* Everything that a step writes. */
struct state {
	uint8_t *cache;
	float *x, *q, *k, *v, *gate, *up, *logits, *share;
	struct k_acts normed, mixed, act, head;
	struct k_logit_stats *stats;
	int32_t *near_zero, *nan_row;
	struct k_kv *kv;
};

static struct k_acts acts_new(int32_t dim, bool x)
{
	struct k_acts a = { .dim = dim };
	const size_t n = (size_t)(MAX_ROWS * dim);

	a.x = x ? hold(n * 4) : NULL;
	a.q = hold(n);
	a.d = hold(n / 8);
	a.sx = hold(n / 8);
	return a;
}

static void state_open(struct state *s, const struct model *m)
{
	s->cache = hold(m->cache_bytes);
	s->x = hold(MAX_ROWS * DIM * 4);
	s->q = hold(MAX_ROWS * Q * 4);
	s->k = hold(MAX_ROWS * KV * 4);
	s->v = hold(MAX_ROWS * KV * 4);
	s->gate = hold(MAX_ROWS * FFN * 4);
	s->up = hold(MAX_ROWS * FFN * 4);
	s->logits = hold(MAX_ROWS * VOCAB * 4);
	s->share = hold(LAYERS * OBSERVED * HEADS * STRIDE * 4);
	s->near_zero = hold(LAYERS * OBSERVED * HEADS * 4);
	s->normed = acts_new(DIM, false);
	s->mixed = acts_new(Q, true);
	s->act = acts_new(FFN, false);
	s->head = acts_new(DIM, false);
	s->stats = hold(MAX_ROWS * sizeof *s->stats);
	s->nan_row = hold(4);
	s->kv = hold_copy(&m->kv, sizeof m->kv);
	s->kv->base = s->cache;
}

static void state_begin(struct state *s, const struct model *m)
{
	const int32_t zero = 0;

	device->put(s->cache, m->cache, m->cache_bytes);
	device->put(s->nan_row, &zero, 4);
	memset(s->share, 0x55, LAYERS * OBSERVED * HEADS * STRIDE * 4);
	memset(s->near_zero, 0x55, LAYERS * OBSERVED * HEADS * 4);
	memset(s->logits, 0x55, MAX_ROWS * VOCAB * 4);
}

struct input {
	int32_t n, n_out;
	int32_t *ids, *out_row;
	struct k_row *rows;
	struct k_range *ranges;
};

struct writer {
	struct k_op *op;
	int n;
};

static struct k_op *add(struct writer *w, enum k_kind kind)
{
	w->op[w->n] = (struct k_op){ .kind = kind };
	return &w->op[w->n++];
}

static void add_norm(struct writer *w, const struct model *m, const struct state *s,
	struct k_acts out, const int32_t *pick, int32_t n)
{
	add(w, K_OP_norm)->u.norm =
		(struct k_norm){ .x = s->x, .pick = pick, .w = m->norm, .eps = 1e-5f, .out = out, .n = n };
}

static struct k_matmul *add_matmul(struct writer *w, struct k_acts in, int32_t n)
{
	struct k_matmul *a = &add(w, K_OP_matmul)->u.matmul;

	*a = (struct k_matmul){ .in = in, .n = n };
	return a;
}

static void part(struct k_matmul *a, const struct k_matrix *w, const float *bias,
	const float *residual, float *out)
{
	a->part[a->n_parts].w = w;
	a->part[a->n_parts].bias = bias;
	a->part[a->n_parts].residual = residual;
	a->part[a->n_parts++].out = out;
}

static void add_layer(struct writer *w, const struct model *m, const struct state *s,
	const struct input *in, const struct k_matrix *const *mat, int32_t layer)
{
	struct k_matmul *a;

	mat += layer * PER_LAYER;
	add_norm(w, m, s, s->normed, NULL, in->n);
	a = add_matmul(w, s->normed, in->n);
	part(a, mat[0], m->bias, NULL, s->q);
	part(a, mat[1], NULL, NULL, s->k);
	part(a, mat[2], NULL, NULL, s->v);
	add(w, K_OP_rope)->u.rope = (struct k_rope){ .q = s->q,
		.k = s->k,
		.v = s->v,
		.cos = m->cos,
		.sin = m->sin,
		.rope_dim = HEAD_DIM,
		.neox = true,
		.scale = 0.18f,
		.n_heads = HEADS,
		.layer = layer,
		.n = in->n,
		.rows = in->rows,
		.pages = m->pages,
		.kv = s->kv,
		.nan_row = (k_atomic_int *)s->nan_row };
	add(w, K_OP_attention)->u.attention = (struct k_attention){ .q = s->q,
		.out = s->mixed,
		.n_heads = HEADS,
		.layer = layer,
		.n = in->n,
		.rows = in->rows,
		.ranges = in->ranges,
		.n_ranges = 1,
		.pages = m->pages,
		.kv = s->kv,
		.share = s->share + layer * OBSERVED * HEADS * STRIDE,
		.near_zero = s->near_zero + layer * OBSERVED * HEADS,
		.share_stride = STRIDE,
		.threshold = 1e-3f };
	part(add_matmul(w, s->mixed, in->n), mat[3], NULL, s->x, s->x);
	add_norm(w, m, s, s->normed, NULL, in->n);
	a = add_matmul(w, s->normed, in->n);
	part(a, mat[4], NULL, NULL, s->gate);
	part(a, mat[5], NULL, NULL, s->up);
	add(w, K_OP_glu)->u.glu =
		(struct k_glu){ .gate = s->gate, .up = s->up, .out = s->act, .n = in->n };
	part(add_matmul(w, s->act, in->n), mat[6], NULL, s->x, s->x);
}

static int write_program(struct k_op *op, const struct model *m, const struct state *s,
	const struct input *in, const struct k_matrix *const *mat)
{
	struct writer w = { .op = op };

	add(&w, K_OP_embed)->u.embed =
		(struct k_embed){ .w = mat[MATRICES - 2], .ids = in->ids, .x = s->x, .n = in->n };
	for (int32_t i = 0; i < LAYERS; i++)
		add_layer(&w, m, s, in, mat, i);
	add_norm(&w, m, s, s->head, in->out_row, in->n_out);
	part(add_matmul(&w, s->head, in->n_out), mat[MATRICES - 1], NULL, NULL, s->logits);
	add(&w, K_OP_stats)->u.stats =
		(struct k_stats){ .logits = s->logits, .vocab = VOCAB, .n = in->n_out, .out = s->stats };
	return w.n;
}

/* A program for the shim, folded and joined wherever that is possible and wanted. */
static int lower(struct shim_op *out, const struct k_op *op, int n, bool folds)
{
	int n_out = 0;

	for (int i = 0; i < n; i++) {
		const bool folded = folds && i + 1 < n && cu_folds(&op[i], &op[i + 1]);
		const struct k_op *now = &op[i + folded];
		const bool joined = folds && i + folded + 1 < n && cu_joins(now, now + 1);

		for (int32_t phase = 0; phase < cu_n_phases(now); phase++) {
			struct shim_op *s = &out[n_out++];

			*s = (struct shim_op){
				.op = *now, .folds = folded, .joins = joined, .phase = phase, .plan = n_out % 2
			};
			if (folded)
				s->before = op[i];
			if (joined)
				s->after = now[1];
		}
		i += folded + joined;
	}
	return n_out;
}

static bool same(
	const struct state *a, const struct state *b, const struct input *in, const struct model *m)
{
	return !memcmp(a->x, b->x, (size_t)in->n * DIM * 4) &&
		   !memcmp(a->cache, b->cache, m->cache_bytes) &&
		   !memcmp(a->logits, b->logits, MAX_ROWS * VOCAB * 4) &&
		   !memcmp(a->share, b->share, LAYERS * OBSERVED * HEADS * STRIDE * 4) &&
		   !memcmp(a->near_zero, b->near_zero, LAYERS * OBSERVED * HEADS * 4) &&
		   !memcmp(a->stats, b->stats, (size_t)in->n_out * sizeof *a->stats) &&
		   *a->nan_row == *b->nan_row;
}

struct way {
	bool folds;
	int n_blocks;
	uint64_t seed;
};

/* True if all went well and gave ref's bits. */
static bool run_device(struct state *got, const struct state *want, const struct input *in,
	const struct model *m, const struct way *way)
{
	const struct shim_options o = { .seed = way->seed };
	struct k_op op[MAX_OPS];
	struct shim_op device_op[MAX_OPS + 1];
	struct shim_step step;
	int n = write_program(op, m, got, in, (const struct k_matrix *const *)m->device);
	bool good = true;

	n = lower(device_op, op, n, way->folds);
	shim_step_open(device, &step, device_op, n);
	for (int again = 0; good && again < 2; again++) {
		state_begin(got, m);
		good = shim_step_all(device, &step, way->n_blocks, &o) && same(want, got, in, m);
		for (int i = 0; good && i + 1 < n; i++)
			good = step.clock[i] <= step.clock[i + 1];
	}
	shim_step_close(device, &step);
	return good;
}

/* A model, a step and what ref makes of it. */
struct rig {
	struct model m;
	struct state want, got;
	struct input in;
};

static void rig_open(struct rig *g, const struct shim *s, const struct k_row *rows, int32_t n)
{
	struct k_op op[MAX_OPS];
	struct k_program program = { .op = op };
	int32_t ids[MAX_ROWS], out_row[MAX_ROWS];
	struct k_range ranges[MAX_ROWS];
	const struct k_matrix *mat[MATRICES];
	struct err e = { 0 };

	device = s;
	g->in = (struct input){ .n = n, .n_out = (n + 1) / 2 };
	model_open(&g->m);
	state_open(&g->want, &g->m);
	state_open(&g->got, &g->m);
	for (int32_t r = 0; r < n; r++) {
		ids[r] = (int32_t)(next() % VOCAB);
		out_row[r] = n - 1 - r;
	}
	g->in.ids = hold_copy(ids, (size_t)n * 4);
	g->in.out_row = hold_copy(out_row, (size_t)g->in.n_out * 4);
	g->in.rows = hold_copy(rows, (size_t)n * sizeof *rows);
	k_see_all(rows, n, ranges);
	g->in.ranges = hold_copy(ranges, (size_t)n * sizeof *ranges);
	for (int i = 0; i < MATRICES; i++)
		mat[i] = &g->m.host[i];
	state_begin(&g->want, &g->m);
	program.n_ops = write_program(op, &g->m, &g->want, &g->in, mat);
	assert_int_equal(k_run(ref, &program, &e), 0);
}

static bool rig_runs(struct rig *g, const struct way *w)
{
	return run_device(&g->got, &g->want, &g->in, &g->m, w);
}

static void try_step(const struct shim *s, const struct k_row *rows, int32_t n)
{
	static const int grids[] = { 3, 1, 9 };
	struct rig g;

	rig_open(&g, s, rows, n);
	for (int i = 0; i < (s->checked ? 4 : 12); i++) {
		const struct way way = { .folds = i % 2, .n_blocks = grids[i / 4], .seed = (uint64_t)i };

		if (!rig_runs(&g, &way))
			fail_msg("%s, %d rows, %d blocks%s: other bits, or: %s", s->name, (int)n, way.n_blocks,
				way.folds ? ", folded" : "", s->report());
	}
	let_go(0);
}

#define EACH(s)                                                                                    \
	for (int i_ = 0; i_ < n_both; i_++)                                                            \
		for (const struct shim *s = both[i_]; s; s = NULL)

static void test_one_row(void **state)
{
	static const int32_t positions[] = { 0, 127, 300 };

	(void)state;
	EACH(s)
	for (int i = 0; i < 3; i++) {
		const struct k_row row = { positions[i], 1, i - 1, 0, 0 };

		try_step(s, &row, 1);
	}
}

/* Drafts being checked beside another sequence; then more rows than are folded. */
static void test_rows(void **state)
{
	struct k_row rows[MAX_ROWS] = { { 126, 0, 0, 0, 0 }, { 127, 0, -1, 0, 0 }, { 128, 0, 1, 0, 0 },
		{ 5, 1, -1, 0, 0 } };

	(void)state;
	EACH(s)
	{
		try_step(s, rows, 4);
		for (int32_t r = 4; r < MAX_ROWS; r++)
			rows[r] = (struct k_row){ 2 + r, 1, -1, 0, 0 };
		try_step(s, rows, MAX_ROWS);
		for (int32_t r = 0; r < SEQS; r++) /* more to observe than a block keeps for later */
			rows[r] = (struct k_row){ 140 + 20 * r, r, r, 0, 0 };
		try_step(s, rows, SEQS);
	}
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
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_one_row),
		cmocka_unit_test(test_rows) };

	return cmocka_run_group_tests(tests, setup, teardown);
}
