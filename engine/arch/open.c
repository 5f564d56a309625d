/* See open.h. */
#include "engine/arch/open.h"

#include <string.h>

#include "engine/arch/arch.h"
#include "engine/model/model_tensors.h"

static const char *final_norm(const struct model *m)
{
	return m->final_norm ? m->final_norm : "output_norm.weight";
}

static bool counts_for_decode(const struct model *m, const struct gguf_tensor *t)
{
	return !strncmp(t->name, "blk.", 4) || !strncmp(t->name, "dec.blk.", 8) ||
		   !strcmp(t->name, "output.weight") || !strcmp(t->name, "per_layer_model_proj.weight") ||
		   !strcmp(t->name, final_norm(m)) || (m->tied && !strcmp(t->name, "token_embd.weight"));
}

/* Of `bytes` of a tensor those that a token reads: of experts, of those that it uses. */
static size_t bytes_read(const struct model *m, const struct gguf_tensor *t, size_t bytes)
{
	const long layer = strncmp(t->name, "blk.", 4) ? -1 : strtol(t->name + 4, NULL, 10);
	const struct block *ffn;
	const struct experts *x;

	if (layer < 0 || layer >= m->config.n_layers || !strstr(t->name, "_exps."))
		return bytes;
	ffn = &m->layer[layer].ffn;
	x = ffn->params;
	return ffn->kind == &layer_experts ? bytes / (size_t)x->n * (size_t)x->used : bytes;
}

static void count_weights(struct model *m, const struct gguf *g)
{
	for (int32_t i = 0; i < gguf_n_tensors(g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);
		size_t pairs;

		if (!counts_for_decode(m, t))
			continue;
		m->weight_bytes += bytes_read(m, t, weights_bytes(&m->weights, t, &pairs));
		m->pair_bytes += bytes_read(m, t, pairs);
	}
}

enum { ROPE_STRIP = 512 }; /* positions computed at once by one thread */

struct rope_table {
	const struct model_rope *rope;
	float *cos, *sin; /* the host's copy */
	int32_t ctx;
};

static void fill_rope(void *arg, int64_t i, void *scratch)
{
	const struct rope_table *t = arg;
	int32_t n = t->rope->dim / 2, first = (int32_t)i * ROPE_STRIP;
	int32_t end = t->ctx - first < ROPE_STRIP ? t->ctx : first + ROPE_STRIP;
	size_t from = (size_t)first * (size_t)n, to = (size_t)end * (size_t)n;

	(void)scratch;
	k_rope_rows(t->rope->freq, n, first, end, t->cos + from, t->sin + from);
	if (t->rope->scale != 1)
		for (size_t k = from; k < to; k++) {
			t->cos[k] *= t->rope->scale;
			t->sin[k] *= t->rope->scale;
		}
}

static int rope_open(struct model *m, struct model_rope *r, int32_t ctx, struct err *e)
{
	struct rope_table t = { .rope = r, .ctx = ctx };
	size_t count = (size_t)ctx * (size_t)(r->dim / 2), bytes = count * sizeof *r->cos;
	int status;

	r->cos = k_alloc(m->kernels, 2 * bytes, K_WEIGHTS, "the rotary table; try a shorter --ctx", e);
	t.cos = !r->cos || k_is_host(m->kernels) ? r->cos : malloc(2 * bytes);
	if (!t.cos)
		return err_no_memory(e, "the rotary table of %d positions", ctx);
	r->sin = r->cos + count;
	t.sin = t.cos + count;
	k_deal(m->kernels, (ctx + ROPE_STRIP - 1) / ROPE_STRIP, fill_rope, &t);
	if (t.cos == r->cos)
		return 0;
	status = k_upload(m->kernels, r->cos, t.cos, 2 * bytes, e);
	free(t.cos);
	return status;
}

static int ropes_open(struct model *m, int32_t ctx, struct err *e)
{
	for (int32_t i = 0; i < m->n_ropes; i++)
		if (rope_open(m, &m->rope[i], ctx, e))
			return -1;
	return 0;
}

static void plan_inputs(struct model_loader *l, struct model_inputs *in)
{
	if (!in->width)
		return;
	model_matrix(l, &in->table, "per_layer_token_embd.weight", l->config->vocab, in->width);
	model_matrix(l, &in->proj, "per_layer_model_proj.weight", in->width, l->config->dim);
	in->norm = model_vector(l, "per_layer_proj_norm.weight", in->each, true);
}

/* Plans the memory of every tensor. */
static void plan_tensors(struct model *m, const struct gguf *g, struct err *e)
{
	const struct model_config *c = &m->config;
	struct model_loader l = { g, &m->weights, c, e, 0, NULL };

	model_matrix(&l, &m->embed, "token_embd.weight", c->vocab, c->dim);
	if (m->tied)
		m->output = m->embed;
	else
		model_matrix(&l, &m->output, "output.weight", c->vocab, c->dim);
	if (m->normed_embedding) {
		m->embed_norm = model_vector(&l, "token_embd_norm.weight", c->dim, true);
		m->embed_norm_bias = model_vector(&l, "token_embd_norm.bias", c->dim, false);
	}
	if (m->learned_positions)
		m->positions = model_floats(&l, "position_embd.weight", c->dim, c->ctx_train, true);
	plan_inputs(&l, &m->inputs);
	m->output_norm = model_vector(&l, final_norm(m), c->dim, true);
	if (c->centred)
		m->output_norm_bias = model_vector(&l, "output_norm.bias", c->dim, false);
	l.stack = m->n_encoder ? "dec." : NULL;
	for (int32_t i = 0; i < c->n_layers && !e->code; i++)
		model_load_layer(&l, &m->layer[i], i);
	l.stack = "enc.";
	for (int32_t i = 0; i < m->n_encoder && !e->code; i++)
		model_load_layer(&l, &m->encoder[i], i);
}

/* "SmolLM2-135M-Instruct Q4_1": the file's own name without its extension reads best. What
 * `cutaway quantize` or `cutaway prune` made says itself what it is, and from what. */
static void name_model(struct model *m, const struct gguf *g)
{
	const char *base = basename(gguf_path(g));
	const char *type = k_types[model_weight_type(g)].name;
	struct gguf_text stated = { type, strlen(type) }, pruned = { "", 0 };
	size_t n = strlen(base);

	if (n > 5 && !strcmp(base + n - 5, ".gguf"))
		n -= 5;
	size_t t = strlen(type);
	if (n > t + 1 && !strncmp(base + n - t, type, t) && strchr(".-_", base[n - t - 1]))
		n -= t + 1;
	gguf_opt_text(g, QUANT_SUMMARY_KEY, &stated, NULL);
	gguf_opt_text(g, PRUNE_SUMMARY_KEY, &pruned, NULL);
	snprintf(m->name, sizeof m->name, "%.*s %.*s%s%.*s", (int)(n < 50 ? n : 50), base,
		(int)(stated.size < 44 ? stated.size : 44), stated.data, pruned.size ? " pruned " : "",
		(int)(pruned.size < 80 ? pruned.size : 80), pruned.data);
}

int model_open(struct model **out, const struct gguf *g, struct k_ctx *kernels,
	const struct model_options *o, int32_t *ctx, struct err *e)
{
	struct model *m = calloc(1, sizeof *m);

	*out = NULL;
	if (!m)
		return err_no_memory(e, "the model");
	m->kernels = kernels;
	if (arch_read(g, m, ctx, o->beyond, e))
		goto fail;
	*ctx *= o->times ? o->times : 1;
	m->tied = !gguf_find(g, "output.weight");
	m->weights.share = o->share;
	m->weights.pairs = o->pairs;
	if (weights_open(&m->weights, g, kernels, e) || ropes_open(m, *ctx, e))
		goto fail;
	plan_tensors(m, g, e);
	count_weights(m, g);
	if (e->code || (o->planned && o->planned(o->arg, m, e)) ||
		adapters_open(&m->adapters, o->adapters, &m->weights, g, kernels, e) ||
		weights_load(&m->weights, g, o->cache, o->abandon, e))
		goto fail;
	name_model(m, g);
	*out = m;
	return 0;
fail:
	model_close(m);
	return -1;
}
