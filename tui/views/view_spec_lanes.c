/* Part of the speculation view: over the time of the newest steps, what the model did and what the
 * drafter beside it did (event `ahead`). Full: the model verifies; guesses that were used, green.
 * Half: the drafter guesses in turn, and the model's lane is empty. Low and dim: the engine waits
 * for the drafter; guesses that were thrown away. Thread: the UI's. */

#include "tui/views/view_util.h"

enum { LABEL_W = 8, STEP_W = 10, STEPS_MOST = 12 };

struct lanes {
	const struct tl_step *first;
	int n;
	double from, each; /* ns: where the first begins, of a column */
};

static double begin_of(const struct tl_step *s)
{
	return (double)s->t_ns - (double)s->s.ns;
}

static struct lanes lanes_of(const struct timeline *t, int w)
{
	struct lanes l = { .n = at_most(w / STEP_W, STEPS_MOST) };

	l.n = at_most(l.n, t->n_steps);
	if (!l.n || w < 1)
		return (struct lanes){ 0 };
	l.first = t->step + t->n_steps - l.n;
	l.from = begin_of(l.first);
	l.each = ((double)l.first[l.n - 1].t_ns - l.from) / w;
	return l;
}

/* Fills in height and ink of both lanes at a time of the step. */
static void look(
	const struct timeline *t, const struct tl_step *s, double at, double part[2], enum ink ink[2])
{
	double wait = 0, turn;

	part[1] = 0;
	for (int32_t i = s->ahead_at; i < s->ahead_at + s->n_ahead; i++) {
		const struct ev_ahead *a = &t->ahead[i];
		const bool kept = a->came == EV_AHEAD_kept;

		wait = fmax(wait, (double)a->wait_ns);
		if (at < (double)a->start_ns || at >= (double)a->start_ns + (double)a->ns || part[1] > 0.5)
			continue;
		part[1] = kept ? 1 : 0.25;
		ink[1] = kept ? INK_ACCEPTED : INK_DIM;
	}
	turn = (double)s->s.drafters_ns - wait;
	part[0] = at < turn ? 0 : at > (double)s->s.ns - wait ? 0.125 : 1;
	ink[0] = part[0] < 1 ? INK_DIM : INK_BAR;
	if (at < turn && !(part[1] > 0)) {
		part[1] = 0.5;
		ink[1] = INK_TEXT;
	}
}

static void draw_column(
	struct pen *p, int x, int y, const struct timeline *t, const struct lanes *l)
{
	const double now = l->from + (x + 0.5) * l->each;
	double part[2];
	enum ink ink[2] = { INK_DIM, INK_DIM };

	for (int i = 0; i < l->n; i++) {
		const struct tl_step *s = &l->first[i];

		if (now < begin_of(s) || now >= (double)s->t_ns)
			continue;
		look(t, s, now - begin_of(s), part, ink);
		for (int lane = 0; lane < 2; lane++)
			view_spark(p, LABEL_W + x, y + lane, ink[lane], part[lane]);
	}
}

int view_spec_lanes(struct pen *p, int y, const struct timeline *t, int64_t request)
{
	const struct lanes l = lanes_of(t, p->r.w - LABEL_W);
	int64_t blocks = 0, used = 0, nodes = 0, gone = 0;

	for (int32_t i = 0; i < t->n_aheads; i++) {
		const struct ev_ahead *a = &t->ahead[i];
		const bool kept = a->came == EV_AHEAD_kept;

		if ((request && a->request != request) || a->nodes < 1)
			continue;
		blocks++;
		used += kept;
		nodes += a->nodes;
		gone += kept ? 0 : a->nodes;
	}
	if (!t->n_aheads || !l.n)
		return y;
	view_put(p, 0, y++, INK_DIM,
		"ahead: %lld of %lld blocks used, %lld of %lld guesses thrown away; %d steps, %s",
		(long long)used, (long long)blocks, (long long)gone, (long long)nodes, l.n,
		view_ns(l.each * (p->r.w - LABEL_W)).text);
	view_put(p, 0, y, INK_DIM, "model");
	view_put(p, 0, y + 1, INK_DIM, "drafter");
	for (int x = 0; x < p->r.w - LABEL_W; x++)
		draw_column(p, x, y, t, &l);
	return y + 3;
}
