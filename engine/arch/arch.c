/* Code that the families share. See arch.h. */
#include "engine/arch/arch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *arch_name(int i)
{
	return arch_table[i] ? arch_table[i]->name : NULL;
}

static void list_names(char *buf, size_t cap)
{
	size_t n = 0;

	*buf = '\0';
	for (int i = 0; arch_table[i] && n < cap; i++)
		n += (size_t)snprintf(buf + n, cap - n, "%s%s", i ? ", " : "", arch_name(i));
}

/* Why a file whose architecture is in no table cannot run, where its tensors say it; else NULL. */
static const char *encoder_of(const struct gguf *g)
{
	if (gguf_find(g, "enc.blk.0.attn_q.weight"))
		return "it is an encoder alone, which writes no text";
	return NULL;
}

static void refuse_architecture(const struct gguf *g, const struct gguf_text *name, struct err *e)
{
	const int size = (int)(name->size < 40 ? name->size : 40);
	const char *why = encoder_of(g);
	char known[sizeof e->text];

	list_names(known, sizeof known);
	if (why)
		err_set(e, ERR_INPUT, "%s: architecture \"%.*s\" is not supported: %s", gguf_path(g), size,
			name->data, why);
	else
		err_set(e, ERR_INPUT, "%s: architecture \"%.*s\" is not supported; supported are %s",
			gguf_path(g), size, name->data, known);
}

/* The family of a file. NULL and the list of the known ones. */
static const struct arch *arch_find(const struct gguf *g, struct err *e)
{
	struct gguf_text name;

	if (gguf_get_text(g, "general.architecture", &name, e))
		return NULL;
	for (int i = 0; arch_table[i]; i++)
		if (gguf_text_is(&name, arch_table[i]->name))
			return arch_table[i];
	refuse_architecture(g, &name, e);
	return NULL;
}

static const char *key_of(const struct arch_file *f, const char *key, char buf[96])
{
	snprintf(buf, 96, "%s.%s", f->arch->name, key);
	return buf;
}

/* A number for each layer, where one for all is read: some writers have it so for all models. */
static int64_t one_of(struct arch_file *f, const char *name, int64_t n)
{
	int64_t *of = malloc((size_t)n * sizeof *of), v = 0;

	if (!of) {
		err_set(f->e, ERR_MEMORY, "no memory for %s", name);
		return 0;
	}
	if (!gguf_array_i64(f->g, name, of, n, f->e))
		v = of[0];
	for (int64_t i = 1; i < n && !f->e->code; i++)
		if (of[i] != v)
			err_set(f->e, ERR_INPUT,
				"%s: %s is %lld in layer 0 and %lld in layer %lld: this family is supported where "
				"it is one number for all layers",
				gguf_path(f->g), name, (long long)v, (long long)of[i], (long long)i);
	free(of);
	return v;
}

int32_t arch_int(struct arch_file *f, const char *key, int64_t fallback, int64_t max)
{
	char name[96];
	int64_t v = fallback;
	const int64_t n = gguf_array_length(f->g, key_of(f, key, name));

	if (n > 0 && n <= ARCH_LAYERS)
		v = one_of(f, name, n);
	else if (fallback < 0)
		gguf_get_i64(f->g, key_of(f, key, name), &v, f->e);
	else
		gguf_opt_i64(f->g, key_of(f, key, name), &v, f->e);
	if (v < 1 || v > max) {
		err_set(f->e, ERR_INPUT, "%s: %s is %lld; 1 to %lld is possible", gguf_path(f->g),
			key_of(f, key, name), (long long)v, (long long)max);
		return 1;
	}
	return (int32_t)v;
}

double arch_real(struct arch_file *f, const char *key, double fallback)
{
	char name[96];
	double v = fallback;

	gguf_opt_f64(f->g, key_of(f, key, name), &v, f->e);
	if (!isfinite(v))
		err_set(f->e, ERR_INPUT, "%s: %s is not a finite number", gguf_path(f->g),
			key_of(f, key, name));
	return v;
}

bool arch_bool(struct arch_file *f, const char *key, bool fallback)
{
	char name[96];
	bool v = fallback;

	gguf_opt_bool(f->g, key_of(f, key, name), &v, f->e);
	return v;
}

int32_t arch_kv_heads(struct arch_file *f, const struct model_config *c, int32_t i)
{
	int64_t heads[ARCH_LAYERS] = { 0 };
	char name[96];

	if (gguf_array_length(f->g, key_of(f, "attention.head_count_kv", name)) < 0)
		return arch_int(f, "attention.head_count_kv", c->n_heads, 1024);
	if (gguf_array_i64(f->g, name, heads, c->n_layers, f->e))
		return 0;
	if (heads[i] < 0 || heads[i] > c->n_heads || (heads[i] && c->n_heads % heads[i]))
		err_set(f->e, ERR_INPUT, "%s: %s of layer %d is %lld: %d query heads cannot share it",
			gguf_path(f->g), name, i, (long long)heads[i], c->n_heads);
	return f->e->code ? 0 : (int32_t)heads[i];
}

/* Width of layer i's feed-forward: feed_forward_length, a number or one for each layer. */
static int32_t arch_width(struct arch_file *f, const struct model_config *c, int32_t i)
{
	int64_t width[ARCH_LAYERS] = { 0 };
	char name[96];

	if (gguf_array_length(f->g, key_of(f, "feed_forward_length", name)) < 0)
		return arch_int(f, "feed_forward_length", -1, 1 << 20);
	if (gguf_array_i64(f->g, name, width, c->n_layers, f->e))
		return 1;
	if (width[i] < 1 || width[i] > 1 << 20)
		err_set(f->e, ERR_INPUT, "%s: %s of layer %d is %lld; 1 to %d is possible", gguf_path(f->g),
			name, i, (long long)width[i], 1 << 20);
	return f->e->code ? 1 : (int32_t)width[i];
}

/* Of any layer, the most. */
static int32_t most_of(struct arch_file *f, const struct model_config *c,
	int32_t (*of)(struct arch_file *f, const struct model_config *c, int32_t i))
{
	int32_t most = 0;

	for (int32_t i = 0; i < c->n_layers && !f->e->code; i++) {
		const int32_t n = of(f, c, i);

		most = n > most ? n : most;
	}
	return most;
}

static int32_t most_kv_heads(struct arch_file *f, const struct model_config *c)
{
	const int32_t most = most_of(f, c, arch_kv_heads);

	if (!most)
		err_set(f->e, ERR_INPUT, "%s: no layer has key-value heads", gguf_path(f->g));
	return most;
}

static void check_heads(struct arch_file *f, const struct model_config *c)
{
	if (c->n_heads % c->n_kv_heads)
		err_set(f->e, ERR_INPUT, "%s: %d query heads cannot share %d key-value heads",
			gguf_path(f->g), c->n_heads, c->n_kv_heads);
	else if (c->head_dim % 8 || c->head_dim > K_MAX_HEAD_DIM)
		err_set(f->e, ERR_INPUT,
			"%s: heads of %d dimensions are not supported (a multiple of 8, at most 512)",
			gguf_path(f->g), c->head_dim);
}

static void choose_ctx(struct arch_file *f, const struct model_config *c)
{
	if (f->ctx == 0)
		f->ctx = c->ctx_train < 8192 ? c->ctx_train : 8192;
	if (f->ctx > c->ctx_train && !f->beyond)
		err_set(f->e, ERR_USAGE,
			"a context of %d is more than the %d tokens this model was made for: ask for at most "
			"that with --ctx, or for 0, which is the model's own, or for --visible "
			"stream:4+window:508, which counts positions inside the cache",
			f->ctx, c->ctx_train);
}

void arch_read_stream(struct arch_file *f, struct model *m)
{
	struct model_config *c = &m->config;
	int64_t vocab = gguf_array_length(f->g, "tokenizer.ggml.tokens");

	c->dim = arch_int(f, "embedding_length", -1, 1 << 16);
	c->n_layers = arch_int(f, "block_count", -1, ARCH_LAYERS);
	c->ctx_train = arch_int(f, "context_length", -1, 1 << 24);
	c->norm_eps = (float)arch_real(f, "attention.layer_norm_rms_epsilon", 1e-5);
	m->pooling = arch_opt_int(f, "pooling_type", 0, 1 << 16);
	c->vocab = vocab > 0 ? (int32_t)vocab : arch_int(f, "vocab_size", -1, 1 << 24);
	if (f->e->code)
		return;
	if (c->norm_eps < 0)
		err_set(f->e, ERR_INPUT, "%s: the norms' epsilon is negative", gguf_path(f->g));
	choose_ctx(f, c);
	m->layer = calloc((size_t)c->n_layers, sizeof *m->layer);
	if (!m->layer)
		err_set(f->e, ERR_MEMORY, "no memory for %d layers", c->n_layers);
}

void arch_read_config(struct arch_file *f, struct model *m)
{
	struct model_config *c = &m->config;
	int32_t value_dim;

	arch_read_stream(f, m);
	if (f->e->code)
		return;
	c->n_heads = arch_int(f, "attention.head_count", -1, 1024);
	c->n_kv_heads = most_kv_heads(f, c);
	c->head_dim = arch_int(f, "attention.key_length", c->dim / c->n_heads, 1 << 12);
	value_dim = arch_int(f, "attention.value_length", c->head_dim, 1 << 12);
	c->ffn = most_of(f, c, arch_width);
	if (f->e->code)
		return;
	if (value_dim != c->head_dim)
		err_set(f->e, ERR_INPUT, "%s: values of %d dimensions beside keys of %d are not supported",
			gguf_path(f->g), value_dim, c->head_dim);
	check_heads(f, c);
}

void arch_centre(struct arch_file *f, struct model *m)
{
	m->config.centred = true;
	m->config.norm_eps = (float)arch_real(f, "attention.layer_norm_epsilon", 1e-5);
	if (m->config.norm_eps < 0)
		err_set(f->e, ERR_INPUT, "%s: the norms' epsilon is negative", gguf_path(f->g));
}

int32_t arch_add_rope(struct arch_file *f, struct model *m, double theta, bool halves, bool scaled)
{
	const int32_t dim = arch_int(f, "rope.dimension_count", m->config.head_dim, 1 << 12);

	return arch_add_rope_of(f, m, dim, theta, halves, scaled);
}

int32_t arch_add_rope_of(
	struct arch_file *f, struct model *m, int32_t dim, double theta, bool halves, bool scaled)
{
	struct model_rope *r = &m->rope[m->n_ropes];

	r->dim = dim;
	r->halves = halves;
	r->theta = theta;
	r->scale = 1;
	if (theta < 1)
		err_set(f->e, ERR_INPUT, "%s: a rotary base of %g is out of range", gguf_path(f->g), theta);
	if (r->dim % 2 || r->dim > m->config.head_dim)
		err_set(f->e, ERR_INPUT, "%s: rope dimension %d does not fit heads of %d dimensions",
			gguf_path(f->g), r->dim, m->config.head_dim);
	if (f->e->code)
		return 0;
	k_rope_freqs(theta, r->dim, r->freq);
	if (scaled)
		arch_scale_rope(f, &m->config, r);
	return m->n_ropes++;
}

void *arch_add_block(struct arch_file *f, struct block *b, const struct block_kind *kind)
{
	free(b->params); /* of another kind, without tensors yet */
	b->params = NULL;
	if (!f->e->code && !block_set(b, kind))
		err_set(f->e, ERR_MEMORY, "no memory for a layer");
	return f->e->code ? NULL : b->params;
}

static struct attention *arch_add_attention(struct arch_file *f, struct model *m, int32_t i)
{
	const struct model_config *c = &m->config;
	struct attention *a = arch_add_block(f, &m->layer[i].mixer, &layer_attention);

	if (!a)
		return NULL;
	a->n_heads = c->n_heads;
	a->n_kv_heads = arch_kv_heads(f, c, i);
	a->head_dim = c->head_dim;
	a->scale = 1.0f / sqrtf((float)c->head_dim);
	a->on.pre = "attn_norm.weight";
	return a;
}

struct feed_forward *arch_add_feed_forward(struct arch_file *f, struct model *m, int32_t i)
{
	struct feed_forward *w = arch_add_block(f, &m->layer[i].ffn, &layer_feed_forward);

	if (!w)
		return NULL;
	w->width = arch_width(f, &m->config, i);
	w->on.pre = "ffn_norm.weight";
	return w;
}

struct attention *arch_attention(struct model *m, int32_t i)
{
	return m->layer[i].mixer.params;
}

struct feed_forward *arch_feed_forward(struct arch_file *f, struct model *m, int32_t i)
{
	if (m->layer[i].ffn.kind == &layer_feed_forward)
		return m->layer[i].ffn.params;
	err_set(f->e, ERR_INPUT, "%s: experts are not supported in a model of the family %s",
		gguf_path(f->g), f->arch->name);
	return NULL;
}

static bool add_feed_forward(struct arch_file *f, struct model *m, int32_t i, bool mixture)
{
	return mixture ? arch_add_experts(f, m, i) != NULL : arch_add_feed_forward(f, m, i) != NULL;
}

static void add_layers(struct arch_file *f, struct model *m)
{
	float softcap = (float)arch_real(f, "attn_logit_softcapping", 0);
	const bool mixture = arch_n_experts(f) > 0;

	if (softcap < 0)
		err_set(f->e, ERR_INPUT, "%s: a soft cap of %g is out of range", gguf_path(f->g),
			(double)softcap);
	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++) {
		struct attention *a = arch_add_attention(f, m, i);

		if (a && add_feed_forward(f, m, i, mixture))
			a->softcap = softcap;
	}
}

void arch_read_without_rope(struct arch_file *f, struct model *m)
{
	arch_read_config(f, m);
	if (!f->e->code)
		add_layers(f, m);
	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++)
		arch_attention(m, i)->rope = ATTENTION_NO_ROPE;
}

void arch_read_dense(struct arch_file *f, struct model *m, bool halves)
{
	arch_read_config(f, m);
	if (!f->e->code)
		arch_add_rope(f, m, arch_real(f, "rope.freq_base", 10000), halves, true);
	if (!f->e->code)
		add_layers(f, m);
}

void arch_each_layer(struct arch_file *f, struct model *m,
	void (*set)(struct arch_file *f, struct model *m, int32_t i))
{
	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++)
		set(f, m, i);
}

int arch_read(const struct gguf *g, struct model *m, int32_t *ctx, bool beyond, struct err *e)
{
	struct arch_file f = { .g = g, .e = e, .ctx = *ctx, .beyond = beyond };

	f.arch = arch_find(g, e);
	if (f.arch)
		f.arch->read(&f, m);
	*ctx = f.ctx;
	return e->code ? -1 : model_join_memory(m, e);
}
