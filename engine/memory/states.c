/* One state of a fixed size: what a recurrence keeps (Mamba: Gu and Dao 2023; linear attention;
 * short convolutions).
 *
 * A page holds the whole state of a sequence, of all layers of the group. Block b's page holds the
 * state after the newest computed position within the block, and so, once the block is full, the
 * state at its end: a snapshot, by which the prefix cache, forks and preemption work as with keys
 * and values. Rows within a block write its page in place; the first row of block b + 1 reads block
 * b's page and writes its own. Going back into a block is going back to its start, and computing
 * again: the same sums in the same order, so the same bits (rule 13).
 *
 * What each head keeps by its attention is such a state, too (rule 22; Zhang et al. 2023, "H2O"),
 * of all layers of a group of keys and values: which groups of 16 positions, and how much attention
 * they and the newest ones got. */
#include "engine/memory/memory.h"

size_t memory_state_bytes(const struct memory_spec *s, int32_t page_size)
{
	(void)page_size;
	return s->state_bytes;
}

/* A row reads the state after the one before. */
int32_t memory_state_see(
	const struct memory_spec *s, const struct visible *v, int32_t pos, struct k_range *out)
{
	(void)s, (void)v;
	*out = (struct k_range){ pos > 0 ? pos - 1 : 0, pos + 1 };
	return 1;
}

int memory_join_state(
	struct memory_specs *m, size_t floats, int32_t *group, size_t *at, struct err *e)
{
	const struct memory_spec spec = { .kind = &memory_recurrent,
		.state_bytes = floats * sizeof(float) };
	int32_t layer;

	if (memory_join(m, &spec, group, &layer, at, e))
		return -1;
	*at /= sizeof(float);
	return 0;
}

const struct memory_kind memory_recurrent = {
	.name = "recurrent",
	.doc = "one state of a fixed size, with a snapshot at the end of each block",
	.code = EV_MEMORY_KIND_recurrent,
	.is_state = true,
	.page_bytes = memory_state_bytes,
	.see = memory_state_see,
};

const struct memory_kind memory_kept = {
	.name = "kept",
	.doc = "which groups of 16 positions each head keeps, and what attention they got",
	.code = EV_MEMORY_KIND_kept,
	.is_state = true,
	.page_bytes = memory_state_bytes,
	.see = memory_state_see,
};
