/* The table of kinds of memory. See memory.h. Nothing else is here, so that a program may link a
 * table of its own. */

#include "engine/memory/memory.h"

const struct memory_kind *const memory_kinds[] = { &memory_paged, &memory_window, &memory_recent,
	&memory_recurrent, &memory_kept, NULL };
