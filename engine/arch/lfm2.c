/* LFM2 (Liquid AI 2025; Hugging Face's modeling_lfm2.py): gated short convolutions, and in some
 * layers attention with norms of each head. The norm before the output has the name of an
 * embedding's. With experts: a router of sigmoids, after a few layers that have none. */
#include "engine/arch/arch.h"

static void lfm2_experts(struct arch_file *f, struct model *m)
{
	const int32_t n_dense = arch_opt_int(f, "leading_dense_block_count", 0, 1 << 12);

	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++) {
		if (i < n_dense)
			arch_add_feed_forward(f, m, i);
		else if (arch_experts(f, m, i))
			arch_read_router(f, arch_experts(f, m, i), K_ROUTE_sigmoid, true);
	}
}

static void lfm2_read(struct arch_file *f, struct model *m)
{
	arch_read_dense(f, m, true);
	m->final_norm = "token_embd_norm.weight";
	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++) {
		if (arch_kv_heads(f, &m->config, i)) {
			arch_attention(m, i)->norms = ATTENTION_HEAD_NORMS;
		} else {
			struct short_conv *a = arch_add_block(f, &m->layer[i].mixer, &layer_short_conv);

			if (!a)
				return;
			a->on.pre = "attn_norm.weight";
			a->dim = m->config.dim;
			a->taps = arch_int(f, "shortconv.l_cache", -1, K_CONV_TAPS);
		}
	}
}

static void lfm2moe_read(struct arch_file *f, struct model *m)
{
	lfm2_read(f, m);
	lfm2_experts(f, m);
}

const struct arch arch_lfm2 = { .name = "lfm2", .read = lfm2_read };
const struct arch arch_lfm2moe = { .name = "lfm2moe", .read = lfm2moe_read };
