/* The GPU's plain ops, run by the shim, against the reference: each op's ways, rows that are wide
 * and alone or narrow and several, widths that end inside a block of 32, states that are begun,
 * resumed and read by a later row, results in place; grids, schedules. All that an op reads and
 * writes lies in one piece of memory, so that it is compared as one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/kernels.h"
#include "tests/cuda/shim/shim.h"

enum { ROOM = 8 << 20, ROWS = 6, PAGES = 4 };

static struct k_ctx *ref;
static const struct shim *both[2];
static int n_both;

static uint32_t next(void)
{
	static uint32_t s = 1;

	s = s * 1664525 + 1013904223;
	return s >> 8;
}

/* Memory of an op. `fresh`: what is taken gets its numbers; else it has them. */
struct room {
	unsigned char *base;
	size_t used;
	struct k_state *state;
	bool fresh;
};

static void *take(struct room *m, size_t bytes)
{
	void *at = m->base + m->used;

	m->used += (bytes + 255) / 256 * 256;
	assert_true(m->used <= ROOM);
	return at;
}

static float *floats(struct room *m, int32_t n)
{
	float *x = take(m, (size_t)n * sizeof *x);

	for (int32_t i = 0; m->fresh && i < n; i++)
		x[i] = next() % 9 ? (float)(next() % 40001) / 10000 - 2 : 0.5f;
	return x;
}

static int32_t *numbers(struct room *m, int32_t n, int32_t below)
{
	int32_t *x = take(m, (size_t)n * sizeof *x);

	for (int32_t i = 0; m->fresh && i < n; i++)
		x[i] = (int32_t)(next() % (uint32_t)below);
	return x;
}

static struct k_acts acts(struct room *m, int32_t n, int32_t dim, bool x, bool q)
{
	struct k_acts a = { .dim = dim };

	a.x = x ? floats(m, n * dim) : NULL;
	a.q = q ? take(m, (size_t)(n * dim)) : NULL;
	a.d = q ? floats(m, n * dim / K_QBLOCK) : NULL;
	a.sx = q ? floats(m, n * dim / K_QBLOCK) : NULL;
	return a;
}

static struct k_row *positions(struct room *m, int32_t n)
{
	struct k_row *rows = take(m, (size_t)n * sizeof *rows);

	for (int32_t r = 0; m->fresh && r < n; r++)
		rows[r] = (struct k_row){ .pos = 7 * r % 11, .observe = -1 };
	return rows;
}

/* One row that goes on with its own page; or rows that begin, go on, read what an earlier row of
 * the step wrote, and write what it has read. */
static struct k_state_row *states(struct room *m, int32_t n, int32_t page)
{
	static const struct k_state_row several[ROWS] = { { K_STATE_ZERO, -1 }, { K_STATE_ROW, 1 },
		{ K_STATE_ROW, -1 }, { 1, 2 }, { 0, 3 }, { K_STATE_ROW, 0 } };
	struct k_state_row *rows = take(m, (size_t)n * sizeof *rows);

	m->state->base = (uint8_t *)floats(m, PAGES * page);
	m->state->page_bytes = (size_t)page * sizeof(float);
	for (int32_t r = 0; m->fresh && r < n; r++)
		rows[r] = n == 1 ? (struct k_state_row){ 1, 1 } : several[r];
	return rows;
}

/* ---- the ops; v: which of their ways ---- */

static void combine(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? 5 : 1, dim = v ? 33 : 4100, k = 3;

	op->u.combine = (struct k_combine){ .y = floats(m, n * k * dim),
		.weights = floats(m, n * k),
		.shared = v == 1 ? NULL : floats(m, n * dim),
		.gate = v == 2 ? NULL : floats(m, n),
		.x = floats(m, n * dim),
		.scale = v ? 0.7f : 0,
		.dim = dim,
		.k = k,
		.n = n };
}

static void slice(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? 4 : 1, heads = 3;

	op->u.slice = (struct k_slice){ .x = floats(m, n * heads * 2100),
		.out = acts(m, n * heads, v ? 31 : 2080, true, !v),
		.ids = v ? NULL : numbers(m, n * heads, 9),
		.stride = 2100,
		.from = 8,
		.width = v ? 24 : 2048,
		.to = v ? 5 : 32,
		.heads = heads,
		.n = n };
}

static void conv(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? ROWS : 1, dim = v == 1 ? 45 : v ? 64 : 2080, taps = v == 2 ? 1 : 4;

	op->u.conv = (struct k_conv){ .x = floats(m, n * dim),
		.in = v == 1 ? floats(m, n * dim) : NULL,
		.end = v == 1 ? floats(m, n * dim) : NULL,
		.w = floats(m, dim * taps),
		.bias = v ? NULL : floats(m, dim),
		.out = acts(m, n, dim, v != 2, v != 1),
		.linear = v == 1,
		.taps = taps,
		.n = n,
		.rows = states(m, n, 8 + dim * 3),
		.state = m->state,
		.at = 8 };
}

static void scan(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? ROWS : 1, dim = v ? 64 : 1056, s = v ? 11 : 16;

	op->u.scan = (struct k_scan){ .x = floats(m, n * dim),
		.z = floats(m, n * dim),
		.delta = floats(m, n * dim),
		.b = floats(m, n * s),
		.c = floats(m, n * s),
		.a = floats(m, dim * s),
		.d = floats(m, dim),
		.out = acts(m, n, dim, true, v != 1),
		.n_states = s,
		.n = n,
		.rows = states(m, n, 8 + dim * s),
		.state = m->state,
		.at = 8 };
}

static void rates(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? 5 : 1, heads = v ? 6 : 80;

	op->u.rates = (struct k_rates){ .x = floats(m, n * 2 * heads),
		.beta = v ? floats(m, n * 2 * heads) : NULL,
		.stride = 2 * heads,
		.run = v ? 2 : heads,
		.pitch = 4,
		.a = floats(m, heads),
		.bias = floats(m, heads),
		.out = floats(m, n * heads * 2),
		.heads = heads,
		.n = n };
}

static void linear(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? ROWS : 1, heads = 4, keys = v == 1 ? 17 : 48, values = v ? 45 : 160;

	op->u.linear = (struct k_linear){ .q = { floats(m, n * 2 * keys), 2 * keys, keys },
		.k = { floats(m, n * 2 * keys), 2 * keys, keys },
		.v = { floats(m, n * heads * values), heads * values, values },
		.rate = floats(m, n * heads * 2),
		.fixed = v == 2 ? floats(m, heads * 2) : NULL,
		.skip = v == 1 ? floats(m, heads) : NULL,
		.out = floats(m, n * heads * values),
		.room = floats(m, heads * keys * values),
		.heads = heads,
		.key_heads = 2,
		.keys = keys,
		.values = values,
		.n = n,
		.corrects = v != 1,
		.in_turn = v == 2,
		.rows = states(m, n, 8 + heads * keys * values),
		.state = m->state,
		.at = 8 };
}

static void activate(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v % 2 ? 1 : 3, dim = v % 2 ? 4128 : 96;

	op->u.activate = (struct k_activate){ .x = floats(m, n * dim),
		.out = acts(m, n, dim, v % 3 > 0, v % 3 < 2),
		.act = (enum k_act)v,
		.n = n };
	if (v == K_ACT_none)
		op->u.activate.x = op->u.activate.out.x;
}

static void place(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? 3 : 1, dim = v ? 45 : 4100;

	op->u.place = (struct k_place){ .table = floats(m, 11 * dim),
		.x = floats(m, n * dim),
		.dim = dim,
		.n = n,
		.rows = positions(m, n) };
}

static void rotary(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? 1 : 3, dim = v ? 128 : 24, rope = v ? 128 : 20;

	op->u.rotary = (struct k_rotary){ .x = floats(m, n * 9 * dim),
		.cos = floats(m, 11 * rope / 2),
		.sin = floats(m, 11 * rope / 2),
		.rope_dim = rope,
		.head_dim = dim,
		.n_heads = 9,
		.n = n,
		.neox = v,
		.rows = positions(m, n) };
}

static void add(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? 3 : 1, dim = v ? 45 : 4100;

	op->u.add = (struct k_add){
		.y = floats(m, n * dim), .x = floats(m, n * dim), .scale = 0.3f, .dim = dim, .n = n
	};
}

static void cap(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? 3 : 1, dim = v ? 45 : 9000;

	op->u.cap = (struct k_cap){
		.x = floats(m, n * dim), .scale = 1.5f, .most = v ? 2 : 0, .dim = dim, .n = n
	};
}

static void shift(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? ROWS : 1, dim = v == 1 ? 45 : v ? 64 : 2080, ways = v ? 3 : 6;

	op->u.shift = (struct k_shift){ .x = floats(m, n * dim),
		.mix = floats(m, ways * dim),
		.out = acts(m, ways * n, dim, v < 2, v != 1),
		.ways = ways,
		.n = n,
		.rows = states(m, n, 8 + dim),
		.state = m->state,
		.at = 8 };
}

static void erase(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? 1 : 3, heads = v ? 33 : 3, size = v ? 64 : 40, all = n * heads * size;

	op->u.erase = (struct k_erase){ .w = floats(m, all),
		.a = floats(m, all),
		.k = floats(m, all),
		.v = floats(m, all),
		.share = v ? floats(m, all) : NULL,
		.first = floats(m, all),
		.key_scale = floats(m, heads * size),
		.key_rate = floats(m, heads * size),
		.away = floats(m, all),
		.back = floats(m, all),
		.heads = heads,
		.size = size,
		.n = n };
}

static void wkv(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? ROWS : 1, heads = v ? 2 : 9, size = v ? 41 : 64, all = n * heads * size;

	op->u.wkv = (struct k_wkv){ .q = floats(m, all),
		.k = floats(m, all),
		.v = floats(m, all),
		.decay = floats(m, all),
		.away = floats(m, all),
		.back = floats(m, all),
		.out = floats(m, all),
		.room = floats(m, heads * size * size),
		.heads = heads,
		.size = size,
		.n = n,
		.rows = states(m, n, 8 + heads * size * size),
		.state = m->state,
		.at = 8 };
}

static void bonus(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? 3 : 1, heads = v ? 4 : 33,
				  size = v == 1 ? 16
						 : v    ? 41
								: 64,
				  dim = heads * size;

	op->u.bonus = (struct k_bonus){ .x = floats(m, n * dim),
		.q = floats(m, n * dim),
		.k = floats(m, n * dim),
		.v = floats(m, n * dim),
		.gate = floats(m, n * dim),
		.w = floats(m, dim),
		.b = floats(m, dim),
		.weight = floats(m, dim),
		.eps = 64e-5f,
		.heads = heads,
		.size = size,
		.n = n,
		.out = acts(m, n, dim, true, v != 2) };
}

static void taylor(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? 3 : 1, dim = v ? 7 : 32;

	op->u.taylor = (struct k_taylor){ .x = floats(m, n * 5 * dim),
		.out = floats(m, n * 5 * k_taylor_features(dim)),
		.factor = 0.75f,
		.dim = dim,
		.heads = 5,
		.n = n };
}

static void rounds(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v % 2 ? 3 : 1, dim = v % 2 ? 77 : 4128;

	op->u.round = (struct k_round){ .x = floats(m, n * dim),
		.dim = dim,
		.n = n,
		.to = (enum k_round_to)(v / 2),
		.largest = 1.25f };
	if (m->fresh && v % 2)
		op->u.round.x[dim + 3] = NAN;
}

/* Groups and none, more experts than threads, equals, numbers that are none. */
static void route(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v < 6 ? 5 : 1, experts = v < 6 ? 24 : 300 + 212 * (v == 7);

	op->u.route = (struct k_route){ .logits = floats(m, n * experts),
		.ids = numbers(m, n * 10, 9),
		.weights = floats(m, n * 10),
		.n_experts = experts,
		.k = v < 6 ? 3 : 10,
		.n = n,
		.kind = (enum k_route_kind)(v % 3),
		.norm = v % 2,
		.scale = v % 2 ? 2.5f : 0,
		.bias = v % 2 ? floats(m, experts) : NULL,
		.n_groups = v == 3 || v == 5 ? 4
					: v == 7         ? 8
									 : 0,
		.used_groups = 2 };
	for (int32_t i = 0; m->fresh && v < 6 && i < 2 * experts; i++)
		if (i % 5 || i < experts)
			op->u.route.logits[i] = i % 7 ? NAN : -INFINITY;
}

/* Groups of a head and of a row, with gates before, behind and none; in place. */
static void gated(struct k_op *op, struct room *m, int v)
{
	static const struct {
		int32_t n, groups, group;
		bool z, norm, first, w, q, in_place;
	} ways[] = { { 1, 1, 9024, true, true, true, true, true, false },
		{ 3, 2, 1056, true, true, false, true, false, true },
		{ 1, 33, 128, true, true, false, false, true, false },
		{ 3, 9, 40, false, true, false, true, false, true },
		{ 2, 36, 24, true, true, true, true, true, true },
		{ 1, 3, 704, true, false, false, false, true, true },
		{ 3, 1, 45, true, false, false, false, false, false } };
	const int32_t n = ways[v].n, groups = ways[v].groups, group = ways[v].group,
				  wide = groups * group, dim = wide / 32 * 32 + (wide % 32 ? 32 : 0);

	op->u.gated = (struct k_gated){ .x = floats(m, n * dim),
		.z = ways[v].z ? floats(m, n * 2 * dim) : NULL,
		.x_stride = dim,
		.x_pitch = group,
		.z_stride = 2 * dim,
		.z_pitch = 2 * group,
		.w = ways[v].w ? floats(m, wide) : NULL,
		.weights = v % 2 ? wide : group,
		.groups = groups,
		.group = group,
		.eps = 1e-5f,
		.factor = v % 2 ? 0.25f : 0,
		.norm = ways[v].norm,
		.first = ways[v].first,
		.by = (enum k_gate_by)(v % 3),
		.out = acts(m, n, dim, true, ways[v].q),
		.n = n };
	if (ways[v].in_place)
		op->u.gated.out.x = (float *)(uintptr_t)op->u.gated.x;
}

static void centre(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? 5 : 1, dim = v == 1 ? 45 : v ? 96 : 8224;

	op->u.centre = (struct k_centre){ .x = floats(m, n * dim),
		.pick = v ? numbers(m, n, n) : NULL,
		.w = floats(m, dim),
		.b = v ? floats(m, dim) : NULL,
		.eps = 1e-5f,
		.out = acts(m, n, dim, v != 2, v != 1),
		.n = n };
}

/* Some columns, and some blocks of them, are 0. */
static void columns(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? 3 : 1, rows = v ? 200 : 70, cols = v ? 160 : 2176;
	struct k_columns *a = &op->u.columns;

	*a = (struct k_columns){ .in = acts(m, n, cols, true, true),
		.n_rows = rows,
		.n_cols = cols,
		.bits = v % 2 ? 8 : 4,
		.bias = v % 2 ? 0 : 8,
		.has_min = v == 0,
		.skip = v < 2,
		.residual = v ? floats(m, n * rows) : NULL,
		.out = floats(m, n * rows),
		.n = n };
	a->w = take(m, (size_t)(cols / 32) * (k_columns_entries(a) + 32 * k_column_bytes(a)));
	for (int32_t b = 0; m->fresh && b < cols / 32; b++) {
		uint16_t *entry = (uint16_t *)(uintptr_t)k_columns_block(a, b);
		uint8_t *code = (uint8_t *)entry + k_columns_entries(a);

		for (size_t i = 0; i < k_columns_entries(a) / 2; i++)
			entry[i] = k_f32_to_f16((float)(next() % 2001) / 10000 - 0.1f);
		for (size_t i = 0; i < 32 * k_column_bytes(a); i++)
			code[i] = (uint8_t)next();
	}
	for (int32_t i = 0; m->fresh && i < n * cols; i++)
		if (i % 3 == 0 || i / 32 % 5 == 1)
			a->in.x[i] = 0;
	for (int32_t i = 0; m->fresh && i < n * cols; i += 32)
		k_quantise_block(a->in.x + i, a->in.q + i, a->in.d + i / 32, a->in.sx + i / 32);
}
/* ---- running them ---- */

static const struct {
	const char *name;
	enum k_kind kind;
	int ways;
	void (*make)(struct k_op *op, struct room *m, int v);
} ops[] = {
	{ "combine", K_OP_combine, 3, combine },
	{ "slice", K_OP_slice, 2, slice },
	{ "conv", K_OP_conv, 3, conv },
	{ "scan", K_OP_scan, 2, scan },
	{ "rates", K_OP_rates, 2, rates },
	{ "linear", K_OP_linear, 3, linear },
	{ "activate", K_OP_activate, K_ACT_relu + 1, activate },
	{ "place", K_OP_place, 2, place },
	{ "rotary", K_OP_rotary, 2, rotary },
	{ "add", K_OP_add, 2, add },
	{ "cap", K_OP_cap, 2, cap },
	{ "shift", K_OP_shift, 3, shift },
	{ "erase", K_OP_erase, 2, erase },
	{ "wkv", K_OP_wkv, 2, wkv },
	{ "bonus", K_OP_bonus, 3, bonus },
	{ "taylor", K_OP_taylor, 2, taylor },
	{ "round", K_OP_round, 2 * K_N_ROUNDS, rounds },
	{ "route", K_OP_route, 8, route },
	{ "gated", K_OP_gated, 7, gated },
	{ "centre", K_OP_centre, 3, centre },
	{ "columns", K_OP_columns, 4, columns },
};

/* A NaN's sign and payload are nobody's concern (rule 2). */
static void same_nan(unsigned char *memory, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 4) {
		float x;

		memcpy(&x, memory + i, 4);
		x = x != x ? NAN : x;
		memcpy(memory + i, &x, 4);
	}
}

/* Once, or twice: the second goes on from what the first left. */
static void try_op(const struct shim *s, int o, int v, int turn)
{
	static const int grids[] = { 1, 3, 2, 33 };
	static unsigned char memory[ROOM] __attribute__((aligned(256)));
	const int n = turn % 2 ? 2 : 1;
	const struct shim_options options = { .seed = (uint64_t)turn };
	struct k_state state = { 0 };
	struct room m = { .base = memory, .state = &state, .fresh = true };
	struct k_op op[2] = { { .kind = ops[o].kind } };
	struct shim_op stage[2] = { { .phase = 0 } };
	struct k_program program = { .op = op, .n_ops = n };
	struct err e = { 0 };
	struct shim_step step;
	unsigned char *got;
	size_t used;

	memset(memory, 0x5a, sizeof memory);
	ops[o].make(&op[0], &m, v);
	op[1] = op[0];
	used = m.used;
	got = s->alloc(used);
	s->put(got, memory, used);
	m = (struct room){ .base = got, .state = s->alloc(sizeof *m.state) };
	stage[0].op.kind = ops[o].kind;
	ops[o].make(&stage[0].op, &m, v);
	stage[1] = stage[0];
	s->written(m.state, sizeof *m.state);
	assert_int_equal(k_run(ref, &program, &e), 0);
	shim_step_open(s, &step, stage, n);
	if (!shim_step_all(s, &step, grids[turn % 4], &options))
		fail_msg("%s, way %d, turn %d: %s", ops[o].name, v, turn, s->report());
	shim_step_close(s, &step);
	same_nan(memory, used);
	same_nan(got, used);
	if (memcmp(got, memory, used))
		fail_msg("%s: %s, way %d, turn %d", s->name, ops[o].name, v, turn);
	s->free(m.state);
	s->free(got);
}

static void test_plain(void **state)
{
	(void)state;
	for (int b = 0; b < n_both; b++)
		for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
			for (int v = 0; v < ops[o].ways; v++)
				for (int turn = 0; turn < (both[b]->checked ? 2 : 4); turn++)
					try_op(both[b], (int)o, v, turn + 4 * v);
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
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_plain) };

	return cmocka_run_group_tests(tests, setup, teardown);
}
