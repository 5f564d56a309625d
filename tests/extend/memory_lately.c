/* Example of docs/extend.md: keys and values of the newest 8 positions, whatever the layer says. */
#include "engine/memory/memory.h"

static int32_t lately_see(
	const struct memory_spec *s, const struct visible *v, int32_t pos, struct k_range *out)
{
	(void)s, (void)v;
	*out = (struct k_range){ pos > 7 ? pos - 7 : 0, pos + 1 };
	return 1;
}

const struct memory_kind memory_lately = {
	.name = "lately",
	.doc = "keys and values of the newest 8 positions",
	/* one of its own, in event/codes.def, if the log is to tell it apart */
	.code = EV_MEMORY_KIND_window,
	.page_bytes = memory_keys_bytes,
	.see = lately_see,
};
