/* The fast mode of F16 and BF16 products (kernels/cuda/matmul_fast.cuh), run by the shim. It is not exact,
 * so it is held against sums in double with a bound: activations are rounded to 11 (F16) or 8 bits (BF16),
 * half a unit each, and what adds the products may lose a float's last bits at each of them. Every plan,
 * odd shapes, grids, schedules; each barrier left out in turn is noticed. */
#include <math.h>
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
#include "tests/cuda_shim/shim.h"

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

static float random_float(void)
{
	return k_fma(k_uniform(random32()), 4.0f, -2.0f);
}

static void *get(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);

	assert_non_null(p);
	return p;
}

enum { PARTS = 2 };

/* A product on the host: y[i] = W[i] x, of two matrices. */
struct product {
	enum k_type type;
	int32_t rows[PARTS], cols, n;
	uint16_t *raw[PARTS];
	float *x, *bias, *residual;
	double *sum[PARTS], *bound[PARTS];
};

static float weight(const struct product *p, uint16_t h)
{
	return p->type == K_BF16 ? k_bf16_to_f32(h) : k_f16_to_f32(h);
}

static void add_up(struct product *p, int part)
{
	const double unit = p->type == K_BF16 ? 0x1p-9 : 0x1p-11, chain = (p->cols + 4) * 0x1p-23;

	for (int32_t r = 0; r < p->n; r++)
		for (int32_t o = 0; o < p->rows[part]; o++) {
			const size_t at = (size_t)r * (size_t)p->rows[part] + (size_t)o;
			double sum = (double)p->bias[o] + (double)(part ? p->residual[at] : 0.0f), all = fabs(sum);

			for (int32_t k = 0; k < p->cols; k++) {
				const double t =
					(double)weight(p, p->raw[part][(size_t)o * (size_t)p->cols + (size_t)k]) *
					(double)p->x[(size_t)r * (size_t)p->cols + (size_t)k];

				sum += t;
				all += fabs(t);
			}
			p->sum[part][at] = sum;
			p->bound[part][at] = all * (unit + chain) + p->cols * 0x1p-24; /* … and x below 2^-14 */
		}
}

static void product_open(struct product *p, enum k_type type, int32_t rows, int32_t cols, int32_t n)
{
	size_t most = 0;

	*p = (struct product){.type = type, .rows = {rows, rows / 2 + 3}, .cols = cols, .n = n};
	p->x = get((size_t)n * (size_t)cols * 4);
	for (size_t i = 0; i < (size_t)n * (size_t)cols; i++)
		p->x[i] = random_float();
	for (int i = 0; i < PARTS; i++) {
		const size_t size = (size_t)n * (size_t)p->rows[i], all = (size_t)p->rows[i] * (size_t)cols;

		p->raw[i] = get(all * 2);
		for (size_t k = 0; k < all; k++)
			p->raw[i][k] = type == K_BF16 ? (uint16_t)(k_bits(random_float()) >> 16) : k_f32_to_f16(random_float());
		p->sum[i] = get(size * sizeof(double));
		p->bound[i] = get(size * sizeof(double));
		most = size > most ? size : most;
	}
	p->bias = get(most * 4);
	p->residual = get(most * 4);
	for (size_t i = 0; i < most; i++) {
		p->bias[i] = random_float();
		p->residual[i] = random_float();
	}
	for (int i = 0; i < PARTS; i++)
		add_up(p, i);
}

static void product_close(struct product *p)
{
	for (int i = 0; i < PARTS; i++) {
		free(p->raw[i]);
		free(p->sum[i]);
		free(p->bound[i]);
	}
	free(p->x);
	free(p->bias);
	free(p->residual);
}

static void *to_device(const struct shim *s, const void *from, size_t bytes)
{
	void *p = s->alloc(bytes);

	s->put(p, from, bytes);
	return p;
}

static struct k_matrix *matrix_device(const struct shim *s, const struct product *p, int part)
{
	struct k_matrix m = {.type = p->type, .n_rows = p->rows[part], .n_cols = p->cols};
	const size_t bytes = cu_matrix_bytes((int32_t)m.type, m.n_rows, m.n_cols);
	void *packed = get(bytes);

	m.data = packed;
	cu_pack(&m, p->raw[part], 0, m.n_rows);
	m.data = to_device(s, packed, bytes);
	free(packed);
	return to_device(s, &m, sizeof m);
}

/* Values beyond their bound; *n_different: those that are not the exact mode's bits. */
static int far_off(const struct product *p, int part, const float *got)
{
	int n = 0;

	for (size_t i = 0; i < (size_t)p->n * (size_t)p->rows[part]; i++)
		n += !(fabs((double)got[i] - p->sum[part][i]) <= p->bound[part][i]);
	return n;
}

/* How many values are wrong, or 1 if the launch failed; out: part 0's, if not NULL. */
static int run(const struct product *p, const struct shim *s, int32_t plan, int n_blocks, uint64_t seed,
			   bool tell, float *out)
{
	const struct shim_options o = {.seed = seed};
	struct cu_stage stage = {.op = {.kind = K_OP_matmul}, .plan = plan};
	struct k_matmul *m = &stage.op.u.matmul;
	struct shim_step step;
	int n_wrong = 0;
	bool ok;

	*m = (struct k_matmul){.n_parts = PARTS, .n = p->n, .fast = true, .in = {.dim = p->cols}};
	m->in.x = to_device(s, p->x, (size_t)p->n * (size_t)p->cols * 4);
	for (int i = 0; i < PARTS; i++) {
		const size_t size = (size_t)p->n * (size_t)p->rows[i] * 4;

		m->part[i].w = matrix_device(s, p, i);
		m->part[i].bias = to_device(s, p->bias, (size_t)p->rows[i] * 4);
		m->part[i].out = i ? to_device(s, p->residual, size) : s->alloc(size);
		m->part[i].residual = i ? m->part[i].out : NULL;
	}
	shim_step_open(s, &step, &stage, 1);
	ok = shim_step_stage(s, &step, 0, n_blocks, &o);
	if (!ok && tell)
		print_error("%s\n", s->report());
	for (int i = 0; i < PARTS; i++) {
		n_wrong += ok ? far_off(p, i, m->part[i].out) : 1;
		if (i == 0 && out)
			memcpy(out, m->part[i].out, (size_t)p->n * (size_t)p->rows[i] * 4);
		s->free(m->part[i].w->data);
		s->free((void *)m->part[i].w);
		s->free((void *)m->part[i].bias);
		s->free(m->part[i].out);
	}
	s->free(m->in.x);
	shim_step_close(s, &step);
	return n_wrong;
}

static const int32_t plans[] = {CU_PLAN_FAST + 0x83, CU_PLAN_FAST + 0x23};
static const enum k_type types[] = {K_F16, K_BF16};

static void test_values(void **state)
{
	static const int32_t shapes[][3] = {{1, 1, 9},	  {17, 33, 16},	 {150, 64, 33}, {300, 100, 20},
										{130, 320, 64}, {65, 576, 140}, {20, 1537, 12}};
	static const int blocks[] = {1, 3, 16};

	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		for (int t = 0; t < 2; t++) {
			struct product p;

			product_open(&p, types[t], shapes[i][0], shapes[i][1], shapes[i][2]);
			for (int plan = 0; plan < 2; plan++)
				for (int s = 0; s < n_shims; s++)
					assert_int_equal(run(&p, shims[s], plans[plan], blocks[random32() % 3], random32() % 4, true, NULL), 0);
			product_close(&p);
		}
}

/* The cut changes nothing in the shim, where an instruction's sum is one; and the exact way has other bits. */
static void test_own_bits(void **state)
{
	enum { ROWS = 150, COLS = 320, N = 40 };
	static float fast[ROWS * N], small[ROWS * N], exact[ROWS * N];
	struct product p;

	(void)state;
	for (int t = 0; t < 2; t++) {
		product_open(&p, types[t], ROWS, COLS, N);
		assert_int_equal(run(&p, shims[0], plans[0], 3, 1, true, fast), 0);
		assert_int_equal(run(&p, shims[0], plans[1], 5, 2, true, small), 0);
		assert_int_equal(run(&p, shims[0], 0x23, 3, 1, true, exact), 0);
		assert_memory_equal(fast, small, sizeof fast);
		assert_memory_not_equal(fast, exact, sizeof fast);
		product_close(&p);
	}
}

/* What is greater than a half can be is clamped; a NaN stays one, in its row alone. */
static void test_hostile(void **state)
{
	enum { ROWS = 20, COLS = 64, N = 12 };
	static float out[ROWS * N];
	struct product p;

	(void)state;
	product_open(&p, K_F16, ROWS, COLS, N);
	p.x[COLS + 3] = NAN;
	for (int32_t k = 0; k < COLS; k++)
		p.x[2 * COLS + k] = k % 2 ? 1e30f : 0.0f;
	for (int32_t k = 0; k < COLS; k++)
		p.raw[0][k] = k_f32_to_f16(1.0f);
	run(&p, shims[0], plans[1], 1, 0, true, out);
	for (int32_t r = 0; r < N; r++)
		for (int32_t o = 0; o < ROWS; o++)
			assert_int_equal(out[r * ROWS + o] != out[r * ROWS + o], r == 1);
	assert_float_equal(out[2 * ROWS], 32 * 65504.0f + p.bias[0], 1.0f);
	product_close(&p);
}

/* Fast is what asks for it, has floats of 16 bits alone, and more than 8 rows; else the plan is as it was. */
static void test_plan(void **state)
{
	const struct k_matrix f16 = {.type = K_F16, .n_rows = 4096, .n_cols = 4096};
	const struct k_matrix bf16 = {.type = K_BF16, .n_rows = 1024, .n_cols = 4096};
	const struct k_matrix f32 = {.type = K_F32, .n_rows = 1024, .n_cols = 4096};
	const struct k_matrix q8 = {.type = K_Q8_0, .n_rows = 1024, .n_cols = 4096};

	(void)state;
	for (int32_t n = 1; n <= 512; n = n * 2 + 1)
		for (int fast = 0; fast < 2; fast++) {
			struct k_matmul a = {.n = n, .n_parts = 2, .fast = fast, .part = {{.w = &f16}, {.w = &bf16}}};
			struct k_op op = {.kind = K_OP_matmul, .u.matmul = a};
			const int32_t plan = cu_matmul_plan(&a, 264);

			assert_int_equal(cu_plan_fast(plan), fast && n > 8);
			if (cu_plan_fast(plan)) {
				assert_true(cu_plan_groups(plan) == 8 || cu_plan_groups(plan) == 2);
				assert_int_equal(cu_op_units(&op, plan), (32 + 8) * ((n + 16 * cu_plan_groups(plan) - 1) /
																	 (16 * cu_plan_groups(plan))));
			}
			a.part[1].w = n % 4 == 1 ? &f32 : &q8;
			assert_false(cu_plan_fast(cu_matmul_plan(&a, 264)));
		}
}

static void test_barriers(void **state)
{
	static struct shim_place place[256];
	const struct shim *s = shims[n_shims - 1];
	int n, n_tried = 0;
	struct product p;

	(void)state;
	if (!s->checked)
		skip();
	product_open(&p, K_F16, 300, 96, 40); /* an odd number of chunks: the last one's buffer is the first's */
	assert_int_equal(run(&p, s, plans[1], 2, 1, true, NULL), 0);
	n = s->places(place, 256);
	for (int k = 0; k < n; k++) {
		int n_wrong = 0;

		if (!place[k].orders || strncmp(place[k].name, "matmul_fast", 11))
			continue;
		n_tried++;
		assert_true(s->leave_out(place[k].name));
		for (uint64_t seed = 0; seed < 4 && !n_wrong; seed++)
			n_wrong = run(&p, s, plans[1], 2, seed, false, NULL);
		s->leave_out(NULL);
		if (!n_wrong)
			print_error("%s can be left out\n", place[k].name);
		assert_true(n_wrong > 0);
	}
	assert_int_equal(n_tried, 2);
	product_close(&p);
}

static int open_all(void **state)
{
	const char *why = "";

	(void)state;
	for (int i = 0; i < 2; i++) {
		const struct shim *s = shim_open(i, &why);

		if (s)
			shims[n_shims++] = s;
		else
			print_message("# %s\n", why);
	}
	return n_shims ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),	cmocka_unit_test(test_own_bits), cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_plan),	cmocka_unit_test(test_barriers),
	};

	return cmocka_run_group_tests(tests, open_all, NULL);
}
