/* The table of views, a file of its own: a program may have another. */
#include "tui/views/views.h"

const struct view *const views[] = {
#define X(NAME, name) [VIEW_##NAME] = &view_##name,
	VIEWS(X)
#undef X
		[VIEW_N] = NULL,
};
