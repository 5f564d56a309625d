/* Loading of weights: from the file into the back end's layout. See model.h. */
#include "engine/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model_config.h"
#include "engine/model_tensors.h"

static bool counts_for_decode(const struct model *m, const struct gguf_tensor *t)
{
	return !strncmp(t->name, "blk.", 4) || !strcmp(t->name, "output.weight") ||
		   !strcmp(t->name, "output_norm.weight") ||
		   (m->tied && !strcmp(t->name, "token_embd.weight"));
}

static void count_weights(struct model *m, const struct gguf *g)
{
	for (int32_t i = 0; i < gguf_n_tensors(g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);

		if (counts_for_decode(m, t))
			m->weight_bytes += t->bytes;
	}
}

enum { ROPE_STRIP = 512 }; /* positions computed at once by one thread */

struct rope_table {
	struct model *m;
	float *cos, *sin; /* where the host writes them */
	double freq[256];
	int32_t ctx;
};

static void fill_rope(void *arg, int64_t i, void *scratch)
{
	const struct rope_table *t = arg;
	struct model *m = t->m;
	int32_t n = m->config.rope_dim / 2, first = (int32_t)i * ROPE_STRIP;
	int32_t end = t->ctx - first < ROPE_STRIP ? t->ctx : first + ROPE_STRIP;
	size_t from = (size_t)first * (size_t)n, to = (size_t)end * (size_t)n;

	(void)scratch;
	k_rope_rows(t->freq, n, first, end, t->cos + from, t->sin + from);
	if (m->config.rope_mscale != 1)
		for (size_t k = from; k < to; k++) {
			t->cos[k] *= m->config.rope_mscale;
			t->sin[k] *= m->config.rope_mscale;
		}
}

static int rope_open(struct model *m, const struct gguf *g, int32_t ctx, struct err *e)
{
	struct rope_table t = { .m = m, .ctx = ctx };
	size_t count = (size_t)ctx * (size_t)(m->config.rope_dim / 2), bytes = count * sizeof *m->rope_cos;
	int status;

	if (model_rope_freqs(g, &m->config, t.freq, e))
		return -1;
	m->rope_cos = k_alloc(m->kernels, 2 * bytes, K_WEIGHTS, "the rotary table; try a shorter --ctx", e);
	t.cos = !m->rope_cos || k_is_host(m->kernels) ? m->rope_cos : malloc(2 * bytes);
	if (!t.cos)
		return err_set(e, ERR_MEMORY, "no memory for the rotary table of %d positions", ctx);
	m->rope_sin = m->rope_cos + count;
	t.sin = t.cos + count;
	k_deal(m->kernels, (ctx + ROPE_STRIP - 1) / ROPE_STRIP, fill_rope, &t);
	if (t.cos == m->rope_cos)
		return 0;
	status = k_upload(m->kernels, m->rope_cos, t.cos, 2 * bytes, e);
	free(t.cos);
	return status;
}

/* Every tensor gets its place. */
static void plan_tensors(struct model *m, const struct gguf *g, struct err *e)
{
	const struct model_config *c = &m->config;
	struct model_loader l = { g, &m->weights, c, m->kernels, e };

	model_matrix(&l, &m->embed, "token_embd.weight", c->vocab, c->dim);
	if (m->tied)
		m->output = m->embed;
	else
		model_matrix(&l, &m->output, "output.weight", c->vocab, c->dim);
	m->output_norm = model_vector(&l, "output_norm.weight", c->dim, true);
	for (int32_t i = 0; i < c->n_layers && !e->code; i++)
		model_layer(&l, &m->layer[i], i);
	if (!e->code)
		model_check_widths(&l, m->layer, c->n_layers);
}

/* "SmolLM2-135M-Instruct Q4_1": the file's own name without its ending reads best; the type is that of
 * most of the weights. */
static void name_model(struct model *m, const struct gguf *g)
{
	const char *path = gguf_path(g), *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	const char *type = k_types[m->layer[0].ffn.down.type].name;
	size_t n = strlen(base);

	if (n > 5 && !strcmp(base + n - 5, ".gguf"))
		n -= 5;
	size_t t = strlen(type);
	if (n > t + 1 && !strncmp(base + n - t, type, t) && strchr(".-_", base[n - t - 1]))
		n -= t + 1;
	snprintf(m->name, sizeof m->name, "%.*s %s", (int)(n < 80 ? n : 80), base, type);
}

static int choose_ctx(const struct model *m, int32_t *ctx, struct err *e)
{
	if (*ctx == 0)
		*ctx = m->config.ctx_train < 8192 ? m->config.ctx_train : 8192;
	if (*ctx > m->config.ctx_train)
		return err_set(e, ERR_USAGE,
					   "a context of %d is more than the %d tokens this model was made for: ask for at most "
					   "that with --ctx, or for 0, which is the model's own",
					   *ctx, m->config.ctx_train);
	return 0;
}

int model_open(struct model **out, const struct gguf *g, struct k_ctx *kernels,
			   const struct model_options *o, int32_t *ctx, struct err *e)
{
	struct model *m = calloc(1, sizeof *m);

	*out = NULL;
	if (!m)
		return err_set(e, ERR_MEMORY, "no memory for the model");
	m->kernels = kernels;
	if (model_read_config(g, &m->config, e) || choose_ctx(m, ctx, e))
		goto fail;
	m->tied = !gguf_find(g, "output.weight");
	m->layer = calloc((size_t)m->config.n_layers, sizeof *m->layer);
	if (!m->layer) {
		err_set(e, ERR_MEMORY, "no memory for %d layers", m->config.n_layers);
		goto fail;
	}
	count_weights(m, g);
	if (weights_open(&m->weights, g, kernels, e) || rope_open(m, g, *ctx, e))
		goto fail;
	plan_tensors(m, g, e);
	if (e->code || weights_load(&m->weights, g, kernels, o->cache, o->abandon, e))
		goto fail;
	name_model(m, g);
	*out = m;
	return 0;
fail:
	model_close(m);
	return -1;
}

void model_close(struct model *m)
{
	if (!m)
		return;
	weights_close(&m->weights);
	k_free(m->kernels, m->rope_cos);
	free(m->layer);
	free(m);
}
