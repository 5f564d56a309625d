/* LFM2 (Liquid AI 2025; Hugging Face's modeling_lfm2.py): gated short convolutions, and in some
 * layers attention with norms of each head. The norm before the output has the name of an
 * embedding's. With experts: a router of sigmoids, after a few layers that have none. */
#include "engine/arch/arch.h"

static void lfm2_layer(struct arch_file *f, struct model *m, int32_t i)
{
	struct short_conv *a;

	if (arch_kv_heads(f, m, i)) {
		arch_attention(m, i)->norms = ATTENTION_HEAD_NORMS;
		return;
	}
	a = arch_add_block(f, &m->layer[i].mixer, &layer_short_conv);
	a->on.pre = "attn_norm.weight";
	a->dim = m->config.dim;
	a->taps = arch_int(f, "shortconv.l_cache", -1, K_CONV_TAPS);
}

static void lfm2moe_layer(struct arch_file *f, struct model *m, int32_t i)
{
	lfm2_layer(f, m, i);
	if (i < arch_opt_int(f, "leading_dense_block_count", 0, 1 << 12))
		arch_add_feed_forward(f, m, i);
	else
		arch_read_router(f, arch_experts(f, m, i), K_ROUTE_sigmoid, true);
}

static void lfm2_read(struct arch_file *f, struct model *m)
{
	arch_read_dense(f, m, true);
	m->final_norm = "token_embd_norm.weight";
}

const struct arch arch_lfm2 = { .name = "lfm2", .read = lfm2_read, .layer = lfm2_layer };
const struct arch arch_lfm2moe = { .name = "lfm2moe", .read = lfm2_read, .layer = lfm2moe_layer };
