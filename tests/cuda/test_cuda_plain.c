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

/* What has addresses in it, and so is not compared. */
struct aside {
	struct k_state state;
	struct k_kv kv, recent;
	const int32_t *tables[2];
};

/* Memory of an op. `fresh`: what is taken gets its numbers; else it has them. */
struct room {
	unsigned char *base;
	size_t used;
	struct k_state *state;
	struct aside *aside;
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
	const int32_t n = v ? ROWS : 1, dim = v ? 64 : 1056, s = v == 1 ? 11 : 18;
	const bool turns = v == 2;

	op->u.scan = (struct k_scan){ .x = floats(m, n * dim),
		.z = floats(m, n * dim),
		.delta = turns ? NULL : floats(m, n * dim),
		.b = turns ? NULL : floats(m, n * s),
		.c = floats(m, (turns ? dim : n) * s),
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

/* Rows by turns with none of three adapters, and with one; v: of matrices that only some have. */
static struct k_row *adapted_rows(struct room *m, int32_t n)
{
	struct k_row *rows = positions(m, n);

	for (int32_t r = 0; m->fresh && r < n; r++)
		rows[r].adapter = r % 4;
	return rows;
}

static void adapted(struct k_adapted *of, struct room *m, int32_t cols, int32_t width)
{
	*of = (struct k_adapted){ .a = floats(m, 3 * 5 * cols),
		.b = floats(m, 3 * 5 * width),
		.rank = numbers(m, 3, 6),
		.scale = floats(m, 3),
		.width = width };
}

static void shrink(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? 5 : 1, cols = v == 1 ? 77 : 160;

	op->u.shrink = (struct k_shrink){ .in = acts(m, n, cols, v == 1, v != 1),
		.floats = v == 1,
		.t = floats(m, n * 2 * 5),
		.n_of = 2,
		.most = 5,
		.n = n,
		.rows = adapted_rows(m, n) };
	adapted(&op->u.shrink.of[v % 2], m, cols, 40);
	if (v == 2)
		adapted(&op->u.shrink.of[1], m, cols, 33);
}

static void expand(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? 5 : 1;

	op->u.expand = (struct k_expand){
		.t = floats(m, n * 2 * 5), .n_of = 2, .most = 5, .n = n, .rows = adapted_rows(m, n)
	};
	op->u.expand.of[0].width = 70;
	adapted(&op->u.expand.of[1], m, 32, 33);
	if (v == 2)
		adapted(&op->u.expand.of[0], m, 32, 70);
	for (int i = 0; i < 2; i++)
		op->u.expand.y[i] = floats(m, n * op->u.expand.of[i].width);
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

/* ---- attention by its definition, and the ops around it ---- */

enum { HEADS = 4, KV_HEADS = 2, BLOCKS = 6, PAGE = 64 };

/* Pages of a cache: any bytes are codes, and these are finite numbers and scales, too. */
static void pages(struct room *m, struct k_kv *kv, int32_t head_dim, enum k_cache format)
{
	uint16_t *at;

	kv->page_size = PAGE;
	kv->n_layers = 2;
	kv->n_kv_heads = KV_HEADS;
	kv->head_dim = head_dim;
	kv->format = format;
	kv->residual = K_RECENT;
	kv->page_bytes = k_kv_page_bytes(kv);
	kv->base = take(m, BLOCKS * kv->page_bytes);
	at = (uint16_t *)(void *)kv->base;
	for (size_t i = 0; m->fresh && i < BLOCKS * kv->page_bytes / 2; i++)
		at[i] = (uint16_t)(next() & 0xb7ff);
}

static const int32_t *const *tables(struct room *m)
{
	int32_t *table = take(m, 2 * BLOCKS * sizeof *table);

	for (int32_t i = 0; m->fresh && i < BLOCKS; i++) {
		table[i] = BLOCKS - 1 - i;
		table[BLOCKS + i] = i;
	}
	m->aside->tables[0] = table;
	m->aside->tables[1] = table + BLOCKS;
	return m->aside->tables;
}

/* Rows at the end of the cache and before, the last of a span and of a group among them. */
static struct k_row *deep(struct room *m, int32_t n)
{
	static const int32_t pos[] = { 383, 255, 300, 15, 271 };
	struct k_row *rows = take(m, (size_t)n * sizeof *rows);

	for (int32_t r = 0; m->fresh && r < n; r++)
		rows[r] = (struct k_row){ .pos = pos[r], .observe = r % 2 ? -1 : r / 2 };
	return rows;
}

static struct k_also *also(struct room *m, int32_t row)
{
	struct k_also *a = take(m, sizeof *a);

	if (m->fresh)
		*a = (struct k_also){ row, 1 };
	return a;
}

static void key_range(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? 5 : 1;

	m->aside->kv.key_ranges = true;
	pages(m, &m->aside->kv, v ? 40 : 64, v ? K_CACHE_bf16 : K_CACHE_f16);
	op->u.key_range = (struct k_key_range){ .layer = 1,
		.n = n,
		.rows = deep(m, n),
		.also = v ? also(m, 1) : NULL,
		.n_also = v ? 1 : 0,
		.pages = tables(m),
		.kv = &m->aside->kv };
}

/* v 2: all bounds are equal. */
static void pick(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? 5 : 1, dim = v == 1 ? 40 : 64;
	int32_t *budget = take(m, (size_t)n * sizeof *budget);
	float *q = floats(m, n * HEADS * dim);

	for (int32_t i = 0; m->fresh && v == 2 && i < n * HEADS * dim; i++)
		q[i] = 0;
	for (int32_t r = 0; m->fresh && r < n; r++)
		budget[r] = r == 2 ? 99 : 3 + 3 * r;
	m->aside->kv.key_ranges = true;
	pages(m, &m->aside->kv, dim, K_CACHE_f16);
	op->u.pick = (struct k_pick){ .q = q,
		.out = take(m, (size_t)(n * KV_HEADS * 4)),
		.stride = 4,
		.n_heads = HEADS,
		.layer = 1,
		.n = n,
		.rows = deep(m, n),
		.budget = budget,
		.pages = tables(m),
		.kv = &m->aside->kv };
}

static void turn(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? 3 : 1, dim = v ? 40 : 64, rope = v ? 16 : 64;

	op->u.turn = (struct k_turn){ .q = floats(m, n * HEADS * dim),
		.out = floats(m, n * HEADS * dim),
		.cos = floats(m, 9 * rope / 2),
		.sin = floats(m, 9 * rope / 2),
		.pos = numbers(m, n, 9),
		.rope_dim = rope,
		.n_heads = HEADS,
		.head_dim = dim,
		.n = n,
		.neox = v,
		.scale = 0.25f };
}

static void encode(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v % 2 ? 5 : 1, dim = v / 2 ? 72 : 64;

	pages(m, &m->aside->kv, dim, v % 2 ? K_CACHE_kivi2 : K_CACHE_kivi4);
	pages(m, &m->aside->recent, dim, K_CACHE_f16);
	op->u.encode = (struct k_encode){ .n = n,
		.rows = deep(m, n),
		.also = v ? also(m, 0) : NULL,
		.n_also = v ? 1 : 0,
		.recent_pages = tables(m),
		.pages = m->aside->tables,
		.recent = &m->aside->recent,
		.kv = &m->aside->kv };
}

/* States of heads that keep 20 groups, of which four spans' worth leave the newest. */
static struct k_heavy heavy(struct room *m, struct k_row *rows, int32_t n)
{
	enum { MOST = 20 };
	const struct k_heavy h = { .rows = rows,
		.states = states(m, n, (int32_t)(8 + KV_HEADS * k_heavy_floats(MOST))),
		.state = m->state,
		.at = 8,
		.n_kv_heads = KV_HEADS,
		.most = MOST,
		.n = n };

	for (int32_t i = 0; m->fresh && i < PAGES * KV_HEADS; i++) {
		const struct k_kept k = k_kept_at(k_heavy_state(&h, i / KV_HEADS, i % KV_HEADS), MOST);

		*k.n = 5 + i;
		for (int32_t g = 0; g < 5 + i; g++)
			k.id[g] = g + g / 3;
	}
	return h;
}

static void h2o_lookup(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? 5 : 1;
	int32_t *begins = numbers(m, n, 1);

	for (int32_t r = 1; m->fresh && r < n; r++)
		begins[r] = 3 + r % 2; /* those that have pages */
	op->u.h2o_lookup = (struct k_h2o_lookup){ .of = heavy(m, deep(m, n), n),
		.begins = begins,
		.out = take(m, (size_t)(n * KV_HEADS * 4)),
		.stride = 4 };
}

static void attn_score(struct k_op *op, struct room *m, int v)
{
	const int32_t n = v ? 5 : 1, stride = 32;
	struct k_row *rows = deep(m, n);
	int32_t *keep = take(m, (size_t)n * sizeof *keep);

	for (int32_t r = 0; m->fresh && r < n; r++)
		keep[r] = v == 1 ? 20 : 7;
	op->u.attn_score = (struct k_attn_score){ .of = heavy(m, rows, n),
		.share = floats(m, n * HEADS * stride),
		.keep = keep,
		.share_stride = stride,
		.n_heads = HEADS };
	op->u.attn_score.room = floats(m, KV_HEADS * (int32_t)k_heavy_floats(op->u.attn_score.of.most));
}

/* v 0: values in the keys; 1: q8; 2, 3: codes; 4: chosen keys; 5: a second query; 6: biases, added
 * to what was; 7: a matrix; 8: rows see later ones. */
static void attend(struct k_op *op, struct room *m, int v)
{
	static const enum k_cache formats[] = { K_CACHE_bf16, K_CACHE_q8, K_CACHE_kivi4,
		K_CACHE_kivi2 };
	const int32_t n = v % 2 || v == 8 ? 5 : 1,
				  dim = v == 5   ? 40
						: v == 3 ? 72
								 : 64,
				  own = v ? dim : 32;
	struct k_attention *a = &op->u.attention;
	struct k_range *ranges = take(m, (size_t)n * sizeof *ranges);
	struct k_stride_mask *stride_mask = take(m, (size_t)n * sizeof *stride_mask);

	m->aside->kv.value_dim = v ? 0 : 32;
	pages(m, &m->aside->kv, dim, v < 4 ? formats[v] : K_CACHE_f16);
	*a = (struct k_attention){ .q = floats(m, n * HEADS * dim),
		.out = acts(m, n, HEADS * own, true, v != 3),
		.n_heads = HEADS,
		.layer = 1,
		.n = n,
		.rows = deep(m, n),
		.ranges = ranges,
		.n_ranges = 1,
		.pages = tables(m),
		.kv = &m->aside->kv,
		.sinks = v == 1 ? floats(m, HEADS) : NULL,
		.softcap = v == 7 ? 2.0f : 0,
		.share = floats(m, 3 * HEADS * 32),
		.near_zero = numbers(m, 3 * HEADS, 9),
		.share_stride = 32,
		.threshold = 0.003f };
	for (int32_t r = 0; m->fresh && r < n; r++) {
		ranges[r] = (struct k_range){ r == 2 ? 70 : 0, v == 8 ? 384 : a->rows[r].pos + 1 };
		stride_mask[r] = (struct k_stride_mask){ .period = 7, .width = 3, .end = 200 };
	}
	if (v == 2 || v == 3) {
		pages(m, &m->aside->recent, dim, K_CACHE_f16);
		a->recent = &m->aside->recent;
		a->recent_pages = m->aside->tables;
	}
	if (v == 4) {
		a->stride_mask = stride_mask;
		a->selected_stride = 4;
		a->selected = (uint8_t *)numbers(m, n * KV_HEADS, 1 << 23);
		a->attn_score = floats(m, n * HEADS * 32);
		a->attn_score_stride = 32;
	}
	if (v == 5) {
		a->sink_q = floats(m, n * HEADS * dim);
		a->n_sinks = 20;
	}
	if (v == 6) {
		a->relative = a->adds = true;
		a->bias = floats(m, 16 * HEADS);
		a->bucket = numbers(m, 2 * K_DISTANCE + 1, 16);
	}
	if (v == 7) {
		a->matrix_spans = 3;
		a->matrix = floats(m, n * HEADS * 3 * K_MATRIX_SPAN);
	}
	a->ahead = v == 8;
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
	{ "scan", K_OP_scan, 3, scan },
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
	{ "shrink", K_OP_shrink, 3, shrink },
	{ "expand", K_OP_expand, 3, expand },
	{ "round", K_OP_round, 2 * K_N_ROUNDS, rounds },
	{ "route", K_OP_route, 8, route },
	{ "gated", K_OP_gated, 7, gated },
	{ "centre", K_OP_centre, 3, centre },
	{ "columns", K_OP_columns, 4, columns },
	{ "key_range", K_OP_key_range, 2, key_range },
	{ "pick", K_OP_pick, 3, pick },
	{ "turn", K_OP_turn, 2, turn },
	{ "encode", K_OP_encode, 4, encode },
	{ "h2o_lookup", K_OP_h2o_lookup, 2, h2o_lookup },
	{ "attn_score", K_OP_attn_score, 3, attn_score },
	{ "attend", K_OP_attention, 9, attend },
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
	struct aside own = { 0 }, *other = s->alloc(sizeof *other);
	struct room m = { .base = memory, .state = &own.state, .aside = &own, .fresh = true };
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
	memset(other, 0, sizeof *other);
	m = (struct room){ .base = got, .state = &other->state, .aside = other };
	stage[0].op.kind = ops[o].kind;
	ops[o].make(&stage[0].op, &m, v);
	stage[1] = stage[0];
	s->written(other, sizeof *other);
	assert_int_equal(k_run(ref, &program, &e), 0);
	shim_step_open(s, &step, stage, n);
	if (!shim_step_all(s, &step, grids[turn % 4], &options))
		fail_msg("%s, way %d, turn %d: %s", ops[o].name, v, turn, s->report());
	shim_step_close(s, &step);
	same_nan(memory, used);
	same_nan(got, used);
	if (memcmp(got, memory, used))
		fail_msg("%s: %s, way %d, turn %d", s->name, ops[o].name, v, turn);
	s->free(other);
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
