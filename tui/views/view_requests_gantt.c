/* Part of the view "requests": each request over time, and what it did: waited,
 * read its prompt, generated, had lost its pages. A row a request, the time from left to right.
 *
 * The time shown is the busy period of the chosen request: as long as one request or another was
 * there without a break. So the user's pauses between turns take no room. It is a fold of the
 * steps that the timeline keeps; what lies before them is not shown. */

#include "tui/views/view_util.h"

enum did { NOTHING, QUEUED, HELD, PREFILL, DECODE, PREEMPTED, N_DID };
enum { MOST_W = 400 };

static const struct {
	const char *name;
	enum ink ink;
} how[N_DID] = { [QUEUED] = { "queued", INK_DIM },
	[HELD] = { "in its slot", INK_RULE },
	[PREFILL] = { "prefill", INK_BRIGHT },
	[DECODE] = { "decode", INK_ACCEPTED },
	[PREEMPTED] = { "preempted", INK_REJECTED } };

struct axis {
	int64_t from, to; /* ns of the session */
	int x, w;         /* columns */
};

static int64_t end_of(const struct timeline *t, const struct tl_request *r)
{
	return r->finished ? r->finished_ns : t->last_t_ns;
}

/* An answer that came from elsewhere never was in the queue. */
static bool was_there(const struct timeline *t, const struct tl_request *r)
{
	return t->attached.on || !r->finished || r->admitted_ns != EV_NULL_I;
}

static struct axis busy_period(const struct timeline *t, const struct tl_request *chosen)
{
	struct axis a = { .from = chosen->arrival_ns, .to = end_of(t, chosen) };

	for (bool more = true; more;) {
		more = false;
		for (int32_t i = 0; i < t->n_requests; i++) {
			const struct tl_request *r = &t->request[i];
			const int64_t end = end_of(t, r);

			if (!was_there(t, r) || r->arrival_ns > a.to || end < a.from ||
				(r->arrival_ns >= a.from && end <= a.to))
				continue;
			a.from = at_most(r->arrival_ns, a.from);
			a.to = at_least(end, a.to);
			more = true;
		}
	}
	if (t->n_steps && t->step[0].s.step > 1 && t->step[0].t_ns > a.from)
		a.from = t->step[0].t_ns;
	return a;
}

/* ---- one request ---- */

typedef double cover[MOST_W][N_DID]; /* ns of each column in which it did what */

static void paint(const struct axis *a, cover c, int64_t from, int64_t to, enum did did)
{
	const double each = (double)(a->to - a->from) / a->w;
	int first, last;

	from = at_least(from, a->from);
	to = at_most(to, a->to);
	if (from >= to)
		return;
	first = (int)((double)(from - a->from) / each);
	last = (int)((double)(to - a->from) / each);
	for (int x = first; x <= last && x < a->w; x++) {
		const double begin = (double)a->from + x * each, end = begin + each;
		const double low = fmax((double)from, begin);

		c[x][did] += (fmin((double)to, end)) - low;
	}
}

static const struct tl_batch *member(
	const struct timeline *t, const struct tl_step *s, const struct tl_request *r)
{
	for (int32_t b = 0; b < s->n_batch; b++)
		if (t->batch[s->batch_at + b].request == r->id)
			return &t->batch[s->batch_at + b];
	return NULL;
}

static bool loses_pages(const struct timeline *t, int64_t step, const struct tl_request *r)
{
	for (int32_t i = 0; i < t->n_preempts; i++)
		if (t->preempt[i].step == step && t->preempt[i].p.request == r->id)
			return true;
	return false;
}

/* Of another server's it is known when it was asked and when tokens came, and no more. */
static void paint_reported(
	const struct timeline *t, const struct axis *a, const struct tl_request *r, cover c)
{
	const int64_t first = r->first_token_ns == EV_NULL_I ? end_of(t, r) : r->first_token_ns;

	paint(a, c, r->arrival_ns, first, QUEUED);
	paint(a, c, first, end_of(t, r), DECODE);
}

/* From the end of one step to that of the next it did one thing, but for the queue before. */
static void paint_request(
	const struct timeline *t, const struct axis *a, const struct tl_request *r, cover c)
{
	const int64_t end = end_of(t, r);
	const int64_t admitted = r->admitted_ns == EV_NULL_I ? end : r->admitted_ns;
	int64_t at = admitted;
	bool preempted = false;

	paint(a, c, r->arrival_ns, admitted, QUEUED);
	for (int32_t i = 0; i < t->n_steps && at < end; i++) {
		const struct tl_step *s = &t->step[i];
		const struct tl_batch *b = member(t, s, r);
		const int64_t to = at_most(s->t_ns, end);

		preempted |= loses_pages(t, s->s.step, r);
		if (to <= at && !b)
			continue;
		preempted &= !b;
		paint(a, c, at, to,
			b           ? b->work == EV_WORK_prefill ? PREFILL : DECODE
			: preempted ? PREEMPTED
						: HELD);
		at = at_least(to, at);
	}
	paint(a, c, at, end, r->state == TL_PREEMPTED ? PREEMPTED : HELD);
}

/* What it did most of the column's time; a preemption is shown however short it was. */
static enum did most(const double ns[N_DID])
{
	enum did best = NOTHING;

	if (ns[PREEMPTED] > 0)
		return PREEMPTED;
	for (int d = QUEUED; d < N_DID; d++)
		if (ns[d] > ns[best])
			best = (enum did)d;
	return best;
}

static int draw_did(struct pen *p, int x, int y, enum did did)
{
	switch (did) {
	case QUEUED: return view_put(p, x, y, how[did].ink, "%s", glyph(p->c, GLYPH_MIDDOT));
	case HELD: return view_put(p, x, y, how[did].ink, "%s", glyph(p->c, GLYPH_HRULE));
	case PREEMPTED: return view_put(p, x, y, how[did].ink, "%s", glyph(p->c, GLYPH_TIMES));
	case PREFILL: view_spark(p, x, y, how[did].ink, 1); return 1;
	case DECODE: view_spark(p, x, y, how[did].ink, 3 / 8.0); return 1;
	default: return 1;
	}
}

/* ---- all ---- */

static void draw_legend(struct pen *p, const struct timeline *t, const struct axis *a, int y)
{
	int x = view_put(p, 0, y, INK_DIM, "%s wide:  ", view_ns((double)(a->to - a->from)).text);

	if (t->attached.on) {
		x += draw_did(p, x, y, QUEUED) + 1;
		x += view_put(p, x, y, INK_DIM, "asked  ");
		x += draw_did(p, x, y, DECODE) + 1;
		view_put(p, x, y, INK_DIM, "tokens come");
		return;
	}
	for (int d = QUEUED; d < N_DID && x + 14 < p->r.w; d++) {
		x += draw_did(p, x, y, (enum did)d);
		x += view_put(p, x, y, INK_DIM, " %s  ", how[d].name);
	}
}

void view_requests_gantt(
	struct pen *p, const struct timeline *t, const struct tl_request *chosen, int x, int y)
{
	struct axis a = busy_period(t, chosen);
	int32_t n = 0, skip;

	a.x = x;
	a.w = at_most(p->r.w - x, MOST_W);
	if (a.w < 8)
		return;
	if (a.to <= a.from) {
		if (chosen->finished)
			view_put(p, 0, y, INK_DIM, "%s over time: " VIEW_FAR_BACK, view_label(chosen->id).text);
		return;
	}
	draw_legend(p, t, &a, y++);
	for (int32_t i = 0; i < t->n_requests; i++)
		n += was_there(t, &t->request[i]) && t->request[i].arrival_ns <= a.to &&
			 end_of(t, &t->request[i]) >= a.from;
	skip = n > p->r.h - y ? n - (p->r.h - y) : 0; /* the newest stay */
	for (int32_t i = 0; i < t->n_requests && y < p->r.h; i++) {
		const struct tl_request *r = &t->request[i];
		cover c = { { 0 } };

		if (!was_there(t, r) || r->arrival_ns > a.to || end_of(t, r) < a.from || skip-- > 0)
			continue;
		(t->attached.on ? paint_reported : paint_request)(t, &a, r, c);
		view_put_label(p, 0, y, r->id);
		for (int k = 0; k < a.w; k++)
			draw_did(p, a.x + k, y, most(c[k]));
		y++;
	}
}
