/* Keys and values of the last positions: what attention keeps that sees a window (Beltagy et al. 2020). Pages are like
 * those of memory_paged, and go back when all their positions are out of sight of the next row. */
#include "engine/memory/memory.h"

static size_t window_page_bytes(const struct memory_spec *s, int32_t page_size)
{
	return memory_paged.page_bytes(s, page_size);
}

static int32_t window_sight(const struct memory_spec *s)
{
	return s->window - 1;
}

const struct memory_kind memory_window = {
	.name = "window",
	.doc = "keys and values of the positions in sight",
	.code = EV_MEMORY_KIND_window,
	.page_bytes = window_page_bytes,
	.sight = window_sight,
};
