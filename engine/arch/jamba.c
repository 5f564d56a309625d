/* Jamba (Lieber et al. 2024; Hugging Face's modeling_jamba.py): Mamba with norms of its inputs, in
 * some layers attention that knows no positions; some feed-forwards are mixtures of experts. */
#include <stdio.h>

#include "engine/arch/arch.h"

static bool has_router(const struct arch_file *f, int32_t i)
{
	char name[64];

	snprintf(name, sizeof name, "blk.%d.ffn_gate_inp.weight", i);
	return gguf_find(f->g, name) != NULL;
}

static void jamba_layer(struct arch_file *f, struct model *m, int32_t i)
{
	if (!has_router(f, i))
		arch_add_feed_forward(f, m, i);
	else if (arch_experts(f, m, i))
		arch_read_router(f, arch_experts(f, m, i), K_ROUTE_all, false);
	if (!arch_kv_heads(f, &m->config, i)) {
		struct mamba *a = arch_add_mamba(f, m, i);

		if (a)
			a->normed = true;
	}
}

static void jamba_read(struct arch_file *f, struct model *m)
{
	arch_read_without_rope(f, m);
	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++)
		jamba_layer(f, m, i);
}

const struct arch arch_jamba = { .name = "jamba", .read = jamba_read };
