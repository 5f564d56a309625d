/* See views.h: the table of views. */
#include "tui/views/views.h"

#include <stddef.h>

const struct view *const views[] = {
#define X(NAME, name) [VIEW_##NAME] = &view_##name,
	VIEWS(X)
#undef X
		[VIEW_N] = NULL,
};
