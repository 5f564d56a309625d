/* Keys and values of every position: what attention keeps that sees all of its sequence (Kwon et al. 2023). */
#include "engine/memory/memory.h"

static size_t paged_page_bytes(const struct memory_spec *s, int32_t page_size)
{
	struct k_kv kv = s->kv;

	kv.page_size = page_size;
	kv.n_layers = s->n_layers;
	return k_kv_page_bytes(&kv);
}

static int32_t paged_sight(const struct memory_spec *s)
{
	(void)s;
	return INT32_MAX;
}

const struct memory_kind memory_paged = {
	.name = "paged",
	.doc = "keys and values of all positions",
	.code = EV_MEMORY_KIND_paged,
	.page_bytes = paged_page_bytes,
	.sight = paged_sight,
};
