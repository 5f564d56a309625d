/* OLMoE (Muennighoff et al. 2024): Llama with norms of q and k over all heads as one row, and
 * experts whose weights are those of a softmax over all of them. */
#include "engine/arch/arch.h"

static void olmoe_layer(struct arch_file *f, struct model *m, int32_t i)
{
	arch_attention(m, i)->norms = ATTENTION_WHOLE_NORMS;
	arch_read_router(f, arch_experts(f, m, i), K_ROUTE_all, false);
}

const struct arch arch_olmoe = { .name = "olmoe", .halves = true, .layer = olmoe_layer };
