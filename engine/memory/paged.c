/* Keys and values of every position: what attention keeps that sees all of its sequence (Kwon et
 * al. 2023). Where the visibility of the run hides some (sinks and a window: Xiao et al. 2023),
 * their pages go back. */
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
