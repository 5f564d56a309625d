/* gpt-oss (OpenAI 2025; Hugging Face's modeling_gpt_oss.py): a window in every second layer, a
 * score without a value for each head, biases everywhere, and experts with a limited gate. */
#include "engine/arch/arch.h"

static void gpt_oss_read(struct arch_file *f, struct model *m)
{
	int32_t window = arch_int(f, "attention.sliding_window", -1, 1 << 24);

	arch_read_dense(f, m, true);
	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++) {
		struct experts *x = arch_experts(f, m, i);
		struct attention *a = arch_attention(m, i);

		if (!x)
			return;
		x->act = K_ACT_clamped;
		x->on.pre = "post_attention_norm.weight";
		a->window = i % 2 ? 0 : window;
		a->sinks = true;
	}
}

const struct arch arch_gpt_oss = { .name = "gpt-oss", .read = gpt_oss_read };
