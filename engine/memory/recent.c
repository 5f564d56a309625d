/* The last positions of a group whose format is of codes by channel, in f16: a block of keys
 * becomes codes when it is whole, and rows read the newest ones as they were (rule 10; Liu et al.
 * 2024, KIVI). Otherwise as memory_window. */
#include "engine/memory/memory.h"

const struct memory_kind memory_recent = {
	.name = "recent",
	.doc = "the last positions of another group in f16, beside its codes",
	.code = EV_MEMORY_KIND_recent,
	.page_bytes = memory_keys_bytes,
	.see = memory_keys_see,
};
