/* See probe.h: the last row of a pass, op by op. */
#include "engine/observe/probe.h"

#include "engine/core/engine_impl.h"
#include "engine/observe/pass.h"
#include "kernels/arith.h"

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

	p->layer[l->layer].attends = true;
	for (int32_t h = 0; h < p->n_heads; h++)
		k_attention_row(a, 0, h,
			p->attention + ((size_t)l->layer * (size_t)p->n_heads + (size_t)h) * (size_t)p->n);
}

static void keep_activations(struct looking *l, const struct k_glu *a)
{
	struct probe_layer *out = &l->p->layer[l->layer];
	int32_t dim = a->n * a->out.dim, small = 0, zero = 0; /* of all experts that the row is routed
															 to */

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
	if (layer >= 0) /* the layer's last op overwrites what earlier ones left */
		keep_residual(l);
	return true;
}

/* ---- the lens ---- */

static void insert(struct probe_guess *top, struct probe_guess g)
{
	int at = PROBE_TOP;

	/* ids ascend, so that equal logits keep their order */
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

	if (pass_prefill(pass, ids, p->n - 1, progress, arg, err) ||
		forward_run_each(&pass->f, probe_look, &l, err))
		return -1;
	memcpy(p->logits, pass->f.logits, (size_t)p->vocab * sizeof *p->logits);
	p->stats = pass->f.stats[0];
	if (p->token < 0)
		p->token = p->stats.argmax;
	return use_lens(p, &pass->f, residual, l.dim, err);
}

int probe_open(struct probe **out, struct engine *e, const char *adapter, const int32_t *ids,
	int32_t n, int32_t token, probe_progress *progress, void *arg, struct err *err)
{
	struct pass pass;
	struct probe *p = NULL;
	float *residual = NULL;
	int32_t number;
	int rc = -1;

	*out = NULL;
	if (token < -1 || token >= e->info.vocab)
		return err_set(
			err, ERR_USAGE, "token id %d is not in the vocabulary of %d", token, e->info.vocab);
	if (engine_adapter_find(e, adapter, &number, err) || pass_open(&pass, e, n, err))
		return -1;
	pass.adapter = number;
	p = probe_new(e, n);
	residual = malloc((size_t)e->info.n_layers * (size_t)e->info.dim * sizeof *residual);
	if (!p || !residual) {
		err_no_memory(err, "a look at %d tokens", n);
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
						   : op->stage == K_STAGE_route   ? "router"
														  : "x";
		more = probe_report(w, op, layer, part, m->part[i].out, m->part[i].w->n_rows);
	}
	return more;
}

/* What an op wrote, in so many rows; dim 0: nothing to report. */
static struct k_acts written(const struct k_op *op, const char **part, int32_t *rows)
{
	const struct k_experts *x = &op->u.experts;

	*rows = 1;
	switch (op->kind) {
	case K_OP_embed: *part = "x"; return k_floats(op->u.embed.x, op->u.embed.w->n_cols);
	case K_OP_norm:
		*part = "normed";
		*rows = op->u.norm.n;
		return op->u.norm.out;
	case K_OP_rope:
		*part = "q";
		return k_floats(op->u.rope.q, op->u.rope.n_heads * op->u.rope.kv->head_dim);
	case K_OP_attention: *part = "mixed"; return op->u.attention.out;
	case K_OP_glu:
		*part = "act";
		*rows = op->u.glu.n;
		return op->u.glu.out;
	case K_OP_experts: *part = "experts"; return k_floats(x->out, x->n * x->k * x->w->n_rows);
#define X(plain) /* under the op's own name */                                                     \
	case K_OP_##plain: *part = #plain; return k_##plain##_result(&op->u.plain);
		K_PLAIN_KINDS(X)
#undef X
	case K_OP_matmul: /* probe_report_matmul() */
	case K_OP_stats:
	case K_N_KINDS: break;
	}
	return (struct k_acts){ 0 };
}

static bool probe_walk(void *arg, const struct k_op *op, int32_t layer)
{
	struct walking *w = arg;
	const char *part = NULL;
	int32_t rows;
	const struct k_acts a = written(op, &part, &rows);
	const bool more = op->kind == K_OP_matmul ? probe_report_matmul(w, op, layer)
					  : a.dim                 ? probe_report_acts(w, op, layer, part, &a, rows)
											  : true;

	w->at++;
	return more;
}

int probe_stages(struct engine *e, const char *adapter, const int32_t *ids, int32_t n,
	probe_stage_fn *fn, void *arg, struct err *err)
{
	struct walking w = { .fn = fn, .arg = arg };
	struct pass pass;
	int32_t number;
	int rc;

	if (engine_adapter_find(e, adapter, &number, err) || pass_open(&pass, e, n, err))
		return -1;
	pass.adapter = number;
	w.dequantised = malloc((size_t)forward_widest(&pass.f) * sizeof *w.dequantised);
	if (!w.dequantised)
		rc = err_no_memory(err, "a look at %d tokens", n);
	else
		rc = pass_prefill(&pass, ids, n - 1, NULL, NULL, err) ||
					 forward_run_each(&pass.f, probe_walk, &w, err)
				 ? -1
				 : 0;
	free(w.dequantised);
	pass_close(&pass);
	return rc;
}
