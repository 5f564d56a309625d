/* One step of a Llama-family model: see forward.h. write_program() is the whole forward pass. */
#include "engine/forward.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the pass ---- */

static void add_rope(struct forward *f, int32_t layer)
{
	const struct model_config *c = &f->model->config;
	struct k_op *op = program_add(&f->program, K_OP_rope, K_STAGE_rope);

	op->u.rope = (struct k_rope){ .q = f->q, .k = f->k, .v = f->v, .cos = f->model->rope_cos,
								  .sin = f->model->rope_sin, .rope_dim = c->rope_dim, .neox = c->neox,
								  .scale = 1.0f / sqrtf((float)c->head_dim), .n_heads = c->n_heads,
								  .layer = layer, .n = f->n_rows, .rows = f->rows, .pages = f->pages,
								  .kv = f->kv, .nan_row = f->nan_row,
								  .also = f->also, .n_also = f->n_also };
}

static void add_attention(struct forward *f, int32_t layer)
{
	const struct model_config *c = &f->model->config;
	struct k_op *op = program_add(&f->program, K_OP_attention, K_STAGE_attention);

	op->u.attention = (struct k_attention){ .q = f->q, .out = f->mixed, .n_heads = c->n_heads,
											.layer = layer, .n = f->n_rows, .rows = f->rows,
											.pages = f->pages, .kv = f->kv, .softcap = c->softcap };
}

/* Where this step's observations of a layer go. */
static void aim(const struct forward *f, struct k_attention *a)
{
	size_t heads = (size_t)a->layer * (size_t)f->n_observed * (size_t)a->n_heads;

	a->share = f->n_observed ? f->share + heads * (size_t)f->share_stride : NULL;
	a->near_zero = f->n_observed ? f->near_zero + heads : NULL;
	a->share_stride = f->share_stride;
	a->threshold = f->threshold;
}

enum { OPS_A_LAYER = 9 }; /* what add_mixer and add_ffn add */

static void add_mixer(struct forward *f, int32_t i)
{
	const struct model_mixer *a = &f->model->layer[i].mixer;
	struct k_program *p = &f->program;
	struct k_matmul *m;

	program_norm(p, f->x, NULL, a->norm, f->model->config.norm_eps, f->normed, f->n_rows);
	m = program_matmul(p, K_STAGE_qkv, f->normed, f->n_rows);
	program_part(m, &a->q, a->q_bias, NULL, f->q);
	program_part(m, &a->k, a->k_bias, NULL, f->k);
	program_part(m, &a->v, a->v_bias, NULL, f->v);
	add_rope(f, i);
	add_attention(f, i);
	m = program_matmul(p, K_STAGE_out, f->mixed, f->n_rows);
	program_part(m, &a->out, a->out_bias, f->x, f->x);
}

static void add_ffn(struct forward *f, int32_t i)
{
	const struct model_ffn *w = &f->model->layer[i].ffn;
	struct k_program *p = &f->program;
	struct k_matmul *m;

	program_norm(p, f->x, NULL, w->norm, f->model->config.norm_eps, f->normed, f->n_rows);
	m = program_matmul(p, K_STAGE_gate_up, f->normed, f->n_rows);
	program_part(m, &w->gate, NULL, NULL, f->gate);
	program_part(m, &w->up, NULL, NULL, f->up);
	program_swiglu(p, f->gate, f->up, f->act, f->n_rows);
	m = program_matmul(p, K_STAGE_down, f->act, f->n_rows);
	program_part(m, &w->down, NULL, f->x, f->x);
}

static void add_head(struct forward *f)
{
	struct k_program *p = &f->program;
	struct k_matmul *m;

	if (!f->n_out)
		return;
	program_norm(p, f->x, f->out_row, f->model->output_norm, f->model->config.norm_eps, f->head, f->n_out);
	m = program_matmul(p, K_STAGE_head, f->head, f->n_out);
	program_part(m, &f->model->output, NULL, NULL, f->computed_logits);
	program_stats(p, f->computed_logits, f->model->config.vocab, f->n_out, f->stats);
	if (f->ask)
		program_ask(p, f->ask, f->told, f->list);
}

/* ---- counting, from shapes ---- */

static void count_matmul(const struct forward *f, struct k_op *op)
{
	const struct k_matmul *m = &op->u.matmul;
	uint64_t n = (uint64_t)m->n;

	op->bytes = n * (uint64_t)m->in.dim * 4;
	for (int32_t i = 0; i < m->n_parts; i++) {
		const struct k_matrix *w = m->part[i].w;
		op->bytes += k_matrix_bytes(f->model->kernels, w) + n * (uint64_t)w->n_rows * 4;
		op->ops += 2 * n * (uint64_t)w->n_rows * (uint64_t)w->n_cols;
	}
}

static void count_attention(const struct forward *f, struct k_op *op)
{
	const struct model_config *c = &f->model->config;
	uint64_t width = (uint64_t)c->n_heads * (uint64_t)c->head_dim;

	op->bytes = f->kv_positions * (uint64_t)c->n_kv_heads * (uint64_t)c->head_dim * 4 +
				(uint64_t)f->n_rows * width * 8;
	op->ops = f->kv_pairs * width * 4;
}

/* Vector stages: bytes read and written, and about how many operations a value takes. */
static void count(const struct forward *f, struct k_op *op)
{
	const struct model_config *c = &f->model->config;
	uint64_t n = (uint64_t)f->n_rows, dim = (uint64_t)c->dim, out = (uint64_t)f->n_out;
	uint64_t q = (uint64_t)c->n_heads * (uint64_t)c->head_dim;
	uint64_t kv = (uint64_t)c->n_kv_heads * (uint64_t)c->head_dim;

	op->bytes = op->ops = 0;
	switch (op->kind) {
	case K_OP_matmul:
		count_matmul(f, op);
		break;
	case K_OP_attention:
		count_attention(f, op);
		break;
	case K_OP_embed:
		op->bytes = n * dim * 5;
		op->ops = n * dim;
		break;
	case K_OP_norm:
		op->bytes = (uint64_t)op->u.norm.n * dim * 9;
		op->ops = (uint64_t)op->u.norm.n * dim * 6;
		break;
	case K_OP_rope:
		op->bytes = n * (q * 8 + kv * 12);
		op->ops = n * (q * 4 + kv * 3);
		break;
	case K_OP_swiglu:
		op->bytes = n * (uint64_t)c->ffn * 12;
		op->ops = n * (uint64_t)c->ffn * 18;
		break;
	case K_OP_stats:
		op->bytes = out * (uint64_t)c->vocab * 4;
		op->ops = out * (uint64_t)c->vocab * 20;
		break;
	case K_N_KINDS:
		break;
	}
}

/* ---- running ---- */

int forward_fetch(struct forward *f, int32_t first, int32_t n, struct err *e)
{
	const size_t vocab = (size_t)f->model->config.vocab, at = (size_t)first * vocab;

	if (!n || f->logits == f->computed_logits)
		return 0;
	return k_fetch(f->model->kernels, f->logits + at, f->computed_logits + at, (size_t)n * vocab * sizeof *f->logits,
				   e);
}

static void write_program(struct forward *f)
{
	f->program.n_ops = 0;
	if (f->begin)
		f->begin(f->begin_arg, f);
	else
		program_embed(&f->program, &f->model->embed, f->ids, f->x, f->n_rows);
	for (int32_t i = 0; i < f->n_layers; i++) {
		add_mixer(f, i);
		add_ffn(f, i);
	}
	add_head(f);
	for (int32_t i = 0; i < f->program.n_ops; i++) {
		struct k_op *op = &f->program.op[i];

		count(f, op);
		if (op->kind == K_OP_matmul)
			op->u.matmul.fast = f->fast;
	}
}

/* Floats that fill whole cache lines. */
static int32_t whole_lines(int32_t n)
{
	return (n + 15) / 16 * 16;
}

static void set_share_stride(struct forward *f)
{
	int32_t most = 0;

	for (int32_t r = 0; r < f->n_rows; r++)
		if (f->rows[r].observe >= 0 && f->rows[r].pos / K_GROUP + 1 > most)
			most = f->rows[r].pos / K_GROUP + 1;
	f->share_stride = whole_lines(most);
}

static bool same_shape(const struct forward_shape *a, const struct forward_shape *b)
{
	return a->rows == b->rows && a->out == b->out && a->observed == b->observed &&
		   a->stride == b->stride && a->threshold == b->threshold && a->also == b->also &&
		   a->layers == b->layers && a->fast == b->fast;
}

static uint64_t version_of(struct forward *f, struct forward_shape s)
{
	for (int i = 0; i < FORWARD_RECENT; i++)
		if (f->recent[i].version && same_shape(&f->recent[i], &s))
			return f->recent[i].version;
	s.version = k_new_version();
	f->recent[f->next_recent] = s;
	f->next_recent = (f->next_recent + 1) % FORWARD_RECENT;
	return s.version;
}

/* A program stays as it is while the shape of the step does: only what attention reads and tells changes. */
static void prepare(struct forward *f)
{
	struct forward_shape s = { .rows = f->n_rows, .out = f->n_out, .observed = f->n_observed,
							   .also = f->n_also, .layers = f->n_layers, .threshold = f->threshold,
							   .fast = f->fast };

	set_share_stride(f);
	s.stride = f->share_stride;
	if (!f->program.version || s.rows != f->built.rows || s.out != f->built.out || s.also != f->built.also ||
		s.layers != f->built.layers || s.fast != f->built.fast)
		write_program(f);
	for (int32_t i = 0; i < f->program.n_ops; i++) {
		struct k_op *op = &f->program.op[i];

		if (op->kind == K_OP_attention) {
			aim(f, &op->u.attention);
			count_attention(f, op);
		}
	}
	if (!f->program.version || !same_shape(&s, &f->built))
		f->program.version = version_of(f, s);
	f->built = s;
}

int forward_run(struct forward *f, bool timed, struct err *e)
{
	prepare(f);
	atomic_store(f->nan_row, 0);
	f->program.timed = timed;
	if (k_run(f->model->kernels, &f->program, e) || (!f->ask && forward_fetch(f, 0, f->n_out, e)))
		return -1;
	memset(f->stage, 0, sizeof f->stage);
	for (int32_t i = 0; i < f->program.n_ops; i++) {
		const struct k_op *op = &f->program.op[i];
		f->stage[op->stage].ns += timed ? op->ns : 0;
		f->stage[op->stage].bytes += op->bytes;
		f->stage[op->stage].ops += op->ops;
	}
	return 0;
}

static int32_t layer_of(const struct forward *f, int32_t op)
{
	int32_t layer = (op - 1) / OPS_A_LAYER;

	return op > 0 && layer < f->n_layers ? layer : -1;
}

int forward_run_each(struct forward *f, forward_op_fn *fn, void *arg, struct err *e)
{
	prepare(f);
	atomic_store(f->nan_row, 0);
	for (int32_t i = 0; i < f->program.n_ops; i++) {
		struct k_program one = { .op = f->program.op + i, .n_ops = 1, .version = k_new_version() };

		if (k_run(f->model->kernels, &one, e))
			return -1;
		if (!fn(arg, one.op, layer_of(f, i)))
			break;
	}
	return 0;
}

int forward_lens(struct forward *f, int32_t n, struct err *e)
{
	f->n_out = n;
	for (int32_t i = 0; i < n; i++)
		f->out_row[i] = i;
	f->program.n_ops = 0;
	add_head(f);
	f->program.timed = false;
	f->program.version = k_new_version();
	if (k_run(f->model->kernels, &f->program, e))
		return -1;
	f->program.version = 0; /* the next step writes its own */
	return 0;
}

/* ---- memory ---- */

/* Which forms of activations the matrices read that a stage feeds, over all layers. */
struct needs {
	bool normed_x, normed_q, mixed_q, act_x, act_q, head_x, head_q;
};

static struct needs find_needs(const struct model *m)
{
	struct needs n = { .head_x = program_wants_floats(&m->output), .head_q = !program_wants_floats(&m->output) };

	for (int32_t i = 0; i < m->config.n_layers; i++) {
		const struct model_mixer *a = &m->layer[i].mixer;
		const struct model_ffn *f = &m->layer[i].ffn;
		const struct k_matrix *in[] = { &a->q, &a->k, &a->v, &f->gate, &f->up };

		for (size_t j = 0; j < sizeof in / sizeof *in; j++) {
			n.normed_x |= program_wants_floats(in[j]);
			n.normed_q |= !program_wants_floats(in[j]);
		}
		n.mixed_q |= !program_wants_floats(&a->out);
		n.act_x |= program_wants_floats(&f->down);
		n.act_q |= !program_wants_floats(&f->down);
	}
	return n;
}

static void cut_shared(struct forward *f, struct cutter *c)
{
	const struct model_config *m = &f->model->config;
	size_t rows = (size_t)f->max_rows, out = (size_t)f->max_out, layers = (size_t)m->n_layers;
	size_t observed = layers * (size_t)f->max_observed * (size_t)m->n_heads;

	f->ids = program_cut(c, rows, sizeof *f->ids);
	f->rows = program_cut(c, rows, sizeof *f->rows);
	f->also = program_cut(c, (size_t)f->max_also, sizeof *f->also);
	f->pages = program_cut(c, rows, sizeof *f->pages);
	f->out_row = program_cut(c, out, sizeof *f->out_row);
	f->stats = program_cut(c, out, sizeof *f->stats);
	f->share = program_cut(c, observed * (size_t)f->max_groups, sizeof *f->share);
	f->near_zero = program_cut(c, observed, sizeof *f->near_zero);
	f->nan_row = program_cut(c, 1, sizeof *f->nan_row);
	f->program.op = program_cut(c, OPS_A_LAYER * layers + 3 + FORWARD_BEGIN_OPS, sizeof *f->program.op);
	if (k_is_host(f->model->kernels))
		return;
	f->logits = program_cut(c, out * (size_t)m->vocab, sizeof *f->logits);
	if (!f->asks)
		return;
	f->ask = program_cut(c, out, sizeof *f->ask);
	f->told = program_cut(c, out, sizeof *f->told);
	f->list = program_cut(c, out * K_DRAW_LIST, sizeof *f->list);
	f->whole = program_cut(c, out, sizeof *f->whole);
}

static void cut_work(struct forward *f, struct cutter *c)
{
	const struct model_config *m = &f->model->config;
	struct needs need = find_needs(f->model);
	size_t rows = (size_t)f->max_rows, out = (size_t)f->max_out;
	size_t q = (size_t)m->n_heads * (size_t)m->head_dim, kv = (size_t)m->n_kv_heads * (size_t)m->head_dim;

	f->x = program_cut(c, rows * (size_t)m->dim, sizeof *f->x);
	f->q = program_cut(c, rows * q, sizeof *f->q);
	f->k = program_cut(c, rows * kv, sizeof *f->k);
	f->v = program_cut(c, rows * kv, sizeof *f->v);
	f->gate = program_cut(c, rows * (size_t)m->ffn, sizeof *f->gate);
	f->up = program_cut(c, rows * (size_t)m->ffn, sizeof *f->up);
	f->normed = program_cut_acts(c, rows, m->dim, need.normed_x, need.normed_q);
	f->mixed = program_cut_acts(c, rows, (int32_t)q, true, need.mixed_q);
	f->act = program_cut_acts(c, rows, m->ffn, need.act_x, need.act_q);
	f->head = program_cut_acts(c, out, m->dim, need.head_x, need.head_q);
	f->computed_logits = program_cut(c, out * (size_t)m->vocab, sizeof *f->logits);
	if (k_is_host(f->model->kernels))
		f->logits = f->computed_logits;
}

/* Counts, takes, hands out. */
static void *take(struct forward *f, void (*cut_all)(struct forward *, struct cutter *),
				  enum k_memory where, struct err *e)
{
	struct cutter c = { 0 };
	char what[64];

	snprintf(what, sizeof what, "steps of %d rows; try a smaller --budget", f->max_rows);
	cut_all(f, &c);
	c.base = k_alloc(f->model->kernels, c.used, where, what, e);
	c.used = 0;
	cut_all(f, &c);
	return c.base;
}

int forward_open(struct forward *f, const struct model *m, const struct k_kv *kv, struct forward_sizes most,
				 struct err *e)
{
	memset(f, 0, sizeof *f);
	f->model = m;
	f->kv = kv;
	f->n_layers = m->config.n_layers;
	f->max_rows = most.rows;
	f->max_out = most.out;
	f->max_observed = most.observed;
	f->max_also = most.also;
	f->asks = most.asks;
	f->max_groups = whole_lines((most.ctx + K_GROUP - 1) / K_GROUP);
	f->threshold = 1e-3f;
	f->shared = take(f, cut_shared, K_SHARED, e);
	f->work = f->shared ? take(f, cut_work, K_WORK, e) : NULL;
	return f->work ? 0 : -1;
}

int forward_grow(struct forward *f, int32_t max_rows, struct err *e)
{
	struct forward larger;

	if (max_rows <= f->max_rows)
		return 0;
	if (forward_open(&larger, f->model, f->kv,
					 (struct forward_sizes){ .rows = max_rows, .out = f->max_out, .observed = f->max_observed,
											 .also = f->max_also, .ctx = f->max_groups * K_GROUP, .asks = f->asks },
					 e)) {
		forward_close(&larger);
		return -1;
	}
	larger.threshold = f->threshold;
	larger.fast = f->fast;
	larger.n_layers = f->n_layers;
	larger.begin = f->begin;
	larger.begin_arg = f->begin_arg;
	forward_close(f);
	*f = larger;
	return 0;
}

void forward_close(struct forward *f)
{
	if (f->model) {
		k_free(f->model->kernels, f->work);
		k_free(f->model->kernels, f->shared);
	}
	memset(f, 0, sizeof *f);
}
