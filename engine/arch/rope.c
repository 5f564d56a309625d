/* Rotary frequencies with the scalings of model files. See arch.h. */
#include "engine/arch/arch.h"

#include "kernels/arith.h"

static const double PI = 3.14159265358979323846;

/* YaRN, section 3.2: dimension at which a frequency turns `turns` times over the original
 * context. */
static double yarn_dim(const struct model_rope *c, double ctx_original, double turns)
{
	/* k_log, so that the table has the same bits on every machine */
	float ratio = (float)(ctx_original / (turns * 2 * PI));

	return c->dim * (double)k_log(ratio) / (2 * (double)k_log((float)c->theta));
}

static double clamp(double x, double low, double high)
{
	return x < low ? low : x > high ? high : x;
}

struct scaling {
	struct gguf_text type;
	double factor, original, fast, slow, attn;
};

static void scale_yarn(const struct scaling *s, struct model_rope *r)
{
	double low = (double)(int64_t)clamp(yarn_dim(r, s->original, s->fast), 0, r->dim - 1);
	double high = clamp(yarn_dim(r, s->original, s->slow), 0, r->dim - 1);

	if ((double)(int64_t)high < high)
		high = (double)(int64_t)high + 1;
	if (high - low < 0.001)
		high = low + 0.001;
	for (int32_t i = 0; i < r->dim / 2; i++) {
		double keep = 1 - clamp((i - low) / (high - low), 0, 1);
		r->freq[i] = r->freq[i] / s->factor * (1 - keep) + r->freq[i] * keep;
	}
	r->scale = (float)(s->attn * (1 + 0.1 * (double)k_log((float)s->factor)));
}

static void scale_by_tensor(struct arch_file *f, const char *name, struct model_rope *r)
{
	const struct gguf_tensor *t = gguf_find(f->g, name);
	float factor[MODEL_FREQS];

	if (!t)
		return;
	if (t->type != K_F32 || t->n_dims != 1 || t->dim[0] != r->dim / 2 || t->dim[0] > MODEL_FREQS) {
		gguf_bad(f->g, f->e, "%s must be %d F32 values", name, r->dim / 2);
		return;
	}
	if (gguf_read_tensor(t, factor, f->e))
		return;
	for (int32_t i = 0; i < r->dim / 2; i++) {
		if (!(factor[i] > 0)) {
			gguf_bad(f->g, f->e, "%s holds a factor that is not positive", name);
			return;
		}
		r->freq[i] /= (double)factor[i];
	}
}

/* LongRoPE (Ding et al. 2024). The context that the model was opened with selects the factors, not
 * the length of a sequence. */
static void scale_long(struct arch_file *f, const struct scaling *s, struct model_rope *r)
{
	scale_by_tensor(
		f, f->ctx > s->original ? "rope_factors_long.weight" : "rope_factors_short.weight", r);
	r->scale = (float)s->attn;
}

static struct scaling read_scaling(struct arch_file *f, const struct model_config *c)
{
	struct scaling s = { { "none", 4 }, 1, 0, 0, 0, 0 };
	char key[96];

	s.factor = arch_real(f, "rope.scale_linear", 1);
	if (s.factor != 1)
		s.type = (struct gguf_text){ "linear", 6 };
	snprintf(key, sizeof key, "%s.rope.scaling.type", f->arch->name);
	gguf_opt_text(f->g, key, &s.type, f->e);
	s.factor = arch_real(f, "rope.scaling.factor", s.factor);
	s.original = arch_int(f, "rope.scaling.original_context_length", c->ctx_train, 1 << 24);
	s.fast = arch_real(f, "rope.scaling.yarn_beta_fast", 32);
	s.slow = arch_real(f, "rope.scaling.yarn_beta_slow", 1);
	s.attn = arch_real(f, "rope.scaling.attn_factor", 1);
	if (s.factor == 0)
		s.factor = 1; /* files write 0 for "none" */
	if (!(s.factor >= 1e-3 && s.factor <= 1e6 && s.original >= 1 && s.fast > 0 && s.slow > 0 &&
			s.attn > 0))
		gguf_bad(f->g, f->e, "the rope scaling numbers are out of range");
	return s;
}

void arch_scale_rope(struct arch_file *f, const struct model_config *c, struct model_rope *r)
{
	struct scaling s = read_scaling(f, c);

	if (f->e->code)
		return;
	if (gguf_text_is(&s.type, "linear")) {
		for (int32_t i = 0; i < r->dim / 2; i++)
			r->freq[i] /= s.factor;
	} else if (gguf_text_is(&s.type, "yarn")) {
		scale_yarn(&s, r);
	} else if (!gguf_text_is(&s.type, "none") && !gguf_text_is(&s.type, "longrope")) {
		gguf_bad(f->g, f->e, "rope scaling \"%.*s\" is not supported (linear, yarn, none)",
			(int)(s.type.size < 40 ? s.type.size : 40), s.type.data);
	}
	scale_by_tensor(f, "rope_freqs.weight", r);
	if (gguf_find(f->g, "rope_factors_long.weight")) /* files do not always name it */
		scale_long(f, &s, r);
}
