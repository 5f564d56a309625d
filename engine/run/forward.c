/* One step of a model: see forward.h. write_program() is the whole forward pass. */
#include "engine/run/forward.h"

#include <math.h>
#include <string.h>

/* ---- what rows see ---- */

void forward_sees(struct forward_needs *n, int32_t window)
{
	int32_t i = 0;

	while (i < n->n_windows && n->window[i] != window)
		i++;
	if (i == n->n_windows && i <= FORWARD_MASKS)
		n->window[n->n_windows++] = window;
}

const struct forward_mask *forward_mask(const struct forward *f, int32_t window)
{
	const struct forward_mask *s = f->mask;

	while (s->window != window)
		s++;
	return s;
}

int32_t forward_n_ranges(const struct forward *f, int32_t window)
{
	return visible_n_ranges(&f->visible, window);
}

/* Positions of a list that are not before `from`. */
static int32_t seen_from(const struct k_range *list, int32_t n, int32_t from)
{
	int32_t seen = 0;

	for (int32_t i = 0; i < n; i++)
		if (list[i].end > from)
			seen += list[i].end - (list[i].first > from ? list[i].first : from);
	return seen;
}

/* The keys of a group that has recent ones beside it; all have the same format. */
static const struct k_kv *coded_keys(const struct forward *f)
{
	int g = 0;

	while (g < MEMORY_GROUPS - 1 && !f->store[g].recent)
		g++;
	return &f->store[g].kv;
}

/* Where what row r of request `item` sees ends. */
static int32_t end_seen(const struct forward *f, int32_t r, int32_t item)
{
	const int32_t end = item + 1 < f->n_items ? f->item_row[item + 1] : f->n_rows;

	return f->rows[f->ahead || f->encodes ? end - 1 : r].pos + 1;
}

/* A request reads the positions that its first row sees, and one more for each further row that
 * sees more. */
static void mask_fill(struct forward *f, struct forward_mask *s)
{
	const struct k_kv *coded = coded_keys(f);
	const struct visible full = { 0 };
	const int32_t n = forward_n_ranges(f, s->window), n_all = visible_n_ranges(&full, s->window);
	struct k_range all[VISIBLE_RANGES];

	s->positions = s->pairs = s->whole = s->recent = s->whole_recent = 0;
	for (int32_t r = 0, item = 0; r < f->n_rows; r++) {
		struct k_range *range = s->ranges + (size_t)r * (size_t)n;
		const int32_t pos = f->rows[r].pos, from = k_coded_end(coded, pos);
		int32_t seen = visible_ranges(&f->visible, s->window, pos, range);
		bool first = item < f->n_items && f->item_row[item] == r;
		const int32_t later = end_seen(f, r, item - !first) - (pos + 1);
		const uint64_t more = !f->ahead;

		range[n - 1].end += later;
		seen += later;
		s->pairs += (uint64_t)seen;
		s->positions += first ? (uint64_t)seen : more;
		s->whole += first ? (uint64_t)(visible_ranges(&full, s->window, pos, all) + later) : more;
		s->recent += first ? (uint64_t)seen_from(range, n, from) : more;
		s->whole_recent += first ? (uint64_t)seen_from(all, n_all, from) : more;
		item += first;
	}
}

/* A decoder's row sees all of the input, and of its own positions those up to its own. */
static void parts_fill(struct forward *f)
{
	for (int i = 0; i < FORWARD_PARTS; i++) {
		struct forward_mask *s = &f->part[i];

		s->positions = s->pairs = 0;
		for (int32_t r = 0, item = 0; r < f->n_rows; r++) {
			const struct k_row *row = &f->rows[r];
			const bool first = item < f->n_items && f->item_row[item] == r;
			const struct k_range seen = i == FORWARD_INPUT
											? (struct k_range){ 0, row->input }
											: (struct k_range){ row->input, row->pos + 1 };

			s->ranges[r] = seen;
			s->pairs += (uint64_t)(seen.end - seen.first);
			s->positions += first ? (uint64_t)(seen.end - seen.first) : i == FORWARD_INPUT ? 0 : 1;
			item += first;
		}
		s->whole = s->positions;
		s->recent = s->whole_recent = 0;
	}
}

static void fill_begins(struct forward *f)
{
	for (int32_t r = 0, item = 0; r < f->n_rows; r++) {
		while (item + 1 < f->n_items && f->item_row[item + 1] <= r)
			item++;
		f->choice.begins[r] = f->item_row[item];
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
			f->choice.budget[r] = p->groups(arg, pos);
		if (p->keeps)
			f->choice.budget[r] = p->keeps(arg, pos / K_SPAN + 1);
		if (p->stride_mask)
			f->choice.stride_mask[r] = p->stride_mask(arg, pos);
		if (p->rotated)
			f->choice.rotated[r] = p->rotated(arg, pos);
	}
}

static void fill_masks(struct forward *f)
{
	if (f->model->n_encoder)
		parts_fill(f);
	for (int32_t i = 0; i < f->needs.n_windows; i++)
		mask_fill(f, &f->mask[i]);
	fill_reads(f);
}

/* ---- the pass ---- */

/* Where this step's observations of a layer go. */
static void aim(const struct forward *f, struct k_op *op)
{
	size_t heads = (size_t)op->layer * (size_t)f->n_observed * (size_t)f->model->config.n_heads;
	struct k_attention *a = &op->u.attention;

	a->share = f->n_observed ? f->observed.share + heads * (size_t)f->observed.share_stride : NULL;
	a->near_zero = f->n_observed ? f->observed.near_zero + heads : NULL;
	a->share_stride = f->observed.share_stride;
	a->threshold = f->observed.threshold;
	a->ahead = f->ahead;
	a->way = f->attend;
	a->matrix = f->attend == K_ATTEND_MATRIX ? f->matrix : NULL;
	a->matrix_spans = f->matrix_spans;
}

static void write_block(struct forward *f, const struct block *b)
{
	if (b->kind)
		b->kind->write(f, b->params);
}

struct k_op *forward_add_norm(struct forward *f, const float *x, const int32_t *pick,
	const float *w, const float *bias, struct k_acts out, int32_t n)
{
	const struct model_config *c = &f->model->config;
	struct k_program *p = &f->program;

	if (!c->centred)
		program_norm(p, x, pick, w, c->norm_eps, out, n);
	else
		program_add(p, K_OP_centre, K_STAGE_norm)->u.centre = (struct k_centre){
			.x = x, .pick = pick, .w = w, .b = bias, .eps = c->norm_eps, .out = out, .n = n
		};
	return &p->op[p->n_ops - 1];
}

static void add_cap(struct forward *f)
{
	const struct model *m = f->model;

	program_add(&f->program, K_OP_cap, K_STAGE_head)->u.cap =
		(struct k_cap){ .x = f->own.computed_logits,
			.scale = m->logit_scale != 0 ? m->logit_scale : 1,
			.most = m->logit_cap,
			.dim = m->config.vocab,
			.n = f->n_out };
}

static void add_head(struct forward *f)
{
	const struct model *model = f->model;
	struct k_program *p = &f->program;
	struct k_matmul *m;

	if (!f->n_out)
		return;
	forward_add_norm(
		f, f->x, f->out_row, model->output_norm, model->output_norm_bias, f->own.head, f->n_out);
	m = program_matmul(p, K_STAGE_head, f->own.head, f->n_out);
	program_part(m, &model->output, NULL, NULL, f->own.computed_logits);
	if (model->logit_scale != 0 || model->logit_cap > 0)
		add_cap(f);
	program_stats(p, f->own.computed_logits, model->config.vocab, f->n_out, f->stats);
	if (f->draw.ask)
		program_ask(p, f->draw.ask, f->draw.reply, f->draw.list);
}

/* ---- running ---- */

int forward_fetch(struct forward *f, int32_t first, int32_t n, struct err *e)
{
	const size_t vocab = (size_t)f->model->config.vocab, at = (size_t)first * vocab;

	if (!n || f->logits == f->own.computed_logits)
		return 0;
	return k_fetch(f->model->kernels, f->logits + at, f->own.computed_logits + at,
		(size_t)n * vocab * sizeof *f->logits, e);
}

/* The norm is of a product divided by sqrt(dim), so its epsilon grows by dim instead. */
static void add_inputs(struct forward *f, const struct model_inputs *in)
{
	const struct model_config *c = &f->model->config;
	struct k_program *p = &f->program;

	program_embed(p, &in->table, f->ids, f->own.inputs, f->n_rows)->scale = sqrtf((float)in->each);
	program_add(p, K_OP_activate, K_STAGE_embed)->u.activate =
		(struct k_activate){ .x = f->x, .out = f->own.normed, .act = K_ACT_none, .n = f->n_rows };
	program_part(program_matmul(p, K_STAGE_embed, f->own.normed, f->n_rows), &in->proj, NULL, NULL,
		f->own.gate);
	program_norm(p, f->own.gate, NULL, in->norm, c->norm_eps * (float)c->dim,
		(struct k_acts){ .x = f->own.inputs, .dim = in->each }, f->n_rows * (in->width / in->each))
		->residual = f->own.inputs;
}

static void add_embedding(struct forward *f)
{
	const struct model *m = f->model;

	program_embed(&f->program, &m->embed, f->ids, f->x, f->n_rows)->scale = m->embed_scale;
	if (m->embed_norm)
		forward_add_norm(f, f->x, NULL, m->embed_norm, m->embed_norm_bias,
			k_floats(f->x, m->config.dim), f->n_rows);
	if (m->positions)
		program_add(&f->program, K_OP_place, K_STAGE_embed)->u.place = (struct k_place){
			.table = m->positions, .x = f->x, .dim = m->config.dim, .n = f->n_rows, .rows = f->rows
		};
	if (m->inputs.width)
		add_inputs(f, &m->inputs);
}

static void write_program(struct forward *f)
{
	f->program.n_ops = 0;
	f->program.layer = -1;
	f->own.normed.x = f->rewriter[FORWARD_FLOATS].fn || f->needs.normed.x ? f->own.normed_x : NULL;
	if (f->begin)
		f->begin(f->begin_arg, f);
	else
		add_embedding(f);
	for (int32_t i = 0; f->encodes && i < f->model->n_encoder; i++) {
		write_block(f, &f->model->encoder[i].mixer);
		write_block(f, &f->model->encoder[i].ffn);
	}
	for (int32_t i = 0; !f->encodes && i < f->n_layers; i++) {
		f->program.layer = i;
		write_block(f, &f->model->layer[i].mixer);
		write_block(f, &f->model->layer[i].ffn);
		forward_write_kept(f, i);
	}
	f->program.layer = -1;
	forward_add_late(f);
	add_head(f);
	for (int i = 0; i < FORWARD_REWRITERS; i++)
		if (f->rewriter[i].fn)
			f->rewriter[i].fn(f->rewriter[i].arg, &f->program, f->n_rows);
	if (f->adapted)
		forward_add_adapters(f);
	if (f->remote)
		f->remote->split(f->remote->arg, f);
	for (int32_t i = 0; i < f->program.n_ops; i++)
		forward_count(f, &f->program.op[i]);
}

static void set_share_stride(struct forward *f)
{
	int32_t most = 0;

	for (int32_t r = 0; r < f->n_rows; r++)
		if (f->rows[r].observe >= 0 && f->rows[r].pos / K_GROUP + 1 > most)
			most = f->rows[r].pos / K_GROUP + 1;
	f->observed.share_stride = forward_whole_lines(most);
}

static bool same_shape(const struct forward_shape *a, const struct forward_shape *b)
{
	return a->rows == b->rows && a->out == b->out && a->observed == b->observed &&
		   a->stride == b->stride && a->threshold == b->threshold && a->also == b->also &&
		   a->layers == b->layers && a->encodes == b->encodes && a->least == b->least &&
		   a->begin_more == b->begin_more && a->adapted == b->adapted && a->format == b->format &&
		   visible_same(&a->visible, &b->visible);
}

static uint64_t version_of(struct forward *f, struct forward_shape s)
{
	for (int i = 0; i < FORWARD_RECENT; i++)
		if (f->programs.recent[i].version && same_shape(&f->programs.recent[i], &s))
			return f->programs.recent[i].version;
	s.version = k_new_version();
	f->programs.recent[f->programs.next_recent] = s;
	f->programs.next_recent = (f->programs.next_recent + 1) % FORWARD_RECENT;
	return s.version;
}

/* Of all keys and values; some have more ops. */
static enum k_cache format_of(const struct forward *f)
{
	enum k_cache format = K_CACHE_f16;

	for (int32_t g = 0; g < f->model->memory.n; g++)
		if (!f->model->memory.group[g].kind->is_state)
			format = f->store[g].kv.format;
	return format;
}

/* Whether other ops are needed than those that were written: where observations go is no part of
 * them. */
static bool is_new(const struct forward *f, const struct forward_shape *s)
{
	struct forward_shape was = f->programs.built;

	if (!s->observed == !was.observed) {
		was.observed = s->observed;
		was.stride = s->stride;
		was.threshold = s->threshold;
	}
	return !f->program.version || !same_shape(s, &was);
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
		.encodes = f->n_rows && f->rows[0].pos < f->rows[0].input,
		.begin_more = f->begin_more,
		.adapted = forward_is_adapted(f),
		.format = format_of(f),
		.threshold = f->observed.threshold,
		.least = f->least,
		.visible = f->visible };

	f->encodes = s.encodes;
	f->adapted = s.adapted;
	fill_masks(f);
	if (visible_policy_of(&f->visible)->keeps)
		fill_begins(f);
	set_share_stride(f);
	s.stride = f->observed.share_stride;
	if (is_new(f, &s))
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
	if (!f->program.version || !same_shape(&s, &f->programs.built))
		f->program.version = version_of(f, s);
	f->programs.built = s;
}

void forward_chain(struct forward *f, const int32_t *table, int32_t pos, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		f->rows[i] = (struct k_row){ .pos = pos + i, .seq = 0, .observe = -1 };
	for (int32_t g = 0; g < MEMORY_GROUPS; g++) {
		f->pages[g][0] = table;
		if (f->store[g].is_state)
			memory_chain(f->store[g].kv.page_size, table, pos, n, f->state[g]);
	}
}

static int run_program(struct forward *f, struct err *e)
{
	const struct forward_remote *r = f->remote;

	if (!r)
		return k_run(f->model->kernels, &f->program, e);
	return r->run(r->arg, f, e) || (r->end && r->end(r->arg, f, e)) ? -1 : 0;
}

int forward_run(struct forward *f, bool timed, struct err *e)
{
	if (f->remote && f->remote->begin && f->remote->begin(f->remote->arg, f, e))
		return -1;
	prepare(f);
	atomic_store(f->nan_row, 0);
	f->program.timed = timed;
	if (run_program(f, e) || (!f->draw.ask && forward_fetch(f, 0, f->n_out, e)))
		return -1;
	forward_count_read(f);
	memset(f->cost.stage, 0, sizeof f->cost.stage);
	for (int32_t i = 0; i < f->program.n_ops; i++) {
		struct k_op *op = &f->program.op[i];

		if (op->kind == K_OP_columns) /* only now it is known what was read */
			forward_count(f, op);
		f->cost.stage[op->stage].ns += timed ? op->ns : 0;
		f->cost.stage[op->stage].bytes += op->bytes;
		f->cost.stage[op->stage].ops += op->ops;
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

const struct k_program *forward_program_of_one(struct forward *f)
{
	const struct forward_rewriter floats = f->rewriter[FORWARD_FLOATS];
	const struct forward_remote *remote = f->remote;

	f->n_rows = f->n_out = 1;
	f->encodes = f->adapted = false;
	f->n_also = f->n_observed = 0;
	f->rewriter[FORWARD_FLOATS].fn = NULL;
	f->remote = NULL;
	write_program(f);
	f->remote = remote;
	f->rewriter[FORWARD_FLOATS] = floats;
	f->program.version = 0; /* the next step writes its own */
	return &f->program;
}

void forward_rewrite(struct forward *f)
{
	f->program.version = 0;
	memset(f->programs.recent, 0, sizeof f->programs.recent);
}

void forward_set_rewriter(
	struct forward *f, enum forward_rewrites which, struct forward_rewriter with)
{
	f->rewriter[which] = with;
	forward_rewrite(f);
}
