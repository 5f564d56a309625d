/* RWKV-7 (Peng et al. 2025; the author's package `rwkv`): layer norms, one of them after the
 * embedding, and in each layer a time mix and a channel mix, which both look one row back. */
#include "engine/arch/arch.h"

static void add_time_mix(struct arch_file *f, struct model *m, int32_t i)
{
	struct time_mix *a = arch_add_block(f, &m->layer[i].mixer, &layer_time_mix);

	a->on.pre = "attn_norm.weight";
	a->first = i == 0;
	a->dim = m->config.dim;
	a->head_dim = arch_int(f, "wkv.head_size", -1, 1 << 10);
	a->decay.rank = arch_int(f, "attention.decay_lora_rank", -1, 1 << 16);
	a->rate.rank = arch_int(f, "attention.iclr_lora_rank", -1, 1 << 16);
	a->share.rank = arch_int(f, "attention.value_residual_mix_lora_rank", -1, 1 << 16);
	a->gate.rank = arch_int(f, "attention.gate_lora_rank", -1, 1 << 16);
	if (!f->e->code && a->dim % a->head_dim)
		gguf_bad(f->g, f->e, "a width of %d is no multiple of a head's %d", a->dim, a->head_dim);
}

static void add_channel_mix(struct arch_file *f, struct model *m, int32_t i)
{
	struct channel_mix *a = arch_add_block(f, &m->layer[i].ffn, &layer_channel_mix);

	a->on.pre = "attn_norm_2.weight";
	a->dim = m->config.dim;
	a->width = arch_int(f, "feed_forward_length", -1, 1 << 20);
}

static void rwkv7_layer(struct arch_file *f, struct model *m, int32_t i)
{
	add_time_mix(f, m, i);
	add_channel_mix(f, m, i);
}

static void rwkv7_read(struct arch_file *f, struct model *m)
{
	arch_read_stream(f, m);
	m->normed_embedding = true;
}

const struct arch arch_rwkv7 = {
	.name = "rwkv7", .centred = true, .read = rwkv7_read, .layer = rwkv7_layer
};
