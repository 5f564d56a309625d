/* The example of a view in docs/extend.md: turns of the conversation, how far back the screens
 * reach, and a table of the requests that they keep. */
#include "tui/views/table.h"
#include "tui/views/view_util.h"

static const struct column columns[] = { { "prompt", 8, 0 }, { "tokens", 8, 0 },
	{ "question", 0, 2 } };

static void turns_draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	struct table table = TABLE(p, columns, 2);
	int first = table_first(&s->cursor[LAYOUT_VIEWS - 1], t->n_requests, p->r.h - 3);

	pen_head(p, "turns", "");
	pen_printf(p, 0, 1, "%lld so far, %d kept", (long long)t->n_turns, t->n_requests);
	table_heads(&table);
	for (; first < t->n_requests && ++table.y < p->r.h; first++) {
		const struct tl_request *r = &t->request[first];

		table_put(&table, 0, INK_TEXT, "%d", r->n_prompt);
		table_put(&table, 1, INK_TEXT, "%d", r->n_tokens);
		table_put(&table, 2, INK_DIM, "%s", r->text ? r->text : "");
	}
}

static bool turns_key(int key, const struct timeline *t, struct view_state *s)
{
	return table_key(key, &s->cursor[LAYOUT_VIEWS - 1], t->n_requests);
}

static const struct view view_turns = {
	.name = "turns",
	.id = "turns",
	.help = "How many turns there were. The screens keep the newest; a replay has them all.\n\n"
			"Try: /again, which adds one.",
	.min_w = 24,
	.min_h = 2,
	.want_h = 2,
	.draw = turns_draw,
	.key = turns_key,
	.index = LAYOUT_VIEWS - 1,
};
