/* Masked diffusion language models: LLaDA (Nie et al. 2025) is Llama and Dream (Ye et al. 2025)
 * Qwen 2, both without a causal mask. A row's logits are for its own position, or, where the model
 * began as a causal one (Dream), for the next. */
#include "engine/arch/arch.h"

static bool is_mask(const struct gguf_text *t)
{
	static const char *const name[] = { "<|mask|>", "<|mdm_mask|>", "[MASK]" };
	bool is = false;

	for (size_t i = 0; i < sizeof name / sizeof *name; i++)
		is |= gguf_text_is(t, name[i]);
	return is;
}

/* A token by its name, for files that do not say which is the mask. -1: there is none. */
static int64_t find_mask(struct arch_file *f, const struct model *m)
{
	static const char key[] = "tokenizer.ggml.tokens";
	const int64_t n = gguf_array_length(f->g, key);
	struct gguf_text *t = n > 0 && n <= m->config.vocab ? calloc((size_t)n, sizeof *t) : NULL;
	int64_t id = -1;

	if (t && !gguf_array_text(f->g, key, t, n, f->e))
		for (int64_t i = 0; i < n && id < 0; i++)
			id = is_mask(&t[i]) ? i : -1;
	free(t);
	return id;
}

/* -1: nothing can be generated. */
static int32_t read_mask(struct arch_file *f, const struct model *m)
{
	static const char key[] = "tokenizer.ggml.mask_token_id";
	int64_t id = -1;

	if (!gguf_opt_i64(f->g, key, &id, f->e) && !f->e->code)
		id = find_mask(f, m);
	else if (id < 0 || id >= m->config.vocab)
		gguf_bad(f->g, f->e, "%s is %lld; the vocabulary has %d tokens", key, (long long)id,
			m->config.vocab);
	return f->e->code ? -1 : (int32_t)id;
}

static void read_diffusion(struct arch_file *f, struct model *m, bool halves, bool shift)
{
	arch_read_dense(f, m, halves);
	if (f->e->code)
		return;
	if (arch_bool(f, "attention.causal", false))
		gguf_bad(f->g, f->e, "%s.attention.causal is true, but a masked diffusion model sees all",
			f->arch->name);
	gguf_opt_bool(f->g, "diffusion.shift_logits", &shift, f->e);
	m->diffusion = (struct model_diffusion){ .on = true, .shift = shift, .mask = read_mask(f, m) };
}

static void llada_read(struct arch_file *f, struct model *m)
{
	read_diffusion(f, m, false, false);
}

static void dream_read(struct arch_file *f, struct model *m)
{
	read_diffusion(f, m, true, true);
}

const struct arch arch_llada = { .name = "llada", .read = llada_read };
const struct arch arch_dream = { .name = "dream", .read = dream_read };
