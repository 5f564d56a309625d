/* gpt-oss (OpenAI 2025; Hugging Face's modeling_gpt_oss.py): a window in every second layer, a
 * score without a value for each head, biases everywhere, and experts with a limited gate. */
#include "engine/arch/arch.h"

static void gpt_oss_layer(struct arch_file *f, struct model *m, int32_t i)
{
	const int32_t window = arch_int(f, "attention.sliding_window", -1, 1 << 24);
	struct experts *x = arch_experts(f, m, i);

	x->act = K_ACT_clamped;
	x->on.pre = "post_attention_norm.weight";
	arch_attention(m, i)->window = i % 2 ? 0 : window;
	arch_attention(m, i)->sinks = true;
}

const struct arch arch_gpt_oss = { .name = "gpt-oss", .halves = true, .layer = gpt_oss_layer };
