/* Requests of diffusion models: see canvas.h. */
#include "engine/core/engine_impl.h"
#include "engine/diffuse/canvas.h"
#include "engine/core/compute.h"

static const struct request_kind canvas_kind;

/* ---- which masked positions a step fixes ----
 *
 * By the settings denoise …: the most confident by the probability of the drawn token (LLaDA's
 * low-confidence remasking; MaskGIT), or by the entropy of the row (Dream), or all whose
 * probability is above a threshold and at least the best (Fast-dLLM, Wu et al. 2025). Equal ones:
 * the first position. */

static enum ev_code_schedule schedule_code(const struct engine_options *o)
{
	return (enum ev_code_schedule)setting_choice(&engine_settings[ENGINE_AT_denoise], o);
}

/* Sets the block: the leftmost with masks, from its first mask on. */
static void schedule_block(struct request *r)
{
	struct canvas *c = r->canvas;
	const int32_t n = r->limit - r->n_prompt, size = c->block ? c->block : n;
	int32_t at = 0;

	while (at < n && c->cell[at].fixed)
		at++;
	c->end = at / (size ? size : 1) * size + size;
	c->end = r->n_prompt + (c->end < n ? c->end : n);
	c->first = r->n_prompt + at;
}

/* Greater is surer. */
static double confidence(enum ev_code_schedule s, const struct canvas_cell *cell)
{
	return s == EV_SCHEDULE_entropy ? -cell->drawn.entropy : (double)cell->drawn.p;
}

/* How many a step fixes; 0: those above the threshold. */
static int32_t share(const struct canvas *c)
{
	const int32_t left = c->steps - c->n_steps;

	if (c->schedule == EV_SCHEDULE_threshold)
		return 0;
	if (!c->steps)
		return 1;
	return left > 1 ? (c->n_masked + left - 1) / left : c->n_masked;
}

static struct canvas_cell *best_of(const struct request *r)
{
	const struct canvas *c = r->canvas;
	struct canvas_cell *best = NULL;

	for (int32_t pos = c->first; pos < c->end; pos++) {
		struct canvas_cell *cell = &c->cell[pos - r->n_prompt];

		if (cell->fixed || cell->chosen || cell->drawn.id == c->mask)
			continue;
		if (!best || confidence(c->schedule, cell) > confidence(c->schedule, best))
			best = cell;
	}
	return best;
}

/* Marks the cells of the block that the step fixes, of those that were drawn. */
static void schedule_choose(struct request *r)
{
	const int32_t most = share(r->canvas);
	struct canvas_cell *best;

	for (int32_t n = 0; (best = best_of(r)); n++) {
		if (most ? n >= most : n && best->drawn.p <= r->canvas->above)
			return;
		best->chosen = true;
	}
}

/* ---- requests ---- */

static const char *refuses(const struct engine *e, const struct engine_request *q, bool owned)
{
	if (owned)
		return "a search goes on token by token, but a diffusion model has no next token";
	if (q->kind == EV_REQUEST_KIND_score)
		return "a diffusion model has no next token, whose probability could be scored";
	if (q->kind == EV_REQUEST_KIND_embed)
		return "a diffusion model's states are those of its masks, too: no vector of a text alone";
	if (q->kind == EV_REQUEST_KIND_verify)
		return "a diffusion model's tokens depend on its masks, too: its answers are not verified "
			   "by their tokens alone";
	if (q->kind == EV_REQUEST_KIND_pin || q->pin)
		return "the rows of a diffusion model see its answer, so no prefix can be kept";
	if (q->params.logit_bias.n == SAMPLE_BIAS_MAX)
		return "a diffusion model needs one of the 300 logit biases to ban its mask";
	if (e->model->diffusion.mask < 0)
		return "the file names no mask token (tokenizer.ggml.mask_token_id), so nothing can be "
			   "generated";
	return "";
}

static int vet(
	const struct engine *e, struct engine_request *q, bool owned, int32_t **ids, struct err *err)
{
	const char *why = refuses(e, q, owned);

	(void)ids;
	return *why ? err_set(err, ERR_USAGE, "%s", why) : 0;
}

/* The mask is never an answer: its logit gets the least bias, for which there is room. Not before
 * the log has what was asked for, and before the first pass, since a device keeps of a row what
 * its draw will read. */
static void ban(struct sample_bias *b, int32_t mask)
{
	int32_t at = 0;

	while (at < b->n && b->entry[at].id < (uint32_t)mask)
		at++;
	if (at == b->n || b->entry[at].id != (uint32_t)mask) {
		memmove(b->entry + at + 1, b->entry + at, (size_t)(b->n - at) * sizeof *b->entry);
		b->n++;
	}
	b->entry[at] = (struct ev_bias){ .id = (uint32_t)mask, .bias = -SAMPLE_BIAS_MOST };
}

static int open_canvas(struct engine *e, struct request *r, struct err *err)
{
	const struct model_diffusion *d = &e->model->diffusion;
	struct canvas *c;
	int32_t n;

	if (r->limit_is_ctx && r->limit - r->n_prompt > CANVAS_TOKENS) {
		r->limit = r->n_prompt + CANVAS_TOKENS;
		r->limit_is_ctx = false;
	}
	n = r->limit - r->n_prompt;
	r->how = &canvas_kind;
	r->canvas = c = calloc(1, sizeof *c);
	if (c)
		c->cell = calloc((size_t)n + 1, sizeof *c->cell);
	if (!c || !c->cell)
		return err_no_memory(err, "a canvas of %d tokens", n);
	c->mask = d->mask;
	c->shift = d->shift;
	c->schedule = schedule_code(&e->set);
	c->steps = e->set.denoise_steps;
	c->block = e->set.denoise_block;
	c->above = e->set.denoise_above;
	c->n_masked = n;
	for (int32_t i = 0; i < n; i++)
		r->ids[r->n_prompt + i] = d->mask;
	schedule_block(r);
	return 0;
}

static void release(struct request *r)
{
	if (r->canvas)
		free(r->canvas->cell);
	free(r->canvas);
}

static const char *never_fits(const struct request *r)
{
	if (r->limit - r->n_prompt > CANVAS_MOST)
		return "a diffusion model's answer has at most 1024 tokens here; see --max-tokens";
	if (r->limit > ENGINE_MAX_BUDGET)
		return "a diffusion model computes prompt and answer in one pass, of at most 4096 rows";
	return "";
}

/* A pass over prompt and canvas, which is whole: it waits for a step with room for it, or
 * that is its own. */
static void plan(struct sched *s, struct plan *p, struct request *r)
{
	const int32_t n_out = r->canvas->end - r->canvas->first;

	if (p->n_rows && (r->limit > s->budget - p->n_rows || n_out > s->max_out - p->n_out))
		return;
	ban(&r->params.logit_bias, r->canvas->mask);
	if (sched_ensure_pages(s, p, r, 0, r->limit))
		plan_add(p, r, EV_WORK_denoise, r->limit, 0, n_out);
	else
		sched_denied(s, p, r);
}

static int32_t first_row(const struct plan_item *item)
{
	const struct canvas *c = item->r->canvas;

	return item->row + c->first - c->shift;
}

static void draw(struct engine *e, const struct plan_item *item)
{
	struct request *r = item->r;
	struct canvas *c = r->canvas;

	for (int32_t i = 0; i < item->n_out; i++) {
		struct canvas_cell *cell = &c->cell[c->first - r->n_prompt + i];

		cell->chosen = false;
		if (cell->fixed)
			continue;
		e->compute->draw(e, r, c->first + i, item->out + i);
		cell->drawn = e->drawn;
		cell->stats = e->stats[item->out + i];
	}
}

/* Fixes the chosen cells; returns how many. */
static int32_t fix(struct request *r)
{
	struct canvas *c = r->canvas;
	int32_t n = 0;

	for (int32_t pos = c->first; pos < c->end; pos++) {
		struct canvas_cell *cell = &c->cell[pos - r->n_prompt];

		if (!cell->chosen || cell->drawn.id == c->mask)
			continue;
		cell->fixed = true;
		r->ids[pos] = cell->drawn.id;
		n++;
	}
	c->n_masked -= n;
	return n;
}

static void emit(struct engine *e, const struct request *r, int32_t n_fixed)
{
	const struct canvas *c = r->canvas;
	struct ev_denoised cells[EV_DENOISED_MOST];
	struct event ev;
	int32_t n = 0;

	for (int32_t pos = c->first; pos < c->end && n < EV_DENOISED_MOST; pos++) {
		const struct canvas_cell *cell = &c->cell[pos - r->n_prompt];

		if (cell->fixed && !cell->chosen)
			continue;
		stream_vocab(&e->stream, cell->drawn.id);
		cells[n++] = (struct ev_denoised){ .pos = (uint32_t)pos,
			.id = (uint32_t)cell->drawn.id,
			.p = cell->drawn.p,
			.entropy = (float)cell->drawn.entropy,
			.fixed = cell->fixed };
	}
	ev_init(&ev, EV_denoise);
	ev.u.denoise = (struct ev_denoise){ .step = e->n_steps,
		.request = r->id,
		.nth = c->n_steps,
		.pos = r->n_prompt,
		.tokens = r->limit - r->n_prompt,
		.block_pos = c->first,
		.block_end = c->end,
		.fixed = n_fixed,
		.masked = c->n_masked,
		.schedule = c->schedule,
		.steps = c->steps,
		.block = c->block,
		.above = c->above,
		.cells = { cells, (size_t)n * sizeof *cells } };
	stream_emit(&e->stream, &ev);
}

/* Tells the fixed tokens that no mask precedes. -1: the answer goes on; else why it ends. */
static int report(struct engine *e, struct request *r, const char **why)
{
	const struct canvas *c = r->canvas;
	int end = -1;

	*why = NULL;
	while (end < 0 && r->n_ids < r->limit && c->cell[r->n_ids - r->n_prompt].fixed) {
		const struct canvas_cell *cell = &c->cell[r->n_ids++ - r->n_prompt];

		e->step.tokens++;
		if (r->first_token_ns == EV_NULL_I)
			r->first_token_ns = stream_now(&e->stream);
		engine_emit_token(
			e, r, cell->drawn.id, r->n_ids - 1, &cell->drawn, &cell->stats, EV_SOURCE_plain);
		end = e->compute->end(e, r, why);
	}
	return end;
}

static void after(struct engine *e, const struct plan_item *item)
{
	struct request *r = item->r;
	const char *why;
	int32_t n_fixed;
	int end;

	draw(e, item);
	schedule_choose(r);
	n_fixed = fix(r);
	r->canvas->n_steps++;
	emit(e, r, n_fixed);
	end = report(e, r, &why);
	if (!n_fixed)
		engine_finish(e, r, EV_FINISH_failed, "the model proposes its own mask token");
	else if (end >= 0)
		engine_finish(e, r, (enum ev_code_finish)end, why);
	else
		schedule_block(r);
}

static const struct request_kind canvas_kind = {
	.plan = plan,
	.first_row = first_row,
	.after = after,
	.release = release,
	.stays =
		"a diffusion model's answer has no beginning to go on from: its tokens saw those after "
		"them",
};

static bool is_diffusion(const struct engine *e)
{
	return e->model && e->model->diffusion.on;
}

const struct request_form canvas_form = {
	.of = is_diffusion,
	.max_out = CANVAS_MOST,
	.vet = vet,
	.open = open_canvas,
	.never_fits = never_fits,
};
