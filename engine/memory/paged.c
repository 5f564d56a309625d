/* Keys and values of every position: what attention keeps that sees all of its sequence (Kwon et al. 2023). */
#include "engine/memory/memory.h"

static size_t paged_page_bytes(const struct memory_spec *s, int32_t page_size)
{
	struct k_kv kv = s->kv;

	kv.page_size = page_size;
	kv.n_layers = s->n_layers;
	return k_kv_page_bytes(&kv);
}

static int32_t paged_first_block(const struct memory_spec *s, int32_t page_size, int32_t pos)
{
	(void)s, (void)page_size, (void)pos;
	return 0;
}

const struct memory_kind memory_paged = {
	.name = "paged",
	.doc = "keys and values of all positions",
	.code = EV_MEMORY_KIND_paged,
	.page_bytes = paged_page_bytes,
	.first_block = paged_first_block,
};
