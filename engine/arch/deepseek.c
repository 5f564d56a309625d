/* DeepSeek V2 and V3 (DeepSeek-AI 2024; Hugging Face's modeling_deepseek_v3.py): latent attention,
 * a few dense layers, then experts with one that all rows use. */
#include "engine/arch/arch.h"

/* A number of the file that must follow from the others, if it is there. */
static void check_int(struct arch_file *f, const char *key, int32_t is)
{
	const int32_t stated = arch_int(f, key, is, INT32_MAX);

	if (stated != is && !f->e->code)
		gguf_bad(f->g, f->e, "%s.%s is %d; it follows from the others that it is %d", f->arch->name,
			key, stated, is);
}

/* The numbers that all layers have. */
static struct latent read_latent(struct arch_file *f, struct model *m)
{
	struct model_config *c = &m->config;
	struct latent a = {
		.n_heads = arch_int(f, "attention.head_count", -1, 1024),
		.rank = arch_int(f, "attention.kv_lora_rank", -1, 1 << 12),
		.rope_dim = arch_int(f, "rope.dimension_count", -1, 256),
		.key = arch_int(f, "attention.key_length_mla", -1, 1 << 12),
		.value = arch_int(f, "attention.value_length_mla", -1, 1 << 12),
	};

	if (gguf_find(f->g, "blk.0.attn_q_a.weight"))
		a.q_rank = arch_int(f, "attention.q_lora_rank", -1, 1 << 14);
	c->n_heads = a.n_heads;
	c->n_kv_heads = 1;
	c->head_dim = a.rank + a.rope_dim;
	c->ffn = arch_int(f, "feed_forward_length", -1, 1 << 20);
	check_int(f, "attention.head_count_kv", 1);
	check_int(f, "attention.key_length", c->head_dim);
	check_int(f, "attention.value_length", a.rank);
	if (!f->e->code && (a.rope_dim % 8 || a.rank % 32 || a.key <= a.rope_dim))
		gguf_bad(f->g, f->e,
			"latent attention of rank %d, with heads of %d of which %d turn, is not supported",
			a.rank, a.key, a.rope_dim);
	return a;
}

/* Scores get YaRN's factor in place of cos and sin. */
static float score_scale(struct arch_file *f, struct model *m, int32_t key)
{
	const double factor = arch_real(f, "rope.scaling.factor", 1);
	const double more = arch_real(f, "rope.scaling.yarn_log_multiplier", 0);
	const double mu = factor > 1 ? 1 + more * k_log64(factor) : 1;

	m->rope[0].scale = 1;
	return (float)(mu * mu / sqrt((double)key));
}

static void deepseek2_read(struct arch_file *f, struct model *m)
{
	struct latent all;
	int32_t n_dense;

	arch_read_stream(f, m);
	all = read_latent(f, m);
	n_dense = arch_n_experts(f) ? arch_opt_int(f, "leading_dense_block_count", 0, 1 << 12)
								: m->config.n_layers;
	if (f->e->code)
		return;
	arch_add_rope(f, m, arch_real(f, "rope.freq_base", 10000), false, true);
	all.on.pre = "attn_norm.weight";
	all.scale = score_scale(f, m, all.key);
	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++) {
		*(struct latent *)arch_add_block(f, &m->layer[i].mixer, &layer_latent) = all;
		if (i < n_dense)
			arch_add_feed_forward(f, m, i);
		else
			arch_read_router(f, arch_add_experts(f, m, i), K_ROUTE_all, false);
	}
}

const struct arch arch_deepseek2 = { .name = "deepseek2", .read = deepseek2_read };
