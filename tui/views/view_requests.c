/* The view "requests": a table of all requests with their latencies, and below it each over time.
 * The batch shows both, too, when it fills the screen. */

#include "tui/views/view_util.h"

enum { LEAST_PART = 6 };

/* The newest request has the longest label. */
int view_requests_indent(const struct timeline *t)
{
	int w = t->n_requests ? view_label_width(t->request[t->n_requests - 1].id) + 1 : 0;

	return at_least(w, 3);
}

struct view_text view_requests_state(const struct timeline *t, const struct tl_request *r)
{
	static const char *const ends[] = { "done", "token limit", "stop string", "context full",
		"stopped", "refused", "failed", "pruned", "ended", "lost", "whole" };
	_Static_assert(sizeof ends / sizeof *ends == EV_N_finish, "a word for each code");
	const struct tl_step *last = timeline_last_step(t);

	if (timeline_carried(r))
		return view_form("session before");
	if (r->state == TL_WAITING)
		return view_form(t->attached.on ? "asked" : "waiting");
	if (r->state == TL_PREEMPTED)
		return view_form("preempted");
	if (r->finished)
		return view_form("%s", ends[r->finish.reason]);
	for (int32_t b = 0; last && b < last->n_batch; b++) {
		const struct tl_batch *m = &t->batch[last->batch_at + b];

		if (m->request == r->id)
			return view_form("%s %d", ev_code_name("work", m->work), m->rows);
	}
	return view_form("running");
}

/* Columns of the table, by their right ends, on less than WIDE columns and from there on (0: not
 * there); text is left. */
static const struct {
	const char *name;
	int narrow, wide;
} table_column[] = { { "prompt", 26, 24 }, { "cached", 33, 31 }, { "tokens", 40, 38 },
	{ "queue", 60, 46 }, { "TTFT", 69, 54 }, { "ITL p50", 0, 62 }, { "ITL p99", 0, 70 },
	{ "TPOT", 0, 86 }, { "e2e", 0, 78 }, { "speed", 51, 98 }, { "slot", 0, 104 } };
enum { N_TABLE = sizeof table_column / sizeof *table_column };
enum { PROMPT, CACHED, TOKENS, LATENCY, SPEED = 9, SLOT };
enum { MARK_X = 17, USER_X = 106, USER_W = 10, TEXT_X = 118, WIDE = 78 };

/* Right end of a column; 0: it is not shown. */
static int column_end(const struct pen *p, int column)
{
	const int end = p->r.w < WIDE ? table_column[column].narrow : table_column[column].wide;

	return end <= p->r.w ? end : 0;
}

static struct view_text cell_of(
	const struct timeline *t, const struct tl_request *r, const struct tl_latencies *l, int column)
{
	const double ns[] = { l->queue, l->ttft, l->itl_p50, l->itl_p99, l->tpot, l->e2e };

	switch (column) {
	case PROMPT:
		return view_count(!t->attached.on ? r->params.n_prompt
						  : r->looked_up  ? r->lookup.asked
						  : r->finished   ? r->finish.prompt
										  : EV_NULL_I);
	case CACHED: return view_count(r->looked_up ? r->lookup.hit : EV_NULL_I);
	case TOKENS: return view_count(r->n_tokens);
	case SPEED: return view_tokens_s(timeline_rate(t, r->id));
	case SLOT: return view_count(r->slot >= 0 ? r->slot : EV_NULL_I);
	default: return view_ns(ns[column - LATENCY]);
	}
}

/* Whether it met the targets (slo-ttft, slo-itl): a mark beside its state, and the ink of what
 * missed one. */
static void draw_missed(struct pen *p, const struct timeline *t, const struct tl_request *r,
	const struct tl_latencies *l, int y, enum ink ink[N_TABLE])
{
	const struct tl_target target = timeline_target(t);
	const struct tl_missed missed = timeline_missed(t, l);

	if (missed.ttft)
		ink[LATENCY + 1] = INK_REJECTED;
	if (missed.itl)
		ink[LATENCY + 3] = INK_REJECTED;
	if (missed.ttft || missed.itl)
		view_put(p, MARK_X, y, INK_REJECTED, "%s", glyph(p->c, GLYPH_CROSS));
	else if ((target.ttft > 0 || target.itl > 0) && r->finished && !isnan(l->ttft))
		view_put(p, MARK_X, y, INK_ACCEPTED, "%s", glyph(p->c, GLYPH_CHECK));
}

static bool has_users(const struct timeline *t)
{
	return t->n_users > 1 || (t->n_users && t->user[0].user);
}

/* Of all requests of the session: a row for each quantile. */
static void draw_session_row(struct pen *p, const struct timeline *t, int y, int percent)
{
	static const struct {
		enum tl_latency of;
		int column, percent; /* 0: either */
	} cell[] = { { TL_QUEUE, LATENCY, 0 }, { TL_TTFT, LATENCY + 1, 0 }, { TL_ITL, LATENCY + 2, 50 },
		{ TL_ITL, LATENCY + 3, 99 }, { TL_E2E, LATENCY + 5, 0 } };

	view_put(p, view_requests_indent(t), y, INK_TEXT, "session p%d", percent);
	for (size_t i = 0; i < sizeof cell / sizeof *cell; i++)
		if (column_end(p, cell[i].column) && (!cell[i].percent || cell[i].percent == percent))
			view_put_right(p, column_end(p, cell[i].column), y, INK_TEXT, "%s",
				view_ns(histogram_quantile(&t->latency[cell[i].of], percent / 100.0)).text);
}

static void draw_table_row(
	struct pen *p, const struct timeline *t, const struct tl_request *r, int y, bool chosen)
{
	const enum ink plain = r->state == TL_FINISHED ? INK_DIM : INK_TEXT;
	const int text_x = has_users(t) ? TEXT_X : USER_X;
	const struct tl_latencies l = timeline_latencies(t, r);
	enum ink ink[N_TABLE];

	for (int i = 0; i < N_TABLE; i++)
		ink[i] = plain;

	view_put_label(p, 0, y, r->id);
	view_put(p, view_requests_indent(t), y, plain, "%s", view_requests_state(t, r).text);
	draw_missed(p, t, r, &l, y, ink);
	for (int i = 0; i < N_TABLE; i++)
		if (column_end(p, i))
			view_put_right(p, column_end(p, i), y, ink[i], "%s", cell_of(t, r, &l, i).text);
	if (r->user && p->r.w > USER_X + USER_W)
		view_clip(p, USER_X, y, USER_W, plain, r->user);
	if (r->text && p->r.w > text_x + 8)
		view_put(p, text_x, y, INK_DIM, "%s", r->text);
	if (chosen)
		view_mark_row(p, y);
}

/* The requests, the newest last; one that was chosen is always among them. */
static void draw_table(struct pen *p, const struct timeline *t, struct view_state *s, int y)
{
	int room = p->r.h - y - 1;
	const struct tl_request *chosen = view_request(t, s);
	bool session = t->n_requests > 1 && room > 8 && column_end(p, LATENCY);
	int32_t first, last;

	room -= 2 * session;
	room -= t->n_requests > room; /* a line counts what does not fit */
	first = t->n_requests > room ? t->n_requests - room : 0;
	if (chosen && (s->request || s->focused) && chosen - t->request < first)
		first = (int32_t)(chosen - t->request);
	view_put(p, view_requests_indent(t), y, INK_DIM, "now");
	for (int i = 0; i < N_TABLE; i++)
		if (column_end(p, i))
			view_put_right(p, column_end(p, i), y, INK_DIM, "%s", table_column[i].name);
	if (has_users(t) && p->r.w > USER_X + USER_W)
		view_put(p, USER_X, y, INK_DIM, "user");
	for (last = first; last < t->n_requests && room-- > 0; last++) {
		draw_table_row(p, t, &t->request[last], ++y, s->focused && &t->request[last] == chosen);
		if (view_clicked(s, p, 0, y, p->r.w)) {
			s->request = t->request[last].id;
			s->token = -1;
		}
	}
	if (session) {
		draw_session_row(p, t, ++y, 50);
		draw_session_row(p, t, ++y, 99);
	}
	if (first || last < t->n_requests)
		view_put(p, view_requests_indent(t), y + 1, INK_DIM, "%s %d more before, %d after%s",
			glyph(p->c, GLYPH_ELLIPSIS), first, t->n_requests - last,
			s->focused ? ": up and down choose" : "");
}

/* The table, and below it, where the view is zoomed and there is room, the same over time. */
void view_requests_draw(struct pen *p, const struct timeline *t, struct view_state *s, int y)
{
	const int room = p->r.h - y, whole = t->n_requests + VIEW_TABLE_HEAD + 2;
	const struct tl_request *r = view_request(t, s);
	struct pen table = *p;

	if (s->zoomed && r && room >= 2 * LEAST_PART) {
		const int part = at_least(room / 2, LEAST_PART);

		table.r.h = y + (at_most(whole, part));
		view_requests_gantt(p, t, r, view_requests_indent(t), table.r.h + 1);
	}
	draw_table(&table, t, s, y);
}

bool view_requests_key(int key, const struct timeline *t, struct view_state *s)
{
	const struct tl_request *r = view_request(t, s);
	int64_t at = r ? r - t->request : 0;

	if (!r || (key == KEY_ESC && !s->request))
		return false;
	if (key != KEY_ESC && !table_key(key, &at, t->n_requests))
		return view_walk_tokens(key, t, s);
	if (key == KEY_ESC || t->request + at != r) {
		s->request = key == KEY_ESC ? 0 : t->request[at].id;
		s->token = -1;
	}
	return true;
}

/* ---- the view ---- */

static void draw_view(struct pen *p, const struct timeline *t, struct view_state *s)
{
	const struct tl_target target = timeline_target(t);
	const char *policy = timeline_setting(t, "policy");
	int32_t live = 0;

	for (int32_t i = 0; i < t->n_requests; i++)
		live += t->request[i].state != TL_FINISHED;
	if (!t->n_requests) {
		view_empty(p, "requests", "no request yet: a row for each, with what it waited for");
		return;
	}
	view_head(p, "requests", "%d live%s%s%s", live,
		target.ttft > 0 || target.itl > 0
			? view_form(" · %s of %s met the target", view_count(t->slo.met).text,
				  view_count(t->slo.ended).text)
				  .text
			: "",
		policy ? " · " : "", policy ? policy : "");
	view_requests_draw(p, t, s, 1);
}

const struct view view_requests = {
	VIEW(REQUESTS, requests, "requests", 40, 4, 10),
	.draw = draw_view,
	.key = view_requests_key,
};
