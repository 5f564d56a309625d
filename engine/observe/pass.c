/* See pass.h. Chunks of PASS_ROWS rows, in pages of the pass's own. */
#include "engine/observe/pass.h"

#include "engine/arch/open.h"
#include "engine/core/engine_impl.h"

enum { PAGE = 64 };

void pass_close(struct pass *p)
{
	forward_close(&p->f);
	if (p->model)
		memory_stores_close(p->store, &p->specs, p->model->kernels);
	free(p->pages);
}

static bool same_shape(const struct model_config *a, const struct model_config *b)
{
	return a->n_layers == b->n_layers && a->dim == b->dim && a->n_heads == b->n_heads &&
		   a->ffn == b->ffn && a->n_kv_heads == b->n_kv_heads && a->head_dim == b->head_dim &&
		   a->vocab == b->vocab;
}

/* The same file on the CPU, beside a device's engine: the first probe opens it, later ones reuse
 * it. */
static struct model *open_again(struct engine *e, struct err *err)
{
	const struct model_options o = {
		.cache = WEIGHTS_CACHE_OFF, .beyond = true, .adapters = e->lora
	};
	struct gguf *g = NULL;
	int32_t ctx = e->info.ctx;

	if (e->look.model)
		return e->look.model;
	if (!gguf_open(&g, e->model_path, err) &&
		!k_open(&e->look.kernels, "cpu", NULL, e->info.threads, err))
		model_open(&e->look.model, g, e->look.kernels, &o, &ctx, err);
	gguf_close(g);
	if (e->look.model && !same_shape(&e->look.model->config, &e->model->config)) {
		err_set(err, ERR_INPUT, "%s: it was changed since the engine opened it", e->model_path);
		model_close(e->look.model);
		e->look.model = NULL;
	}
	if (!e->look.model) {
		k_close(e->look.kernels);
		e->look.kernels = NULL;
	}
	return e->look.model;
}

/* What the whole model keeps by the settings of the engine, whose own may be those of a rank. */
static int take_specs(struct pass *p, const struct engine *e, struct err *err)
{
	const struct visible *v = &e->forward.visible;

	p->specs = e->specs;
	if (p->model == e->model)
		return 0;
	p->specs = p->model->memory;
	if (memory_set_format(&p->specs, memory_format(&e->specs), e->set.cache_residual, err))
		return -1;
	memory_set_key_ranges(&p->specs, visible_picks(v));
	return memory_set_kept(&p->specs, visible_most_kept(v, e->info.ctx), err);
}

int pass_open(struct pass *p, struct engine *e, int32_t n, struct err *err)
{
	const struct model_config *c = &e->model->config;
	struct model *m;

	memset(p, 0, sizeof *p);
	if (n < 1 || n > e->info.ctx)
		return err_set(err, ERR_USAGE, "a look at %d tokens: 1 to %d are possible", n, e->info.ctx);
	if (model_sees_ahead(e->model))
		return err_set(err, ERR_USAGE,
			"a look or a measurement follows a text from its beginning, but %s see what comes "
			"after them",
			model_sees_ahead(e->model));
	p->model = m = k_is_host(e->kernels) && !e->ranks ? e->model : open_again(e, err);
	if (!m || take_specs(p, e, err) ||
		(e->forward.least > 0 && model_add_columns(m, e->model_path, err)))
		return -1;
	p->n = n;
	p->n_pages = (n + PAGE - 1) / PAGE;
	p->pages = malloc((size_t)p->n_pages * sizeof *p->pages);
	if (!p->pages)
		return err_no_memory(err, "a look at %d tokens", n);
	for (int32_t i = 0; i < p->n_pages; i++)
		p->pages[i] = i;
	p->table = p->pages;
	if (memory_stores_open(p->store, &p->specs, p->model->kernels, PAGE, p->n_pages,
			"the pages of a deep look; look at an earlier position", err) ||
		forward_open(&p->f, p->model, p->store,
			(struct forward_sizes){ .rows = PASS_ROWS,
				.out = c->n_layers > 1 ? c->n_layers : 1,
				.observed = 1,
				.ctx = e->info.ctx },
			err) ||
		forward_set_visible(&p->f, &e->forward.visible, err)) {
		pass_close(p);
		return -1;
	}
	p->f.least = e->forward.least > 0 ? e->forward.least : 0;
	p->f.rewriter[FORWARD_FLOATS] = e->forward.rewriter[FORWARD_FLOATS];
	return 0;
}

void pass_rows(struct pass *p, const int32_t *ids, int32_t pos, int32_t n, bool wanted)
{
	struct forward *f = &p->f;

	f->n_rows = n;
	f->n_items = 1;
	f->item_row[0] = 0;
	f->n_out = wanted;
	f->n_observed = 0;
	forward_chain(f, p->table, pos, n);
	for (int32_t i = 0; i < n; i++) {
		f->ids[i] = ids[pos + i];
		f->rows[i].adapter = p->adapter;
	}
	f->out_row[0] = n - 1;
}

int32_t pass_most(const struct pass *p, int32_t pos, int32_t end)
{
	const int32_t most = visible_most_rows(&p->f.visible, pos);
	const int32_t n = end - pos < PASS_ROWS ? end - pos : PASS_ROWS;

	return n < most ? n : most;
}

int pass_prefill(struct pass *p, const int32_t *ids, int32_t end,
	bool (*progress)(void *arg, int32_t done, int32_t all), void *arg, struct err *err)
{
	for (int32_t pos = 0, n; pos < end; pos += n) {
		n = pass_most(p, pos, end);
		pass_rows(p, ids, pos, n, false);
		if (forward_run(&p->f, false, err))
			return -1;
		if (progress && !progress(arg, pos + n, p->n))
			return err_set(err, ERR_INTERRUPTED, "stopped");
	}
	if (end < p->n)
		pass_rows(p, ids, end, 1, true);
	return 0;
}
