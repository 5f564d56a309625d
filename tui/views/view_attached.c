/* See view_attached.h. What is not told is "unknown". */
#include "tui/views/view_attached.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/views/view_util.h"
#include "tui/views/views.h"

enum { NAME_W = 15, SLOT_BAR_X = 40 };

/* Views of what a request or a poll tells, and those of no engine. */
static bool is_reported(int view)
{
	static const int reported[] = { VIEW_CHAT, VIEW_NEXT, VIEW_PAGES, VIEW_BATCH, VIEW_WATCH,
		VIEW_TREE, VIEW_LESSON };

	for (size_t i = 0; i < sizeof reported / sizeof *reported; i++)
		if (view == reported[i])
			return true;
	return false;
}

uint64_t view_unreported(const struct timeline *t)
{
	uint64_t unreported = 0;

	_Static_assert((int)VIEW_N <= 64, "a bit for each view");
	for (int i = 0; t->attached.on && i < VIEW_N; i++)
		unreported |= (uint64_t)!is_reported(i) << i;
	return unreported;
}

void view_draw(int view, struct pen *p, const struct timeline *t, struct view_state *s)
{
	char words[96];

	if (!t->attached.on || is_reported(view)) {
		views[view]->draw(p, t, s);
		return;
	}
	pen_head(p, views[view]->name, NULL);
	snprintf(words, sizeof words, "unknown: %.40s does not tell", t->attached.server);
	view_nothing(p, words);
}

static const char *count_or(char *buf, int64_t n)
{
	return n == EV_NULL_I ? "unknown" : view_count(buf, n);
}

/* ---- slots ---- */

static int put_slot(struct pen *p, int y, const struct ev_slot *s)
{
	char tokens[VIEW_NUM], ctx[VIEW_NUM], made[VIEW_NUM];
	int x = view_put(p, 0, y, INK_DIM, "%2" PRId64 " ", s->slot);

	x += view_put(p, x, y, s->busy ? INK_BRIGHT : INK_DIM, s->busy ? "busy " : "idle ");
	if (s->tokens == EV_NULL_I)
		return view_put(p, x, y, INK_DIM, "nothing yet");
	x += view_put(
		p, x, y, INK_TEXT, "%s of %s tokens", view_count(tokens, s->tokens), count_or(ctx, s->ctx));
	if (s->busy && s->generated != EV_NULL_I)
		x += view_put(p, x, y, INK_DIM, ", %s made", view_count(made, s->generated));
	x = x + 2 < SLOT_BAR_X ? SLOT_BAR_X : x + 2;
	if (s->ctx > 0 && p->r.w - x >= 8) {
		struct pen in = *p;

		in.ink = s->busy ? INK_ACCEPTED : INK_DIM;
		view_bar(&in, x, y, p->r.w - x, (double)s->tokens / (double)s->ctx);
	}
	return x;
}

static void head_of(char *out, size_t cap, const struct tl_attached *a)
{
	char run[VIEW_NUM], of[VIEW_NUM], wait[VIEW_NUM];

	if (a->polled.running == EV_NULL_I && a->polled.waiting == EV_NULL_I)
		snprintf(out, cap, "%.40s · queue unknown", a->server);
	else
		snprintf(out, cap, "%.40s · %s run%s%s · %s wait", a->server,
			count_or(run, a->polled.running), a->e.slots == EV_NULL_I ? "" : " of ",
			a->e.slots == EV_NULL_I ? "" : view_count(of, a->e.slots),
			count_or(wait, a->polled.waiting));
}

int view_attached_slots(struct pen *p, const struct timeline *t)
{
	const struct tl_attached *a = &t->attached;
	int y = 1, most = p->r.h / 2 > 2 ? p->r.h / 2 : p->r.h - 1;
	char figure[160];

	head_of(figure, sizeof figure, a);
	pen_head(p, view_batch.name, figure);
	if (a->error)
		view_put(p, 0, y++, INK_REJECTED, "no answer: %s", a->error);
	if (!a->n_slots)
		view_put(p, 0, y++, INK_DIM, "slots unknown: %s does not tell", a->server);
	for (int32_t i = 0; i < a->n_slots && y < 1 + most; i++, y++)
		put_slot(p, y, &a->slot[i]);
	return y < p->r.h ? y : p->r.h;
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
static const char *part_of(char *buf, size_t cap, int64_t n, int64_t all, const char *unit)
{
	char a[VIEW_NUM], b[VIEW_NUM];

	if (n == EV_NULL_I && all == EV_NULL_I)
		return "unknown";
	snprintf(buf, cap, "%s of %s %s", count_or(a, n), count_or(b, all), unit);
	return buf;
}

static void put_used(struct pen *p, int *y, const struct tl_attached *a)
{
	char value[VIEW_NUM];
	struct pen in = *p;

	put_row(p, y, "used",
		isnan(a->polled.kv_used) ? "unknown" : view_percent(value, a->polled.kv_used));
	in.ink = INK_ACCEPTED;
	if (!isnan(a->polled.kv_used) && p->r.w > NAME_W + 16)
		view_bar(&in, NAME_W + 8, *y - 1, p->r.w - NAME_W - 8, a->polled.kv_used);
}

void view_attached_cache(struct pen *p, const struct timeline *t)
{
	const struct tl_attached *a = &t->attached;
	char words[3 * VIEW_NUM], n[VIEW_NUM], m[VIEW_NUM];
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
	put_row(p, &y, "tokens in it", part_of(words, sizeof words, tokens, room, "tokens"));
	snprintf(words, sizeof words, "%s of %s tokens", count_or(n, a->e.pages),
		count_or(m, a->e.page_size));
	put_row(p, &y, "pages", a->e.pages == EV_NULL_I ? "unknown" : words);
	put_row(p, &y, "prefix cache",
		part_of(words, sizeof words, a->polled.hit, a->polled.asked, "tokens found"));
	put_row(p, &y, "prompts",
		a->polled.prompt_tokens == EV_NULL_I
			? "unknown"
			: (snprintf(words, sizeof words, "%s tokens since its start",
				   view_count(n, a->polled.prompt_tokens)),
				  words));
	put_row(p, &y, "generated",
		a->polled.generated == EV_NULL_I
			? "unknown"
			: (snprintf(words, sizeof words, "%s tokens since its start",
				   view_count(n, a->polled.generated)),
				  words));
	put_row(p, &y, "preemptions", count_or(n, a->polled.preempted));
}
