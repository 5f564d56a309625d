/* GLM 4 (GLM team 2024; Hugging Face's modeling_glm4.py): norms before and after each block, half
 * of a head rotated, gate and up in one tensor. */
#include "engine/arch/arch.h"

static void glm4_layer(struct arch_file *f, struct model *m, int32_t i)
{
	struct feed_forward *w = arch_feed_forward(f, m, i);

	arch_attention(m, i)->on.post = "post_attention_norm.weight";
	if (!w)
		return;
	w->on.post = "post_ffw_norm.weight";
	w->fused = true;
}

static void glm4_read(struct arch_file *f, struct model *m)
{
	arch_read_dense(f, m, false);
	arch_each_layer(f, m, glm4_layer);
}

const struct arch arch_glm4 = { .name = "glm4", .read = glm4_read };
