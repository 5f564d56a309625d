/* OLMo 2 (OLMo team 2024, section 3.2; Hugging Face's modeling_olmo2.py): norms of what blocks
 * give, none of what they read; norms of q and k over all heads. */
#include "engine/arch/arch.h"

static void olmo2_layer(struct arch_file *f, struct model *m, int32_t i)
{
	struct attention *a = arch_attention(m, i);
	struct feed_forward *w = arch_feed_forward(f, m, i);

	a->norms = ATTENTION_WHOLE_NORMS;
	a->on = (struct residual){ .post = "post_attention_norm.weight" };
	if (w)
		w->on = (struct residual){ .post = "post_ffw_norm.weight" };
}

static void olmo2_read(struct arch_file *f, struct model *m)
{
	arch_read_dense(f, m, true);
	arch_each_layer(f, m, olmo2_layer);
}

const struct arch arch_olmo2 = { .name = "olmo2", .read = olmo2_read };
