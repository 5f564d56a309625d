/* One step of a model: see forward.h. write_program() is the whole forward pass. */
#include "engine/run/forward.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- what rows see ---- */

void forward_sees(struct forward_needs *n, int32_t window)
{
	int32_t i = 0;

	while (i < n->n_windows && n->window[i] != window)
		i++;
	if (i == n->n_windows && i <= FORWARD_SIGHTS)
		n->window[n->n_windows++] = window;
}

const struct forward_sight *forward_sight(const struct forward *f, int32_t window)
{
	const struct forward_sight *s = f->sight;

	while (s->window != window)
		s++;
	return s;
}

int32_t forward_n_ranges(const struct forward *f, int32_t window)
{
	return visible_n_ranges(&f->visible, window);
}

/* A request reads the positions that its first row sees, and one more for each further row. */
static void sight_fill(struct forward *f, struct forward_sight *s)
{
	const struct visible full = { 0 };
	const int32_t n = forward_n_ranges(f, s->window);
	struct k_range all[VISIBLE_RANGES];

	s->positions = s->pairs = s->whole = 0;
	for (int32_t r = 0, item = 0; r < f->n_rows; r++) {
		int32_t seen = visible_ranges(
			&f->visible, s->window, f->rows[r].pos, s->ranges + (size_t)r * (size_t)n);
		bool first = item < f->n_items && f->item_row[item] == r;

		s->pairs += (uint64_t)seen;
		s->positions += first ? (uint64_t)seen : 1;
		s->whole += first ? (uint64_t)visible_ranges(&full, s->window, f->rows[r].pos, all) : 1;
		item += first;
	}
}

/* What rows read of it. */
static void fill_reads(struct forward *f)
{
	const struct visible_policy *p = visible_policy_of(&f->visible);
	const int32_t *arg = f->visible.arg;

	for (int32_t r = 0; r < f->n_rows; r++) {
		const int32_t pos = f->rows[r].pos;

		if (p->groups)
			f->budget[r] = p->groups(arg, pos);
		if (p->comb)
			f->comb[r] = p->comb(arg, pos);
		if (p->turned)
			f->turned[r] = p->turned(arg, pos);
	}
}

/* ---- the pass ---- */

/* Where this step's observations of a layer go. */
static void aim(const struct forward *f, struct k_op *op)
{
	size_t heads = (size_t)op->layer * (size_t)f->n_observed * (size_t)f->model->config.n_heads;
	struct k_attention *a = &op->u.attention;

	a->share = f->n_observed ? f->share + heads * (size_t)f->share_stride : NULL;
	a->near_zero = f->n_observed ? f->near_zero + heads : NULL;
	a->share_stride = f->share_stride;
	a->threshold = f->threshold;
}

static void write_block(struct forward *f, const struct block *b)
{
	if (b->kind)
		b->kind->write(f, b->params);
}

void forward_add_product(struct forward *f, enum k_stage stage, struct k_acts in,
	const struct k_matrix *w, const float *bias, const float *norm)
{
	struct k_acts x = { .x = f->x, .dim = f->model->config.dim };
	float *out = norm ? f->added : f->x;

	if (w->by_column)
		forward_add_columns(f, stage, in, w, out);
	else
		program_part(
			program_matmul(&f->program, stage, in, f->n_rows), w, bias, norm ? NULL : f->x, out);
	if (norm)
		program_norm(&f->program, f->added, NULL, norm, f->model->config.norm_eps, x, f->n_rows)
			->residual = f->x;
}

static void add_head(struct forward *f)
{
	struct k_program *p = &f->program;
	struct k_matmul *m;

	if (!f->n_out)
		return;
	program_norm(
		p, f->x, f->out_row, f->model->output_norm, f->model->config.norm_eps, f->head, f->n_out);
	m = program_matmul(p, K_STAGE_head, f->head, f->n_out);
	program_part(m, &f->model->output, NULL, NULL, f->computed_logits);
	program_stats(p, f->computed_logits, f->model->config.vocab, f->n_out, f->stats);
	if (f->ask)
		program_ask(p, f->ask, f->reply, f->list);
}

/* ---- running ---- */

int forward_fetch(struct forward *f, int32_t first, int32_t n, struct err *e)
{
	const size_t vocab = (size_t)f->model->config.vocab, at = (size_t)first * vocab;

	if (!n || f->logits == f->computed_logits)
		return 0;
	return k_fetch(f->model->kernels, f->logits + at, f->computed_logits + at,
		(size_t)n * vocab * sizeof *f->logits, e);
}

static void write_program(struct forward *f)
{
	f->program.n_ops = 0;
	f->program.layer = -1;
	if (f->begin)
		f->begin(f->begin_arg, f);
	else
		program_embed(&f->program, &f->model->embed, f->ids, f->x, f->n_rows)->scale =
			f->model->embed_scale;
	for (int32_t i = 0; i < f->n_layers; i++) {
		f->program.layer = i;
		write_block(f, &f->model->layer[i].mixer);
		write_block(f, &f->model->layer[i].ffn);
	}
	f->program.layer = -1;
	add_head(f);
	for (int32_t i = 0; i < f->program.n_ops; i++)
		forward_count(f, &f->program.op[i]);
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
		   a->layers == b->layers && a->least == b->least && visible_same(&a->visible, &b->visible);
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

/* A program is kept while the shape of the step is the same: only the inputs and observations of
 * attention change. */
static void prepare(struct forward *f)
{
	struct forward_shape s = { .rows = f->n_rows,
		.out = f->n_out,
		.observed = f->n_observed,
		.also = f->n_also,
		.layers = f->n_layers,
		.threshold = f->threshold,
		.least = f->least,
		.visible = f->visible };

	for (int32_t i = 0; i < f->needs.n_windows; i++)
		sight_fill(f, &f->sight[i]);
	fill_reads(f);
	set_share_stride(f);
	s.stride = f->share_stride;
	if (!f->program.version || s.rows != f->built.rows || s.out != f->built.out ||
		s.also != f->built.also || s.layers != f->built.layers || s.least != f->built.least ||
		!s.observed != !f->built.observed || !visible_same(&s.visible, &f->built.visible))
		write_program(f);
	for (int32_t i = 0; i < f->program.n_ops; i++) {
		struct k_op *op = &f->program.op[i];

		if (op->kind == K_OP_attention) {
			aim(f, op);
			forward_count(f, op);
		} else if (op->kind == K_OP_sparse) {
			forward_aim_sparse(f, op);
		}
	}
	if (!f->program.version || !same_shape(&s, &f->built))
		f->program.version = version_of(f, s);
	f->built = s;
}

void forward_chain(
	struct forward *f, int32_t seq, const int32_t *table, int32_t row, int32_t pos, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		f->rows[row + i] = (struct k_row){ .pos = pos + i, .seq = seq, .observe = -1 };
	for (int32_t g = 0; g < f->model->memory.n; g++) {
		f->pages[g][seq] = table;
		if (f->state[g])
			memory_chain(f->store[g].kv.page_size, table, pos, n, f->state[g] + row);
	}
}

int forward_run(struct forward *f, bool timed, struct err *e)
{
	prepare(f);
	atomic_store(f->nan_row, 0);
	f->program.timed = timed;
	if (k_run(f->model->kernels, &f->program, e) || (!f->ask && forward_fetch(f, 0, f->n_out, e)))
		return -1;
	forward_count_read(f);
	memset(f->stage, 0, sizeof f->stage);
	for (int32_t i = 0; i < f->program.n_ops; i++) {
		struct k_op *op = &f->program.op[i];

		if (op->kind == K_OP_columns) /* only now it is known what was read */
			forward_count(f, op);
		f->stage[op->stage].ns += timed ? op->ns : 0;
		f->stage[op->stage].bytes += op->bytes;
		f->stage[op->stage].ops += op->ops;
	}
	return 0;
}

int forward_run_each(struct forward *f, forward_op_fn *fn, void *arg, struct err *e)
{
	prepare(f);
	atomic_store(f->nan_row, 0);
	for (int32_t i = 0; i < f->program.n_ops; i++) {
		struct k_program one = { .op = f->program.op + i, .n_ops = 1, .version = k_new_version() };

		if (k_run(f->model->kernels, &one, e))
			return -1;
		if (!fn(arg, one.op, one.op->layer))
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

int32_t forward_products(struct forward *f, struct forward_product *out, int32_t most)
{
	int32_t n = 0;

	f->n_rows = f->n_out = 1;
	f->n_also = f->n_observed = 0;
	write_program(f);
	f->program.version = 0; /* the next step writes its own */
	for (int32_t i = 0; i < f->program.n_ops; i++)
		n = forward_add_products(f, &f->program.op[i], out, n, most);
	return n;
}

/* ---- memory ---- */

void forward_widen(int32_t *width, int32_t n)
{
	*width = n > *width ? n : *width;
}

void forward_reads(struct forward_acts *a, const struct k_matrix *w)
{
	forward_widen(&a->dim, w->n_cols);
	a->x |= program_wants_floats(w);
	a->q |= !program_wants_floats(w);
}

static struct forward_needs find_needs(const struct model *m)
{
	struct forward_needs n = { .ops = FORWARD_BEGIN_OPS + 3, .normed.dim = m->config.dim };

	forward_reads(&n.head, &m->output);
	for (int32_t i = 0; i < m->config.n_layers; i++) {
		const struct block *const block[] = { &m->layer[i].mixer, &m->layer[i].ffn };

		for (int b = 0; b < 2; b++)
			if (block[b]->kind)
				block[b]->kind->need(block[b]->params, &n);
	}
	return n;
}

static void cut_reads(struct forward *f, struct cutter *c, size_t rows)
{
	f->budget = program_cut(c, rows, sizeof *f->budget);
	f->comb = program_cut(c, rows, sizeof *f->comb);
	f->turned = program_cut(c, rows, sizeof *f->turned);
	f->reads = program_cut(c, (size_t)f->max_groups, sizeof *f->reads);
}

static void cut_shared(struct forward *f, struct cutter *c)
{
	const struct model_config *m = &f->model->config;
	size_t rows = (size_t)f->max_rows, out = (size_t)f->max_out, layers = (size_t)m->n_layers;
	size_t observed = layers * (size_t)f->max_observed * (size_t)m->n_heads;

	f->ids = program_cut(c, rows, sizeof *f->ids);
	f->rows = program_cut(c, rows, sizeof *f->rows);
	cut_reads(f, c, rows);
	f->also = program_cut(c, (size_t)f->max_also, sizeof *f->also);
	for (int32_t i = 0; i < f->needs.n_windows; i++)
		f->sight[i].ranges = program_cut(c, rows * VISIBLE_RANGES, sizeof *f->sight[i].ranges);
	f->item_row = program_cut(c, rows, sizeof *f->item_row);
	for (int32_t g = 0; g < f->model->memory.n; g++) {
		f->pages[g] = program_cut(c, rows, sizeof *f->pages[g]);
		if (f->model->memory.group[g].kind->is_state)
			f->state[g] = program_cut(c, rows, sizeof *f->state[g]);
	}
	f->out_row = program_cut(c, out, sizeof *f->out_row);
	f->stats = program_cut(c, out, sizeof *f->stats);
	f->share = program_cut(c, observed * (size_t)f->max_groups, sizeof *f->share);
	f->near_zero = program_cut(c, observed, sizeof *f->near_zero);
	f->mixed_near =
		program_cut(c, layers * (size_t)f->max_observed * K_NEAR, sizeof *f->mixed_near);
	f->inner_near =
		program_cut(c, layers * (size_t)f->max_observed * K_NEAR, sizeof *f->inner_near);
	f->mask = program_cut(c, layers * rows * (size_t)(f->needs.masked / 32), sizeof *f->mask);
	f->nan_row = program_cut(c, 1, sizeof *f->nan_row);
	f->program.op = program_cut(c, (size_t)f->needs.ops, sizeof *f->program.op);
	if (k_is_host(f->model->kernels))
		return;
	f->logits = program_cut(c, out * (size_t)m->vocab, sizeof *f->logits);
	if (!f->asks)
		return;
	f->ask = program_cut(c, out, sizeof *f->ask);
	f->reply = program_cut(c, out, sizeof *f->reply);
	f->list = program_cut(c, out * K_DRAW_LIST, sizeof *f->list);
	f->whole = program_cut(c, out, sizeof *f->whole);
}

static struct k_acts cut_acts(struct cutter *c, int32_t rows, const struct forward_acts *a)
{
	return program_cut_acts(c, (size_t)rows, a->dim, a->x, a->q);
}

static void cut_work(struct forward *f, struct cutter *c)
{
	const struct model_config *m = &f->model->config;
	const struct forward_needs *n = &f->needs;
	size_t rows = (size_t)f->max_rows, out = (size_t)f->max_out;

	f->x = program_cut(c, rows * (size_t)m->dim, sizeof *f->x);
	f->q = program_cut(c, rows * (size_t)n->q, sizeof *f->q);
	f->k = program_cut(c, rows * (size_t)n->kv, sizeof *f->k);
	f->v = program_cut(c, rows * (size_t)n->kv, sizeof *f->v);
	f->gate = program_cut(c, rows * (size_t)n->wide, sizeof *f->gate);
	f->up = program_cut(c, rows * (size_t)n->wide, sizeof *f->up);
	f->q_normed = program_cut(c, rows * (size_t)n->q_normed, sizeof *f->q_normed);
	f->k_normed = program_cut(c, rows * (size_t)n->k_normed, sizeof *f->k_normed);
	f->added = program_cut(c, n->added ? rows * (size_t)m->dim : 0, sizeof *f->added);
	f->normed = cut_acts(c, f->max_rows, &n->normed);
	f->mixed = cut_acts(c, f->max_rows, &n->mixed);
	f->act = cut_acts(c, f->max_rows, &n->act);
	f->head = cut_acts(c, f->max_out, &n->head);
	f->computed_logits = program_cut(c, out * (size_t)m->vocab, sizeof *f->logits);
	if (!k_is_host(f->model->kernels))
		return;
	f->logits = f->computed_logits;
	f->sink_q = program_cut(c, rows * (size_t)n->q, sizeof *f->sink_q);
	f->picked_stride = f->max_groups / (K_SPAN / K_GROUP) + 1;
	f->picked =
		program_cut(c, (size_t)m->n_layers * rows, (size_t)n->kv_heads * (size_t)f->picked_stride);
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

int forward_open(struct forward *f, const struct model *m, const struct memory_store *store,
	struct forward_sizes most, struct err *e)
{
	memset(f, 0, sizeof *f);
	f->model = m;
	f->store = store;
	f->n_layers = m->config.n_layers;
	f->needs = find_needs(m);
	if (f->needs.n_windows > FORWARD_SIGHTS)
		return err_set(
			e, ERR_INPUT, "the model's layers have more than %d different windows", FORWARD_SIGHTS);
	for (int32_t i = 0; i < f->needs.n_windows; i++)
		f->sight[i].window = f->needs.window[i];
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

int32_t forward_widest(const struct forward *f)
{
	int32_t widest = f->needs.normed.dim;

	forward_widen(&widest, f->needs.mixed.dim);
	forward_widen(&widest, f->needs.act.dim);
	return widest;
}

int forward_grow(struct forward *f, int32_t max_rows, struct err *e)
{
	struct forward larger;

	if (max_rows <= f->max_rows)
		return 0;
	if (forward_open(&larger, f->model, f->store,
			(struct forward_sizes){ .rows = max_rows,
				.out = f->max_out,
				.observed = f->max_observed,
				.also = f->max_also,
				.ctx = f->max_groups * K_GROUP,
				.asks = f->asks },
			e)) {
		forward_close(&larger);
		return -1;
	}
	larger.threshold = f->threshold;
	larger.visible = f->visible;
	larger.least = f->least;
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
