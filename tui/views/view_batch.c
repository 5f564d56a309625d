/* The view "batch": one row a slot, one column a step, and the queue. The height of a column shows
 * how many rows the request had in the step, its colour the request. */

#include "tui/views/view_util.h"

enum { MAX_SLOTS = 64, MAX_QUEUE = 64, LEAST_TABLE = 8 };

struct slots {
	int n, n_running;
	struct {
		int number;
		int64_t request; /* the newest one in it, within the steps that are shown */
	} slot[MAX_SLOTS];   /* in the order of their numbers */
};

static int slot_row(const struct slots *s, int number)
{
	for (int i = 0; i < s->n; i++)
		if (s->slot[i].number == number)
			return i;
	return -1;
}

static void slot_add(struct slots *s, int number, int64_t request)
{
	int at = slot_row(s, number);

	if (at < 0 && (number < 0 || s->n == MAX_SLOTS))
		return;
	if (at < 0) {
		for (at = s->n++; at > 0 && s->slot[at - 1].number > number; at--)
			s->slot[at] = s->slot[at - 1];
		s->slot[at].number = number;
	}
	s->slot[at].request = request;
}

/* Slots in use, and those that were within the steps that are shown. */
static struct slots find_slots(const struct timeline *t, int columns)
{
	struct slots s = { 0 };

	for (int32_t i = view_first_step(t, columns); i < t->n_steps; i++)
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
			if (pass == 0 && slot_runs(t, s->slot[i].request))
				continue;
			memmove(s->slot + i, s->slot + i + 1, (size_t)(s->n - i - 1) * sizeof *s->slot);
			s->n--;
		}
}

/* Decode is low, verify in the middle by the rows it has, a prompt high. */
static double height(const struct tl_batch *m)
{
	switch (m->work) {
	case EV_WORK_decode: return 3 / 8.0;
	case EV_WORK_verify: return (m->rows < 4 ? 5 : 6) / 8.0;
	case EV_WORK_denoise: return 1;
	case EV_WORK_prefill: return (m->rows < 16 ? 7 : 8) / 8.0;
	case EV_N_work: break;
	}
	return 0;
}

static void draw_chart(struct pen *p, const struct timeline *t, const struct slots *s, int y0)
{
	int columns = p->r.w - view_requests_indent(t);
	for (int32_t i = view_first_step(t, columns), x = p->r.w - (t->n_steps - i); i < t->n_steps;
		 i++, x++)
		for (int32_t b = 0; b < t->step[i].n_batch; b++) {
			const struct tl_batch *m = &t->batch[t->step[i].batch_at + b];
			int row = slot_row(s, m->slot);

			if (row < 0)
				continue;
			view_spark(p, x, y0 + row, view_ink(m->request), height(m));
		}
	for (int row = 0; row < s->n; row++)
		if (slot_runs(t, s->slot[row].request))
			view_put_label(p, 0, y0 + row, s->slot[row].request);
		else
			view_put(p, 0, y0 + row, INK_DIM, "%s", view_label(s->slot[row].request).text);
}

static int draw_queue(struct pen *p, const struct timeline *t, int y)
{
	const struct tl_request *queue[MAX_QUEUE];
	int n = view_waits(t, queue, MAX_QUEUE), x;

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

/* One line about the request in focus, where there is no room for the table. */
static void draw_line(struct pen *p, const struct timeline *t, const struct tl_request *r, int y)
{
	const struct tl_latencies l = timeline_latencies(t, r);

	view_put_label(p, 0, y, r->id);
	view_put(p, view_requests_indent(t), y, INK_DIM,
		"%s · %d token%s · %s · queue time %s · ITL p99 %s", view_requests_state(t, r).text,
		r->n_tokens, plural(r->n_tokens), view_tokens_s(timeline_rate(t, r->id)).text,
		view_ns(l.queue).text, view_ns(l.itl_p99).text);
}

static void draw_head(struct pen *p, const struct timeline *t, const struct slots *s, int columns)
{
	const char *policy = timeline_setting(t, "policy");
	int steps = at_least(at_most(t->n_steps, columns), 0), shown = 0;

	for (int i = 0; i < s->n; i++)
		shown += slot_runs(t, s->slot[i].request);
	if (!t->n_requests)
		pen_head(p, "batch", NULL);
	else
		view_head(p, "batch", "%d of %" PRId64 " slots%s%s%s · last %d step%s", s->n_running,
			t->session.slots > 0 ? t->session.slots : s->n_running,
			shown < s->n_running ? view_form(", %d shown", shown).text : "", policy ? " · " : "",
			policy ? policy : "", steps, plural(steps));
}

/* Of another server: its slots in place of what each step had. */
static void draw_attached(struct pen *p, const struct timeline *t, struct view_state *s)
{
	const struct tl_request *r = view_request(t, s);
	int y = view_attached_slots(p, t);

	if (r && p->r.h - y == 1)
		draw_line(p, t, r, y);
	else if (r && p->r.h - y > VIEW_TABLE_HEAD)
		view_requests_draw(p, t, s, y + (p->r.h - y > VIEW_TABLE_HEAD + 1));
}

static void draw_batch(struct pen *p, const struct timeline *t, struct view_state *s)
{
	int columns = p->r.w - view_requests_indent(t), room = p->r.h - 1, y = 1;
	const struct tl_request *r = view_request(t, s);
	struct slots slots = find_slots(t, columns);
	bool queue = view_waits(t, NULL, 0) > 0;
	bool line = s->focused && !s->zoomed && r && room > 2;

	if (t->attached.on) {
		draw_attached(p, t, s);
		return;
	}
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
	if (!line && p->r.h - y > VIEW_TABLE_HEAD + 1 &&
		(s->zoomed || p->r.h - y > VIEW_TABLE_HEAD + (at_most(t->n_requests, LEAST_TABLE))))
		view_requests_draw(p, t, s, y + 1);
}

const struct view view_batch = {
	VIEW(BATCH, batch, "batch", 20, 2, 6),
	.draw = draw_batch,
	.key = view_requests_key,
};
