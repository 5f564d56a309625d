/* Code that the families share. See arch.h. */
#include "engine/arch/arch.h"

#include <assert.h>
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
		gguf_bad(g, e, "architecture \"%.*s\" is not supported: %s", size, name->data, why);
	else
		gguf_bad(g, e, "architecture \"%.*s\" is not supported; supported are %s", size, name->data,
			known);
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

bool arch_each(
	struct arch_file *f, const struct model *m, const char *key, int64_t out[ARCH_LAYERS])
{
	char name[96];

	return !f->e->code && gguf_array_length(f->g, key_of(f, key, name)) >= 0 &&
		   !gguf_array_i64(f->g, name, out, m->config.n_layers, f->e);
}

bool arch_has(const struct arch_file *f, int32_t i, const char *part)
{
	char name[64];

	snprintf(name, sizeof name, "blk.%d.%s", i, part);
	return gguf_find(f->g, name) != NULL;
}

/* A number for each layer, where one for all is read: some writers have it so for all models. */
static int64_t one_of(struct arch_file *f, const char *name, int64_t n)
{
	int64_t of[ARCH_LAYERS] = { 0 };

	gguf_array_i64(f->g, name, of, n, f->e);
	for (int64_t i = 1; i < n && !f->e->code; i++)
		if (of[i] != of[0])
			gguf_bad(f->g, f->e,
				"%s is %lld in layer 0 and %lld in layer %lld: this family is supported where "
				"it is one number for all layers",
				name, (long long)of[0], (long long)of[i], (long long)i);
	return of[0];
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
		gguf_bad(f->g, f->e, "%s is %lld; 1 to %lld is possible", key_of(f, key, name),
			(long long)v, (long long)max);
		return 1;
	}
	return (int32_t)v;
}

int32_t arch_opt_int(struct arch_file *f, const char *key, int32_t fallback, int32_t max)
{
	char name[96];
	int64_t v = fallback;

	gguf_opt_i64(f->g, key_of(f, key, name), &v, f->e);
	if (v >= 0 && v <= max)
		return (int32_t)v;
	gguf_bad(f->g, f->e, "%s is %lld; 0 to %d is possible", name, (long long)v, max);
	return 0;
}

double arch_real(struct arch_file *f, const char *key, double fallback)
{
	char name[96];
	double v = fallback;

	gguf_opt_f64(f->g, key_of(f, key, name), &v, f->e);
	if (!isfinite(v))
		gguf_bad(f->g, f->e, "%s is not a finite number", key_of(f, key, name));
	return v;
}

bool arch_bool(struct arch_file *f, const char *key, bool fallback)
{
	char name[96];
	bool v = fallback;

	gguf_opt_bool(f->g, key_of(f, key, name), &v, f->e);
	return v;
}

int32_t arch_kv_heads(struct arch_file *f, const struct model *m, int32_t i)
{
	static const char key[] = "attention.head_count_kv";
	const int32_t n_heads = m->config.n_heads;
	int64_t heads[ARCH_LAYERS] = { 0 };

	if (!arch_each(f, m, key, heads))
		return f->e->code ? 0 : arch_int(f, key, n_heads, 1024);
	if (heads[i] < 0 || heads[i] > n_heads || (heads[i] && n_heads % heads[i]))
		gguf_bad(f->g, f->e, "%s.%s of layer %d is %lld: %d query heads cannot share it",
			f->arch->name, key, i, (long long)heads[i], n_heads);
	return f->e->code ? 0 : (int32_t)heads[i];
}

/* Width of layer i's feed-forward: feed_forward_length, a number or one for each layer. */
static int32_t arch_width(struct arch_file *f, const struct model *m, int32_t i)
{
	static const char key[] = "feed_forward_length";
	int64_t width[ARCH_LAYERS] = { 0 };

	if (!arch_each(f, m, key, width))
		return f->e->code ? 1 : arch_int(f, key, -1, 1 << 20);
	if (width[i] < 1 || width[i] > 1 << 20)
		gguf_bad(f->g, f->e, "%s.%s of layer %d is %lld; 1 to %d is possible", f->arch->name, key,
			i, (long long)width[i], 1 << 20);
	return f->e->code ? 1 : (int32_t)width[i];
}

/* Of any layer, the most. */
static int32_t most_of(struct arch_file *f, const struct model *m,
	int32_t (*of)(struct arch_file *f, const struct model *m, int32_t i))
{
	int32_t most = 0;

	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++) {
		const int32_t n = of(f, m, i);

		most = n > most ? n : most;
	}
	return most;
}

static void check_heads(struct arch_file *f, const struct model_config *c)
{
	if (c->n_heads % c->n_kv_heads)
		gguf_bad(f->g, f->e, "%d query heads cannot share %d key-value heads", c->n_heads,
			c->n_kv_heads);
	else if (c->head_dim % 8 || c->head_dim > K_MAX_HEAD_DIM)
		gguf_bad(f->g, f->e,
			"heads of %d dimensions are not supported (a multiple of 8, at most 512)", c->head_dim);
}

static void choose_ctx(struct arch_file *f, const struct model_config *c)
{
	if (f->ctx == 0)
		f->ctx = c->ctx_train < 8192 ? c->ctx_train : 8192;
	if (f->ctx > c->ctx_train && !f->beyond)
		err_set(f->e, ERR_USAGE,
			"a context of %d is more than the %d tokens this model was made for: ask for at most "
			"that with --ctx, or for 0, which is the model's own, or for --visible "
			"stream:4+window:%d, which counts positions inside the cache",
			f->ctx, c->ctx_train, c->ctx_train - 4);
}

/* Of the norms, by the name of their kind. */
static float read_epsilon(struct arch_file *f, const char *key)
{
	const float eps = (float)arch_real(f, key, 1e-5);

	if (eps < 0)
		gguf_bad(f->g, f->e, "the norms' epsilon is negative");
	return eps;
}

void arch_read_stream(struct arch_file *f, struct model *m)
{
	struct model_config *c = &m->config;
	int64_t vocab = gguf_array_length(f->g, "tokenizer.ggml.tokens");

	c->dim = arch_int(f, "embedding_length", -1, 1 << 16);
	c->n_layers = arch_int(f, "block_count", -1, ARCH_LAYERS);
	c->ctx_train = arch_int(f, "context_length", -1, 1 << 24);
	c->centred = f->arch->centred;
	c->norm_eps = read_epsilon(
		f, c->centred ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon");
	m->pooling = arch_opt_int(f, "pooling_type", 0, 1 << 16);
	c->vocab = vocab > 0 ? (int32_t)vocab : arch_int(f, "vocab_size", -1, 1 << 24);
	if (f->e->code)
		return;
	choose_ctx(f, c);
	m->layer = calloc((size_t)c->n_layers, sizeof *m->layer);
	if (!m->layer)
		err_no_memory(f->e, "%d layers", c->n_layers);
}

void arch_read_config(struct arch_file *f, struct model *m)
{
	struct model_config *c = &m->config;
	int32_t value_dim;

	arch_read_stream(f, m);
	if (f->e->code)
		return;
	c->n_heads = arch_int(f, "attention.head_count", -1, 1024);
	c->n_kv_heads = most_of(f, m, arch_kv_heads);
	if (!c->n_kv_heads)
		gguf_bad(f->g, f->e, "no layer has key-value heads");
	c->head_dim = arch_int(f, "attention.key_length", c->dim / c->n_heads, 1 << 12);
	value_dim = arch_int(f, "attention.value_length", c->head_dim, 1 << 12);
	c->ffn = most_of(f, m, arch_width);
	if (f->e->code)
		return;
	if (value_dim != c->head_dim)
		gguf_bad(f->g, f->e, "values of %d dimensions beside keys of %d are not supported",
			value_dim, c->head_dim);
	check_heads(f, c);
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
		gguf_bad(f->g, f->e, "a rotary base of %g is out of range", theta);
	if (r->dim % 2 || r->dim > m->config.head_dim)
		gguf_bad(f->g, f->e, "rope dimension %d does not fit heads of %d dimensions", r->dim,
			m->config.head_dim);
	if (f->e->code)
		return 0;
	k_rope_freqs(theta, r->dim, r->freq);
	if (scaled)
		arch_scale_rope(f, &m->config, r);
	return m->n_ropes++;
}

/* What is asked for after a failure. */
static void *nowhere(struct arch_file *f)
{
	return memset(f->nowhere, 0, sizeof f->nowhere);
}

void *arch_add_block(struct arch_file *f, struct block *b, const struct block_kind *kind)
{
	assert(kind->size <= sizeof f->nowhere);
	free(b->params); /* of another kind, without tensors yet */
	b->params = NULL;
	if (!f->e->code && !block_set(b, kind))
		err_no_memory(f->e, "a layer");
	return f->e->code ? nowhere(f) : b->params;
}

struct block *arch_add_pair(struct arch_file *f, struct block *b)
{
	struct block first = *b;
	struct pair *a;

	*b = (struct block){ 0 };
	a = arch_add_block(f, b, &layer_pair);
	if (f->e->code)
		block_free(&first);
	else
		a->first = first;
	return &a->second;
}

static struct attention *arch_add_attention(struct arch_file *f, struct model *m, int32_t i)
{
	const struct model_config *c = &m->config;
	struct attention *a = arch_add_block(f, &m->layer[i].mixer, &layer_attention);

	a->n_heads = c->n_heads;
	a->n_kv_heads = arch_kv_heads(f, m, i);
	a->head_dim = c->head_dim;
	a->scale = 1.0f / sqrtf((float)c->head_dim);
	a->on.pre = "attn_norm.weight";
	return a;
}

struct feed_forward *arch_add_feed_forward(struct arch_file *f, struct model *m, int32_t i)
{
	struct feed_forward *w = arch_add_block(f, &m->layer[i].ffn, &layer_feed_forward);

	w->width = arch_width(f, m, i);
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
	gguf_bad(f->g, f->e, "experts are not supported in a model of the family %s", f->arch->name);
	return nowhere(f);
}

/* ---- mixtures of experts ---- */

/* Of the expert that all rows use: the file says it, or counts such experts, which are one. */
static int32_t shared_width(struct arch_file *f, int32_t i, int32_t width)
{
	int32_t n;

	if (!arch_has(f, i, "ffn_gate_shexp.weight"))
		return 0;
	n = arch_opt_int(f, "expert_shared_count", 1, 1024);
	if (n > (1 << 20) / width)
		gguf_bad(f->g, f->e, "%d shared experts of width %d are too wide", n, width);
	return arch_int(
		f, "expert_shared_feed_forward_length", f->e->code || !n ? 1 : n * width, 1 << 20);
}

int32_t arch_n_experts(struct arch_file *f)
{
	return arch_opt_int(f, "expert_count", 0, K_ROUTE_EXPERTS);
}

struct experts *arch_add_experts(struct arch_file *f, struct model *m, int32_t i)
{
	struct experts *x = arch_add_block(f, &m->layer[i].ffn, &layer_experts);

	x->on.pre = "ffn_norm.weight";
	x->n = arch_int(f, "expert_count", -1, K_ROUTE_EXPERTS);
	x->used = arch_int(f, "expert_used_count", -1, x->n);
	x->width = arch_int(f, "expert_feed_forward_length", m->config.ffn, 1 << 20);
	x->shared_width = shared_width(f, i, x->width);
	return x;
}

struct experts *arch_experts(struct arch_file *f, struct model *m, int32_t i)
{
	if (m->layer[i].ffn.kind == &layer_experts)
		return m->layer[i].ffn.params;
	gguf_bad(
		f->g, f->e, "a model of the family %s without experts is not supported", f->arch->name);
	return nowhere(f);
}

static void read_groups(struct arch_file *f, struct experts *x)
{
	int32_t n = arch_opt_int(f, "expert_group_count", 0, K_ROUTE_GROUPS);
	int32_t used = arch_opt_int(f, "expert_group_used_count", n, K_ROUTE_GROUPS);

	if (n < 2 || used == n || f->e->code)
		return;
	if (x->n % n || used < 1 || used > n || x->used > used * (x->n / n))
		gguf_bad(f->g, f->e, "of %d experts in %d groups, %d of them used, no %d can be chosen",
			x->n, n, used, x->used);
	x->n_groups = n;
	x->used_groups = used;
}

void arch_read_router(
	struct arch_file *f, struct experts *x, enum k_route_kind kind, bool norm_weights)
{
	static const enum k_route_kind of[] = { K_ROUTE_all, K_ROUTE_all, K_ROUTE_sigmoid,
		K_ROUTE_chosen };
	const int32_t func = arch_opt_int(f, "expert_gating_func", 0, 3);

	x->route = func ? of[func] : kind;
	x->norm_weights = arch_bool(f, "expert_weights_norm", norm_weights);
	x->scale = (float)arch_real(f, "expert_weights_scale", 0);
	if (x->scale == 1)
		x->scale = 0; /* none */
	read_groups(f, x);
}

/* ---- a decoder like Llama ---- */

static void add_layers(struct arch_file *f, struct model *m)
{
	float softcap = (float)arch_real(f, "attn_logit_softcapping", 0);
	const bool mixture = arch_n_experts(f) > 0;

	if (softcap < 0)
		gguf_bad(f->g, f->e, "a soft cap of %g is out of range", (double)softcap);
	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++) {
		arch_add_attention(f, m, i)->softcap = softcap;
		if (mixture)
			arch_add_experts(f, m, i);
		else
			arch_add_feed_forward(f, m, i);
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

int arch_read(const struct gguf *g, struct model *m, int32_t *ctx, bool beyond, struct err *e)
{
	struct arch_file f = { .g = g, .e = e, .ctx = *ctx, .beyond = beyond };

	f.arch = arch_find(g, e);
	if (f.arch && f.arch->read)
		f.arch->read(&f, m);
	else if (f.arch)
		arch_read_dense(&f, m, f.arch->halves);
	for (int32_t i = 0; !e->code && f.arch->layer && i < m->config.n_layers; i++)
		f.arch->layer(&f, m, i);
	*ctx = f.ctx;
	return e->code ? -1 : model_join_memory(m, e);
}
