/* See selfcheck.h. The data comes from Philox, so the answers are constants of the arithmetic
 * version: they detect at start-up a compiler that fuses, a library that flushes subnormals or a
 * faulty processor. Each op runs alone, on data that does not depend on the others, so a failure
 * names its kernel. */
#include "kernels/selfcheck.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels/format/cache.h"
#include "kernels/selfcheck_data.h"

enum {
	ROWS = 6,   /* kernels differ for one, a few and many rows */
	DIM = 96,   /* one and a half segments of rule 6 */
	WIDE = 256, /* one block of K-quants */
	HEADS = 3,
	KV_HEADS = 1,
	HEAD_DIM = 32,
	OUT = 43, /* not a multiple of any vector's lanes */
	PAGE = 32,
	PAGES = 5,
	FIRST = 127, /* positions FIRST … FIRST + ROWS - 1 cross a span */
	ATTEND = 2,  /* rows of attention, the slowest op */
	GROUPS = PAGES * PAGE / K_GROUP,
	STATE_PAGES = 3,
};

/* The hashes under arithmetic version 1, by kind of op; 0: not checked here. Here are the ops of
 * every model, whose kernels differ by instruction set and GPU, and of those that all back ends
 * compute by one definition (kernels/op) three that sum, keep a state and use the functions of
 * arith.h. Each other op is compared with its reference by the tests. */
static const uint64_t known[K_N_KINDS] = {
	[K_OP_embed] = 0x29ff1b01faaa90ea,
	[K_OP_norm] = 0xbd99244ee246ca94,
	[K_OP_matmul] = 0x8568cb7a794db3cc,
	[K_OP_rope] = 0x5d3354f6ae49a282,
	[K_OP_attention] = 0x6a5581841f95c16e,
	[K_OP_glu] = 0xd8f28571e9e173a8,
	[K_OP_conv] = 0xb3021c0c52dd1e24,
	[K_OP_scan] = 0xaab211538d613962,
	[K_OP_activate] = 0xd83f79bda77b259c,
	[K_OP_stats] = 0xc0f61c6f7be2acea,
};

/* Aligned like the memory of a step. */
struct data {
	_Alignas(64) float x[ROWS * WIDE], up[ROWS * DIM], q[ROWS * DIM], kv_in[2][ROWS * HEAD_DIM],
		w[DIM];
	_Alignas(64) float out[ROWS * WIDE], out2[2][ROWS * OUT], bias[OUT], residual[ROWS * OUT];
	_Alignas(64) float d[ROWS * DIM / 32], sx[ROWS * DIM / 32], d_in[ROWS * WIDE / 32],
		sx_in[ROWS * WIDE / 32];
	_Alignas(64) int8_t q8[ROWS * DIM], q8_in[ROWS * WIDE];
	_Alignas(64) uint32_t kv[PAGES * 2 * PAGE * HEAD_DIM]; /* of any format */
	_Alignas(64) float state[STATE_PAGES][DIM * 3];
	_Alignas(64) struct k_state_row state_row[ROWS];
	double freq[HEAD_DIM / 2];
	_Alignas(64) float cos[(FIRST + ROWS) * HEAD_DIM / 2], sin[(FIRST + ROWS) * HEAD_DIM / 2];
	_Alignas(64) float share[ROWS * HEADS * GROUPS];
	int32_t near_zero[ROWS * HEADS];
	_Alignas(64) uint8_t raw[OUT * DIM * 4];
	_Alignas(64) struct k_row row[ROWS];
	_Alignas(64) struct k_range range[ROWS];
	_Alignas(64) struct k_logit_stats stats[ROWS];
	int32_t table[PAGES], ids[ROWS];
	atomic_int nan_row;
	uint64_t hash[K_N_KINDS]; /* of what the ops gave */
	struct k_ctx *ctx;
	struct err *e;
	bool failed;
};

/* After a failure no op runs any more: the error is checked at the end. */
static void run(struct data *d, enum k_kind kind, struct k_op *op)
{
	struct k_program program = { .op = op, .n_ops = 1 };

	op->kind = kind;
	if (!d->failed)
		d->failed = k_run(d->ctx, &program, d->e) != 0;
}

static struct k_acts acts_out(struct data *d)
{
	return (struct k_acts){ .x = d->out, .q = d->q8, .d = d->d, .sx = d->sx, .dim = DIM };
}

/* Runs an op that writes acts_out(), and takes what it wrote. */
static void run_acts(struct data *d, enum k_kind kind, struct k_op *op)
{
	uint64_t *hash = &d->hash[kind];

	run(d, kind, op);
	fold(hash, d->out, sizeof *d->out * ROWS * DIM);
	fold(hash, d->q8, sizeof d->q8);
	fold(hash, d->d, sizeof d->d);
	fold(hash, d->sx, sizeof d->sx);
}

/* embed and matmul, with every type of weights. */
static void check_weights(struct data *d)
{
	struct k_acts in = { .x = d->x, .q = d->q8_in, .d = d->d_in, .sx = d->sx_in };

	for (int type = 0; type < K_N_TYPES; type++) {
		const int32_t dim = k_types[type].block > K_QBLOCK ? WIDE : DIM;
		struct k_matrix m = { .type = (enum k_type)type, .n_rows = OUT, .n_cols = dim };
		struct k_op op = { .u.embed = { .w = &m, .ids = d->ids, .x = d->out, .n = ROWS } };
		size_t bytes = k_packed_bytes(d->ctx, m.type, OUT, dim);

		m.data =
			d->failed ? NULL : k_alloc(d->ctx, bytes, K_SHARED, "the check of the kernels", d->e);
		d->failed |= !m.data;
		if (d->failed)
			return;
		in.dim = dim;
		fill_weights(d->raw, m.type, (size_t)(OUT * dim));
		k_pack(d->ctx, &m, d->raw);
		run(d, K_OP_embed, &op);
		fold(&d->hash[K_OP_embed], d->out, sizeof *d->out * (size_t)(ROWS * dim));
		for (int n = 1; n <= ROWS; n += ROWS - 1) {
			op = (struct k_op){ .u.matmul = { .in = in, .n_parts = 2, .n = n } };
			op.u.matmul.part[0].w = op.u.matmul.part[1].w = &m;
			op.u.matmul.part[0].bias = d->bias;
			op.u.matmul.part[0].residual = d->residual;
			op.u.matmul.part[0].out = d->out2[0];
			op.u.matmul.part[1].out = d->out2[1];
			run(d, K_OP_matmul, &op);
			fold(&d->hash[K_OP_matmul], d->out2[0], (size_t)n * OUT * 4);
			fold(&d->hash[K_OP_matmul], d->out2[1], (size_t)n * OUT * 4);
		}
		k_free(d->ctx, m.data);
	}
}

static struct k_kv cache_of(struct data *d)
{
	return (struct k_kv){
		.base = (uint8_t *)d->kv,
		.page_bytes = sizeof d->kv / PAGES,
		.page_size = PAGE,
		.n_layers = 1,
		.n_kv_heads = KV_HEADS,
		.head_dim = HEAD_DIM,
	};
}

static void check_rope(struct data *d)
{
	struct k_kv kv = cache_of(d);
	const int32_t *tables[1] = { d->table };
	struct k_op op;

	for (int turn = 0; turn <= K_N_UNCODED; turn++) {
		kv.format = (enum k_cache)(turn % K_N_UNCODED);
		op = (struct k_op){ .u.rope = { .q = d->q,
								.k = d->kv_in[0],
								.v = d->kv_in[1],
								.cos = d->cos,
								.sin = d->sin,
								.rope_dim = HEAD_DIM,
								.neox = turn > 0,
								.scale = 0.176776695f,
								.n_heads = HEADS,
								.n = ROWS,
								.rows = d->row,
								.pages = tables,
								.kv = &kv,
								.nan_row = &d->nan_row } };
		run(d, K_OP_rope, &op);
		fold(&d->hash[K_OP_rope], d->q, sizeof d->q);
		fold(&d->hash[K_OP_rope], d->kv, sizeof d->kv);
	}
	fold(&d->hash[K_OP_rope], d->freq, sizeof d->freq);
	fold(&d->hash[K_OP_rope], d->cos, sizeof d->cos);
	fold(&d->hash[K_OP_rope], d->sin, sizeof d->sin);
}

static void fill_cache(struct data *d, int32_t format)
{
	for (size_t i = 0; i < sizeof d->kv / (size_t)k_cache_bytes(format); i++)
		k_cache_put(format, d->kv, i,
			k_cache_code(format, k_fma((float)(i * 2654435761u % 4096), 0x1p-11f, -1.0f)));
}

static void check_attention(struct data *d)
{
	struct k_kv kv = cache_of(d);
	const int32_t *tables[1] = { d->table };
	struct k_op op;

	fill(d->q, ROWS * DIM, 6); /* so that attention does not depend on rope, nor on rows read before
								*/
	memset(d->out, 0, sizeof d->out);
	op = (struct k_op){ .u.attention = { .q = d->q,
							.out = acts_out(d),
							.n_heads = HEADS,
							.n = ATTEND,
							.rows = d->row,
							.ranges = d->range,
							.n_ranges = 1,
							.pages = tables,
							.kv = &kv,
							.share = d->share,
							.near_zero = d->near_zero,
							.share_stride = GROUPS,
							.threshold = 0.004f } };
	for (kv.format = 0; kv.format < K_N_UNCODED; kv.format++) {
		fill_cache(d, (int32_t)kv.format);
		run_acts(d, K_OP_attention, &op);
		fold(&d->hash[K_OP_attention], d->share, sizeof d->share);
		fold(&d->hash[K_OP_attention], d->near_zero, sizeof d->near_zero);
	}
	kv.format = K_CACHE_e4m3;
	op.u.attention.softcap = 1.5f;
	op.u.attention.n = 1;
	run_acts(d, K_OP_attention, &op);
	op.u.attention.sinks = d->w;
	run_acts(d, K_OP_attention, &op);
	fold(&d->hash[K_OP_attention], d->share, sizeof d->share);
}

static void check_rows(struct data *d)
{
	struct k_op op = { .u.norm = { .x = d->x,
						   .pick = d->ids,
						   .w = d->w,
						   .eps = 1e-5f,
						   .out = acts_out(d),
						   .n = ROWS } };

	for (int r = 0; r < ROWS; r++)
		d->ids[r] = ROWS - 1 - r;
	run_acts(d, K_OP_norm, &op);
	op = (struct k_op){ .u.glu = { .gate = d->x, .up = d->up, .out = acts_out(d), .n = ROWS } };
	run_acts(d, K_OP_glu, &op);
	for (op.u.glu.act = K_ACT_gelu; op.u.glu.act <= K_ACT_clamped; op.u.glu.act++) {
		run_acts(d, K_OP_glu, &op);
	}
	op = (struct k_op){ .u.stats = {
							.logits = d->x, .vocab = DIM - 1, .n = ROWS, .out = d->stats } };
	run(d, K_OP_stats, &op);
	for (int r = 0; r < ROWS; r++) {
		const struct k_logit_stats *s = &d->stats[r];

		fold(&d->hash[K_OP_stats], &s->hash, sizeof s->hash);
		fold(&d->hash[K_OP_stats], &s->mass, sizeof s->mass);
		fold(&d->hash[K_OP_stats], &s->entropy, sizeof s->entropy);
		fold(&d->hash[K_OP_stats], &s->max, sizeof s->max);
		fold(&d->hash[K_OP_stats], &s->argmax, sizeof s->argmax);
	}
}

static void check_activations(struct data *d)
{
	static const enum k_act acts[] = { K_ACT_silu, K_ACT_gelu, K_ACT_gelu_erf, K_ACT_relu2,
		K_ACT_none, K_ACT_tanh, K_ACT_sigmoid };

	for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
		struct k_op op = { .u.activate = {
							   .x = d->x, .out = acts_out(d), .act = acts[i], .n = ROWS } };

		run_acts(d, K_OP_activate, &op);
	}
}

/* A recurrence over rows of two sequences: one begins, one resumes from a page, and both write
 * pages. */
static void check_recurrence(struct data *d)
{
	const struct k_state state = { .base = (uint8_t *)d->state,
		.page_bytes = sizeof d->state / STATE_PAGES };
	struct k_op op = { .u.conv = { .x = d->x,
						   .w = d->q,
						   .bias = d->w,
						   .out = acts_out(d),
						   .taps = 4,
						   .n = ROWS,
						   .rows = d->state_row,
						   .state = &state } };

	fill(d->state[0], sizeof d->state / sizeof(float), 9);
	for (int r = 0; r < ROWS; r++)
		d->state_row[r] = (struct k_state_row){ r == 0   ? K_STATE_ZERO
												: r == 4 ? 0
														 : K_STATE_ROW,
			r == 3   ? 1
			: r == 5 ? 2
					 : -1 };
	run_acts(d, K_OP_conv, &op);
	fold(&d->hash[K_OP_conv], d->state, sizeof d->state);
	op.u.conv.in = d->up;
	op.u.conv.end = d->residual;
	op.u.conv.linear = true;
	op.u.conv.out = k_floats(d->out, DIM - 1); /* a width that is no multiple of 32 */
	op.u.conv.n = 2;
	run_acts(d, K_OP_conv, &op);
	op = (struct k_op){ .u.scan = { .x = d->x,
							.z = d->up,
							.delta = d->q,
							.b = d->kv_in[0],
							.c = d->kv_in[1],
							.a = d->residual,
							.d = d->w,
							.out = acts_out(d),
							.n_states = 2,
							.n = ROWS,
							.rows = d->state_row,
							.state = &state } };
	run_acts(d, K_OP_scan, &op);
	fold(&d->hash[K_OP_scan], d->state, sizeof d->state);
}

static void make(struct data *d)
{
	fill(d->x, ROWS * WIDE, 1);
	fill(d->up, ROWS * DIM, 2);
	fill(d->w, DIM, 3);
	fill(d->bias, OUT, 4);
	fill(d->residual, ROWS * OUT, 5);
	fill(d->q, ROWS * DIM, 6);
	fill(d->kv_in[0], ROWS * HEAD_DIM, 7);
	fill(d->kv_in[1], ROWS * HEAD_DIM, 8);
	for (size_t i = 0; i < ROWS * WIDE / 32; i++)
		k_quantise_block(d->x + i * 32, d->q8_in + i * 32, d->d_in + i, d->sx_in + i);
	for (int i = 0; i < ROWS; i++) {
		d->row[i] = (struct k_row){ .pos = FIRST + i, .seq = 0, .observe = i };
		d->ids[i] = i * 7 % OUT;
	}
	k_see_all(d->row, ROWS, d->range);
	for (int i = 0; i < PAGES; i++)
		d->table[i] = PAGES - 1 - i;
	k_rope_freqs(10000, HEAD_DIM, d->freq);
	k_rope_table(d->freq, HEAD_DIM / 2, FIRST + ROWS, d->cos, d->sin);
}

static void (*const checks[])(struct data *d) = {
	check_weights,
	check_rope,
	check_attention,
	check_rows,
	check_activations,
	check_recurrence,
};

static int hashes_of(struct k_ctx *ctx, uint64_t hash[K_N_KINDS], struct err *e)
{
	/* K_SHARED: host and kernels both access it on every back end */
	struct data *d = k_alloc(ctx, sizeof *d, K_SHARED, "the check of the kernels", e);
	bool failed;

	if (!d)
		return -1;
	make(d);
	d->ctx = ctx;
	d->e = e;
	for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
		checks[i](d);
	memcpy(hash, d->hash, sizeof d->hash);
	failed = d->failed;
	k_free(ctx, d);
	return failed ? -1 : 0;
}

int k_selfcheck(struct k_ctx *ctx, struct err *e)
{
	static const char *const names[K_N_KINDS] = {
#define X(name, ...) #name,
		K_KINDS(X)
#undef X
	};
	uint64_t hash[K_N_KINDS];

	if (K_FREE) /* a build without a fixed order has no known answers */
		return 0;
	if (hashes_of(ctx, hash, e))
		return -1;
	for (int i = 0; i < K_N_KINDS; i++)
		if (hash[i] != known[i])
			return err_set(e, ERR_DEVICE,
				"the %s kernel (%s) does not give the known answers of arithmetic %d "
				"(%016llx, not %016llx): a compiler's liberty or a fault of the processor; "
				"try the back end \"ref\"",
				names[i], k_isa_name(ctx), K_ARITH_VERSION, (unsigned long long)hash[i],
				(unsigned long long)known[i]);
	return 0;
}

int k_selfcheck_layout(struct k_ctx *ctx, char name[K_LAYOUT_NAME], struct err *e)
{
	enum { RAW = OUT * WIDE * 4 };
	uint8_t *raw = malloc(RAW), *packed = NULL;
	uint64_t hash = 0;
	size_t room = 0;
	bool able;

	for (int type = 0; type < K_N_TYPES; type++) {
		size_t bytes = k_packed_bytes(ctx, (enum k_type)type, OUT, WIDE);

		room = bytes > room ? bytes : room;
	}
	packed = aligned_alloc(64, k_align(room, 64));
	able = raw && packed;
	for (size_t i = 0; able && i < RAW; i++)
		raw[i] = (uint8_t)(i * 2654435761u >> 13);
	for (int i = 0; able && i < 2 * K_N_TYPES; i++) { /* then pairs */
		const enum k_type type = (enum k_type)(i % K_N_TYPES);
		struct k_matrix m = { .type = type, .n_rows = OUT, .n_cols = WIDE, .data = packed };

		m.pairs = i >= K_N_TYPES;
		if (m.pairs && !k_keeps_pairs(ctx, type, WIDE))
			continue;
		for (int at = 0; m.pairs && at < RAW; at++)
			raw[at] = at / k_types[type].block_bytes % 4 < 2 ? raw[at] : 0;
		k_pack(ctx, &m, raw);
		fold(&hash, packed, k_matrix_bytes(ctx, &m));
	}
	snprintf(name, K_LAYOUT_NAME, "%.24s-%016llx", k_isa_name(ctx), (unsigned long long)hash);
	free(raw);
	free(packed);
	return able ? 0 : err_no_memory(e, "the check of the kernels");
}
