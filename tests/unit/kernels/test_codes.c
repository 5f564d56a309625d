/* Keys and values as codes (rule 10; format/codes.h): rounding against a search for the nearest
 * code in double; what rope and encode store, read back number by number; and attention: the
 * reference against the same sums over the numbers that codes stand for, and every instruction set
 * against the reference by memcmp, with hostile scales. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/format/codes.h"
#include "tests/support/isa_rig.h"

static double f16(uint16_t h)
{
	return (double)k_f16_to_f32(h);
}

/* Some number of f16: of the same size as others of this kind, or of any. */
static float number(int kind)
{
	if (kind == 0)
		return k_f16_to_f32(k_f32_to_f16(rig_number(3)));
	if (kind == 1)
		return k_f16_to_f32(k_f32_to_f16(100 + rig_number(0.1f)));
	if (kind == 2)
		return k_f16_to_f32((uint16_t)(rig_next() % 2 << 15 | rig_next() % 5));
	if (kind == 3)
		return rig_next() % 2 ? 65504 : -65504;
	return rig_next() % 9 ? 0 : 1;
}

/* ---- rounding ---- */

/* How far is code from the best? In units of the scale. */
static void check_nearest(float x, double scale, double min, int code, int least, int most)
{
	const double got = fabs(min + scale * code - (double)x);

	assert_in_range(code - least, 0, most - least);
	for (int other = least; other <= most && scale > 0; other++)
		if (fabs(min + scale * other - (double)x) < got - 1e-4 * scale)
			fail_msg("%a: code %d of scale %a, %d is nearer", (double)x, code, scale, other);
}

static void test_round(void **state)
{
	(void)state;
	for (int turn = 0; turn < 4000; turn++) {
		const int32_t bits = turn % 2 ? 4 : 2, n = 1 + (int32_t)(rig_next() % K_CODED_DIMS);
		float x[K_CODED_DIMS], low = INFINITY, high = -INFINITY, size = 0;
		uint8_t code[K_CODED_DIMS];
		int8_t q8[K_Q8_DIMS];
		uint16_t scale, min;

		for (int32_t i = 0; i < n; i++) {
			x[i] = number(turn / 2 % 5);
			low = fminf(low, x[i]);
			high = fmaxf(high, x[i]);
			size = fmaxf(size, i < K_Q8_DIMS ? fabsf(x[i]) : 0);
		}
		k_codes_round(x, n, bits, code, &scale, &min);
		assert_true(f16(min) == (double)low);
		assert_int_equal(scale, k_f32_to_f16((high - low) / (float)((1 << bits) - 1)));
		for (int32_t i = 0; i < n; i++)
			check_nearest(x[i], f16(scale), f16(min), code[i], 0, (1 << bits) - 1);
		scale = k_q8_round(x, n < K_Q8_DIMS ? n : K_Q8_DIMS, q8);
		assert_int_equal(scale, k_f32_to_f16(size / 127.0f));
		for (int32_t i = 0; i < n && i < K_Q8_DIMS; i++)
			check_nearest(x[i], f16(scale), 0, q8[i], -127, 127);
	}
}

/* What is no number of f16 is stored as its largest, and a NaN as 0. */
static void test_round_hostile(void **state)
{
	const float x[] = { INFINITY, -INFINITY, 3e38f, 1, -0.0f };
	int8_t code[5];

	(void)state;
	assert_int_equal(k_q8_round(x, 5, code), k_f32_to_f16(65504 / 127.0f));
	assert_int_equal(code[0], 127);
	assert_int_equal(code[1], -127);
	assert_int_equal(code[2], 127);
	assert_int_equal(code[3], 0);
	assert_int_equal(code[4], 0);
}

/* ---- what a cache holds ---- */

enum { LAYER = 1, LAYERS = 2 };

static void *group_at(const struct cache *c, int32_t seq, int32_t pos, int v, int32_t head)
{
	return k_kv_group(&c->kv, c->pages[seq][pos / c->kv.page_size], LAYER, v, head,
		pos % c->kv.page_size / K_GROUP);
}

/* The number that dimension i of the key (v 0) or value at pos stands for. */
static double stored(
	const struct cache *c, int32_t seq, int32_t pos, int v, int32_t head, int32_t i)
{
	const int32_t bits = k_cache_bits((int32_t)c->kv.format), dim = c->kv.head_dim,
				  t = pos % K_GROUP;
	void *at = group_at(c, seq, pos, v, head);

	if (!bits)
		return (double)k_cache_get(
			(int32_t)c->kv.format, at, (size_t)(v ? t * dim + i : i * K_GROUP + t));
	if (c->kv.format == K_CACHE_q8)
		return f16(k_q8_scales(at, dim, i / K_Q8_DIMS)[t]) *
			   ((const int8_t *)at)[v ? t * dim + i : i * K_GROUP + t];
	if (v) {
		const struct k_code_scales s = k_value_scales(at, dim, bits, i / K_CODED_DIMS);

		return f16(s.min[t]) + f16(s.scale[t]) * k_code_get(at, k_value_at(dim, t, i, bits), bits);
	}
	return f16(k_key_scales(at, dim, bits).min[i]) +
		   f16(k_key_scales(at, dim, bits).scale[i]) * k_code_get(at, k_key_at(t, i, bits), bits);
}

static void put_f16(
	const struct cache *c, int32_t seq, int32_t pos, int v, int32_t head, int32_t i, float x)
{
	const int32_t t = pos % K_GROUP, dim = c->kv.head_dim;

	((uint16_t *)group_at(c, seq, pos, v, head))[v ? t * dim + i : i * K_GROUP + t] =
		k_f32_to_f16(x);
}

/* Each number is within half a scale of what was there, where the group was ended; elsewhere no
 * byte has changed. */
static void check_encoded(
	const struct cache *recent, const struct cache *c, int32_t seq, int32_t first, int32_t head)
{
	const int32_t bits = k_cache_bits((int32_t)c->kv.format), dim = c->kv.head_dim;

	for (int32_t t = 0; t < K_GROUP; t++)
		for (int32_t i = 0; i < dim; i++) {
			const struct k_code_scales k =
				k_key_scales(group_at(c, seq, first, 0, head), dim, bits);
			const struct k_code_scales v =
				k_value_scales(group_at(c, seq, first, 1, head), dim, bits, i / K_CODED_DIMS);

			assert_true(
				fabs(stored(c, seq, first + t, 0, head, i) -
					 stored(recent, seq, first + t, 0, head, i)) <= 0.51 * f16(k.scale[i]) + 1e-5);
			assert_true(
				fabs(stored(c, seq, first + t, 1, head, i) -
					 stored(recent, seq, first + t, 1, head, i)) <= 0.51 * f16(v.scale[t]) + 1e-5);
		}
}

static void try_encode(enum k_cache format, int32_t dim, int32_t page_size)
{
	enum { HEADS = 2, LONGEST = 96, N = 5 };
	const struct k_row rows[N] = { { .pos = 15, .seq = 0 }, { .pos = 16, .seq = 0 },
		{ .pos = 63, .seq = 1 }, { .pos = 62, .seq = 0 }, { .pos = 47, .seq = 2 } };
	const struct k_also also[] = { { .row = 2, .seq = 2 }, { .row = 3, .seq = 1 } };
	const int32_t ended[][2] = { { 0, 0 }, { 1, 48 }, { 2, 32 }, { 2, 48 } }; /* seq, first */
	struct cache recent, c;
	uint8_t *before, *want;
	struct k_op op = { .kind = K_OP_encode };

	cache_open(&recent, K_CACHE_f16, page_size, LAYERS, HEADS, dim, 3, LONGEST);
	cache_open(&c, format, page_size, LAYERS, HEADS, dim, 3, LONGEST);
	for (int32_t i = 0; i < 3 * LONGEST * HEADS * 2 * dim; i++)
		put_f16(&recent, i % 3, i / 3 % LONGEST, i / 3 / LONGEST % 2, i / 6 / LONGEST % HEADS,
			i / 6 / LONGEST / HEADS, number(i / 6 / LONGEST / HEADS % 2));
	before = rig_get(c.bytes);
	want = rig_get(c.bytes);
	memcpy(before, c.kv.base, c.bytes);
	op.u.encode = (struct k_encode){ .layer = LAYER,
		.n = N,
		.rows = rows,
		.also = also,
		.n_also = 2,
		.recent_pages = recent.pages,
		.pages = c.pages,
		.recent = &recent.kv,
		.kv = &c.kv };
	rig_run(ref, &op);
	for (size_t i = 0; i < sizeof ended / sizeof *ended; i++)
		for (int32_t head = 0; head < HEADS; head++)
			check_encoded(&recent, &c, ended[i][0], ended[i][1], head);
	memcpy(want, c.kv.base, c.bytes);
	for (size_t i = 0; i < sizeof ended / sizeof *ended; i++)
		for (int32_t at = 0; at < 2 * HEADS; at++) {
			uint8_t *group = group_at(&c, ended[i][0], ended[i][1], at % 2, at / 2);

			memcpy(group, before + (group - c.kv.base), k_kv_group_bytes(&c.kv, at % 2));
		}
	assert_memory_equal(c.kv.base, before, c.bytes); /* all else is as it was */
	for (int i = 0; i < n_fast; i++) {
		memcpy(c.kv.base, before, c.bytes);
		rig_run(fast[i], &op);
		assert_memory_equal(c.kv.base, want, c.bytes);
	}
	cache_close(&recent);
	cache_close(&c);
	rig_free_all((void *[]){ before, want, NULL });
}

static void test_encode(void **state)
{
	(void)state;
	for (int bits = 0; bits < 2; bits++) {
		try_encode(bits ? K_CACHE_kivi4 : K_CACHE_kivi2, 64, 16);
		try_encode(bits ? K_CACHE_kivi4 : K_CACHE_kivi2, 80, 48);
		try_encode(bits ? K_CACHE_kivi4 : K_CACHE_kivi2, 24, 32);
		try_encode(bits ? K_CACHE_kivi4 : K_CACHE_kivi2, 256, 64);
	}
}

/* Rope without a turn stores in q8 what it was given, to half a scale and what the scale was
 * rounded down; a NaN is 0 and is told. */
static void test_append(void **state)
{
	enum { DIM = 80, N = 3 };
	float q[N * DIM], k[N * DIM], v[N * DIM], cos[32 * DIM / 2], sin[32 * DIM / 2];
	const struct k_row rows[N] = { { .pos = 0 }, { .pos = 15 }, { .pos = 21 } };
	k_atomic_int nan_row = 0;
	struct cache c;
	struct k_op op = { .kind = K_OP_rope };

	(void)state;
	cache_open(&c, K_CACHE_q8, 16, LAYERS, 1, DIM, 1, 32);
	rig_fill(k, N * DIM, 3);
	rig_fill(v, N * DIM, 3);
	k[DIM + 7] = NAN;
	for (int i = 0; i < 32 * DIM / 2; i++) {
		cos[i] = 1;
		sin[i] = 0;
	}
	op.u.rope = (struct k_rope){ .q = q,
		.k = k,
		.v = v,
		.cos = cos,
		.sin = sin,
		.rope_dim = DIM,
		.n_heads = 1,
		.layer = LAYER,
		.n = N,
		.rows = rows,
		.pages = c.pages,
		.kv = &c.kv,
		.nan_row = &nan_row };
	for (int f = -1; f < n_fast; f++) {
		memset(q, 0, sizeof q);
		memset(c.kv.base, 0, c.bytes);
		atomic_store(&nan_row, 0);
		rig_run(f < 0 ? ref : fast[f], &op);
		assert_int_equal(atomic_load(&nan_row), 2);
		for (int32_t r = 0; r < N; r++)
			for (int32_t i = 0; i < DIM; i++) {
				const double x[] = { i / 2 == 3 && r == 1
										 ? 0
										 : /* a pair is turned together */ (double)k[r * DIM + i],
					(double)v[r * DIM + i] };

				for (int at = 0; at < 2; at++) {
					void *group = group_at(&c, 0, rows[r].pos, at, 0);
					const uint16_t *scale = k_q8_scales(group, DIM, i / K_Q8_DIMS);

					if (!(fabs(stored(&c, 0, rows[r].pos, at, 0, i) - x[at]) <=
							0.57 * f16(scale[rows[r].pos % K_GROUP])))
						fail_msg("f %d row %d at %d dim %d: %g, not %g, scale %g", f, r, at, i,
							stored(&c, 0, rows[r].pos, at, 0, i), x[at],
							f16(scale[rows[r].pos % K_GROUP]));
				}
			}
	}
	cache_close(&c);
}

/* ---- attention ---- */

struct shape {
	int32_t head_dim, n_heads, n_kv_heads, page_size;
};
static const struct shape shapes[] = { { 64, 9, 3, 16 }, { 256, 4, 1, 64 }, { 80, 4, 2, 32 },
	{ 128, 6, 1, 16 }, { 32, 2, 2, 48 }, { 64, 14, 1, 128 }, { 96, 5, 5, 16 }, { 24, 4, 2, 16 } };
enum { N_SHAPES = sizeof shapes / sizeof *shapes, MOST_ROWS = 24 };

/* An op of n rows and what it reads. */
struct scene {
	struct k_op op;
	struct cache codes, recent;
	float *q;
	struct k_range *ranges;
	int32_t n_observed;
};

/* Ranges: all, or sinks and a window. */
static void see(struct k_range *out, int32_t pos, bool part)
{
	const int32_t window = 150 + (int32_t)(rig_next() % 60);

	out[0] = (struct k_range){ 0, pos + 1 };
	out[1] = (struct k_range){ pos + 1, pos + 1 };
	if (part && pos > window + 5) {
		out[0].end = 5;
		out[1].first = pos - window;
	}
}

static void scene_open(struct scene *s, enum k_cache format, const struct shape *shape,
	struct k_row *rows, int32_t n, bool part)
{
	const int32_t dim = shape->n_heads * shape->head_dim;
	int32_t longest = 0;

	*s = (struct scene){ .q = rig_get((size_t)n * (size_t)dim * 4),
		.ranges = rig_get((size_t)n * 2 * sizeof *s->ranges) };
	for (int32_t r = 0; r < n; r++) {
		longest = rows[r].pos + 1 > longest ? rows[r].pos + 1 : longest;
		rows[r].observe = r % 3 == n % 3 ? s->n_observed++ : -1;
		see(s->ranges + 2 * r, rows[r].pos, part);
	}
	cache_open(&s->codes, format, shape->page_size, LAYERS, shape->n_kv_heads, shape->head_dim, 3,
		longest);
	s->codes.kv.residual = K_SPAN * (int32_t)(rig_next() % 3);
	cache_open(&s->recent, K_CACHE_f16, shape->page_size, LAYERS, shape->n_kv_heads,
		shape->head_dim, 3, longest);
	rig_fill(s->q, (size_t)n * (size_t)dim, 1);
	s->op = (struct k_op){ .kind = K_OP_attention,
		.u.attention = { .q = s->q,
			.out.dim = dim,
			.n_heads = shape->n_heads,
			.layer = LAYER,
			.n = n,
			.rows = rows,
			.ranges = s->ranges,
			.n_ranges = 2,
			.pages = s->codes.pages,
			.kv = &s->codes.kv,
			.recent = k_cache_by_channel((int32_t)format) ? &s->recent.kv : NULL,
			.recent_pages = s->recent.pages,
			.share_stride = longest / K_GROUP + 3,
			.threshold = 1e-3f } };
}

static void scene_close(struct scene *s)
{
	cache_close(&s->codes);
	cache_close(&s->recent);
	rig_free_all((void *[]){ s->q, s->ranges, NULL });
}

static bool sees(const struct k_range *r, int32_t pos)
{
	return (r[0].first <= pos && pos < r[0].end) || (r[1].first <= pos && pos < r[1].end);
}

/* One head of a row in double: of the positions that it sees, those before coded_end by their
 * codes, the others in f16. */
static void naive(const struct scene *s, int32_t r, int32_t head, double *o)
{
	const struct k_attention *a = &s->op.u.attention;
	const struct k_row *row = a->rows + r;
	const int32_t dim = a->kv->head_dim, kv_head = head / (a->n_heads / a->kv->n_kv_heads);
	const float *q = a->q + (r * a->n_heads + head) * dim;
	double *p = rig_get((size_t)(row->pos + 1) * sizeof *p), max = -INFINITY, sum = 0;

	memset(o, 0, (size_t)dim * sizeof *o);
	for (int32_t pos = 0; pos <= row->pos; pos++) {
		const bool coded = !a->recent || pos < (row->pos + 1 - a->kv->residual) / 128 * 128;

		p[pos] = 0;
		for (int32_t i = 0; i < dim; i++)
			p[pos] +=
				(double)q[i] * stored(coded ? &s->codes : &s->recent, row->seq, pos, 0, kv_head, i);
		if (sees(a->ranges + 2 * r, pos))
			max = fmax(max, p[pos]);
	}
	for (int32_t pos = 0; pos <= row->pos; pos++)
		sum += p[pos] = sees(a->ranges + 2 * r, pos) ? exp(p[pos] - max) : 0;
	for (int32_t pos = 0; pos <= row->pos; pos++) {
		const bool coded = !a->recent || pos < (row->pos + 1 - a->kv->residual) / 128 * 128;

		for (int32_t i = 0; i < dim; i++)
			o[i] +=
				p[pos] / sum * stored(coded ? &s->codes : &s->recent, row->seq, pos, 1, kv_head, i);
	}
	free(p);
}

/* Scales of keys so small that scores are of the size of one; of values likewise. */
static void tame(struct scene *s)
{
	uint16_t *at = (uint16_t *)(void *)s->codes.kv.base;

	for (size_t i = 0; i < s->codes.bytes / 2; i++)
		at[i] = (uint16_t)(at[i] & 0x83ff) | 0x2800;
}

/* The outputs of the reference are those of the sums over numbers, nearly. */
static void test_reference(void **state)
{
	(void)state;
	for (int turn = 0; turn < 12; turn++) {
		const enum k_cache format = K_N_UNCODED + (enum k_cache)(turn % 3);
		const struct shape *shape = &shapes[turn % 5];
		struct k_row rows[2] = { { .pos = 127 + turn * 31, .seq = 1 },
			{ .pos = 300 + turn, .seq = 2 } };
		struct scene s;
		struct k_acts out;
		double o[256];

		scene_open(&s, format, shape, rows, 2, turn % 4 == 3);
		tame(&s);
		out = acts_new(2, s.op.u.attention.out.dim, true, false);
		s.op.u.attention.out = out;
		rows[0].observe = rows[1].observe = -1;
		rig_run(ref, &s.op);
		for (int32_t i = 0; i < 2 * shape->n_heads; i++) {
			const int32_t r = i / shape->n_heads, head = i % shape->n_heads;
			const float *x = out.x + i * shape->head_dim;

			naive(&s, r, head, o);
			for (int32_t d = 0; d < shape->head_dim; d++)
				if (!(fabs((double)x[d] - o[d]) < 2e-4))
					fail_msg("%s, row %d, head %d, dimension %d: %g, not %g",
						k_cache_name((int)format), r, head, d, (double)x[d], o[d]);
		}
		acts_free(&out);
		scene_close(&s);
	}
}

static void compare(struct scene *s)
{
	struct k_attention *a = &s->op.u.attention;
	const size_t heads = (size_t)s->n_observed * (size_t)a->n_heads;
	const size_t shares = heads * (size_t)a->share_stride * 4;
	float *share[2] = { rig_get(shares + 4), rig_get(shares + 4) };
	int32_t *near_zero[2] = { rig_get(heads * 4 + 4), rig_get(heads * 4 + 4) };
	struct k_acts out[2];

	for (int i = 0; i < 2; i++)
		out[i] = acts_new(a->n, a->out.dim, true, a->out.dim % 32 == 0);
	for (int f = -1; f < n_fast; f++) {
		const int i = f >= 0;

		a->out = out[i];
		a->share = share[i];
		a->near_zero = near_zero[i];
		rig_run(f < 0 ? ref : fast[f], &s->op);
		if (f < 0)
			continue;
		acts_same(&out[0], &out[1], a->n);
		assert_memory_equal(share[0], share[1], shares);
		assert_memory_equal(near_zero[0], near_zero[1], heads * 4);
	}
	acts_free(&out[0]);
	acts_free(&out[1]);
	rig_free_all((void *[]){ share[0], share[1], near_zero[0], near_zero[1], NULL });
}

/* Rows of a chunk across the places where a span becomes codes, rows of several sequences, one deep
 * row; with any finite scales, and with those of ordinary numbers. */
static void test_each_isa(void **state)
{
	(void)state;
	for (int turn = 0; turn < TURNS(48); turn++) {
		const enum k_cache format = K_N_UNCODED + (enum k_cache)(turn % 3);
		const struct shape *shape = &shapes[turn / 3 % N_SHAPES];
		const int kind = (turn / 3 + turn / 24) % 4;
		const int32_t n = kind == 0 ? 1 : kind == 1 ? 7 : MOST_ROWS;
		struct k_row rows[MOST_ROWS];
		struct scene s;

		for (int32_t r = 0; r < n; r++)
			rows[r] = kind == 3 ? (struct k_row){ .pos = (int32_t)(rig_next() % 640), .seq = r % 3 }
								: (struct k_row){ .pos = 250 + turn * 3 + r, .seq = 1 };
		if (kind == 0)
			rows[0].pos = 1100 + turn;
		scene_open(&s, format, shape, rows, n, turn % 5 == 4);
		if (turn % 2)
			tame(&s);
		s.op.u.attention.softcap = turn % 7 == 6 ? 20 : 0;
		compare(&s);
		scene_close(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round),
		cmocka_unit_test(test_round_hostile),
		cmocka_unit_test(test_encode),
		cmocka_unit_test(test_append),
		cmocka_unit_test(test_reference),
		cmocka_unit_test(test_each_isa),
	};

	return cmocka_run_group_tests_name("codes", tests, rig_setup, rig_teardown);
}
