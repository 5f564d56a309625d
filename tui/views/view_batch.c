/* The view "batch": one row a slot, one column a step, and the queue. The height of a column shows
 * how many rows the request had in the step, its colour the request. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/views/view_batch.h"
#include "tui/views/view_util.h"
#include "tui/views/views.h"

enum { MAX_SLOTS = 64, MAX_QUEUE = 64, TABLE_HEAD = 2, LEAST_PART = 6 };

struct slots {
	int n, n_running;
	int number[MAX_SLOTS];      /* slot number */
	int64_t request[MAX_SLOTS]; /* the newest one in it, within the steps that are shown */
};

/* Width of the row labels: the newest request has the longest. */
static int label_w(const struct timeline *t)
{
	int w = t->n_requests ? view_label_width(t->request[t->n_requests - 1].id) + 1 : 0;

	return w < 3 ? 3 : w;
}

static int slot_row(const struct slots *s, int number)
{
	for (int i = 0; i < s->n; i++)
		if (s->number[i] == number)
			return i;
	return -1;
}

static void slot_add(struct slots *s, int number, int64_t request)
{
	int at = slot_row(s, number);

	if (at < 0 && (number < 0 || s->n == MAX_SLOTS))
		return;
	if (at < 0) {
		for (at = s->n++; at > 0 && s->number[at - 1] > number; at--) {
			s->number[at] = s->number[at - 1];
			s->request[at] = s->request[at - 1];
		}
		s->number[at] = number;
	}
	s->request[at] = request;
}

static int32_t first_step(const struct timeline *t, int columns)
{
	return t->n_steps > columns ? t->n_steps - columns : 0;
}

/* Slots in use, and those that were within the steps that are shown. */
static struct slots find_slots(const struct timeline *t, int columns)
{
	struct slots s = { 0 };

	for (int32_t i = first_step(t, columns); i < t->n_steps; i++)
		for (int32_t b = 0; b < t->step[i].n_batch; b++) {
			const struct tl_batch *m = &t->batch[t->step[i].batch_at + b];

			slot_add(&s, m->slot, m->request);
		}
	for (int32_t i = 0; i < t->n_requests; i++)
		if (t->request[i].state == TL_RUNNING) {
			slot_add(&s, t->request[i].slot, t->request[i].id);
			s.n_running++;
		}
	return s;
}

static bool slot_runs(const struct timeline *t, int64_t request)
{
	const struct tl_request *r = timeline_request(t, request);

	return r && r->state == TL_RUNNING;
}

/* Where not all fit: first those that have ended, then the last. */
static void fit_slots(const struct timeline *t, struct slots *s, int room)
{
	for (int pass = 0; pass < 2; pass++)
		for (int i = s->n; i-- > 0 && s->n > room;) {
			if (pass == 0 && slot_runs(t, s->request[i]))
				continue;
			memmove(s->number + i, s->number + i + 1, (size_t)(s->n - i - 1) * sizeof *s->number);
			memmove(
				s->request + i, s->request + i + 1, (size_t)(s->n - i - 1) * sizeof *s->request);
			s->n--;
		}
}

/* Decode is low, verify in the middle by the rows it has, a prompt high. */
static double height(const struct tl_batch *m)
{
	switch (m->work) {
	case EV_WORK_decode: return 3 / 8.0;
	case EV_WORK_verify: return (m->rows < 4 ? 5 : 6) / 8.0;
	case EV_WORK_prefill: return (m->rows < 16 ? 7 : 8) / 8.0;
	case EV_N_work: break;
	}
	return 0;
}

static void draw_chart(struct pen *p, const struct timeline *t, const struct slots *s, int y0)
{
	int columns = p->r.w - label_w(t);
	struct pen in = *p;

	for (int32_t i = first_step(t, columns), x = p->r.w - (t->n_steps - i); i < t->n_steps;
		 i++, x++)
		for (int32_t b = 0; b < t->step[i].n_batch; b++) {
			const struct tl_batch *m = &t->batch[t->step[i].batch_at + b];
			int row = slot_row(s, m->slot);

			if (row < 0)
				continue;
			in.ink = (uint8_t)view_ink(m->request);
			pen_spark(&in, x, y0 + row, height(m));
		}
	for (int row = 0; row < s->n; row++) {
		bool runs = slot_runs(t, s->request[row]);

		in.ink = runs ? (uint8_t)view_ink(s->request[row]) : INK_DIM;
		in.attr = runs ? ATTR_BOLD : 0;
		pen_printf(&in, 0, y0 + row, "%s", view_label(s->request[row]).text);
	}
}

static int draw_queue(struct pen *p, const struct timeline *t, int y)
{
	const struct tl_request *queue[MAX_QUEUE];
	int n = view_queue(t, queue, MAX_QUEUE), x;

	if (!n || y >= p->r.h)
		return 0;
	x = view_put(p, 0, y, INK_DIM, "waiting  ");
	for (int i = 0; i < n && i < MAX_QUEUE && x < p->r.w - 3; i++, x++) {
		x += view_put_label(p, x, y, queue[i]->id);
		if (queue[i]->state == TL_PREEMPTED)
			x += view_put(p, x, y, INK_REJECTED, "%s", glyph(p->c, GLYPH_MARK_REJECTED));
	}
	if (n > MAX_QUEUE)
		view_put(p, x, y, INK_DIM, "%s %d in all", glyph(p->c, GLYPH_ELLIPSIS), n);
	return 1;
}

static const char *state_words(const struct timeline *t, const struct tl_request *r, char *buf)
{
	static const char *const ends[] = { "done", "token limit", "stop string", "context full",
		"stopped", "refused", "failed", "pruned" };
	_Static_assert(sizeof ends / sizeof *ends == EV_N_finish, "a word for each code");
	const struct tl_step *last = timeline_last_step(t);

	if (r->state == TL_WAITING)
		return "waiting";
	if (r->state == TL_PREEMPTED)
		return "preempted";
	if (r->finished)
		return ends[r->finish.reason];
	for (int32_t b = 0; last && b < last->n_batch; b++) {
		const struct tl_batch *m = &t->batch[last->batch_at + b];

		if (m->request == r->id) {
			snprintf(buf, VIEW_NUM, "%s %d", ev_code_name("work", m->work), m->rows);
			return buf;
		}
	}
	return "running";
}

/* Columns of the table, by their right ends, on less than WIDE columns and from there on (0: not
 * there); text is left. */
static const struct {
	const char *name;
	int narrow, wide;
} table_column[] = { { "prompt", 26, 24 }, { "cached", 33, 31 }, { "tokens", 40, 38 },
	{ "queue", 60, 46 }, { "TTFT", 69, 54 }, { "ITL p50", 0, 62 }, { "ITL p99", 0, 70 },
	{ "TPOT", 0, 86 }, { "e2e", 0, 78 }, { "speed", 51, 98 } };
enum { N_TABLE = sizeof table_column / sizeof *table_column, LATENCY = 3, WIDE = 78, TEXT_X = 101 };

/* Right end of a column; 0: it is not shown. */
static int column_end(const struct pen *p, int column)
{
	const int end = p->r.w < WIDE ? table_column[column].narrow : table_column[column].wide;

	return end <= p->r.w ? end : 0;
}

static void table_cell(
	char out[N_TABLE][VIEW_NUM], const struct timeline *t, const struct tl_request *r)
{
	const struct tl_latencies l = timeline_latencies(t, r);
	const double ns[] = { l.queue, l.ttft, l.itl_p50, l.itl_p99, l.tpot, l.e2e };

	view_count(out[0], r->params.n_prompt);
	view_count(out[1], r->looked_up ? r->lookup.hit : EV_NULL_I);
	view_count(out[2], r->n_tokens);
	for (size_t i = 0; i < sizeof ns / sizeof *ns; i++)
		view_ns(out[LATENCY + i], ns[i]);
	view_tokens_s(out[N_TABLE - 1], timeline_rate(t, r->id));
}

/* Of all requests of the session: a row for each quantile. */
static void draw_session_row(struct pen *p, const struct timeline *t, int y, int percent)
{
	static const struct {
		enum tl_latency of;
		int column, percent; /* 0: either */
	} cell[] = { { TL_QUEUE, LATENCY, 0 }, { TL_TTFT, LATENCY + 1, 0 }, { TL_ITL, LATENCY + 2, 50 },
		{ TL_ITL, LATENCY + 3, 99 }, { TL_E2E, LATENCY + 5, 0 } };
	char number[VIEW_NUM];

	view_put(p, label_w(t), y, INK_TEXT, "session p%d", percent);
	for (size_t i = 0; i < sizeof cell / sizeof *cell; i++)
		if (column_end(p, cell[i].column) && (!cell[i].percent || cell[i].percent == percent))
			view_put_right(p, column_end(p, cell[i].column), y, INK_TEXT, "%s",
				view_ns(number, histogram_quantile(&t->latency[cell[i].of], percent / 100.0)));
}

static void draw_table_row(
	struct pen *p, const struct timeline *t, const struct tl_request *r, int y, bool chosen)
{
	char cell[N_TABLE][VIEW_NUM], buf[VIEW_NUM];
	bool over = r->state == TL_FINISHED;

	table_cell(cell, t, r);
	view_put_label(p, 0, y, r->id);
	view_put(p, label_w(t), y, over ? INK_DIM : INK_TEXT, "%s", state_words(t, r, buf));
	for (int i = 0; i < N_TABLE; i++)
		if (column_end(p, i))
			view_put_right(p, column_end(p, i), y, over ? INK_DIM : INK_TEXT, "%s", cell[i]);
	if (r->text && p->r.w > TEXT_X + 8) {
		struct pen in = *p;

		in.ink = INK_DIM;
		pen_clip(&in, TEXT_X, y, p->r.w - TEXT_X, r->text, -1);
	}
	if (chosen)
		view_mark_row(p, y);
}

/* The requests, the newest last; the chosen one is always among them. */
static void draw_table(struct pen *p, const struct timeline *t, const struct view_state *s, int y)
{
	int room = p->r.h - y - 1;
	const struct tl_request *chosen = view_request(t, s);
	bool session = t->n_requests > 1 && room > 8 && column_end(p, LATENCY);
	int32_t first, last;

	room -= 2 * session;

	room -= t->n_requests > room; /* a line counts what does not fit */
	first = t->n_requests > room ? t->n_requests - room : 0;
	if (chosen && chosen - t->request < first)
		first = (int32_t)(chosen - t->request);
	view_put(p, label_w(t), y, INK_DIM, "now");
	for (int i = 0; i < N_TABLE; i++)
		if (column_end(p, i))
			view_put_right(p, column_end(p, i), y, INK_DIM, "%s", table_column[i].name);
	for (last = first; last < t->n_requests && room-- > 0; last++)
		draw_table_row(p, t, &t->request[last], ++y, s->focused && &t->request[last] == chosen);
	if (session) {
		draw_session_row(p, t, ++y, 50);
		draw_session_row(p, t, ++y, 99);
	}
	if (first || last < t->n_requests)
		view_put(p, label_w(t), y + 1, INK_DIM, "%s %d more before, %d after: up and down choose",
			glyph(p->c, GLYPH_ELLIPSIS), first, t->n_requests - last);
}

/* One line about the request in focus, where there is no room for the table. */
static void draw_line(struct pen *p, const struct timeline *t, const struct tl_request *r, int y)
{
	const struct tl_latencies l = timeline_latencies(t, r);
	char speed[VIEW_NUM], wait[VIEW_NUM], buf[VIEW_NUM], itl[VIEW_NUM];

	view_put_label(p, 0, y, r->id);
	view_put(p, label_w(t), y, INK_DIM, "%s · %d tokens · %s · queue time %s · ITL p99 %s",
		state_words(t, r, buf), r->n_tokens, view_tokens_s(speed, timeline_rate(t, r->id)),
		view_ns(wait, l.queue), view_ns(itl, l.itl_p99));
}

static void draw_head(struct pen *p, const struct timeline *t, const struct slots *s, int columns)
{
	const char *policy = timeline_setting(t, "policy");
	char figure[128], fewer[32] = "", by[32] = "";
	int steps = t->n_steps < columns ? t->n_steps : columns, shown = 0;

	for (int i = 0; i < s->n; i++)
		shown += slot_runs(t, s->request[i]);
	if (shown < s->n_running)
		snprintf(fewer, sizeof fewer, ", %d shown", shown);
	if (policy)
		snprintf(by, sizeof by, " · %s", policy);
	snprintf(figure, sizeof figure, "%d of %" PRId64 " slots%s%s · last %d steps", s->n_running,
		t->session.slots > 0 ? t->session.slots : s->n_running, fewer, by, steps > 0 ? steps : 0);
	pen_head(p, "batch", t->n_requests ? figure : NULL);
}

/* The table, and below it, where the view is zoomed and there is room, the same over time. */
static void draw_requests(
	struct pen *p, const struct timeline *t, const struct view_state *s, int y)
{
	const int room = p->r.h - y, whole = t->n_requests + TABLE_HEAD + 2;
	const struct tl_request *r = view_request(t, s);
	struct pen table = *p;

	if (s->zoomed && r && room >= 2 * LEAST_PART) {
		const int part = room / 2 < LEAST_PART ? LEAST_PART : room / 2;

		table.r.h = y + (whole < part ? whole : part);
		view_batch_gantt(p, t, r, label_w(t), table.r.h + 1);
	}
	draw_table(&table, t, s, y);
}

static void draw_batch(struct pen *p, const struct timeline *t, struct view_state *s)
{
	int columns = p->r.w - label_w(t), room = p->r.h - 1, y = 1;
	const struct tl_request *r = view_request(t, s);
	struct slots slots = find_slots(t, columns);
	bool queue = view_queue(t, NULL, 0) > 0;
	bool line = s->focused && !s->zoomed && r && room > 2;

	room -= (queue && room > 1) + line;
	fit_slots(t, &slots, room);
	draw_head(p, t, &slots, columns);
	if (!t->n_requests) {
		view_nothing(p, "no request yet: a row for each slot, a column for each step");
		return;
	}
	draw_chart(p, t, &slots, y);
	y += slots.n;
	y += draw_queue(p, t, y);
	if (line && y < p->r.h)
		draw_line(p, t, r, y);
	if (!line && p->r.h - y > TABLE_HEAD + 1 &&
		(s->zoomed || p->r.h - y > TABLE_HEAD + t->n_requests))
		draw_requests(p, t, s, y + 1);
}

static bool key_batch(int key, const struct timeline *t, struct view_state *s)
{
	const struct tl_request *r = view_request(t, s);
	int32_t at = r ? (int32_t)(r - t->request) : 0, to = at;

	if (!r)
		return false;
	switch (key) {
	case KEY_UP_: to = at - 1; break;
	case KEY_DOWN_: to = at + 1; break;
	case KEY_HOME_: to = 0; break;
	case KEY_END_: to = t->n_requests - 1; break;
	case KEY_ESC:
		if (!s->request)
			return false;
		s->request = 0;
		s->token = -1;
		return true;
	default: return view_walk_tokens(key, t, s);
	}
	if (to >= 0 && to < t->n_requests && to != at) {
		s->request = t->request[to].id;
		s->token = -1;
	}
	return true;
}

const struct view view_batch = {
	.name = "batch",
	.id = "batch",
	.help =
		"The engine works in steps, and in each step on several requests at once. A row is a slot, that is "
		"room for one running request; a column is a step, the newest at the right. Each request has "
		"its own label and colour, here and in all views. (vLLM names: --slots is max_num_seqs, and --budget, the most rows of a "
		"step, max_num_batched_tokens.)\n"
		"\n"
		"high: prefill, the prompt is read, many tokens in one step. low: decode, one new token. in "
		"between: verify, drafted tokens are verified together with the newest. A step that has some of each is a mixed batch, and a "
		"prompt that takes several steps beside others is a chunked prefill (/prefill-chunk).\n"
		"\n"
		"Why batch? One token of one request needs all the weights to be read from memory. Four requests "
		"in one step share that reading: each step is a little slower, and together they are much faster. "
		"This is continuous batching: a request joins as soon as a slot is free and leaves when it ends; "
		"nobody waits for the slowest.\n"
		"\n"
		"waiting: requests without a slot or without pages. A mark after the label: preempted; its pages "
		"went to another, and what it had is computed again later.\n"
		"\n"
		"Try: /load 8, then /load 32, and watch the tokens per second above. Up and down choose a request; "
		"all views follow. Enter shows the table of all requests, and over time what each did."
		"\n"
		"\n"
		"queue: time until a slot. TTFT: from the arrival to the first token. ITL: time between consecutive "
		"tokens; p50 and p99 by nearest rank, exact for a request. With speculation a step may give several tokens, "
		"which come together: the ones after the first have 0, so a low p50 beside a high p99 is normal, and TPOT, "
		"(e2e - TTFT) / (tokens - 1), says what a token costs. e2e: from the arrival to the end. speed: of the last second of its steps, and once it "
		"has ended 1 / TPOT. The rows of the "
		"session are of all its tokens and requests, within 1.6 %; e2e of those that ended by themselves. A pause counts.",
	.min_w = 20,
	.min_h = 2,
	.want_h = 6,
	.draw = draw_batch,
	.key = key_batch,
	.index = VIEW_BATCH,
};
