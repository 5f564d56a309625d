/* BitNet b1.58 (Ma et al. 2024; Hugging Face's modeling_bitnet.py): Llama with a norm before the
 * last product of each block, and ternary weights, which a file may have in any format. */
#include "engine/arch/arch.h"

static void bitnet_layer(struct arch_file *f, struct model *m, int32_t i)
{
	struct feed_forward *w = arch_feed_forward(f, m, i);

	arch_attention(m, i)->on.inner = "attn_sub_norm.weight";
	if (w)
		w->on.inner = "ffn_sub_norm.weight";
}

static void bitnet_read(struct arch_file *f, struct model *m)
{
	arch_read_dense(f, m, true);
	arch_each_layer(f, m, bitnet_layer);
}

const struct arch arch_bitnet = { .name = "bitnet", .read = bitnet_read };
