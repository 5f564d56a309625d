/* The view "batch": one row a slot, one column a step, and the queue. The height of a column shows
 * how many rows the request had in the step, its colour the request. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/views/view_util.h"
#include "tui/views/views.h"

enum { MAX_SLOTS = 64, MAX_QUEUE = 64, TABLE_HEAD = 2 };

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
	static const char *const ends[EV_N_finish] = { "done", "token limit", "stop string",
		"context full", "stopped", "refused", "failed" };
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

static int64_t waited(const struct timeline *t, const struct tl_request *r)
{
	int64_t until = r->admitted_ns != EV_NULL_I ? r->admitted_ns
					: r->finished               ? r->finished_ns
												: t->last_t_ns;

	return until > r->arrival_ns ? until - r->arrival_ns : 0;
}

/* Columns of the table, by their right ends; text is left. */
static const struct {
	const char *name;
	int right, min_w;
} table_column[] = { { "prompt", 26, 0 }, { "cached", 33, 0 }, { "tokens", 40, 0 },
	{ "speed", 51, 52 }, { "queue", 60, 61 }, { "TTFT", 69, 70 }, { "ITL", 78, 100 } };
enum { N_TABLE = sizeof table_column / sizeof *table_column, TEXT_X = 81 };

static void table_cell(
	char out[N_TABLE][VIEW_NUM], const struct timeline *t, const struct tl_request *r)
{
	view_count(out[0], r->params.n_prompt);
	view_count(out[1], r->looked_up ? r->lookup.hit : EV_NULL_I);
	view_count(out[2], r->n_tokens);
	view_tokens_s(out[3], timeline_rate(t, r->id));
	view_ns(out[4], (double)waited(t, r));
	view_ns(out[5],
		r->first_token_ns == EV_NULL_I ? (double)NAN : (double)(r->first_token_ns - r->arrival_ns));
	view_ns(out[6], r->n_tokens > 1 ? 1e9 / timeline_rate(t, r->id) : (double)NAN);
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
		if (p->r.w >= table_column[i].min_w)
			view_put_right(p, table_column[i].right, y, over ? INK_DIM : INK_TEXT, "%s", cell[i]);
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
	int32_t first, last;

	room -= t->n_requests > room; /* a line counts what does not fit */
	first = t->n_requests > room ? t->n_requests - room : 0;
	if (chosen && chosen - t->request < first)
		first = (int32_t)(chosen - t->request);
	view_put(p, label_w(t), y, INK_DIM, "now");
	for (int i = 0; i < N_TABLE; i++)
		if (p->r.w >= table_column[i].min_w)
			view_put_right(p, table_column[i].right, y, INK_DIM, "%s", table_column[i].name);
	for (last = first; last < t->n_requests && room-- > 0; last++)
		draw_table_row(p, t, &t->request[last], ++y, s->focused && &t->request[last] == chosen);
	if (first || last < t->n_requests)
		view_put(p, label_w(t), y + 1, INK_DIM, "%s %d more before, %d after: up and down choose",
			glyph(p->c, GLYPH_ELLIPSIS), first, t->n_requests - last);
}

/* One line about the request in focus, where there is no room for the table. */
static void draw_line(struct pen *p, const struct timeline *t, const struct tl_request *r, int y)
{
	char speed[VIEW_NUM], wait[VIEW_NUM], buf[VIEW_NUM];

	view_put_label(p, 0, y, r->id);
	view_put(p, label_w(t), y, INK_DIM, "%s · %d tokens · %s · queue time %s",
		state_words(t, r, buf), r->n_tokens, view_tokens_s(speed, timeline_rate(t, r->id)),
		view_ns(wait, (double)waited(t, r)));
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
		draw_table(p, t, s, y + 1);
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
		"all views follow. Enter shows the table of all requests: queue: time until a slot; TTFT: time to the first token, from the arrival; ITL: "
		"inter-token latency, over its last second.",
	.min_w = 20,
	.min_h = 2,
	.want_h = 6,
	.draw = draw_batch,
	.key = key_batch,
	.index = VIEW_BATCH,
};
