/* What each head keeps by its attention (rule 22; Zhang et al. 2023, "H2O"), of all layers of a
 * group of keys and values: which groups of 16 positions, and how much attention they and the
 * newest ones got. A state like memory_recurrent's: a row goes on from the one after the row
 * before. */
#include "engine/memory/memory.h"

const struct memory_kind memory_kept = {
	.name = "kept",
	.doc = "which groups of 16 positions each head keeps, and what attention they got",
	.code = EV_MEMORY_KIND_kept,
	.is_state = true,
	.page_bytes = memory_state_bytes,
	.see = memory_state_see,
};
