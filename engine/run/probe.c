/* See probe.h. Prefill in chunks into pages of the probe's own, then the last row op by op. */
#include "engine/run/probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/core/engine_impl.h"
#include "kernels/arith.h"

enum { CHUNK = 256, PAGE = 64 };

/* A forward pass beside the engine's: its own buffers and pages. */
struct pass {
	const struct model *model;
	struct forward f;
	struct memory_store store[MEMORY_GROUPS];
	int32_t *pages, n_pages;
	const int32_t *table;
	int32_t n;
};

static void pass_close(struct pass *p)
{
	forward_close(&p->f);
	if (p->model)
		memory_stores_close(p->store, &p->model->memory, p->model->kernels);
	free(p->pages);
}

static bool same_shape(const struct model_config *a, const struct model_config *b)
{
	return a->n_layers == b->n_layers && a->dim == b->dim && a->n_heads == b->n_heads &&
		   a->ffn == b->ffn && a->n_kv_heads == b->n_kv_heads && a->head_dim == b->head_dim &&
		   a->vocab == b->vocab;
}

/* The same file on the CPU, beside a device's engine: opened by the first look, and kept for the
 * next. */
static const struct model *open_again(struct engine *e, struct err *err)
{
	const struct model_options o = { .cache = WEIGHTS_CACHE_OFF };
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

static int pass_open(struct pass *p, struct engine *e, int32_t n, struct err *err)
{
	const struct model_config *c = &e->model->config;
	struct memory_specs specs = e->model->memory;

	memset(p, 0, sizeof *p);
	memory_set_format(&specs, e->specs.group[0].kv.format);
	if (n < 1 || n > e->info.ctx)
		return err_set(err, ERR_USAGE, "a look at %d tokens: 1 to %d are possible", n, e->info.ctx);
	p->model = k_is_host(e->kernels) ? e->model : open_again(e, err);
	if (!p->model)
		return -1;
	p->n = n;
	p->n_pages = (n + PAGE - 1) / PAGE;
	p->pages = malloc((size_t)p->n_pages * sizeof *p->pages);
	if (!p->pages)
		return err_set(err, ERR_MEMORY, "no memory for a look at %d tokens", n);
	for (int32_t i = 0; i < p->n_pages; i++)
		p->pages[i] = i;
	p->table = p->pages;
	if (memory_stores_open(p->store, &specs, p->model->kernels, PAGE, p->n_pages,
			"the pages of a deep look; look at an earlier position", err) ||
		forward_open(&p->f, p->model, p->store,
			(struct forward_sizes){ .rows = CHUNK,
				.out = c->n_layers > 1 ? c->n_layers : 1,
				.observed = 1,
				.ctx = e->info.ctx },
			err)) {
		pass_close(p);
		return -1;
	}
	p->f.visible = e->forward.visible;
	return 0;
}

/* Rows from `pos` on; wanted: the logits of the last. */
static void pass_rows(struct pass *p, const int32_t *ids, int32_t pos, int32_t n, bool wanted)
{
	struct forward *f = &p->f;

	f->n_rows = n;
	f->n_out = wanted;
	f->n_observed = 0;
	forward_chain(f, 0, p->table, 0, pos, n);
	for (int32_t i = 0; i < n; i++)
		f->ids[i] = ids[pos + i];
	f->out_row[0] = n - 1;
}

/* All rows but the last. */
static int pass_prefill(
	struct pass *p, const int32_t *ids, probe_progress *progress, void *arg, struct err *err)
{
	for (int32_t pos = 0; pos < p->n - 1; pos += CHUNK) {
		int32_t n = p->n - 1 - pos < CHUNK ? p->n - 1 - pos : CHUNK;

		pass_rows(p, ids, pos, n, false);
		if (forward_run(&p->f, false, err))
			return -1;
		if (progress && !progress(arg, pos + n, p->n))
			return err_set(err, ERR_INTERRUPTED, "stopped");
	}
	pass_rows(p, ids, p->n - 1, 1, true);
	return 0;
}

/* ---- what is kept of the last row ---- */

struct looking {
	struct probe *p;
	const float *x;  /* [dim] the residual stream */
	float *residual; /* [n_layers, dim] */
	int32_t dim, layer;
};

static void keep_attention(struct looking *l, const struct k_attention *a)
{
	struct probe *p = l->p;

	for (int32_t h = 0; h < p->n_heads; h++)
		k_attention_row(a, 0, h,
			p->attention + ((size_t)l->layer * (size_t)p->n_heads + (size_t)h) * (size_t)p->n);
}

static void keep_activations(struct looking *l, const struct k_glu *a)
{
	struct probe_layer *out = &l->p->layer[l->layer];
	int32_t dim = a->n * a->out.dim, small = 0, zero = 0; /* of all experts that the row has */

	for (int32_t i = 0; i < dim; i++) {
		float v = fabsf(k_gate(a->act, a->gate[i], a->up[i]));
		out->act_max = v > out->act_max ? v : out->act_max;
	}
	for (int32_t i = 0; i < dim; i++) {
		float v = fabsf(k_gate(a->act, a->gate[i], a->up[i]));
		small += v < out->act_max * 1e-2f;
		zero += v < out->act_max * 1e-3f;
	}
	out->act_small = (float)small / (float)dim;
	out->act_near_zero = (float)zero / (float)dim;
}

static void keep_residual(struct looking *l)
{
	float *to = l->residual + (size_t)l->layer * (size_t)l->dim;
	double sum = 0;

	for (int32_t i = 0; i < l->dim; i++) {
		to[i] = l->x[i];
		sum += (double)l->x[i] * (double)l->x[i];
	}
	l->p->layer[l->layer].residual_rms = (float)sqrt(sum / l->dim);
}

static bool probe_look(void *arg, const struct k_op *op, int32_t layer)
{
	struct looking *l = arg;

	l->layer = layer;
	if (op->kind == K_OP_attention)
		keep_attention(l, &op->u.attention);
	else if (op->kind == K_OP_glu)
		keep_activations(l, &op->u.glu);
	if (layer >= 0) /* the last op of the layer has the last word */
		keep_residual(l);
	return true;
}

/* ---- the lens ---- */

static void insert(struct probe_guess *top, struct probe_guess g)
{
	int at = PROBE_TOP;

	/* ids come ascending, so that equals stay in their order */
	while (at > 0 && (top[at - 1].id < 0 || g.logit > top[at - 1].logit))
		at--;
	if (at == PROBE_TOP)
		return;
	memmove(top + at + 1, top + at, (size_t)(PROBE_TOP - 1 - at) * sizeof *top);
	top[at] = g;
}

static float mass_of(float logit, const struct k_logit_stats *s)
{
	return (float)(exp((double)(logit - s->max)) / ldexp((double)s->mass, -40));
}

static void read_lens(
	struct probe *p, int32_t layer, const float *logits, const struct k_logit_stats *s)
{
	struct probe_layer *l = &p->layer[layer];

	for (int i = 0; i < PROBE_TOP; i++)
		l->top[i] = (struct probe_guess){ .id = -1 };
	l->token_rank = 1;
	for (int32_t i = 0; i < p->vocab; i++) {
		insert(l->top, (struct probe_guess){ .id = i, .logit = logits[i] });
		l->token_rank +=
			logits[i] > logits[p->token] || (logits[i] == logits[p->token] && i < p->token);
	}
	for (int i = 0; i < PROBE_TOP && l->top[i].id >= 0; i++)
		l->top[i].p = mass_of(l->top[i].logit, s);
	l->token_p = mass_of(logits[p->token], s);
	l->entropy = (float)s->entropy;
}

/* The last layer's lens is the model's own output: its hash must be that of the pass. */
static int use_lens(
	struct probe *p, struct forward *f, const float *residual, int32_t dim, struct err *err)
{
	memcpy(f->x, residual, (size_t)p->n_layers * (size_t)dim * sizeof *residual);
	if (forward_lens(f, p->n_layers, err))
		return -1;
	for (int32_t i = 0; i < p->n_layers; i++)
		read_lens(p, i, f->logits + (size_t)i * (size_t)p->vocab, &f->stats[i]);
	return 0;
}

static struct probe *probe_new(const struct engine *e, int32_t n)
{
	struct probe *p = calloc(1, sizeof *p);
	const struct model_config *c = &e->model->config;

	if (!p)
		return NULL;
	p->n = n;
	p->n_layers = c->n_layers;
	p->n_heads = c->n_heads;
	p->n_kv_heads = c->n_kv_heads;
	p->vocab = c->vocab;
	p->layer = calloc((size_t)c->n_layers, sizeof *p->layer);
	p->attention =
		malloc((size_t)c->n_layers * (size_t)c->n_heads * (size_t)n * sizeof *p->attention);
	p->logits = malloc((size_t)c->vocab * sizeof *p->logits);
	if (p->layer && p->attention && p->logits)
		return p;
	probe_close(p);
	return NULL;
}

void probe_close(struct probe *p)
{
	if (!p)
		return;
	free(p->layer);
	free(p->attention);
	free(p->logits);
	free(p);
}

static int probe_run(struct probe *p, struct pass *pass, const int32_t *ids, float *residual,
	probe_progress *progress, void *arg, struct err *err)
{
	struct looking l = {
		.p = p, .x = pass->f.x, .residual = residual, .dim = pass->model->config.dim
	};

	if (pass_prefill(pass, ids, progress, arg, err) ||
		forward_run_each(&pass->f, probe_look, &l, err))
		return -1;
	memcpy(p->logits, pass->f.logits, (size_t)p->vocab * sizeof *p->logits);
	p->stats = pass->f.stats[0];
	if (p->token < 0)
		p->token = p->stats.argmax;
	return use_lens(p, &pass->f, residual, l.dim, err);
}

int probe_open(struct probe **out, struct engine *e, const int32_t *ids, int32_t n, int32_t token,
	probe_progress *progress, void *arg, struct err *err)
{
	struct pass pass;
	struct probe *p = NULL;
	float *residual = NULL;
	int rc = -1;

	*out = NULL;
	if (token < -1 || token >= e->info.vocab)
		return err_set(
			err, ERR_USAGE, "token id %d is not in the vocabulary of %d", token, e->info.vocab);
	if (pass_open(&pass, e, n, err))
		return -1;
	p = probe_new(e, n);
	residual = malloc((size_t)e->info.n_layers * (size_t)e->info.dim * sizeof *residual);
	if (!p || !residual) {
		err_set(err, ERR_MEMORY, "no memory for a look at %d tokens", n);
	} else {
		p->token = token;
		rc = probe_run(p, &pass, ids, residual, progress, arg, err);
	}
	free(residual);
	pass_close(&pass);
	if (!rc)
		*out = p;
	else
		probe_close(p);
	return rc;
}

/* ---- stage by stage ---- */

struct walking {
	probe_stage_fn *fn;
	void *arg;
	int32_t at;
	float *dequantised; /* [widest activations] */
};

static bool probe_report(struct walking *w, const struct k_op *op, int32_t layer, const char *part,
	const float *values, int32_t n)
{
	const struct probe_stage s = { .op = w->at,
		.layer = layer,
		.stage = op->stage,
		.part = part,
		.values = values,
		.n_values = n };

	return w->fn(w->arg, &s);
}

static bool probe_report_acts(struct walking *w, const struct k_op *op, int32_t layer,
	const char *part, const struct k_acts *a, int32_t rows)
{
	int32_t n = rows * a->dim;

	if (!a->q)
		return probe_report(w, op, layer, part, a->x, n);
	for (int32_t i = 0; i < n; i++)
		w->dequantised[i] = a->d[i / K_QBLOCK] * (float)a->q[i];
	return probe_report(w, op, layer, part, w->dequantised, n);
}

static bool probe_report_matmul(struct walking *w, const struct k_op *op, int32_t layer)
{
	static const char *const qkv[] = { "q", "k", "v" }, *const gate_up[] = { "gate", "up", "" };
	const struct k_matmul *m = &op->u.matmul;
	bool more = true;

	for (int32_t i = 0; more && i < m->n_parts; i++) {
		const char *part = op->stage == K_STAGE_qkv       ? qkv[i]
						   : op->stage == K_STAGE_gate_up ? gate_up[i]
						   : op->stage == K_STAGE_head    ? "logits"
														  : "x";
		more = probe_report(w, op, layer, part, m->part[i].out, m->part[i].w->n_rows);
	}
	return more;
}

static bool probe_walk(void *arg, const struct k_op *op, int32_t layer)
{
	static const char *const names[] = {
#define X(name, NAME) [K_OP_##name] = #name,
		K_PLAIN_KINDS(X)
#undef X
	};
	struct walking *w = arg;
	struct k_acts result = { 0 };
	bool more = true;

	switch (op->kind) {
	case K_OP_embed:
		more = probe_report(w, op, layer, "x", op->u.embed.x, op->u.embed.w->n_cols);
		break;
	case K_OP_norm:
		more = probe_report_acts(w, op, layer, "normed", &op->u.norm.out, op->u.norm.n);
		break;
	case K_OP_matmul: more = probe_report_matmul(w, op, layer); break;
	case K_OP_rope:
		more = probe_report(
			w, op, layer, "q", op->u.rope.q, op->u.rope.n_heads * op->u.rope.kv->head_dim);
		break;
	case K_OP_attention:
		more = probe_report_acts(w, op, layer, "mixed", &op->u.attention.out, 1);
		break;
	case K_OP_glu:
		more = probe_report_acts(w, op, layer, "act", &op->u.glu.out, op->u.glu.n);
		break;
	case K_OP_experts:
		more = probe_report(w, op, layer, "experts", op->u.experts.out,
			op->u.experts.n * op->u.experts.k * op->u.experts.w->n_rows);
		break;
#define X(name, NAME)                                                                              \
	case K_OP_##name: result = k_##name##_result(&op->u.name); break;
		K_PLAIN_KINDS(X)
#undef X
	case K_OP_stats:
	case K_N_KINDS: break;
	}
	if (result.dim)
		more = probe_report_acts(w, op, layer, names[op->kind], &result, 1);
	w->at++;
	return more;
}

int probe_stages(
	struct engine *e, const int32_t *ids, int32_t n, probe_stage_fn *fn, void *arg, struct err *err)
{
	struct walking w = { .fn = fn, .arg = arg };
	struct pass pass;
	int rc;

	if (pass_open(&pass, e, n, err))
		return -1;
	w.dequantised = malloc((size_t)forward_widest(&pass.f) * sizeof *w.dequantised);
	if (!w.dequantised)
		rc = err_set(err, ERR_MEMORY, "no memory for a look at %d tokens", n);
	else
		rc = pass_prefill(&pass, ids, NULL, NULL, err) ||
					 forward_run_each(&pass.f, probe_walk, &w, err)
				 ? -1
				 : 0;
	free(w.dequantised);
	pass_close(&pass);
	return rc;
}

/* ---- row by row ---- */

struct probe_rows {
	struct pass pass;
	int32_t *ids;
	int32_t at, end; /* rows [at, end) are computed and not yet given */
	int32_t given;   /* of them, since they were computed */
};

int probe_rows_open(struct probe_rows **out, struct engine *e, const int32_t *ids, int32_t n,
	int32_t first, struct err *err)
{
	struct probe_rows *r = calloc(1, sizeof *r);

	*out = NULL;
	if (!r || !(r->ids = malloc(((size_t)n + 1) * sizeof *ids))) {
		free(r);
		return err_set(err, ERR_MEMORY, "no memory for a look at %d tokens", n);
	}
	memcpy(r->ids, ids, (size_t)n * sizeof *ids);
	if (pass_open(&r->pass, e, n, err)) {
		free(r->ids);
		free(r);
		return -1;
	}
	for (int32_t pos = 0; pos < first; pos += CHUNK) {
		pass_rows(&r->pass, r->ids, pos, first - pos < CHUNK ? first - pos : CHUNK, false);
		if (forward_run(&r->pass.f, false, err)) {
			probe_rows_close(r);
			return -1;
		}
	}
	r->at = r->end = first;
	*out = r;
	return 0;
}

static int compute_more(struct probe_rows *r, struct err *err)
{
	struct forward *f = &r->pass.f;
	int32_t left = r->pass.n - r->end, n = left < f->max_out ? left : f->max_out;

	pass_rows(&r->pass, r->ids, r->end, n, true);
	f->n_out = n;
	for (int32_t i = 0; i < n; i++)
		f->out_row[i] = i;
	r->end += n;
	r->given = 0;
	return forward_run(f, false, err);
}

const float *probe_rows_next(struct probe_rows *r, struct k_logit_stats *stats, struct err *err)
{
	struct forward *f = &r->pass.f;

	if (r->at == r->pass.n || (r->at == r->end && compute_more(r, err)))
		return NULL;
	if (stats)
		*stats = f->stats[r->given];
	r->at++;
	return f->logits + (size_t)r->given++ * (size_t)r->pass.model->config.vocab;
}

void probe_rows_close(struct probe_rows *r)
{
	if (!r)
		return;
	pass_close(&r->pass);
	free(r->ids);
	free(r);
}
