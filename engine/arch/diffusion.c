/* Masked diffusion language models: LLaDA (Nie et al. 2025) is Llama and Dream (Ye et al. 2025)
 * Qwen 2, both without a causal mask. A row's logits are for its own position, or, where the model
 * began as a causal one (Dream), for the next. */
#include "engine/arch/arch.h"

#include <stdlib.h>
#include <string.h>

/* The token that says of itself that it is one; -1: none does, and nothing can be generated. */
static int32_t named_mask(struct arch_file *f)
{
	static const char key[] = "tokenizer.ggml.tokens", *const names[] = { "<|mask|>",
		"<|mdm_mask|>", "[MASK]", "<mask>" };
	const int64_t n = gguf_array_length(f->g, key);
	struct gguf_text *token = n > 0 ? malloc((size_t)n * sizeof *token) : NULL;
	int32_t id = -1;

	if (n > 0 && !token)
		err_set(f->e, ERR_MEMORY, "no memory for %lld tokens", (long long)n);
	else if (n > 0 && !gguf_array_text(f->g, key, token, n, f->e))
		for (int64_t i = n; i-- > 0 && id < 0;)
			for (size_t k = 0; k < sizeof names / sizeof *names; k++)
				if (token[i].size == strlen(names[k]) &&
					!memcmp(token[i].data, names[k], token[i].size))
					id = (int32_t)i;
	free(token);
	return id;
}

static int32_t read_mask(struct arch_file *f, const struct model *m)
{
	static const char key[] = "tokenizer.ggml.mask_token_id";
	int64_t id;

	if (!gguf_opt_i64(f->g, key, &id, f->e))
		id = f->e->code ? -1 : named_mask(f);
	else if (id < 0 || id >= m->config.vocab)
		err_set(f->e, ERR_INPUT, "%s: %s is %lld; the vocabulary has %d tokens", gguf_path(f->g),
			key, (long long)id, m->config.vocab);
	return id < m->config.vocab ? (int32_t)id : -1;
}

static void read_diffusion(struct arch_file *f, struct model *m, bool halves, bool shift)
{
	arch_read_dense(f, m, halves);
	if (f->e->code)
		return;
	if (arch_bool(f, "attention.causal", false))
		err_set(f->e, ERR_INPUT,
			"%s: %s.attention.causal is true, but a masked diffusion model sees all",
			gguf_path(f->g), f->arch->name);
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

const struct arch arch_llada = { "llada", llada_read };
const struct arch arch_dream = { "dream", dream_read };
