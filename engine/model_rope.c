/* Rotary frequencies with the scalings that files name. See model_config.h. */
#include "engine/model_config.h"

#include <stdio.h>
#include <string.h>

#include "kernels/arith.h"

static const double PI = 3.14159265358979323846;

static bool text_is(struct gguf_text t, const char *s)
{
	return t.size == strlen(s) && !memcmp(t.data, s, t.size);
}

static const char *arch_key(const struct gguf *g, const char *key, char buf[96])
{
	struct gguf_text arch = { "", 0 };

	gguf_opt_text(g, "general.architecture", &arch, NULL);
	snprintf(buf, 96, "%.*s.%s", (int)(arch.size < 40 ? arch.size : 40), arch.data, key);
	return buf;
}

/* YaRN, section 3.2: dimension at which a frequency turns `turns` times over the original context. */
static double yarn_dim(const struct model_config *c, double ctx_original, double turns)
{
	/* our own logarithm, so that the table has the same bits on every machine */
	float ratio = (float)(ctx_original / (turns * 2 * PI));

	return c->rope_dim * (double)k_log(ratio) / (2 * (double)k_log((float)c->rope_theta));
}

static double clamp(double x, double low, double high)
{
	return x < low ? low : x > high ? high : x;
}

static void scale_yarn(struct model_config *c, double factor, double ctx_original, double fast,
					   double slow, double attn_factor, double *freq)
{
	double low = (double)(int64_t)clamp(yarn_dim(c, ctx_original, fast), 0, c->rope_dim - 1);
	double high = clamp(yarn_dim(c, ctx_original, slow), 0, c->rope_dim - 1);

	if ((double)(int64_t)high < high)
		high = (double)(int64_t)high + 1;
	if (high - low < 0.001)
		high = low + 0.001;
	for (int32_t i = 0; i < c->rope_dim / 2; i++) {
		double keep = 1 - clamp((i - low) / (high - low), 0, 1);
		freq[i] = freq[i] / factor * (1 - keep) + freq[i] * keep;
	}
	c->rope_mscale = (float)(attn_factor * (1 + 0.1 * (double)k_log((float)factor)));
}

static int scale_by_tensor(const struct gguf *g, struct model_config *c, double *freq, struct err *e)
{
	const struct gguf_tensor *t = gguf_find(g, "rope_freqs.weight");
	float factor[256];

	if (!t)
		return 0;
	if (t->type != K_F32 || t->n_dims != 1 || t->dim[0] != c->rope_dim / 2 || t->dim[0] > 256)
		return err_set(e, ERR_INPUT, "%s: rope_freqs.weight must be %d F32 values", gguf_path(g),
					   c->rope_dim / 2);
	if (gguf_read_tensor(g, t, factor, e))
		return -1;
	for (int32_t i = 0; i < c->rope_dim / 2; i++) {
		if (!(factor[i] > 0))
			return err_set(e, ERR_INPUT, "%s: rope_freqs.weight holds a factor that is not positive",
						   gguf_path(g));
		freq[i] /= (double)factor[i];
	}
	return 0;
}

int model_rope_freqs(const struct gguf *g, struct model_config *c, double *freq, struct err *e)
{
	char key[96];
	struct gguf_text type = { "none", 4 };
	double factor = 1, original = c->ctx_train, fast = 32, slow = 1, attn = 1;

	k_rope_freqs(c->rope_theta, c->rope_dim, freq);
	gguf_opt_f64(g, arch_key(g, "rope.scale_linear", key), &factor, e);
	if (factor != 1)
		type = (struct gguf_text){ "linear", 6 };
	gguf_opt_text(g, arch_key(g, "rope.scaling.type", key), &type, e);
	gguf_opt_f64(g, arch_key(g, "rope.scaling.factor", key), &factor, e);
	gguf_opt_f64(g, arch_key(g, "rope.scaling.original_context_length", key), &original, e);
	gguf_opt_f64(g, arch_key(g, "rope.scaling.yarn_beta_fast", key), &fast, e);
	gguf_opt_f64(g, arch_key(g, "rope.scaling.yarn_beta_slow", key), &slow, e);
	gguf_opt_f64(g, arch_key(g, "rope.scaling.attn_factor", key), &attn, e);
	if (e->code)
		return -1;
	if (factor == 0)
		factor = 1; /* files write 0 for "none" */
	if (!(factor >= 1e-3 && factor <= 1e6 && original >= 1 && fast > 0 && slow > 0 && attn > 0))
		return err_set(e, ERR_INPUT, "%s: the rope scaling numbers are out of range", gguf_path(g));
	if (text_is(type, "linear")) {
		for (int32_t i = 0; i < c->rope_dim / 2; i++)
			freq[i] /= factor;
	} else if (text_is(type, "yarn")) {
		scale_yarn(c, factor, original, fast, slow, attn, freq);
	} else if (!text_is(type, "none")) {
		return err_set(e, ERR_INPUT, "%s: rope scaling \"%.*s\" is not supported (linear, yarn, none)",
					   gguf_path(g), (int)(type.size < 40 ? type.size : 40), type.data);
	}
	return scale_by_tensor(g, c, freq, e);
}
