/* The configuration of a model from the metadata of its file, with every number checked. See model.h. */
#include "engine/model_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The architectures that are one code path: what differs is here. */
static const struct arch {
	const char *name;
	bool neox;
} archs[] = {
	{ "llama", false }, /* Llama 1-3, Mistral, SmolLM, TinyLlama … */
	{ "qwen2", true },
};

static const struct arch *find_arch(const struct gguf *g, struct err *e)
{
	struct gguf_text name;

	if (gguf_get_text(g, "general.architecture", &name, e))
		return NULL;
	for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
		if (strlen(archs[i].name) == name.size && !memcmp(archs[i].name, name.data, name.size))
			return &archs[i];
	err_set(e, ERR_INPUT,
			"%s: architecture \"%.*s\" is not supported; supported are llama and qwen2",
			gguf_path(g), (int)(name.size < 40 ? name.size : 40), name.data);
	return NULL;
}

struct keys { /* reads "<arch>.<key>", remembers the first failure in e */
	const struct gguf *g;
	const char *arch;
	struct err *e;
};

static const char *key_of(const struct keys *k, const char *key, char buf[96])
{
	snprintf(buf, 96, "%s.%s", k->arch, key);
	return buf;
}

static int32_t get_int(const struct keys *k, const char *key, int64_t fallback, int64_t max)
{
	char name[96];
	int64_t v = fallback;

	if (fallback < 0)
		gguf_get_i64(k->g, key_of(k, key, name), &v, k->e);
	else
		gguf_opt_i64(k->g, key_of(k, key, name), &v, k->e);
	if (v < 1 || v > max) {
		err_set(k->e, ERR_INPUT, "%s: %s is %lld; 1 to %lld is possible", gguf_path(k->g),
				key_of(k, key, name), (long long)v, (long long)max);
		return 1;
	}
	return (int32_t)v;
}

static double get_real(const struct keys *k, const char *key, double fallback)
{
	char name[96];
	double v = fallback;

	gguf_opt_f64(k->g, key_of(k, key, name), &v, k->e);
	if (!isfinite(v))
		err_set(k->e, ERR_INPUT, "%s: %s is not a finite number", gguf_path(k->g),
				key_of(k, key, name));
	return v;
}

static int check_heads(const struct gguf *g, const struct model_config *c, struct err *e)
{
	if (c->n_heads % c->n_kv_heads)
		return err_set(e, ERR_INPUT, "%s: %d query heads cannot share %d key-value heads",
					   gguf_path(g), c->n_heads, c->n_kv_heads);
	if (c->rope_dim % 2 || c->rope_dim > c->head_dim)
		return err_set(e, ERR_INPUT, "%s: rope dimension %d does not fit heads of %d dimensions",
					   gguf_path(g), c->rope_dim, c->head_dim);
	if (c->head_dim % 8 || c->head_dim > 512)
		return err_set(e, ERR_INPUT,
					   "%s: heads of %d dimensions are not supported (a multiple of 8, at most 512)",
					   gguf_path(g), c->head_dim);
	return 0;
}

static int64_t vocab_size(const struct gguf *g, const struct keys *k)
{
	int64_t n = gguf_array_length(g, "tokenizer.ggml.tokens");

	return n > 0 ? n : get_int(k, "vocab_size", -1, 1 << 24);
}

int model_read_config(const struct gguf *g, struct model_config *c, struct err *e)
{
	const struct arch *arch = find_arch(g, e);
	if (!arch)
		return -1;
	struct keys k = { g, arch->name, e };

	*c = (struct model_config){ .neox = arch->neox };
	c->dim = get_int(&k, "embedding_length", -1, 1 << 16);
	c->n_layers = get_int(&k, "block_count", -1, 256);
	c->n_heads = get_int(&k, "attention.head_count", -1, 1024);
	c->n_kv_heads = get_int(&k, "attention.head_count_kv", c->n_heads, 1024);
	c->head_dim = get_int(&k, "attention.key_length", c->dim / c->n_heads, 1 << 12);
	int32_t value_dim = get_int(&k, "attention.value_length", c->head_dim, 1 << 12);
	c->ffn = get_int(&k, "feed_forward_length", -1, 1 << 20);
	c->ctx_train = get_int(&k, "context_length", -1, 1 << 24);
	c->rope_dim = get_int(&k, "rope.dimension_count", c->head_dim, 1 << 12);
	c->rope_theta = get_real(&k, "rope.freq_base", 10000);
	c->norm_eps = (float)get_real(&k, "attention.layer_norm_rms_epsilon", 1e-5);
	c->softcap = (float)get_real(&k, "attn_logit_softcapping", 0);
	c->rope_mscale = 1;
	if (e->code)
		return -1;
	c->vocab = (int32_t)vocab_size(g, &k);
	if (value_dim != c->head_dim)
		return err_set(e, ERR_INPUT, "%s: values of %d dimensions beside keys of %d are not supported",
					   gguf_path(g), value_dim, c->head_dim);
	if (c->rope_theta < 1 || c->norm_eps < 0 || c->softcap < 0)
		return err_set(e, ERR_INPUT, "%s: rope.freq_base, norm epsilon or soft cap is out of range",
					   gguf_path(g));
	if (e->code)
		return -1;
	return check_heads(g, c, e);
}
