/* Mamba-2 (Dao and Gu 2024): layers of one recurrent block and no feed-forward. */
#include "engine/arch/arch.h"

struct mamba2 *arch_add_mamba2(struct arch_file *f, struct block *b)
{
	struct mamba2 *a = arch_add_block(f, b, &layer_mamba2);

	if (!a)
		return NULL;
	a->on.pre = "attn_norm.weight";
	a->inner = arch_int(f, "ssm.inner_size", -1, 1 << 16);
	a->n_states = arch_int(f, "ssm.state_size", -1, 1 << 10);
	a->heads = arch_int(f, "ssm.time_step_rank", -1, 1 << 12);
	a->groups = arch_int(f, "ssm.group_count", -1, 1 << 10);
	a->taps = arch_int(f, "ssm.conv_kernel", -1, K_CONV_TAPS);
	if (!f->e->code && (a->inner % a->heads || a->heads % a->groups))
		err_set(f->e, ERR_INPUT, "%s: %d channels, %d heads and %d groups do not divide each other",
			gguf_path(f->g), a->inner, a->heads, a->groups);
	return f->e->code ? NULL : a;
}

static void mamba2_read(struct arch_file *f, struct model *m)
{
	arch_read_stream(f, m);
	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++) {
		struct mamba2 *a = arch_add_mamba2(f, &m->layer[i].mixer);

		if (a)
			a->normed = true;
	}
}

const struct arch arch_mamba2 = { .name = "mamba2", .read = mamba2_read };
