/* What each head keeps by its attention (rule 22; Zhang et al. 2023, "H2O"), of all layers of a
 * group of keys and values: which groups of 16 positions, and how much attention they and the
 * newest ones got. A state like memory_recurrent's: a row goes on from the one after the row
 * before. */
#include "engine/memory/memory.h"

static size_t kept_page_bytes(const struct memory_spec *s, int32_t page_size)
{
	(void)page_size;
	return s->state_bytes;
}

static int32_t kept_see(
	const struct memory_spec *s, const struct visible *v, int32_t pos, struct k_range *out)
{
	return memory_recurrent.see(s, v, pos, out);
}

const struct memory_kind memory_kept = {
	.name = "kept",
	.doc = "which groups of 16 positions each head keeps, and what attention they got",
	.code = EV_MEMORY_KIND_kept,
	.is_state = true,
	.page_bytes = kept_page_bytes,
	.see = kept_see,
};
