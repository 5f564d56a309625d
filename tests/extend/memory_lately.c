/* Example of docs/extend.md: keys and values of the newest 8 positions, whatever the layer says. */
#include "engine/memory/memory.h"

static size_t lately_page_bytes(const struct memory_spec *s, int32_t page_size)
{
	return memory_paged.page_bytes(s, page_size);
}

static int32_t lately_sight(const struct memory_spec *s)
{
	(void)s;
	return 7;
}

const struct memory_kind memory_lately = {
	.name = "lately",
	.doc = "keys and values of the newest 8 positions",
	.code = EV_MEMORY_KIND_window, /* one of its own, in EV_CODES_memory_kind, if the log is to tell it apart */
	.page_bytes = lately_page_bytes,
	.sight = lately_sight,
};
