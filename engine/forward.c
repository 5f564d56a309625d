/* One step of a Llama-family model: see forward.h. write_program() is the whole forward pass. */
#include "engine/forward.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the pass ---- */

static struct k_op *add(struct forward *f, enum k_kind kind, enum k_stage stage)
{
	struct k_op *op = &f->program.op[f->program.n_ops++];

	memset(op, 0, sizeof *op);
	op->kind = kind;
	op->stage = stage;
	return op;
}

static void add_embed(struct forward *f)
{
	struct k_op *op = add(f, K_OP_embed, K_STAGE_embed);

	op->u.embed = (struct k_embed){ .w = &f->model->embed, .ids = f->ids, .x = f->x, .n = f->n_rows };
}

static void add_norm(struct forward *f, const float *w, const int32_t *pick, struct k_acts out, int32_t n)
{
	struct k_op *op = add(f, K_OP_norm, K_STAGE_norm);

	op->u.norm = (struct k_norm){ .x = f->x, .pick = pick, .w = w, .eps = f->model->config.norm_eps,
								  .out = out, .n = n };
}

static struct k_matmul *add_matmul(struct forward *f, enum k_stage stage, struct k_acts in, int32_t n)
{
	struct k_op *op = add(f, K_OP_matmul, stage);

	op->u.matmul = (struct k_matmul){ .in = in, .n = n };
	return &op->u.matmul;
}

static void part(struct k_matmul *m, const struct k_matrix *w, const float *bias,
				 const float *residual, float *out)
{
	m->part[m->n_parts].w = w;
	m->part[m->n_parts].bias = bias;
	m->part[m->n_parts].residual = residual;
	m->part[m->n_parts++].out = out;
}

static void add_rope(struct forward *f, int32_t layer)
{
	const struct model_config *c = &f->model->config;
	struct k_op *op = add(f, K_OP_rope, K_STAGE_rope);

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
	struct k_op *op = add(f, K_OP_attention, K_STAGE_attention);

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
	struct k_matmul *m;

	add_norm(f, a->norm, NULL, f->normed, f->n_rows);
	m = add_matmul(f, K_STAGE_qkv, f->normed, f->n_rows);
	part(m, &a->q, a->q_bias, NULL, f->q);
	part(m, &a->k, a->k_bias, NULL, f->k);
	part(m, &a->v, a->v_bias, NULL, f->v);
	add_rope(f, i);
	add_attention(f, i);
	m = add_matmul(f, K_STAGE_out, f->mixed, f->n_rows);
	part(m, &a->out, a->out_bias, f->x, f->x);
}

static void add_ffn(struct forward *f, int32_t i)
{
	const struct model_ffn *w = &f->model->layer[i].ffn;
	struct k_matmul *m;
	struct k_op *op;

	add_norm(f, w->norm, NULL, f->normed, f->n_rows);
	m = add_matmul(f, K_STAGE_gate_up, f->normed, f->n_rows);
	part(m, &w->gate, NULL, NULL, f->gate);
	part(m, &w->up, NULL, NULL, f->up);
	op = add(f, K_OP_swiglu, K_STAGE_act);
	op->u.swiglu = (struct k_swiglu){ .gate = f->gate, .up = f->up, .out = f->act, .n = f->n_rows };
	m = add_matmul(f, K_STAGE_down, f->act, f->n_rows);
	part(m, &w->down, NULL, f->x, f->x);
}

static void add_head(struct forward *f)
{
	struct k_matmul *m;
	struct k_op *op;

	if (!f->n_out)
		return;
	add_norm(f, f->model->output_norm, f->out_row, f->head, f->n_out);
	m = add_matmul(f, K_STAGE_head, f->head, f->n_out);
	part(m, &f->model->output, NULL, NULL, f->computed_logits);
	op = add(f, K_OP_stats, K_STAGE_stats);
	op->u.stats = (struct k_stats){ .logits = f->computed_logits,
									.vocab = f->model->config.vocab, .n = f->n_out,
									.out = f->stats };
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

/* Logits are fetched where the host cannot read them as they are. */
static void add_fetch(struct forward *f)
{
	f->program.fetch.from = f->computed_logits;
	f->program.fetch.to = f->logits;
	f->program.fetch.bytes =
		f->logits == f->computed_logits
			? 0
			: (size_t)f->n_out * (size_t)f->model->config.vocab * sizeof *f->logits;
}

static void write_program(struct forward *f)
{
	f->program.n_ops = 0;
	add_embed(f);
	for (int32_t i = 0; i < f->n_layers; i++) {
		add_mixer(f, i);
		add_ffn(f, i);
	}
	add_head(f);
	for (int32_t i = 0; i < f->program.n_ops; i++)
		count(f, &f->program.op[i]);
	add_fetch(f);
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
		   a->layers == b->layers;
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
							   .also = f->n_also, .layers = f->n_layers, .threshold = f->threshold };

	set_share_stride(f);
	s.stride = f->share_stride;
	if (!f->program.version || s.rows != f->built.rows || s.out != f->built.out || s.also != f->built.also ||
		s.layers != f->built.layers)
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
	if (k_run(f->model->kernels, &f->program, e))
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
	add_fetch(f);
	if (k_run(f->model->kernels, &f->program, e))
		return -1;
	f->program.version = 0; /* the next step writes its own */
	return 0;
}

/* ---- memory ---- */

/* Hands out pieces of one allocation; with base NULL it only counts. */
struct cutter {
	uint8_t *base;
	size_t used;
};

static void *cut(struct cutter *c, size_t count, size_t size)
{
	void *p = c->base ? c->base + c->used : NULL;

	c->used += (count * size + 63) & ~(size_t)63;
	return p;
}

static struct k_acts cut_acts(struct cutter *c, size_t rows, int32_t dim, bool x, bool q)
{
	size_t n = rows * (size_t)dim;
	struct k_acts a = { .dim = dim };

	if (x)
		a.x = cut(c, n, sizeof *a.x);
	if (q) {
		a.q = cut(c, n, 1);
		a.d = cut(c, n / K_QBLOCK, sizeof *a.d);
		a.sx = cut(c, n / K_QBLOCK, sizeof *a.sx);
	}
	return a;
}

static bool wants_floats(const struct k_matrix *w)
{
	return k_types[w->type].block == 1;
}

/* Which forms of activations the matrices read that a stage feeds, over all layers. */
struct needs {
	bool normed_x, normed_q, mixed_q, act_x, act_q, head_x, head_q;
};

static struct needs find_needs(const struct model *m)
{
	struct needs n = { .head_x = wants_floats(&m->output), .head_q = !wants_floats(&m->output) };

	for (int32_t i = 0; i < m->config.n_layers; i++) {
		const struct model_mixer *a = &m->layer[i].mixer;
		const struct model_ffn *f = &m->layer[i].ffn;
		const struct k_matrix *in[] = { &a->q, &a->k, &a->v, &f->gate, &f->up };

		for (size_t j = 0; j < sizeof in / sizeof *in; j++) {
			n.normed_x |= wants_floats(in[j]);
			n.normed_q |= !wants_floats(in[j]);
		}
		n.mixed_q |= !wants_floats(&a->out);
		n.act_x |= wants_floats(&f->down);
		n.act_q |= !wants_floats(&f->down);
	}
	return n;
}

static void cut_shared(struct forward *f, struct cutter *c)
{
	const struct model_config *m = &f->model->config;
	size_t rows = (size_t)f->max_rows, out = (size_t)f->max_out, layers = (size_t)m->n_layers;
	size_t observed = layers * (size_t)f->max_observed * (size_t)m->n_heads;

	f->ids = cut(c, rows, sizeof *f->ids);
	f->rows = cut(c, rows, sizeof *f->rows);
	f->also = cut(c, (size_t)f->max_also, sizeof *f->also);
	f->pages = cut(c, rows, sizeof *f->pages);
	f->out_row = cut(c, out, sizeof *f->out_row);
	f->stats = cut(c, out, sizeof *f->stats);
	f->share = cut(c, observed * (size_t)f->max_groups, sizeof *f->share);
	f->near_zero = cut(c, observed, sizeof *f->near_zero);
	f->nan_row = cut(c, 1, sizeof *f->nan_row);
	f->program.op = cut(c, OPS_A_LAYER * layers + 4, sizeof *f->program.op);
	if (!k_is_host(f->model->kernels))
		f->logits = cut(c, out * (size_t)m->vocab, sizeof *f->logits);
}

static void cut_work(struct forward *f, struct cutter *c)
{
	const struct model_config *m = &f->model->config;
	struct needs need = find_needs(f->model);
	size_t rows = (size_t)f->max_rows, out = (size_t)f->max_out;
	size_t q = (size_t)m->n_heads * (size_t)m->head_dim, kv = (size_t)m->n_kv_heads * (size_t)m->head_dim;

	f->x = cut(c, rows * (size_t)m->dim, sizeof *f->x);
	f->q = cut(c, rows * q, sizeof *f->q);
	f->k = cut(c, rows * kv, sizeof *f->k);
	f->v = cut(c, rows * kv, sizeof *f->v);
	f->gate = cut(c, rows * (size_t)m->ffn, sizeof *f->gate);
	f->up = cut(c, rows * (size_t)m->ffn, sizeof *f->up);
	f->normed = cut_acts(c, rows, m->dim, need.normed_x, need.normed_q);
	f->mixed = cut_acts(c, rows, (int32_t)q, true, need.mixed_q);
	f->act = cut_acts(c, rows, m->ffn, need.act_x, need.act_q);
	f->head = cut_acts(c, out, m->dim, need.head_x, need.head_q);
	f->computed_logits = cut(c, out * (size_t)m->vocab, sizeof *f->logits);
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
	f->max_groups = whole_lines((most.ctx + K_GROUP - 1) / K_GROUP);
	f->threshold = 1e-3f;
	f->shared = take(f, cut_shared, K_SHARED, e);
	f->work = f->shared ? take(f, cut_work, K_WORK, e) : NULL;
	return f->work ? 0 : -1;
}

void forward_close(struct forward *f)
{
	if (f->model) {
		k_free(f->model->kernels, f->work);
		k_free(f->model->kernels, f->shared);
	}
	memset(f, 0, sizeof *f);
}
