/* The example of docs/extend.md, "an architecture": Qwen 3 with a mixture of experts (Qwen team
 * 2025), from what stands: arch_read_dense() reads the experts that a file counts, and a layer's
 * parameters say that heads have norms. */
#include "engine/arch/arch.h"

static void qwen3moe_read(struct arch_file *f, struct model *m)
{
	arch_read_dense(f, m, true);
	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++)
		arch_attention(m, i)->norms = ATTENTION_HEAD_NORMS;
}

static const struct arch arch_qwen3moe = { "qwen3moe", qwen3moe_read };
