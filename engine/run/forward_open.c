/* See forward.h: what the layers need of a step, and its memory. */
#include "engine/run/forward.h"

#include <stdio.h>
#include <string.h>

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
	struct forward_needs n = { .ops = FORWARD_BEGIN_OPS + FORWARD_KEPT + 4,
		.normed.dim = m->config.dim };

	forward_reads(&n.head, &m->output);
	if (m->inputs.width) {
		forward_widen(&n.wide, m->inputs.width);
		forward_reads(&n.normed, &m->inputs.proj);
	}
	for (int32_t i = 0; i < m->config.n_layers + m->n_encoder; i++) {
		const struct layer *l =
			i < m->config.n_layers ? &m->layer[i] : &m->encoder[i - m->config.n_layers];
		const struct block *const block[] = { &l->mixer, &l->ffn };

		for (int b = 0; b < 2; b++)
			if (block[b]->kind)
				block[b]->kind->need(block[b]->params, &n);
	}
	return n;
}

static void cut_reads(struct forward *f, struct cutter *c, size_t rows)
{
	CUT(c, f->choice.budget, rows);
	CUT(c, f->choice.begins, rows);
	CUT(c, f->choice.stride_mask, rows);
	CUT(c, f->choice.rotated, rows);
	CUT(c, f->choice.reads, f->max_groups);
}

static void cut_observed(struct forward *f, struct cutter *c, size_t rows, size_t layers)
{
	struct forward_observed *o = &f->observed;
	const size_t most = (size_t)f->max_observed;
	const size_t heads = layers * most * (size_t)f->model->config.n_heads;

	CUT(c, o->share, heads * (size_t)f->max_groups);
	CUT(c, o->near_zero, heads);
	CUT(c, o->mixed_near, layers * most * K_NEAR);
	CUT(c, o->inner_near, layers * most * K_NEAR);
	CUT(c, o->mask, layers * rows * (size_t)(f->needs.masked / 32));
}

static void cut_shared(struct forward *f, struct cutter *c)
{
	const struct model_config *m = &f->model->config;
	size_t rows = (size_t)f->max_rows, out = (size_t)f->max_out, layers = (size_t)m->n_layers;

	CUT(c, f->ids, rows);
	CUT(c, f->rows, rows);
	cut_reads(f, c, rows);
	CUT(c, f->also, f->max_also);
	for (int32_t i = 0; i < f->needs.n_windows; i++)
		CUT(c, f->mask[i].ranges, rows * VISIBLE_RANGES);
	for (int i = 0; f->model->n_encoder && i < FORWARD_PARTS; i++)
		CUT(c, f->part[i].ranges, rows);
	CUT(c, f->item_row, rows);
	for (int32_t g = 0; g < MEMORY_GROUPS; g++) {
		CUT(c, f->pages[g], rows);
		CUT(c, f->state[g], rows);
	}
	CUT(c, f->out_row, out);
	CUT(c, f->stats, out);
	CUT(c, f->final, FORWARD_FINAL * (size_t)m->dim);
	cut_observed(f, c, rows, layers);
	CUT(c, f->nan_row, 1);
	/* twice, for rewriters */
	CUT(c, f->program.op, 2 * (size_t)f->needs.ops);
	if (k_is_host(f->model->kernels))
		return;
	CUT(c, f->logits, out * (size_t)m->vocab);
	if (!f->draw.asks)
		return;
	CUT(c, f->draw.ask, out);
	CUT(c, f->draw.reply, out);
	CUT(c, f->draw.list, out * K_DRAW_LIST);
	CUT(c, f->draw.whole, out);
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

	CUT(c, f->x, rows * (size_t)m->dim);
	CUT(c, f->own.q, rows * (size_t)n->q);
	CUT(c, f->own.k, rows * (size_t)n->kv);
	CUT(c, f->own.v, rows * (size_t)n->kv);
	CUT(c, f->own.gate, rows * (size_t)n->wide);
	CUT(c, f->own.up, rows * (size_t)n->wide);
	CUT(c, f->own.q_normed, rows * (size_t)n->q_normed);
	CUT(c, f->own.k_normed, rows * (size_t)n->k_normed);
	CUT(c, f->own.added, n->added ? rows * (size_t)m->dim : 0);
	CUT(c, f->own.inputs, rows * (size_t)f->model->inputs.width);
	CUT(c, f->own.inner, rows * (size_t)n->inner);
	CUT(c, f->own.room, n->room);
	CUT(c, f->own.first, n->first ? rows * (size_t)m->dim : 0);
	if (f->model->adapters)
		CUT(c, f->own.shrunk, rows * K_ADAPTED * (size_t)f->model->adapters->most);
	CUT(c, f->own.normed_x, rows * (size_t)n->normed.dim);
	f->own.normed = program_cut_acts(c, rows, n->normed.dim, false, n->normed.q);
	f->own.mixed = cut_acts(c, f->max_rows, &n->mixed);
	f->own.act = cut_acts(c, f->max_rows, &n->act);
	f->own.head = cut_acts(c, f->max_out, &n->head);
	CUT(c, f->own.computed_logits, out * (size_t)m->vocab);
	CUT(c, f->own.sink_q, rows * (size_t)n->q);
	if (k_is_host(f->model->kernels)) {
		f->logits = f->own.computed_logits;
		return;
	}
	rows = (size_t)m->n_layers * FORWARD_LATE_ROWS;
	CUT(c, f->observed.late[0].x, rows * (size_t)n->mixed.dim);
	CUT(c, f->observed.late[1].x, rows * (size_t)n->act.dim);
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
	f->ahead = m->diffusion.on;
	f->needs = find_needs(m);
	if (f->needs.n_windows > FORWARD_MASKS)
		return err_set(
			e, ERR_INPUT, "the model's layers have more than %d different windows", FORWARD_MASKS);
	for (int32_t i = 0; i < f->needs.n_windows; i++)
		f->mask[i].window = f->needs.window[i];
	f->max_rows = most.rows;
	f->max_out = most.out;
	f->max_observed = most.observed;
	f->max_also = most.also;
	f->draw.asks = most.asks;
	f->max_groups = forward_whole_lines((most.ctx + K_GROUP - 1) / K_GROUP);
	f->observed.threshold = 1e-3f;
	f->shared = take(f, cut_shared, K_SHARED, e);
	f->work = f->shared ? take(f, cut_work, K_WORK, e) : NULL;
	return f->work ? 0 : -1;
}

/* What rows choose to read: the host counts it. */
static int take_selected(struct forward *f, struct err *e)
{
	const size_t rows = (size_t)f->n_layers * (size_t)f->max_rows;

	f->choice.selected_stride = f->max_groups / (K_SPAN / K_GROUP) + 1;
	f->choice.selected = k_alloc(f->model->kernels,
		rows * (size_t)f->needs.kv_heads * (size_t)f->choice.selected_stride, K_SHARED,
		"the choice of keys; try a smaller --ctx or --budget", e);
	return f->choice.selected ? 0 : -1;
}

static int take_attn_score(struct forward *f, struct err *e)
{
	const size_t row = (size_t)f->needs.heads * (size_t)f->max_groups;
	const size_t n = (size_t)f->max_rows * row,
				 states = (size_t)f->needs.kv_heads * k_heavy_floats(f->max_groups);

	f->choice.attn_score = k_alloc(f->model->kernels, (n + states) * sizeof *f->choice.attn_score,
		K_WORK, "the attention that groups of positions get", e);
	f->choice.attn_score_scratch = f->choice.attn_score + n;
	return f->choice.attn_score ? 0 : -1;
}

int forward_set_visible(struct forward *f, const struct visible *v, struct err *e)
{
	const bool keeps = visible_policy_of(v)->keeps;

	if (f->model && (keeps || visible_picks(v)) && !f->choice.selected && take_selected(f, e))
		return -1;
	if (f->model && keeps && !f->choice.attn_score && take_attn_score(f, e))
		return -1;
	f->program.version = 0;
	f->visible = *v;
	return 0;
}

int forward_set_attend(struct forward *f, enum k_attend way, struct err *e)
{
	const int32_t spans = f->max_groups / (K_SPAN / K_GROUP) + 1;

	if (f->model && way == K_ATTEND_MATRIX && !f->matrix) {
		const size_t lines = (size_t)f->max_rows * (size_t)f->needs.heads * (size_t)spans;

		f->matrix = k_alloc(f->model->kernels, lines * K_MATRIX_SPAN * sizeof *f->matrix, K_WORK,
			"all scores of a layer; try a smaller --ctx or --budget", e);
		if (!f->matrix)
			return -1;
	}
	f->matrix_spans = spans;
	f->attend = way;
	return 0;
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
				.asks = f->draw.asks },
			e) ||
		forward_set_visible(&larger, &f->visible, e) || forward_set_attend(&larger, f->attend, e) ||
		forward_keep_same(&larger, f, e)) {
		forward_close(&larger);
		return -1;
	}
	larger.observed.threshold = f->observed.threshold;
	larger.least = f->least;
	memcpy(larger.rewriter, f->rewriter, sizeof f->rewriter);
	larger.n_layers = f->n_layers;
	larger.remote = f->remote;
	larger.begin = f->begin;
	larger.begin_arg = f->begin_arg;
	forward_close(f);
	*f = larger;
	return 0;
}

void forward_close(struct forward *f)
{
	if (f->model) {
		for (int i = 0; i < FORWARD_KEPT; i++)
			if (f->kept[i].users)
				k_free(f->model->kernels, f->kept[i].x);
		k_free(f->model->kernels, f->choice.attn_score);
		k_free(f->model->kernels, f->choice.selected);
		k_free(f->model->kernels, f->matrix);
		k_free(f->model->kernels, f->work);
		k_free(f->model->kernels, f->shared);
	}
	memset(f, 0, sizeof *f);
}
