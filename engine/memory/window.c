/* Keys and values of the last positions: what attention keeps that sees a window (Beltagy et al.
 * 2020). Pages are like those of memory_paged, and go back when all their positions are out of
 * sight of the next row. */
#include "engine/memory/memory.h"

const struct memory_kind memory_window = {
	.name = "window",
	.doc = "keys and values of the positions in sight",
	.code = EV_MEMORY_KIND_window,
	.page_bytes = memory_keys_bytes,
	.see = memory_keys_see,
};
