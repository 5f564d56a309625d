/* The example of a view in docs/extend.md: turns of the conversation, and how far back the screens
 * reach. */
#include "tui/views/view.h"

static void turns_draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	(void)s;
	pen_head(p, "turns", "");
	pen_printf(p, 0, 1, "%lld so far, %d kept", (long long)t->n_turns, t->n_requests);
}

static const struct view view_turns = {
	.name = "turns",
	.id = "turns",
	.help = "How many turns there were. The screens keep the newest; a replay has them all.",
	.min_w = 24,
	.min_h = 2,
	.want_h = 2,
	.draw = turns_draw,
	.index = LAYOUT_VIEWS - 1,
};
