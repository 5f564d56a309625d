/* See canvas.h. */
#include "engine/diffuse/canvas.h"

#include <stdlib.h>
#include <string.h>

#include "engine/core/engine_impl.h"
#include "engine/diffuse/schedule.h"
#include "engine/run/compute.h"

const char *canvas_refuses(const struct engine *e, const struct engine_request *q, bool owned)
{
	if (!e->model || !e->model->diffusion.on)
		return "";
	if (owned)
		return "a search goes on token by token, but a diffusion model has no next token";
	if (q->kind == EV_REQUEST_KIND_score)
		return q->sees_all
				   ? ""
				   : "a diffusion model has no next token, whose probability could be scored";
	if (q->kind == EV_REQUEST_KIND_pin || q->pin)
		return "the rows of a diffusion model see its answer, so no prefix can be kept";
	if (e->model->diffusion.mask < 0)
		return "the file names no mask token (tokenizer.ggml.mask_token_id), so nothing can be "
			   "generated";
	if (q->params.logit_bias.n == SAMPLE_BIAS_MAX)
		return "a diffusion model needs one of the logit biases to keep its mask out of the answer";
	return "";
}

/* The mask is never an answer: its logit gets the least bias. */
static void exclude(struct sample_bias *b, int32_t mask)
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

/* Cells that the request has room for; what it has of its answer (kind verify) is made again. */
static int32_t size_canvas(struct request *r, const struct engine_request *q)
{
	const int32_t given = r->n_ids - r->n_prompt;

	if (q->kind == EV_REQUEST_KIND_score) {
		r->limit = r->n_ids;
		return 0;
	}
	r->n_ids = r->n_prompt;
	r->limit -= given;
	if (r->limit_is_ctx && r->limit - r->n_prompt > CANVAS_TOKENS) {
		r->limit = r->n_prompt + CANVAS_TOKENS;
		r->limit_is_ctx = false;
	}
	return r->limit - r->n_prompt;
}

int canvas_open(
	struct engine *e, struct request *r, const struct engine_request *q, struct err *err)
{
	const struct model_diffusion *d = e->model ? &e->model->diffusion : NULL;
	struct canvas *c;

	if (!d || !d->on)
		return 0;
	r->canvas = c = calloc(1, sizeof *c);
	if (!c)
		return err_set(err, ERR_MEMORY, "no memory for a canvas");
	c->given = r->n_ids - r->n_prompt;
	c->n = c->n_masked = size_canvas(r, q);
	c->cell = calloc((size_t)c->n + 1, sizeof *c->cell);
	if (!c->cell)
		return err_set(err, ERR_MEMORY, "no memory for a canvas of %d tokens", c->n);
	c->how = schedule_of(&e->set);
	if (q->denoise && schedule_parse(&c->how, q->denoise, err))
		return -1;
	schedule_print(&c->how, c->says);
	c->mask = d->mask;
	c->shift = d->shift;
	for (int32_t i = 0; i < c->n; i++)
		r->ids[r->n_prompt + i] = d->mask;
	if (c->n)
		exclude(&r->params.logit_bias, d->mask);
	schedule_block(c);
	return 0;
}

void canvas_release(struct request *r)
{
	if (r->canvas)
		free(r->canvas->cell);
	free(r->canvas);
}

const char *canvas_never_fits(const struct request *r)
{
	if (!r->canvas)
		return "";
	if (r->canvas->n > CANVAS_MOST)
		return "a diffusion model's answer has at most 1024 tokens here; see --max-tokens";
	if (r->limit > ENGINE_MAX_BUDGET)
		return "a diffusion model computes prompt and answer in one pass, of at most 4096 rows";
	return "";
}

int32_t canvas_outputs(const struct request *r)
{
	return r->canvas->n ? r->canvas->end - r->canvas->first : r->n_ids - 1;
}

int32_t canvas_first_row(const struct plan_item *item)
{
	const struct request *r = item->r;
	const struct canvas *c = r->canvas;

	return item->row + (c->n ? r->n_prompt + c->first - c->shift : 0);
}

static void draw(struct engine *e, const struct plan_item *item)
{
	struct request *r = item->r;
	struct canvas *c = r->canvas;

	for (int32_t i = c->first; i < c->end; i++) {
		struct canvas_cell *cell = &c->cell[i];
		const int32_t out = item->out + i - c->first;

		cell->chosen = false;
		if (cell->fixed)
			continue;
		e->compute->draw(e, r, r->n_prompt + i, out);
		cell->drawn = e->drawn;
		cell->stats = e->stats[out];
	}
}

/* Makes the chosen cells tokens; returns how many. */
static int32_t fix(struct request *r)
{
	struct canvas *c = r->canvas;
	int32_t n = 0;

	for (int32_t i = c->first; i < c->end; i++) {
		struct canvas_cell *cell = &c->cell[i];

		if (!cell->chosen)
			continue;
		cell->fixed = true;
		r->ids[r->n_prompt + i] = cell->drawn.id;
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

	for (int32_t i = c->first; i < c->end; i++) {
		const struct canvas_cell *cell = &c->cell[i];

		if (cell->fixed && !cell->chosen)
			continue;
		stream_vocab(&e->stream, cell->drawn.id);
		cells[n++] = (struct ev_denoised){ .pos = (uint32_t)(r->n_prompt + i),
			.id = (uint32_t)cell->drawn.id,
			.p = cell->drawn.p,
			.entropy = (float)cell->drawn.entropy,
			.fixed = cell->fixed };
	}
	ev_init(&ev, EV_denoise);
	ev.u.denoise = (struct ev_denoise){ .step = e->n_steps,
		.request = r->id,
		.nth = c->n_steps,
		.first = r->n_prompt + c->first,
		.end = r->n_prompt + c->end,
		.fixed = n_fixed,
		.masked = c->n_masked,
		.schedule = c->how.by,
		.cells = { cells, (size_t)n * sizeof *cells } };
	stream_emit(&e->stream, &ev);
}

/* Tells the tokens that no mask precedes. -1: the answer goes on; else why it ends. */
static int tell(struct engine *e, struct request *r, const char **why)
{
	const struct canvas *c = r->canvas;
	int end = -1;

	*why = NULL;
	while (end < 0 && r->n_ids < r->limit && c->cell[r->n_ids - r->n_prompt].fixed) {
		const struct canvas_cell *cell = &c->cell[r->n_ids++ - r->n_prompt];

		e->counts.tokens++;
		if (r->first_token_ns == EV_NULL_I)
			r->first_token_ns = stream_now(&e->stream);
		engine_emit_token(
			e, r, cell->drawn.id, r->n_ids - 1, &cell->drawn, &cell->stats, EV_SOURCE_plain);
		if (!c->given)
			end = e->compute->end(e, r, why);
		else if (r->n_ids - r->n_prompt == c->given)
			end = EV_FINISH_end;
	}
	return end;
}

void canvas_after(struct engine *e, const struct plan_item *item)
{
	struct request *r = item->r;
	const char *why;
	int32_t n_fixed;
	int end;

	draw(e, item);
	schedule_choose(r->canvas);
	n_fixed = fix(r);
	r->canvas->n_steps++;
	emit(e, r, n_fixed);
	end = tell(e, r, &why);
	if (!n_fixed)
		engine_finish(e, r, EV_FINISH_failed, "the model proposes nothing but its own mask token");
	else if (end >= 0)
		engine_finish(e, r, (enum ev_code_finish)end, why);
	else
		schedule_block(r->canvas);
}
