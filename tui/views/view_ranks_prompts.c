/* Part of the ranks view: prompts that prefill ranks computed while rank 0 went on answering. The
 * newest is on top. */
#include <string.h>

#include "tui/views/table.h"
#include "tui/views/view_ranks.h"
#include "tui/views/view_util.h"
#include "tui/views/views.h"

enum { REQUEST, RANK, TOKENS, THERE, BACK, WAITED, FIRST, ALL, WHY };
static const struct column columns[] = { { "request", 7, 0 }, { "rank", 4, 2 }, { "tokens", 10, 2 },
	{ "there", 8, 2 }, { "back", 8, 2 }, { "waited", 8, 2 }, { "first back", 10, 2 },
	{ "all back", 9, 2 }, { "", 0, 2 } };

static void put_since(
	const struct table *k, int column, const struct ev_handover *e, int64_t end_ns)
{
	if (e->asked_ns == EV_NULL_I || end_ns == EV_NULL_I || end_ns < e->asked_ns)
		return;
	table_put(k, column, INK_TEXT, "%s", view_ns((double)(end_ns - e->asked_ns)).text);
}

static void put_prompt(const struct table *k, const struct tl_handover *h)
{
	const struct ev_handover *e = &h->e;

	table_put(k, REQUEST, INK_BRIGHT, "%lld", (long long)e->request);
	table_put(k, RANK, INK_TEXT, "%lld", (long long)e->rank);
	if (e->computed == e->tokens)
		table_put(k, TOKENS, INK_TEXT, "%lld", (long long)e->tokens);
	else
		table_put(
			k, TOKENS, INK_TEXT, "%lld of %lld", (long long)e->computed, (long long)e->tokens);
	table_put(k, THERE, INK_TEXT, "%s", view_bytes((double)e->there).text);
	table_put(k, BACK, INK_TEXT, "%s", view_bytes((double)e->back).text);
	put_since(k, WAITED, e, e->start_ns);
	put_since(k, FIRST, e, e->first_ns);
	put_since(k, ALL, e, e->end_ns);
	if (*h->why)
		table_put(k, WHY, INK_TEXT, "%s", h->why);
	else if (!e->equal)
		table_put(k, WHY, INK_REJECTED, "other bytes came than were sent");
	else if (e->given)
		table_put(k, WHY, INK_DIM, "and %lld cached page%s it lacked", (long long)e->given,
			e->given == 1 ? "" : "s");
}

void view_ranks_prompts(struct pen *p, const struct timeline *t, struct view_state *s)
{
	struct table k = TABLE(p, columns, 2);
	const int first = table_first(&s->cursor[VIEW_RANKS], t->n_handovers, p->r.h - k.y - 1);
	const char *ranks = timeline_setting(t, "prefill-ranks");

	view_head(p, view_ranks.name, "prompts on ranks of their own%s%.8s", ranks ? " · " : "",
		ranks ? ranks : "");
	if (!t->n_handovers) {
		const char *least = timeline_setting(t, "prefill-least");

		view_put(p, 0, 2, INK_DIM, "no prompt yet of %.8s tokens or more that are not cached",
			least ? least : "64");
		return;
	}
	table_heads(&k);
	for (int i = first; i < t->n_handovers && ++k.y < p->r.h; i++)
		put_prompt(&k, &t->handover[t->n_handovers - 1 - i]);
}
