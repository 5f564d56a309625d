/* The model on the kernels: opening and closing, and the rows of its steps. See compute.h; its
 * draws are in compute_draws.c. Thread: the engine's. */
#include <pthread.h>
#include <unistd.h>

#include "engine/arch/open.h"
#include "engine/core/compute.h"
#include "engine/run/floats.h"
#include "engine/core/engine_impl.h"

/* ---- opening ---- */

/* The tokenizer cannot be built in parallel: a thread of its own opens it beside the weights. */
struct tokenizer_opening {
	struct tokenizer **out;
	const struct gguf *g;
	struct err err;
};

static void *open_tokenizer(void *arg)
{
	struct tokenizer_opening *o = arg;

	tokenizer_open(o->out, o->g, &o->err);
	return NULL;
}

static bool counts_inside(const char *visible)
{
	struct visible v = { 0 };
	struct err ignored = { 0 }; /* it is told when the setting is applied */

	return visible && !visible_parse(&v, visible, &ignored) && visible_reach(&v) > 0;
}

/* Kernels and weights of the open file. */
static int open_weights(struct engine *e, const struct engine_options *o, const struct gguf *g,
	int32_t *ctx, struct err *err)
{
	struct model_options m = { .cache = WEIGHTS_CACHE_AUTO,
		.abandon = o->abandon,
		.share = o->replicas && !e->ranks,
		.pairs = o->pack_zeros,
		.beyond = counts_inside(o->visible),
		.times = o->goes_on ? ENGINE_GOES_ON : 1,
		.adapters = o->lora,
		.planned = e->ranks ? engine_ranks_plan : NULL,
		.arg = e };
	char backend[32];
	int32_t threads = o->threads ? o->threads : (int32_t)sysconf(_SC_NPROCESSORS_ONLN);

	if (strcmp(o->packed_cache, "auto") != 0)
		m.cache = !strcmp(o->packed_cache, "on") ? WEIGHTS_CACHE_ON : WEIGHTS_CACHE_OFF;
	snprintf(backend, sizeof backend, o->device ? "%s:%d" : "%s", o->backend, o->device);
	if (k_open(&e->kernels, backend, o->isa, threads < 1 ? 1 : threads, err) ||
		(o->cuda_mode && k_set_mode(e->kernels, o->cuda_mode, err)))
		return -1;
	return model_open(&e->model, g, e->kernels, &m, ctx, err);
}

static int open_parts_of_model(struct engine *e, const struct engine_options *o,
	const struct gguf *g, int32_t *ctx, struct err *err)
{
	struct tokenizer_opening t = { .out = &e->tokenizer, .g = g };
	struct err own = { 0 };
	pthread_t thread;
	bool beside = !pthread_create(&thread, NULL, open_tokenizer, &t);
	int failed;

	if (!beside)
		open_tokenizer(&t);
	failed = open_weights(e, o, g, ctx, &own);
	if (beside)
		pthread_join(thread, NULL);
	if (t.err.code) /* the tokenizer's error comes first */
		return err_set(err, t.err.code, "%s", t.err.text);
	return failed ? err_set(err, own.code, "%s", own.text) : 0;
}

/* As many positions as the context had, counted inside the cache. */
static void see_sinks(struct engine *e)
{
	snprintf(e->visible, sizeof e->visible, "stream:4+window:%d", e->info.ctx / ENGINE_GOES_ON - 4);
	e->set.visible = e->visible;
}

static int open_file(struct engine *e, const struct engine_options *o, struct err *err)
{
	struct gguf *g = NULL;
	int32_t ctx = o->ctx, known = 0;
	int failed;

	if (gguf_open(&g, o->model, err))
		return -1;
	failed = adapters_are(g) ? gguf_bad(g, err, "an adapter, which a model takes by --lora")
							 : open_parts_of_model(e, o, g, &ctx, err);
	if (!failed && e->model->config.vocab != tokenizer_n_vocab(e->tokenizer))
		failed = err_set(err, ERR_INPUT, "%s: %d tokens in the vocabulary, %d in the embedding",
			o->model, tokenizer_n_vocab(e->tokenizer), e->model->config.vocab);
	if (!failed)
		failed = gguf_unchanged(g, err);
	if (!failed) {
		e->info.chat = template_of(g, &known);
		e->info.chat_known = known;
		e->info.model_bytes = gguf_file_bytes(g);
		e->info.default_system = e->info.chat->default_system;
		e->info.ctx = ctx;
		if (o->goes_on && !strcmp(o->visible, "full"))
			see_sinks(e);
	}
	gguf_close(g);
	return failed ? -1 : 0;
}

static void fill_info(struct engine *e)
{
	const struct model_config *c = &e->model->config;
	struct engine_info *i = &e->info;

	snprintf(i->name, sizeof i->name, "%s", e->model->name);
	i->backend = k_backend_name(e->kernels);
	i->isa = k_isa_name(e->kernels);
	i->device = k_device_name(e->kernels);
	i->fallback = k_fallback(e->kernels);
	i->threads = k_n_threads(e->kernels);
	i->n_layers = c->n_layers;
	i->n_heads = c->n_heads;
	i->n_kv_heads = c->n_kv_heads;
	i->head_dim = c->head_dim;
	for (int32_t a = 0; e->model->adapters && a < e->model->adapters->n; a++)
		e->adapter_name[a] = e->model->adapters->adapter[a].name;
	i->diffusion = e->model->diffusion.on;
	i->states = memory_has_states(&e->model->memory) && !c->n_heads;
	for (int32_t l = 0; l < c->n_layers; l++)
		i->experts |= e->model->layer[l].ffn.kind == &layer_experts;
	i->start = e->model->n_encoder ? e->model->start : -1;
	i->dim = c->dim;
	i->vocab = c->vocab;
	i->weight_bytes = e->model->weight_bytes;
	i->pair_bytes = e->model->pair_bytes;
	i->params = e->model->weights.n_weights;
	i->from_packed_cache = e->model->weights.from_cache;
	if (k_is_host(e->kernels))
		i->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE);
}

static int model_compute_open(struct engine *e, const struct engine_options *o, struct err *err)
{
	e->model_path = strdup(o->model);
	if (!e->model_path)
		return err_no_memory(err, "the engine");
	if (open_file(e, o, err))
		return -1;
	fill_info(e);
	e->specs = e->model->memory;
	return 0;
}

static int model_compute_open_steps(
	struct engine *e, const struct engine_options *o, int32_t max_out, struct err *err)
{
	/* on a CPU for the largest budget that may be set later: untouched pages cost no memory; rows
	 * that see later ones are computed in one pass, whatever the budget */
	const int32_t least = k_is_host(e->kernels)        ? ENGINE_MAX_BUDGET
						  : model_sees_ahead(e->model) ? e->info.ctx
													   : 0;
	const int32_t rows = o->budget > least ? o->budget : least;
	const struct forward_sizes most = { .rows = rows < ENGINE_MAX_BUDGET ? rows : ENGINE_MAX_BUDGET,
		.out = max_out,
		.observed = o->slots,
		.also = ENGINE_ALSO,
		.ctx = e->info.ctx,
		.asks = true };

	if (sampler_open(&e->sampler, e->info.vocab, err) ||
		forward_open(&e->forward, e->model, e->memory.store, most, err) ||
		forward_check_adapters(&e->forward, err) || compute_open_ahead(e, o->slots, err))
		return -1;
	e->stats = e->forward.stats;
	return engine_ranks_attach(e, err);
}

static void model_compute_close(struct engine *e)
{
	forward_close(&e->forward);
	sampler_close(e->sampler);
	compute_close_ahead(e);
	model_close(e->look.model);
	k_close(e->look.kernels);
	floats_close(e->floats);
	engine_ranks_close(e);
	model_close(e->model);
	k_close(e->kernels);
	tokenizer_close(e->tokenizer);
	free(e->model_path);
}

static int model_compute_grow(struct engine *e, int32_t rows, struct err *err)
{
	if (forward_grow(&e->forward, rows, err))
		return -1;
	e->stats = e->forward.stats;
	return 0;
}

/* ---- rows ---- */

static void fill_rows(struct engine *e, struct plan_item *item, int32_t *n_seqs)
{
	struct forward *f = &e->forward;
	const struct request *r = item->r;
	int32_t known = item->n_rows - item->n_drafts, seq = (*n_seqs)++;
	const int32_t first =
		r->how->first_row ? r->how->first_row(item) : item->row + item->n_rows - item->n_out;

	for (int32_t g = 0; g < e->memory.spec.n; g++) {
		f->pages[g][seq] = r->table.page[g];
		if (f->store[g].is_state)
			memory_chain(
				e->memory.page_size, r->table.page[g], item->pos, known, f->state[g] + item->row);
	}
	for (int32_t i = 0; i < known; i++) {
		f->ids[item->row + i] = r->ids[item->pos + i];
		f->rows[item->row + i] = (struct k_row){ .pos = item->pos + i,
			.seq = seq,
			.observe = -1,
			.input = r->n_input,
			.adapter = r->adapter };
	}
	if (item->n_drafts)
		engine_draft_rows(e, item, seq, n_seqs);
	for (int32_t i = 0; i < item->n_out; i++)
		f->out_row[item->out + i] = first + i;
	f->item_row[f->n_items++] = item->row;
	for_hooks(e, h, row) h->ops->row(e, h->state, item);
	compute_ask(e, item);
}

static int compute_rows(struct engine *e, struct err *err)
{
	struct forward *f = &e->forward;
	int32_t n_seqs = 0;
	int64_t start;

	f->n_rows = e->plan.n_rows;
	f->n_out = e->plan.n_out;
	f->n_observed = 0;
	f->n_also = 0;
	f->n_items = 0;
	e->draft.n_branches = 0;
	memory_begin_step(&e->memory);
	for (int32_t i = 0; i < e->plan.n_items; i++)
		fill_rows(e, &e->plan.item[i], &n_seqs);
	start = stream_now(&e->stream);
	if (forward_run(f, e->observe.on, err) || compute_fetch(e, err))
		return -1;
	e->step.kernel_ns = stream_now(&e->stream) - start;
	compute_draw_ahead(e);
	engine_ranks_emit_step(e);
	return 0;
}

/* ---- ends ---- */

/* A NaN in keys, values or logits: the request fails, and no other request is affected. */
static bool model_compute_failed(const struct engine *e, const struct plan_item *item)
{
	int32_t nan = atomic_load(e->forward.nan_row) - 1;

	if (nan >= item->row && nan < item->row + item->n_rows)
		return true;
	for (int32_t i = 0; i < item->n_out; i++)
		if (!isfinite(e->stats[item->out + i].max))
			return true;
	return false;
}

static int model_compute_end(const struct engine *e, struct request *r, const char **why)
{
	int32_t id = r->ids[r->n_ids - 1];
	struct gguf_text bytes = tokenizer_bytes(e->tokenizer, id);

	*why = NULL;
	if (!r->ignore_end && tokenizer_is_end(e->tokenizer, id))
		return EV_FINISH_end;
	*why = request_stops_at(r, id) ? "a token of the request's stop_token_ids"
								   : request_stop(r, bytes.data, bytes.size);
	if (*why)
		return EV_FINISH_stop;
	if (engine_bound_is_whole(r))
		return EV_FINISH_whole;
	if (r->n_ids == r->limit)
		return r->limit_is_ctx ? EV_FINISH_context : EV_FINISH_length;
	return -1;
}

const struct engine_compute compute_model = {
	.open = model_compute_open,
	.open_steps = model_compute_open_steps,
	.close = model_compute_close,
	.grow = model_compute_grow,
	.run = compute_rows,
	.failed = model_compute_failed,
	.draw = compute_draw,
	.logp = compute_logp,
	.top = compute_top,
	.end = model_compute_end,
};
