/* The table of views, in the order of the keys 1-9. A new view is one new file and one line here. */
#include "tui/views.h"

#include <stddef.h>

const struct view *const views[] = {
	[VIEW_CHAT] = &view_chat,
	[VIEW_NEXT] = &view_next,
	[VIEW_PAGES] = &view_pages,
	[VIEW_BATCH] = &view_batch,
	[VIEW_SPECULATION] = &view_speculation,
	[VIEW_PREFIX] = &view_prefix,
	[VIEW_ATTENTION] = &view_attention,
	[VIEW_TIME] = &view_time,
	[VIEW_SAMPLER] = &view_sampler,
	[VIEW_WATCH] = &view_watch,
	[VIEW_TREE] = &view_tree,
	[VIEW_LENS] = &view_lens,
	[VIEW_DRAFTERS] = &view_drafters,
	[VIEW_SEARCH] = &view_search,
	[VIEW_N] = NULL,
};
