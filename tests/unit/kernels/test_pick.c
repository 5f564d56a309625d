/* The choice of keys and the second query (rules 18 and 19): the reference against a plain one that
 * sorts and rounds by itself, and every instruction set against the reference, by memcmp: over page
 * sizes, head shapes, formats of the cache, budgets, ties and NaN. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/format/cache.h"
#include "tests/support/isa_rig.h"

enum { LONGEST = 900, ROWS = 5, STRIDE = LONGEST / K_SPAN + 1, MOST_HEADS = 4 };

struct shape {
	int32_t head_dim, n_heads, n_kv_heads, page_size;
};
static const struct shape shapes[] = { { 64, 9, 3, 16 }, { 32, 4, 4, 64 }, { 256, 4, 1, 32 },
	{ 48, 2, 1, 128 }, { 24, 4, 2, 16 } };
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* A page with room for extents: cache_open() makes it without. */
static void open_with_key_ranges(struct cache *c, const struct shape *s, enum k_cache format)
{
	cache_open(c, format, s->page_size, 2, s->n_kv_heads, s->head_dim, 2, LONGEST);
	free(c->kv.base);
	c->kv.key_ranges = true;
	c->kv.page_bytes = (k_kv_page_bytes(&c->kv) + 63) / 64 * 64;
	c->bytes = (size_t)(c->n_seqs * c->n_blocks) * c->kv.page_bytes;
	c->kv.base = rig_get(c->bytes);
	for (size_t i = 0; i < c->bytes / (size_t)k_cache_bytes(format); i++)
		k_cache_put(format, c->kv.base, i, k_cache_code(format, rig_number(3)));
}

static uint16_t *key_range_of(const struct cache *c, int32_t seq, int32_t head, int32_t group)
{
	const int32_t per_page = c->kv.page_size / K_GROUP;

	return k_kv_key_range_at(&c->kv, c->pages[seq][group / per_page], 1, head, group % per_page);
}

static float key_of(const struct cache *c, int32_t seq, int32_t head, int32_t pos, int32_t d)
{
	const int32_t token = pos % c->kv.page_size;

	return k_cache_get(c->kv.format,
		k_kv_at(&c->kv, c->pages[seq][pos / c->kv.page_size], 1, 0, head),
		(size_t)((token / K_GROUP * c->kv.head_dim + d) * K_GROUP + token % K_GROUP));
}

/* Rows that fill a group write its extents, those of their further pages too; no other byte of any
 * page changes. */
static void test_key_range(void **state)
{
	(void)state;
	for (int i = 0; i < 4 * N_SHAPES; i++) {
		const struct shape *s = &shapes[i % N_SHAPES];
		struct k_row rows[] = { { .pos = 15, .seq = 0 }, { .pos = 16, .seq = 0 },
			{ .pos = 303, .seq = 0 }, { .pos = 304, .seq = 0 } };
		const struct k_also also[] = { { 2, 1 }, { 3, 1 } };
		static const int32_t at[][2] = { { 0, 0 }, { 0, 18 }, { 1, 18 } };
		struct k_op op = { .kind = K_OP_key_range };
		struct cache c;
		uint8_t *before, *want;

		open_with_key_ranges(&c, s, rig_format());
		before = rig_get(c.bytes);
		want = rig_get(c.bytes);
		memcpy(before, c.kv.base, c.bytes);
		op.u.key_range = (struct k_key_range){ .layer = 1,
			.n = 4,
			.rows = rows,
			.also = also,
			.n_also = 2,
			.pages = c.pages,
			.kv = &c.kv };
		for (int n = 0; n < 3; n++)
			for (int32_t h = 0; h < s->n_kv_heads; h++)
				for (int32_t d = 0; d < s->head_dim; d++) {
					float lo = INFINITY, hi = -INFINITY;

					for (int32_t t = 0; t < K_GROUP; t++) {
						const float k = key_of(&c, at[n][0], h, at[n][1] * K_GROUP + t, d);

						lo = k < lo ? k : lo;
						hi = k > hi ? k : hi;
					}
					key_range_of(&c, at[n][0], h, at[n][1])[d] =
						(uint16_t)k_to_f16(fmaf(hi - lo, 0.25f, lo));
					key_range_of(&c, at[n][0], h, at[n][1])[s->head_dim + d] =
						(uint16_t)k_to_f16(fmaf(hi - lo, -0.25f, hi));
				}
		memcpy(want, c.kv.base, c.bytes);
		for (int k = -1; k < n_fast; k++) {
			memcpy(c.kv.base, before, c.bytes);
			rig_run(k < 0 ? ref : fast[k], &op);
			assert_memory_equal(c.kv.base, want, c.bytes);
		}
		rig_free_all((void *[]){ before, want, NULL });
		cache_close(&c);
	}
}

/* As rule 18 defines it. */
static float bound_of(const struct cache *c, const struct shape *s, const float *q, int32_t seq,
	int32_t head, int32_t group)
{
	const uint16_t *e = key_range_of(c, seq, head, group);
	const int32_t n_rep = s->n_heads / s->n_kv_heads;
	float lane[16] = { 0 };

	for (int32_t h = head * n_rep; h < (head + 1) * n_rep; h++)
		for (int32_t d = 0; d < s->head_dim; d++) {
			const float x = q[h * s->head_dim + d];

			lane[d % 16] = fmaf(x, k_f16_to_f32(e[x > 0 ? s->head_dim + d : d]), lane[d % 16]);
		}
	return k_tree_sum(lane, 16);
}

/* A group is read if fewer than the budget has room for come before it. */
static bool is_selected(const float *bound, int32_t own, int32_t budget, int32_t g)
{
	int32_t better = 0;

	if (g == 0 || g >= own - 1)
		return true;
	for (int32_t i = 1; i < own - 1; i++)
		better += k_order_key(bound[i]) > k_order_key(bound[g]) ||
				  (k_order_key(bound[i]) == k_order_key(bound[g]) && i < g);
	return better < budget - 3;
}

static void check_row(
	const struct cache *c, const struct shape *s, const struct k_pick *a, int32_t r)
{
	const int32_t own = a->rows[r].pos / K_GROUP;
	const float *q = a->q + (size_t)(r * s->n_heads * s->head_dim);
	float bound[LONGEST / K_GROUP + 1];

	for (int32_t h = 0; h < s->n_kv_heads; h++) {
		const uint8_t *out = a->out + (r * s->n_kv_heads + h) * a->stride;

		for (int32_t g = 0; g < own; g++)
			bound[g] = bound_of(c, s, q, a->rows[r].seq, h, g);
		for (int32_t g = 0; g < (own / 8 + 1) * 8; g++)
			assert_int_equal(out[g / 8] >> g % 8 & 1,
				g <= own && (own < a->budget[r] || is_selected(bound, own, a->budget[r], g)));
	}
}

/* Few bounds differ in every fourth case, and one query in eight has a NaN. */
static void test_pick(void **state)
{
	(void)state;
	for (int i = 0; i < TURNS(12) * N_SHAPES; i++) {
		const struct shape *s = &shapes[i % N_SHAPES];
		const size_t width = (size_t)(s->n_heads * s->head_dim);
		const size_t bytes = (size_t)(ROWS * s->n_kv_heads * STRIDE);
		float *q = rig_get(ROWS * width * sizeof *q);
		uint8_t *want = rig_get(bytes), *got = rig_get(bytes);
		struct k_row rows[ROWS];
		int32_t budget[ROWS];
		struct k_op op = { .kind = K_OP_pick };
		struct cache c;

		open_with_key_ranges(&c, s, K_CACHE_f16);
		rig_fill(q, ROWS * width, 2);
		for (size_t at = 0; i % 4 == 3 && at < ROWS * width; at++)
			q[at] = at % 64 ? 0 : k_f16_to_f32(0x3c00);
		if (i % 8 == 5)
			q[7] = NAN;
		for (int32_t r = 0; r < ROWS; r++) {
			rows[r] = (struct k_row){ .pos = (int32_t)(rig_next() % (i % 3 ? LONGEST : 90)),
				.seq = r % 2 };
			budget[r] = 3 + (int32_t)(rig_next() % (i % 2 ? 9 : 60));
		}
		op.u.pick = (struct k_pick){ .q = q,
			.out = want,
			.stride = STRIDE,
			.n_heads = s->n_heads,
			.layer = 1,
			.n = ROWS,
			.rows = rows,
			.budget = budget,
			.pages = c.pages,
			.kv = &c.kv };
		rig_run(ref, &op);
		for (int32_t r = 0; r < ROWS; r++)
			check_row(&c, s, &op.u.pick, r);
		op.u.pick.out = got;
		for (int k = 0; k < n_fast; k++) {
			memset(got, 0x55, bytes);
			rig_run(fast[k], &op);
			assert_memory_equal(got, want, bytes);
		}
		op.u.pick.n = 1; /* threads part its groups */
		for (int k = 0; k < n_fast; k++) {
			memset(got, 0x55, bytes);
			rig_run(fast[k], &op);
			for (int32_t h = 0; h < s->n_kv_heads; h++)
				assert_memory_equal(
					got + h * STRIDE, want + h * STRIDE, (size_t)(rows[0].pos / K_SPAN + 1));
		}
		rig_free_all((void *[]){ q, want, got, NULL });
		cache_close(&c);
	}
}

/* The second query is what rope would make of it at the other position. */
static void test_turn(void **state)
{
	enum { DIM = 64, HEADS = 3, N = 4 };
	float q[N * HEADS * DIM], rotated[N * HEADS * DIM], zero[N * HEADS * DIM] = { 0 };
	float cos[50 * DIM / 2], sin[50 * DIM / 2];
	const int32_t pos[N] = { 3, 49, 0, 20 };
	struct k_row rows[N];
	double freq[DIM / 2];
	struct k_op op = { .kind = K_OP_turn };
	atomic_int nan_row;
	struct cache c;

	(void)state;
	atomic_init(&nan_row, 0);
	k_rope_freqs(10000, DIM, freq);
	k_rope_table(freq, DIM / 2, 50, cos, sin);
	cache_open(&c, K_CACHE_f16, 64, 1, HEADS, DIM, 1, 64);
	rig_fill(q, N * HEADS * DIM, 2);
	for (int k = -1; k < n_fast; k++)
		for (int neox = 0; neox < 2; neox++) {
			op = (struct k_op){ .kind = K_OP_turn,
				.u.turn = { .q = q,
					.out = rotated,
					.cos = cos,
					.sin = sin,
					.pos = pos,
					.rope_dim = DIM,
					.n_heads = HEADS,
					.head_dim = DIM,
					.n = N,
					.neox = neox,
					.scale = 0.125f } };
			rig_run(k < 0 ? ref : fast[k], &op);
			for (int32_t r = 0; r < N; r++)
				rows[r] = (struct k_row){ .pos = pos[r] };
			float moved[N * HEADS * DIM];

			memcpy(moved, q, sizeof q);
			op = (struct k_op){ .kind = K_OP_rope,
				.u.rope = { .q = moved,
					.k = zero,
					.v = zero,
					.cos = cos,
					.sin = sin,
					.rope_dim = DIM,
					.neox = neox,
					.scale = 0.125f,
					.n_heads = HEADS,
					.n = N,
					.rows = rows,
					.pages = c.pages,
					.kv = &c.kv,
					.nan_row = &nan_row } };
			rig_run(ref, &op);
			assert_memory_equal(rotated, moved, sizeof moved);
		}
	cache_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_key_range),
		cmocka_unit_test(test_pick),
		cmocka_unit_test(test_turn),
	};

	return cmocka_run_group_tests_name("pick", tests, rig_setup, rig_teardown);
}
