/* Kinds that keep keys and values for each position: of all, which is what attention keeps that
 * sees all of its sequence (Kwon et al. 2023); where the visibility of the run hides some (sinks
 * and a window: Xiao et al. 2023), their pages go back. Of the last positions, for attention that
 * sees a window (Beltagy et al. 2020): pages go back when all their positions are out of sight of
 * the next row. And of the last positions in f16, beside a group whose format is of codes by
 * channel: a block of keys becomes codes when it is whole, and rows read the newest ones as they
 * were (rule 10; Liu et al. 2024, KIVI). */
#include "engine/memory/memory.h"

size_t memory_keys_bytes(const struct memory_spec *s, int32_t page_size)
{
	struct k_kv kv = s->kv;

	kv.page_size = page_size;
	kv.n_layers = s->n_layers;
	return k_kv_page_bytes(&kv);
}

int32_t memory_keys_see(
	const struct memory_spec *s, const struct visible *v, int32_t pos, struct k_range *out)
{
	visible_ranges(v, s->window, pos, out);
	return visible_n_ranges(v, s->window);
}

const struct memory_kind memory_paged = {
	.name = "paged",
	.doc = "keys and values of all positions",
	.code = EV_MEMORY_KIND_paged,
	.page_bytes = memory_keys_bytes,
	.see = memory_keys_see,
};

const struct memory_kind memory_window = {
	.name = "window",
	.doc = "keys and values of the positions in sight",
	.code = EV_MEMORY_KIND_window,
	.page_bytes = memory_keys_bytes,
	.see = memory_keys_see,
};

const struct memory_kind memory_recent = {
	.name = "recent",
	.doc = "the last positions of another group in f16, beside its codes",
	.code = EV_MEMORY_KIND_recent,
	.page_bytes = memory_keys_bytes,
	.see = memory_keys_see,
};
