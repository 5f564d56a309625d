/* Loading of weights: from the file into the back end's layout. See model.h. */
#include "engine/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model_config.h"

/* Loading: the file, the model under construction. */
struct loader {
	const struct gguf *g;
	struct model *m;
	struct err *e;
};

static const struct gguf_tensor *find(const struct loader *l, const char *name, bool must)
{
	const struct gguf_tensor *t = gguf_find(l->g, name);

	if (!t && must)
		err_set(l->e, ERR_INPUT, "%s: tensor %s is missing", gguf_path(l->g), name);
	return t;
}

static int check_shape(const struct loader *l, const struct gguf_tensor *t, int64_t cols, int64_t rows)
{
	int64_t have_rows = t->n_dims > 1 ? t->dim[1] : 1;

	if (t->dim[0] == cols && have_rows == rows && t->n_dims <= 2)
		return 0;
	return err_set(l->e, ERR_INPUT, "%s: tensor %s is %lld x %lld; %lld x %lld was expected",
				   gguf_path(l->g), t->name, (long long)have_rows, (long long)t->dim[0],
				   (long long)rows, (long long)cols);
}

/* A vector of F32; F16 and BF16 vectors do not occur in files. NULL if absent and not a must. */
static const float *load_vector(struct loader *l, const char *name, int64_t n, bool must)
{
	const struct gguf_tensor *t = find(l, name, must);

	if (!t || l->e->code || check_shape(l, t, n, 1))
		return NULL;
	if (t->type != K_F32) {
		err_set(l->e, ERR_INPUT, "%s: tensor %s is %s; norms and biases must be F32",
				gguf_path(l->g), name, k_types[t->type].name);
		return NULL;
	}
	return weights_add_vector(&l->m->weights, t, l->e);
}

static void load_matrix(struct loader *l, struct k_matrix *w, const char *name, int64_t rows,
						int64_t cols)
{
	const struct gguf_tensor *t = find(l, name, true);

	if (!t || l->e->code || check_shape(l, t, cols, rows))
		return;
	if (cols % k_types[t->type].block || (k_types[t->type].block > 1 && cols % K_QBLOCK)) {
		err_set(l->e, ERR_INPUT, "%s: tensor %s has rows of %lld, not a multiple of its block of %d",
				gguf_path(l->g), name, (long long)cols, k_types[t->type].block);
		return;
	}
	w->type = t->type;
	w->n_rows = (int32_t)rows;
	w->n_cols = (int32_t)cols;
	weights_add_matrix(&l->m->weights, l->g, l->m->kernels, t, w, l->e);
}

static const char *layer_name(char buf[64], int32_t layer, const char *part)
{
	snprintf(buf, 64, "blk.%d.%s", layer, part);
	return buf;
}

static void load_layer(struct loader *l, int32_t i)
{
	const struct model_config *c = &l->m->config;
	struct model_mixer *a = &l->m->layer[i].mixer;
	struct model_ffn *f = &l->m->layer[i].ffn;
	int64_t q = (int64_t)c->n_heads * c->head_dim, kv = (int64_t)c->n_kv_heads * c->head_dim;
	char name[64];

	a->norm = load_vector(l, layer_name(name, i, "attn_norm.weight"), c->dim, true);
	load_matrix(l, &a->q, layer_name(name, i, "attn_q.weight"), q, c->dim);
	load_matrix(l, &a->k, layer_name(name, i, "attn_k.weight"), kv, c->dim);
	load_matrix(l, &a->v, layer_name(name, i, "attn_v.weight"), kv, c->dim);
	load_matrix(l, &a->out, layer_name(name, i, "attn_output.weight"), c->dim, q);
	a->q_bias = load_vector(l, layer_name(name, i, "attn_q.bias"), q, false);
	a->k_bias = load_vector(l, layer_name(name, i, "attn_k.bias"), kv, false);
	a->v_bias = load_vector(l, layer_name(name, i, "attn_v.bias"), kv, false);
	a->out_bias = load_vector(l, layer_name(name, i, "attn_output.bias"), c->dim, false);
	f->norm = load_vector(l, layer_name(name, i, "ffn_norm.weight"), c->dim, true);
	load_matrix(l, &f->gate, layer_name(name, i, "ffn_gate.weight"), c->ffn, c->dim);
	load_matrix(l, &f->up, layer_name(name, i, "ffn_up.weight"), c->ffn, c->dim);
	load_matrix(l, &f->down, layer_name(name, i, "ffn_down.weight"), c->dim, c->ffn);
}

/* What a matrix of quantised weights multiplies is quantised in blocks of 32. */
static int check_widths(const struct loader *l)
{
	const struct model *m = l->m;

	for (int32_t i = 0; i < m->config.n_layers; i++) {
		const struct k_matrix *w[] = { &m->layer[i].mixer.q,  &m->layer[i].mixer.out,
									   &m->layer[i].ffn.gate, &m->layer[i].ffn.down };
		for (size_t j = 0; j < sizeof w / sizeof *w; j++)
			if (w[j]->n_cols % K_QBLOCK)
				return err_set(l->e, ERR_INPUT,
							   "%s: widths must be multiples of %d; layer %d has one of %d",
							   gguf_path(l->g), K_QBLOCK, i, w[j]->n_cols);
	}
	return 0;
}

static bool counts_for_decode(const struct model *m, const struct gguf_tensor *t)
{
	return !strncmp(t->name, "blk.", 4) || !strcmp(t->name, "output.weight") ||
		   !strcmp(t->name, "output_norm.weight") ||
		   (m->tied && !strcmp(t->name, "token_embd.weight"));
}

static void count_weights(struct loader *l)
{
	for (int32_t i = 0; i < gguf_n_tensors(l->g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(l->g, i);

		if (counts_for_decode(l->m, t))
			l->m->weight_bytes += t->bytes;
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

static int rope_open(struct loader *l, int32_t ctx)
{
	struct model *m = l->m;
	struct rope_table t = { .m = m, .ctx = ctx };
	size_t count = (size_t)ctx * (size_t)(m->config.rope_dim / 2), bytes = count * sizeof *m->rope_cos;
	int status;

	if (model_rope_freqs(l->g, &m->config, t.freq, l->e))
		return -1;
	m->rope_cos = k_alloc(m->kernels, 2 * bytes, K_WEIGHTS, "the rotary table; try a shorter --ctx", l->e);
	t.cos = !m->rope_cos || k_is_host(m->kernels) ? m->rope_cos : malloc(2 * bytes);
	if (!t.cos)
		return err_set(l->e, ERR_MEMORY, "no memory for the rotary table of %d positions", ctx);
	m->rope_sin = m->rope_cos + count;
	t.sin = t.cos + count;
	k_deal(m->kernels, (ctx + ROPE_STRIP - 1) / ROPE_STRIP, fill_rope, &t);
	if (t.cos == m->rope_cos)
		return 0;
	status = k_upload(m->kernels, m->rope_cos, t.cos, 2 * bytes, l->e);
	free(t.cos);
	return status;
}

/* Every tensor gets its place. */
static void plan_tensors(struct loader *l)
{
	struct model *m = l->m;
	const struct model_config *c = &m->config;

	load_matrix(l, &m->embed, "token_embd.weight", c->vocab, c->dim);
	if (m->tied)
		m->output = m->embed;
	else
		load_matrix(l, &m->output, "output.weight", c->vocab, c->dim);
	m->output_norm = load_vector(l, "output_norm.weight", c->dim, true);
	for (int32_t i = 0; i < c->n_layers && !l->e->code; i++)
		load_layer(l, i);
	if (!l->e->code)
		check_widths(l);
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
	struct loader l = { .g = g, .m = m, .e = e };

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
	count_weights(&l);
	if (weights_open(&m->weights, g, kernels, e) || rope_open(&l, *ctx))
		goto fail;
	plan_tensors(&l);
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
