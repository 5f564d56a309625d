/* The CUDA kernels of everything that reads weights, and of norms and SwiGLU, run by the shim and
 * compared with the reference by memcmp: all formats, numbers of rows, odd shapes, numbers that are
 * no pleasure, ways to cut a product, grids and schedules; and small ops folded in front of
 * products. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/arith.h"
#include "kernels/cuda/plan.h"
#include "kernels/format/formats.h"
#include "tests/support/blocks.h"
#include "tests/cuda/shim/shim.h"

enum { GUARD = 64, MAX_PARTS = K_MAX_PARTS };

static struct k_ctx *ref;
static const struct shim *shims[2];
static int n_shims;

static uint32_t random32(void)
{
	static uint64_t x = 0x9E3779B97F4A7C15u;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (uint32_t)(x >> 32);
}

static void *get(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);

	assert_non_null(p);
	memset(p, 0x55, bytes);
	return p;
}

/* Rows of GGUF blocks. */
static uint8_t *random_weights(enum k_type type, int32_t rows, int32_t cols, enum mood mood)
{
	const size_t n = (size_t)rows * (size_t)(cols / k_types[type].block);
	uint8_t *raw = get(n * (size_t)k_types[type].block_bytes);

	blocks_fill(raw, type, n, mood, random32);
	return raw;
}

static void *to_device(const struct shim *s, const void *from, size_t bytes)
{
	void *p;

	if (!from)
		return NULL;
	p = s->alloc(bytes);
	s->put(p, from, bytes);
	return p;
}

static float *random_floats(size_t n, enum mood mood, size_t row)
{
	float *x = get((n + 1) * sizeof *x);

	for (size_t i = 0; i < n; i++)
		x[i] = mood == EXTREME ? (i / row % 2 ? 1.0f : -1.0f)
							   : blocks_float(i % 96 < 64 ? TAME : mood, random32);
	return x;
}

/* While a barrier is left out, what goes wrong is counted. */
static bool counting;
static int n_wrong;

/* The same bits, but for a NaN's own. */
static void same(const float *got, const float *expected, size_t n, const char *what)
{
	for (size_t i = 0; i < n; i++)
		if (k_bits(got[i]) != k_bits(expected[i]) &&
			(got[i] == got[i] || expected[i] == expected[i])) {
			if (counting) {
				n_wrong++;
				return;
			}
			fail_msg("%s: value %zu of %zu is %a, not %a", what, i, n, (double)got[i],
				(double)expected[i]);
		}
}

static void run_ref(struct k_op *op)
{
	struct k_program p = { .op = op, .n_ops = 1 };
	struct err e = { 0 };

	assert_int_equal(k_run(ref, &p, &e), 0);
}

static bool run_shim(const struct shim *s, const struct shim_op *stage, int n_blocks, uint64_t seed)
{
	const struct shim_options o = { .seed = seed };
	struct shim_step step;
	bool ok;

	shim_step_open(s, &step, stage, 1);
	ok = shim_step_one(s, &step, 0, n_blocks, &o);
	if (!ok && !counting)
		print_error("%s\n", s->report());
	n_wrong += !ok;
	shim_step_close(s, &step);
	return ok || counting;
}

/* A matrix for the reference, which takes the file's own rows, and packed for the GPU. */
struct weights {
	struct k_matrix m;
	uint8_t *raw, *packed;
};

static void weights_open(
	struct weights *w, enum k_type type, int32_t rows, int32_t cols, enum mood mood)
{
	struct k_matrix cuda;

	w->m = (struct k_matrix){ .type = type, .n_rows = rows, .n_cols = cols };
	w->raw = random_weights(type, rows, cols, mood);
	w->m.data = w->raw;
	w->packed = get(cu_matrix_bytes((int32_t)type, rows, cols));
	cuda = w->m;
	cuda.data = w->packed;
	for (int32_t first = 0; first < rows; first += 32) { /* in pieces, as a back end may */
		const size_t row = (size_t)(cols / k_types[type].block) * (size_t)k_types[type].block_bytes;

		cu_pack(&cuda, w->raw + (size_t)first * row, first, rows - first < 32 ? rows - first : 32);
	}
}

static void weights_close(struct weights *w)
{
	free(w->raw);
	free(w->packed);
}

/* The matrix on the device: its description, whose data follows. */
static struct k_matrix *weights_device(const struct shim *s, const struct weights *w)
{
	struct k_matrix m = w->m;

	m.data = to_device(s, w->packed, cu_matrix_bytes((int32_t)m.type, m.n_rows, m.n_cols));
	return to_device(s, &m, sizeof m);
}

static void matrix_free(const struct shim *s, const struct k_matrix *m)
{
	s->free(m->data);
	s->free((void *)m);
}

/* A product: what is folded in front, parts with and without bias and residual, the reference's
 * result. */
struct product {
	struct weights w[MAX_PARTS];
	int n_parts;
	enum mood mood;
	int32_t n, cols;
	bool floats;
	enum k_kind front; /* K_OP_norm, or K_OP_matmul for nothing; of small ops K_OP_glu too */
	int32_t pick[8];
	float *x, *up, *norm, *bias, *residual; /* x: the activations, the norm's x, or the gate */
	struct k_acts in;                       /* as the product reads them */
	float *expected[MAX_PARTS];
};

static size_t out_size(const struct product *p, int part)
{
	return (size_t)p->n * (size_t)p->w[part].m.n_rows;
}

/* Part 1 adds in place; part 2 both. */
static const float *bias_of(const struct product *p, int part)
{
	return part == 1 ? NULL : p->bias;
}

static void front_op(const struct product *p, struct k_op *op, struct k_acts out)
{
	*op = (struct k_op){ .kind = p->front };
	if (p->front == K_OP_norm)
		op->u.norm = (struct k_norm){
			.x = p->x, .pick = p->pick, .w = p->norm, .eps = 1e-5f, .out = out, .n = p->n
		};
	else
		op->u.glu = (struct k_glu){ .gate = p->x, .up = p->up, .out = out, .n = p->n };
}

static struct k_acts new_acts(int32_t n, int32_t dim, bool x, bool q)
{
	const size_t all = (size_t)n * (size_t)dim;
	struct k_acts a = { .dim = dim };

	if (x)
		a.x = get(all * 4);
	if (q) {
		a.q = get(all);
		a.d = get(all / 8);
		a.sx = get(all / 8);
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

static void product_in(struct product *p)
{
	struct k_op op;

	p->in = new_acts(p->n, p->cols, p->floats, !p->floats);
	if (p->front != K_OP_matmul) {
		front_op(p, &op, p->in);
		run_ref(&op);
		return;
	}
	if (p->floats) {
		memcpy(p->in.x, p->x, (size_t)p->n * (size_t)p->cols * 4);
		return;
	}
	for (int32_t b = 0; b < p->n * p->cols / 32; b++)
		k_quantise_block(p->x + b * 32, p->in.q + b * 32, p->in.d + b, p->in.sx + b);
}

static void product_open(struct product *p, const enum k_type *types, const int32_t *rows,
	int n_parts, int32_t cols, int32_t n, enum mood mood, enum k_kind front)
{
	struct k_op op = { .kind = K_OP_matmul };
	size_t most = 0;

	*p = (struct product){ .n_parts = n_parts,
		.n = n,
		.cols = cols,
		.mood = mood,
		.front = front,
		.floats = !k_is_quantised(types[0]) };
	p->x = random_floats((size_t)n * (size_t)cols, mood, (size_t)cols);
	p->up = random_floats((size_t)n * (size_t)cols, mood, (size_t)cols);
	p->norm = random_floats((size_t)cols, TAME, 1);
	for (int32_t i = 0; i < 8; i++)
		p->pick[i] = n - 1 - i % n;
	product_in(p);
	for (int i = 0; i < n_parts; i++) {
		weights_open(&p->w[i], types[i], rows[i], cols, mood);
		most = out_size(p, i) > most ? out_size(p, i) : most;
	}
	p->bias = random_floats(most, TAME, 1);
	p->residual = random_floats(most, TAME, 1);
	op.u.matmul = (struct k_matmul){ .in = p->in, .n_parts = n_parts, .n = n };
	for (int i = 0; i < n_parts; i++) {
		p->expected[i] = get(out_size(p, i) * 4);
		op.u.matmul.part[i].w = &p->w[i].m;
		op.u.matmul.part[i].bias = bias_of(p, i);
		op.u.matmul.part[i].residual = i == 0 ? NULL : p->residual;
		op.u.matmul.part[i].out = p->expected[i];
	}
	run_ref(&op);
}

static void product_close(struct product *p)
{
	for (int i = 0; i < p->n_parts; i++) {
		weights_close(&p->w[i]);
		free(p->expected[i]);
	}
	acts_free(&p->in);
	free(p->x);
	free(p->up);
	free(p->norm);
	free(p->bias);
	free(p->residual);
}

static struct k_acts acts_device(const struct shim *s, const struct k_acts *a, int32_t n)
{
	const size_t all = (size_t)n * (size_t)a->dim;

	return (struct k_acts){ .dim = a->dim,
		.x = to_device(s, a->x, all * 4),
		.q = to_device(s, a->q, all),
		.d = to_device(s, a->d, all / 8),
		.sx = to_device(s, a->sx, all / 8) };
}

static void acts_device_free(const struct shim *s, struct k_acts *a)
{
	s->free(a->x);
	s->free(a->q);
	s->free(a->d);
	s->free(a->sx);
}

/* What is folded reads these on the device. */
struct front {
	void *x, *up, *norm, *pick;
};

static struct front front_device(const struct shim *s, const struct product *p, struct k_op *op)
{
	const size_t all = (size_t)p->n * (size_t)p->cols * 4;
	struct front f = { to_device(s, p->x, all), to_device(s, p->up, all),
		to_device(s, p->norm, (size_t)p->cols * 4),
		to_device(s, p->pick, (size_t)p->n * sizeof *p->pick) };

	front_op(p, op, (struct k_acts){ .dim = p->cols });
	if (p->front == K_OP_norm) {
		op->u.norm.x = f.x;
		op->u.norm.w = f.norm;
		op->u.norm.pick = f.pick;
	} else {
		op->u.glu.gate = f.x;
		op->u.glu.up = f.up;
	}
	return f;
}

static void front_free(const struct shim *s, struct front *f)
{
	s->free(f->x);
	s->free(f->up);
	s->free(f->norm);
	s->free(f->pick);
}

struct launch {
	int32_t plan;
	int n_blocks;
	uint64_t seed;
};

static void describe(const struct product *p, const struct shim *s, const struct launch *l,
	int part, char *to, size_t size)
{
	snprintf(to, size,
		"%s shim, %s, %d x %d, %d rows, part %d, front %d, plan %d, %d blocks, seed %d", s->name,
		k_types[p->w[part].m.type].name, p->w[part].m.n_rows, p->cols, p->n, part, (int)p->front,
		l->plan, l->n_blocks, (int)l->seed);
}

static void product_check(const struct product *p, const struct shim *s, const struct launch *l)
{
	struct shim_op stage = { .op = { .kind = K_OP_matmul }, .plan = l->plan };
	struct k_matmul *m = &stage.op.u.matmul;
	struct front f = { 0 };
	void *residual = to_device(s, p->residual, out_size(p, p->n_parts - 1) * 4);
	char what[256];

	*m = (struct k_matmul){ .n_parts = p->n_parts, .n = p->n };
	if (p->front != K_OP_matmul) {
		m->in.dim = p->cols;
		stage.folds = 1;
		f = front_device(s, p, &stage.before);
	} else {
		m->in = acts_device(s, &p->in, p->n);
	}
	for (int i = 0; i < p->n_parts; i++) {
		const size_t size = out_size(p, i);

		m->part[i].w = weights_device(s, &p->w[i]);
		m->part[i].bias = to_device(s, bias_of(p, i), (size_t)p->w[i].m.n_rows * 4);
		m->part[i].out = i == 1 ? to_device(s, p->residual, size * 4) : s->alloc(size * 4);
		m->part[i].residual = i == 0 ? NULL : i == 1 ? m->part[i].out : residual;
	}
	assert_true(run_shim(s, &stage, l->n_blocks, l->seed));
	for (int i = 0; i < p->n_parts; i++) {
		describe(p, s, l, i, what, sizeof what);
		same(m->part[i].out, p->expected[i], out_size(p, i), what);
		matrix_free(s, m->part[i].w);
		s->free((void *)m->part[i].bias);
		s->free(m->part[i].out);
	}
	s->free(residual);
	if (p->front != K_OP_matmul)
		front_free(s, &f);
	else
		acts_device_free(s, &m->in);
}

/* Every way that the plan can say, over few, some and many blocks. */
static void product_try(struct product *p, int n_launches)
{
	static const int32_t plans[] = { 0, 1, 2, 3, 0, 0x21, 0x22, 0x23, 0x83, 0x83 };
	static const int blocks[] = { 1, 3, 7, 2, 16 };
	const int most_tiles = p->n <= 2 ? 3 : p->n <= 4 ? 2 : 1; /* plan.c */

	for (int i = 0; i < n_launches; i++) {
		struct launch l = { .plan = plans[random32() % 10], .n_blocks = blocks[random32() % 5] };
		const struct shim *s = shims[n_shims > 1 && random32() % 8 == 0];

		l.seed = random32() % 4;
		if (l.plan < 16 ? l.plan > most_tiles : p->front != K_OP_matmul)
			l.plan = 0;
		product_check(p, s, &l);
	}
}

static void try_one(
	enum k_type type, int32_t rows, int32_t cols, int32_t n, enum mood mood, int n_launches)
{
	const enum k_type types[] = { type, type, type };
	const int32_t part_rows[] = { rows, 1, rows / 2 + 3 };
	const int32_t block = k_types[type].block;
	struct product p;

	product_open(&p, types, part_rows, 3, (cols + block - 1) / block * block, n, mood, K_OP_matmul);
	product_try(&p, n_launches);
	product_close(&p);
}

static void test_matmul(void **state)
{
	static const int32_t shapes[][2] = { { 1, 32 }, { 17, 96 }, { 43, 160 }, { 65, 576 },
		{ 130, 288 } };
	static const int32_t floats[][2] = { { 1, 1 }, { 17, 33 }, { 43, 64 }, { 65, 100 },
		{ 130, 320 } };
	static const int32_t counts[] = { 1, 2, 3, 4, 5, 7, 8, 9, 16, 17 };

	(void)state;
	for (int type = 0; type < K_N_TYPES; type++)
		for (int mood = TAME; mood <= EXTREME; mood++)
			for (int i = 0; i < 5; i++) {
				const int32_t *shape = k_types[type].block == 1 ? floats[i] : shapes[i];

				try_one((enum k_type)type, shape[0], shape[1], counts[random32() % 10],
					(enum mood)mood, 3);
			}
}

/* Long chains, many rows, and more units than blocks. */
static void test_matmul_large(void **state)
{
	(void)state;
	for (int type = 0; type < K_N_TYPES; type++) {
		try_one((enum k_type)type, 20, 8960, 1, TAME, 2);
		try_one((enum k_type)type, 33, 1536, 2, TAME, 2);
		try_one((enum k_type)type, 150, 256, 64, NASTY, 3);
	}
	try_one(K_Q4_1, 20, 64, 512, TAME, 3);
	try_one(K_F16, 20, 64, 512, TAME, 2);
}

/* Parts of several formats in one product: each is a list of units of its own. */
static void test_matmul_mixed(void **state)
{
	static const enum k_type types[][3] = { { K_Q4_K, K_Q4_K, K_Q6_K }, { K_Q4_0, K_Q8_0, K_Q4_0 },
		{ K_Q5_1, K_Q6_K, K_Q8_0 }, { K_Q2_K, K_Q2_K, K_Q3_K }, { K_IQ4_XS, K_MXFP4, K_Q2_K } };
	const int32_t rows[] = { 70, 33, 18 };

	(void)state;
	for (int i = 0; i < 5; i++)
		for (int32_t n = 1; n <= 20; n += 6) {
			struct product p;

			product_open(&p, types[i], rows, 3, 512, n, NASTY, K_OP_matmul);
			product_try(&p, 4);
			product_close(&p);
		}
}

static void test_folded(void **state)
{
	static const enum k_type types[] = { K_Q4_1, K_Q8_0, K_F16, K_Q6_K, K_F32, K_IQ4_NL, K_Q2_K,
		K_MXFP4 };

	(void)state;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		for (int f = 0; f < 2; f++)
			for (int32_t n = 1; n <= 8; n += n < 3 ? 1 : 5) {
				const enum k_type t[] = { types[i], types[i], types[i] };
				const int32_t rows[] = { 40, 17, 33 };
				struct product p;

				product_open(&p, t, rows, 3, n == 1 ? 2560 : 256, n, f ? NASTY : TAME, K_OP_norm);
				product_try(&p, 4);
				product_close(&p);
			}
}

/* Gate and up with the SwiGLU that follows, rounded or not, with and without a norm in front. */
static void joined_check(
	struct product *p, const struct shim *s, int n_blocks, uint64_t seed, bool x, bool q)
{
	const int32_t dim = p->w[0].m.n_rows;
	struct k_acts want = new_acts(p->n, dim, x, q), got = acts_device(s, &want, p->n);
	struct shim_op stage = { .op = { .kind = K_OP_matmul }, .after = { .kind = K_OP_glu } };
	struct k_op op = { .kind = K_OP_matmul };
	struct k_matmul *m = &stage.op.u.matmul;
	struct front f = { 0 };

	op.u.matmul = (struct k_matmul){ .in = p->in, .n_parts = 2, .n = p->n };
	for (int i = 0; i < 2; i++) { /* nothing is added to what joins */
		op.u.matmul.part[i].w = &p->w[i].m;
		op.u.matmul.part[i].bias = bias_of(p, i);
		op.u.matmul.part[i].out = p->expected[i];
	}
	run_ref(&op);
	op = (struct k_op){ .kind = K_OP_glu };
	op.u.glu = (struct k_glu){ .gate = p->expected[0],
		.up = p->expected[1],
		.out = want,
		.act = (enum k_act)(random32() % 3),
		.n = p->n };
	run_ref(&op);
	*m = (struct k_matmul){ .n_parts = 2, .n = p->n, .in = acts_device(s, &p->in, p->n) };
	stage.folds = p->front == K_OP_norm;
	if (stage.folds)
		f = front_device(s, p, &stage.before);
	for (int i = 0; i < 2; i++) {
		m->part[i].w = weights_device(s, &p->w[i]);
		m->part[i].bias = to_device(s, bias_of(p, i), (size_t)dim * 4);
		m->part[i].out = s->alloc(16); /* not written */
	}
	stage.joins = true;
	stage.after.u.glu = op.u.glu;
	stage.after.u.glu.gate = m->part[0].out;
	stage.after.u.glu.up = m->part[1].out;
	stage.after.u.glu.out = got;
	assert_true(cu_joins(&stage.op, &stage.after));
	assert_true(run_shim(s, &stage, n_blocks, seed));
	if (x)
		same(got.x, want.x, (size_t)(p->n * dim), "joined x");
	if (q) {
		n_wrong += counting && memcmp(got.q, want.q, (size_t)(p->n * dim));
		if (!counting)
			assert_memory_equal(got.q, want.q, (size_t)(p->n * dim));
		same(got.d, want.d, (size_t)(p->n * dim / 32), "joined d");
		same(got.sx, want.sx, (size_t)(p->n * dim / 32), "joined sx");
	}
	for (int i = 0; i < 2; i++) {
		matrix_free(s, m->part[i].w);
		s->free((void *)m->part[i].bias);
		s->free(m->part[i].out);
	}
	if (stage.folds)
		front_free(s, &f);
	acts_device_free(s, &m->in);
	acts_device_free(s, &got);
	acts_free(&want);
}

static void test_joined(void **state)
{
	static const enum k_type types[] = { K_Q4_1, K_Q8_0, K_F16, K_Q6_K, K_Q2_K, K_F32 };

	(void)state;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		for (int32_t n = 1; n <= CU_JOIN_ROWS; n++)
			for (int folded = 0; folded < 2; folded++) {
				const enum k_type t[] = { types[i], types[i] };
				const int32_t rows[] = { 96, 96 };
				struct product p;

				product_open(&p, t, rows, 2, n == 1 ? 2560 : 256, n, folded ? NASTY : TAME,
					folded ? K_OP_norm : K_OP_matmul);
				for (int k = 0; k < n_shims; k++)
					joined_check(&p, shims[k], k ? 2 : 1 + n, random32() % 3, n % 2,
						n % 3 != 2 || n % 2 == 0);
				product_close(&p);
			}
}

/* The experts of a mixture: rows choose among four matrices, so few blocks take slots one after the
 * other. In: a row of the input for each row of the output, or for each of its k slots. */
struct mixture {
	struct weights w[4];
	struct k_experts op; /* of the reference */
	int32_t ids[12];
	float *bias; /* [4, rows] or NULL */
	size_t out;
};

static void mixture_open(struct mixture *m, enum k_type type, int32_t rows, int32_t cols, bool each)
{
	struct k_matrix *w = get(sizeof *w * 4);
	struct k_op op = { .kind = K_OP_experts };
	float *x = random_floats((size_t)(12 * cols), TAME, (size_t)cols);

	m->bias = each ? random_floats((size_t)(4 * rows), TAME, (size_t)rows) : NULL;
	m->out = (size_t)(12 * rows);
	for (int i = 0; i < 4; i++) {
		weights_open(&m->w[i], type, rows, cols, TAME);
		w[i] = m->w[i].m;
	}
	for (int i = 0; i < 12; i++)
		m->ids[i] = (int32_t)(random32() % 4);
	m->op =
		(struct k_experts){ .in = new_acts(12, cols, !k_is_quantised(type), k_is_quantised(type)),
			.w = w,
			.bias = m->bias,
			.ids = m->ids,
			.out = get(m->out * 4),
			.n_experts = 4,
			.k = 2,
			.n = 6,
			.each = each };
	for (int32_t b = 0; k_is_quantised(type) && b < 12 * cols / 32; b++)
		k_quantise_block(x + b * 32, m->op.in.q + b * 32, m->op.in.d + b, m->op.in.sx + b);
	if (!k_is_quantised(type))
		memcpy(m->op.in.x, x, (size_t)(12 * cols) * 4);
	op.u.experts = m->op;
	run_ref(&op);
	free(x);
}

static void mixture_check(
	const struct mixture *m, const struct shim *s, int n_blocks, uint64_t seed)
{
	struct shim_op stage = { .op = { .kind = K_OP_experts } };
	struct k_experts *a = &stage.op.u.experts;
	struct k_matrix w[4];

	*a = m->op;
	a->in = acts_device(s, &m->op.in, 12);
	for (int i = 0; i < 4; i++) {
		w[i] = m->w[i].m;
		w[i].data = to_device(
			s, m->w[i].packed, cu_matrix_bytes((int32_t)w[i].type, w[i].n_rows, w[i].n_cols));
	}
	a->w = to_device(s, w, sizeof w);
	a->bias = m->bias ? to_device(s, m->bias, (size_t)(4 * w[0].n_rows) * 4) : NULL;
	a->ids = to_device(s, m->ids, sizeof m->ids);
	a->out = s->alloc(m->out * 4);
	assert_true(run_shim(s, &stage, n_blocks, seed));
	same(a->out, m->op.out, m->out, k_types[w[0].type].name);
	for (int i = 0; i < 4; i++)
		s->free(w[i].data);
	acts_device_free(s, &a->in);
	s->free((void *)a->w);
	s->free((void *)a->ids);
	s->free((void *)a->bias);
	s->free(a->out);
}

static void mixture_close(struct mixture *m)
{
	for (int i = 0; i < 4; i++)
		weights_close(&m->w[i]);
	acts_free(&m->op.in);
	free((void *)m->op.w);
	free(m->bias);
	free(m->op.out);
}

static void test_experts(void **state)
{
	(void)state;
	for (int type = 0; type < K_N_TYPES; type++)
		for (int each = 0; each < 2; each++) {
			struct mixture m;

			mixture_open(&m, (enum k_type)type, 33, k_types[type].block == 256 ? 512 : 160, each);
			for (int i = 0; i < n_shims; i++)
				mixture_check(&m, shims[i], i ? 2 : 5, (uint64_t)type % 3);
			mixture_close(&m);
		}
}

/* The plan for the shapes of real models is one that the kernels know. */
static void test_plan(void **state)
{
	static const int32_t counts[] = { 1, 2, 3, 5, 8, 9, 17, 64, 512 };
	static const int32_t shapes[][2] = { { 576, 576 }, { 1536, 576 }, { 576, 1536 }, { 49152, 576 },
		{ 14336, 4096 }, { 2048, 8192 }, { 4096, 14336 }, { 1536, 768 } };

	(void)state;
	for (int type = 0; type < K_N_TYPES; type++)
		for (int i = 0; i < 8; i++)
			for (int k = 0; k < 9; k++)
				for (int n_processors = 1; n_processors < 200; n_processors += 131) {
					struct cu_product p = { .n = counts[k], .n_parts = 1, .n_cols = shapes[i][1] };
					int32_t blocks = 0;
					enum cu_way way;

					p.part[0].n_rows = shapes[i][0];
					p.folds = counts[k] * p.n_cols <= CU_FOLD_NORM;
					way = cu_plan(&p, (enum k_type)type, n_processors, &blocks);
					assert_true(way == CU_few || way == CU_one || counts[k] > CU_GROUP);
					assert_in_range(p.log_tiles, 0, 3);
					assert_in_range(p.rows, 1, CU_WIDE_ROWS);
					assert_true(way == CU_wide2 || way == CU_wide8 ||
								CU_TILE_ROWS << p.log_tiles << p.log_rows <= 256);
					assert_in_range(p.shared_bytes, 1, CU_SHARED_BYTES);
					assert_in_range(blocks, 1, 2 * n_processors);
					assert_true((int64_t)p.units * p.groups >= blocks);
				}
}

/* Each barrier of the products, and each wait for a copy, left out in turn, is noticed by the
 * checked build in one of these: split and wide, 8 bits and floats, folded or not, several units a
 * block. */
static void test_barriers(void **state)
{
	static const struct {
		enum k_type type[2];
		int32_t cols, n;
		enum k_kind front;
		int32_t plan;
	} cases[] = {
		{ { K_Q4_1, K_Q8_0 }, 1280, 3, K_OP_norm, 0 },
		{ { K_Q4_1, K_Q4_1 }, 256, 2, K_OP_norm, 1 },
		{ { K_Q4_1, K_Q8_0 }, 1280, 1, K_OP_norm, 0 },
		{ { K_Q5_0, K_Q6_K }, 512, 20, K_OP_matmul, 33 },
		{ { K_Q8_0, K_Q8_0 }, 512, 20, K_OP_matmul, 0x83 },
		{ { K_F16, K_BF16 }, 512, 20, K_OP_matmul, 35 },
		{ { K_F32, K_F16 }, 320, 20, K_OP_matmul, 35 },
		{ { K_F16, K_F32 }, 1280, 2, K_OP_matmul, 0 },
		{ { K_Q8_0, K_Q8_0 }, 1280, 1, K_OP_matmul, 0 },
	};
	enum { CASES = sizeof cases / sizeof *cases };
	static struct shim_place place[256];
	static struct product p[CASES], joined;
	static const enum k_type joined_types[] = { K_Q4_1, K_Q4_1 };
	const struct shim *s = shims[n_shims - 1];
	const int32_t rows[] = { 150, 40 }, joined_rows[] = { 96, 96 };
	int n, n_tried = 0;

	(void)state;
	if (!s->checked)
		skip();
	for (int i = 0; i < CASES; i++) {
		const struct launch l = { .plan = cases[i].plan, .n_blocks = 2, .seed = 1 };

		product_open(
			&p[i], cases[i].type, rows, 2, cases[i].cols, cases[i].n, TAME, cases[i].front);
		product_check(&p[i], s, &l);
	}
	product_open(&joined, joined_types, joined_rows, 2, 256, 2, TAME, K_OP_norm);
	joined_check(&joined, s, 2, 1, true, true);
	n = s->places(place, 256);
	assert_in_range(n, 1, 256);
	counting = true;
	for (int k = 0; k < n; k++) {
		if (!place[k].orders || strncmp(place[k].name, "matmul", 6))
			continue;
		n_tried++;
		n_wrong = 0;
		assert_true(s->leave_out(place[k].name));
		for (int i = 0; i < CASES && !n_wrong; i++)
			for (uint64_t seed = 0; seed < 3 && !n_wrong; seed++) {
				const struct launch l = { .plan = cases[i].plan, .n_blocks = 2, .seed = seed };

				product_check(&p[i], s, &l);
			}
		for (uint64_t seed = 0; seed < 3 && !n_wrong; seed++)
			joined_check(&joined, s, 2, seed, true, true);
		if (!n_wrong)
			print_error("%s can be left out\n", place[k].name);
		s->leave_out(NULL);
		assert_true(n_wrong > 0);
	}
	counting = false;
	assert_true(n_tried >= 8);
	for (int i = 0; i < CASES; i++)
		product_close(&p[i]);
	product_close(&joined);
}

/* Norm, SwiGLU: all of x, q, d, sx, or only some. */
static void small_check(const struct shim *s, enum k_kind kind, int32_t n, int32_t dim, bool x,
	bool q, enum mood mood, int n_blocks)
{
	struct product p = { .n = n, .cols = dim, .front = kind };
	struct shim_op stage = { 0 };
	struct k_acts got, want;
	struct k_op op;
	struct front f;
	int32_t *pick = get((size_t)n * sizeof *pick);
	const size_t all = (size_t)n * (size_t)dim;

	p.x = random_floats(all, mood, (size_t)dim);
	p.up = random_floats(all, mood, (size_t)dim);
	p.norm = random_floats((size_t)dim, TAME, 1);
	want = new_acts(n, dim, x, q);
	got = (struct k_acts){ .dim = dim, .x = x ? s->alloc(all * 4) : NULL };
	if (q) {
		got.q = s->alloc(all);
		got.d = s->alloc(all / 8);
		got.sx = s->alloc(all / 8);
	}
	front_op(&p, &op, want);
	for (int32_t i = 0; i < n; i++)
		pick[i] = n - 1 - i;
	if (kind == K_OP_norm)
		op.u.norm.pick = n % 2 ? pick : NULL;
	else
		op.u.glu.act = (enum k_act)(n % 3);
	if (kind == K_OP_norm && n % 4 > 1)
		op.u.norm.residual = p.up;
	run_ref(&op);
	f = (struct front){ to_device(s, p.x, all * 4), to_device(s, p.up, all * 4),
		to_device(s, p.norm, (size_t)dim * 4), to_device(s, pick, (size_t)n * sizeof *pick) };
	stage.op = op;
	if (kind == K_OP_norm) {
		stage.op.u.norm.x = f.x;
		stage.op.u.norm.w = f.norm;
		stage.op.u.norm.residual = op.u.norm.residual ? f.up : NULL;
		stage.op.u.norm.pick = n % 2 ? f.pick : NULL;
		stage.op.u.norm.out = got;
	} else {
		stage.op.u.glu.gate = f.x;
		stage.op.u.glu.up = f.up;
		stage.op.u.glu.out = got;
	}
	assert_true(run_shim(s, &stage, n_blocks, random32() % 3));
	if (x)
		same(got.x, want.x, all, "x");
	if (q) {
		assert_memory_equal(got.q, want.q, all);
		same(got.d, want.d, all / 32, "d");
		same(got.sx, want.sx, all / 32, "sx");
	}
	front_free(s, &f);
	acts_device_free(s, &got);
	acts_free(&want);
	free(pick);
	free(p.x);
	free(p.up);
	free(p.norm);
}

static void test_small(void **state)
{
	static const int32_t dims[] = { 32, 64, 576, 1536, 288 };

	(void)state;
	for (int i = 0; i < n_shims; i++)
		for (int mood = TAME; mood <= NASTY; mood++)
			for (int f = 0; f < 2; f++)
				for (int d = 0; d < 5; d++)
					for (int32_t n = 1; n < 30; n = n * 2 + 1) {
						const enum k_kind kind = f ? K_OP_glu : K_OP_norm;

						small_check(shims[i], kind, n, dims[d], n % 4 != 1, true, (enum mood)mood,
							1 + (int)n % 5);
						small_check(
							shims[i], kind, n, dims[d] + (int)n, true, false, (enum mood)mood, 2);
					}
}

static void test_embed(void **state)
{
	enum { ROWS = 45, COLS = 512 };
	static float expected[ROWS * COLS];
	int32_t ids[ROWS];

	(void)state;
	for (int32_t i = 0; i < ROWS; i++)
		ids[i] = i * 7 % ROWS;
	for (int type = 0; type < K_N_TYPES; type++)
		for (int i = 0; i < n_shims; i++) {
			const int32_t cols = k_types[type].block == 1     ? COLS - 13
								 : k_types[type].block == 256 ? COLS
															  : 96;
			const struct shim *s = shims[i];
			struct shim_op stage = { .op = { .kind = K_OP_embed } };
			struct k_embed *e = &stage.op.u.embed;
			struct weights w;
			struct k_op op = { .kind = K_OP_embed };

			weights_open(&w, (enum k_type)type, ROWS, cols, NASTY);
			op.u.embed = (struct k_embed){ .w = &w.m, .ids = ids, .x = expected, .n = ROWS };
			run_ref(&op);
			*e = (struct k_embed){ .w = weights_device(s, &w),
				.ids = to_device(s, ids, sizeof ids),
				.n = ROWS,
				.x = s->alloc((size_t)(ROWS * cols) * 4) };
			assert_true(run_shim(s, &stage, 7, 1));
			same(e->x, expected, (size_t)(ROWS * cols), k_types[type].name);
			matrix_free(s, e->w);
			s->free((void *)e->ids);
			s->free(e->x);
			weights_close(&w);
		}
}

static int open_all(void **state)
{
	struct err e = { 0 };

	(void)state;
	if (k_open(&ref, "ref", NULL, 1, &e)) {
		print_error("%s\n", e.text);
		return -1;
	}
	n_shims = shim_open_both(shims);
	return n_shims ? 0 : -1;
}

static int close_all(void **state)
{
	(void)state;
	k_close(ref);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_embed),
		cmocka_unit_test(test_matmul),
		cmocka_unit_test(test_matmul_large),
		cmocka_unit_test(test_matmul_mixed),
		cmocka_unit_test(test_folded),
		cmocka_unit_test(test_joined),
		cmocka_unit_test(test_experts),
		cmocka_unit_test(test_plan),
		cmocka_unit_test(test_barriers),
	};

	return cmocka_run_group_tests(tests, open_all, close_all);
}
