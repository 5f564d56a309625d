/* The table of views, in the order of the keys 1-9. A new view is one new file and one line here. */
#include "tui/views.h"

#include <stddef.h>

const struct view *const views[] = {
	&view_chat,
	&view_next,
	&view_pages,
	&view_batch,
	&view_speculation,
	&view_prefix,
	&view_attention,
	&view_time,
	&view_sampler,
	&view_watch,
	&view_tree,
	&view_lens,
	&view_drafters,
	&view_search,
	NULL,
};
