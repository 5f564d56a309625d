/* OLMoE (Muennighoff et al. 2024): Llama with norms of q and k over all heads as one row, and
 * experts whose weights are those of a softmax over all of them. */
#include "engine/arch/arch.h"

static void olmoe_read(struct arch_file *f, struct model *m)
{
	arch_read_dense(f, m, true);
	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++) {
		struct experts *x = arch_experts(f, m, i);

		arch_attention(m, i)->norms = ATTENTION_WHOLE_NORMS;
		if (x)
			arch_read_router(f, x, K_ROUTE_all, false);
	}
}

const struct arch arch_olmoe = { .name = "olmoe", .read = olmoe_read };
