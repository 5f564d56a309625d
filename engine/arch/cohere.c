/* Command R7B (Cohere 2024; Hugging Face's modeling_cohere2.py): attention and feed-forward read
 * the same layer norm; of four layers three see a window and are rotated, the fourth sees all and
 * is not. */
#include "engine/arch/arch.h"

enum { GLOBAL_EVERY = 4 };

static void cohere2_layer(struct arch_file *f, struct model *m, int32_t i)
{
	struct attention *a = arch_attention(m, i);
	struct feed_forward *w = arch_feed_forward(f, m, i);

	a->on = (struct residual){ .pre = "attn_norm.weight", .aside = true };
	if (w)
		w->on = (struct residual){ .pre = "attn_norm.weight", .joins = true };
	if ((i + 1) % GLOBAL_EVERY)
		a->window = arch_int(f, "attention.sliding_window", -1, 1 << 24);
	else
		a->rope = ATTENTION_NO_ROPE;
}

static void cohere2_read(struct arch_file *f, struct model *m)
{
	arch_read_dense(f, m, false);
	arch_centre(f, m);
	m->logit_scale = (float)arch_real(f, "logit_scale", 1);
	arch_each_layer(f, m, cohere2_layer);
}

const struct arch arch_cohere2 = { .name = "cohere2", .read = cohere2_read };
