/* Models before Llama's form became common: layer norms, biases everywhere, q, k and v in one
 * tensor, no gate. GPT-2 (Radford et al. 2019) learns a row for each position; GPT-NeoX and Pythia
 * (Black et al. 2022; Biderman et al. 2023) rotate a part of each head, and both blocks read the
 * same stream. */
#include "engine/arch/arch.h"

static void gpt_layer(struct arch_file *f, struct model *m, int32_t i, enum k_act act)
{
	struct feed_forward *w = arch_feed_forward(f, m, i);

	arch_attention(m, i)->fused = true;
	w->plain = true;
	w->act = act;
}

static void gpt2_layer(struct arch_file *f, struct model *m, int32_t i)
{
	gpt_layer(f, m, i, K_ACT_gelu);
}

static void gpt2_read(struct arch_file *f, struct model *m)
{
	arch_read_without_rope(f, m);
	m->learned_positions = true;
	if (f->ctx > m->config.ctx_train)
		err_set(f->e, ERR_USAGE, "a context of %d is more than the %d positions this model learned",
			f->ctx, m->config.ctx_train);
}

const struct arch arch_gpt2 = {
	.name = "gpt2", .centred = true, .read = gpt2_read, .layer = gpt2_layer
};

static void gptneox_layer(struct arch_file *f, struct model *m, int32_t i)
{
	gpt_layer(f, m, i, K_ACT_gelu_erf);
	if (!arch_bool(f, "use_parallel_residual", true))
		return;
	arch_attention(m, i)->on.aside = true;
	arch_feed_forward(f, m, i)->on.joins = true;
}

const struct arch arch_gptneox = {
	.name = "gptneox", .halves = true, .centred = true, .layer = gptneox_layer
};
