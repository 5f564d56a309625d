/* Qwen 2 (Yang et al. 2024) is Llama with biases on q, k and v, which its tensors show, and rotary
 * pairs half a head apart; Qwen 3 (2025) has norms of each head instead. Both have mixtures of
 * experts, the former with one that all rows use. */
#include "engine/arch/arch.h"

static void qwen2_read(struct arch_file *f, struct model *m)
{
	arch_read_dense(f, m, true);
}

const struct arch arch_qwen2 = { .name = "qwen2", .read = qwen2_read };

static void qwen3_layer(struct arch_file *f, struct model *m, int32_t i)
{
	(void)f;
	arch_attention(m, i)->norms = ATTENTION_HEAD_NORMS;
}

static void qwen2moe_read(struct arch_file *f, struct model *m)
{
	arch_read_dense(f, m, true);
	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++) {
		struct experts *x = arch_experts(f, m, i);

		if (x)
			arch_read_router(f, x, K_ROUTE_all, false);
	}
}

const struct arch arch_qwen2moe = { .name = "qwen2moe", .read = qwen2moe_read };

static void qwen3_read(struct arch_file *f, struct model *m)
{
	arch_read_dense(f, m, true);
	arch_each_layer(f, m, qwen3_layer);
}

const struct arch arch_qwen3 = { .name = "qwen3", .read = qwen3_read };
const struct arch arch_qwen3moe = { .name = "qwen3moe", .read = qwen3_read };
