/* Mamba (Gu and Dao 2023): layers of one recurrent block and no feed-forward. */
#include "engine/arch/arch.h"

struct mamba *arch_add_mamba(struct arch_file *f, struct model *m, int32_t i)
{
	struct mamba *a = arch_add_block(f, &m->layer[i].mixer, &layer_mamba);

	if (!a)
		return NULL;
	a->on.pre = "attn_norm.weight";
	a->inner = arch_int(f, "ssm.inner_size", -1, 1 << 16);
	a->n_states = arch_int(f, "ssm.state_size", -1, K_SCAN_STATES);
	a->rank = arch_int(f, "ssm.time_step_rank", -1, 1 << 12);
	a->taps = arch_int(f, "ssm.conv_kernel", -1, K_CONV_TAPS);
	return a;
}

static void mamba_read(struct arch_file *f, struct model *m)
{
	arch_read_stream(f, m);
	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++)
		arch_add_mamba(f, m, i);
}

const struct arch arch_mamba = { .name = "mamba", .read = mamba_read };
