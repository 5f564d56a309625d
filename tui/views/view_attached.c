/* See view_util.h. What is not told is "unknown". */

#include "tui/views/view_util.h"

enum { NAME_W = 15, SLOT_BAR_X = 40 };

uint64_t view_unreported(const struct timeline *t)
{
	/* of what a request or a poll tells, and those of no engine */
	const uint64_t reported = 1 << VIEW_CHAT | 1 << VIEW_NEXT | 1 << VIEW_PAGES | 1 << VIEW_BATCH |
							  1 << VIEW_WATCH | 1 << VIEW_TREE | 1 << VIEW_LESSON;

	_Static_assert((int)VIEW_N < 64, "a bit for each view");
	return t->attached.on ? (((uint64_t)1 << VIEW_N) - 1) & ~reported : 0;
}

void view_draw(int view, struct pen *p, const struct timeline *t, struct view_state *s)
{
	if (!(view_unreported(t) >> view & 1)) {
		views[view]->draw(p, t, s);
		return;
	}
	pen_head(p, views[view]->name, NULL);
	view_nothing(p, view_form("unknown: %.40s does not tell", t->attached.server).text);
}

static struct view_text count_or(int64_t n)
{
	return n == EV_NULL_I ? view_form("unknown") : view_count(n);
}

/* ---- slots ---- */

static void put_slot(struct pen *p, int y, const struct ev_slot *s)
{
	int x =
		view_say(p, 0, y, IN_DIM "%2" PRId64 " %s", s->slot, s->busy ? IN_BRIGHT "busy " : "idle ");
	if (s->tokens == EV_NULL_I) {
		view_put(p, x, y, INK_DIM, "nothing yet");
		return;
	}
	x += view_put(
		p, x, y, INK_TEXT, "%s of %s tokens", view_count(s->tokens).text, count_or(s->ctx).text);
	if (s->busy && s->generated != EV_NULL_I)
		x += view_put(p, x, y, INK_DIM, ", %s made", view_count(s->generated).text);
	x = at_least(x + 2, SLOT_BAR_X);
	if (s->ctx > 0 && p->r.w - x >= 8)
		view_bar(p, x, y, p->r.w - x, s->busy ? INK_ACCEPTED : INK_DIM,
			(double)s->tokens / (double)s->ctx);
}

static struct view_text head_of(const struct tl_attached *a)
{
	const bool slots = a->e.slots != EV_NULL_I;

	if (a->polled.running == EV_NULL_I && a->polled.waiting == EV_NULL_I)
		return view_form("%.40s · queue unknown", a->server);
	return view_form("%.40s · %s run%s%s · %s wait", a->server, count_or(a->polled.running).text,
		slots ? " of " : "", slots ? view_count(a->e.slots).text : "",
		count_or(a->polled.waiting).text);
}

int view_attached_slots(struct pen *p, const struct timeline *t)
{
	const struct tl_attached *a = &t->attached;
	int y = 1, most = p->r.h / 2 > 2 ? p->r.h / 2 : p->r.h - 1;

	pen_head(p, view_batch.name, head_of(a).text);
	if (a->error)
		view_put(p, 0, y++, INK_REJECTED, "no answer: %s", a->error);
	if (!a->n_slots)
		view_put(p, 0, y++, INK_DIM, "slots unknown: %s does not tell", a->server);
	for (int32_t i = 0; i < a->n_slots && y < 1 + most; i++, y++)
		put_slot(p, y, &a->slot[i]);
	return at_most(y, p->r.h);
}

/* ---- the cache ---- */

static void put_row(struct pen *p, int *y, const char *what, const char *value)
{
	const bool unknown = !strncmp(value, "unknown", 7);

	if (*y >= p->r.h)
		return;
	view_put(p, 0, *y, INK_DIM, "%s", what);
	view_put(p, NAME_W, (*y)++, unknown ? INK_DIM : INK_TEXT, "%s", value);
}

/* "1,024 of 4,096", as far as both are told. */
static struct view_text part_of(int64_t n, int64_t all, const char *unit)
{
	return n == EV_NULL_I && all == EV_NULL_I
			   ? view_form("unknown")
			   : view_form("%s of %s %s", count_or(n).text, count_or(all).text, unit);
}

static void put_used(struct pen *p, int *y, const struct tl_attached *a)
{
	put_row(
		p, y, "used", isnan(a->polled.kv_used) ? "unknown" : view_percent(a->polled.kv_used).text);
	if (!isnan(a->polled.kv_used) && p->r.w > NAME_W + 16)
		view_bar(p, NAME_W + 8, *y - 1, p->r.w - NAME_W - 8, INK_ACCEPTED, a->polled.kv_used);
}

static struct view_text since_start(int64_t n)
{
	return n == EV_NULL_I ? view_form("unknown")
						  : view_form("%s tokens since its start", view_count(n).text);
}

void view_attached_cache(struct pen *p, const struct timeline *t)
{
	const struct tl_attached *a = &t->attached;
	int64_t tokens = a->polled.kv_tokens, room = EV_NULL_I;
	int y = 1;

	for (int32_t i = 0; i < a->n_slots && a->polled.kv_tokens == EV_NULL_I; i++) {
		if (a->slot[i].tokens != EV_NULL_I)
			tokens = (tokens == EV_NULL_I ? 0 : tokens) + a->slot[i].tokens;
		if (a->slot[i].ctx != EV_NULL_I)
			room = (room == EV_NULL_I ? 0 : room) + a->slot[i].ctx;
	}
	if (a->e.pages != EV_NULL_I && a->e.page_size > 0 && a->e.pages < INT32_MAX &&
		a->e.page_size < INT32_MAX)
		room = a->e.pages * a->e.page_size;
	view_head(p, view_pages.name, "%.40s · which page is whose: unknown", a->server);
	put_used(p, &y, a);
	put_row(p, &y, "tokens in it", part_of(tokens, room, "tokens").text);
	put_row(p, &y, "pages",
		a->e.pages == EV_NULL_I ? "unknown" : part_of(a->e.pages, a->e.page_size, "tokens").text);
	put_row(p, &y, "prefix cache", part_of(a->polled.hit, a->polled.asked, "tokens found").text);
	put_row(p, &y, "prompts", since_start(a->polled.prompt_tokens).text);
	put_row(p, &y, "generated", since_start(a->polled.generated).text);
	put_row(p, &y, "preemptions", count_or(a->polled.preempted).text);
}
