/* The training view: what a trainer told, as curves over its steps, and what it keeps in memory.
 * All of it is the events training and trained. Thread: the UI's. */

#include "tui/views/view_util.h"

enum { AXIS = 9, CHART_LEAST = 3, CHART_MOST = 12, FOOT = 3 };

/* A curve, and marks on it. */
static const struct series {
	const char *label, *of_marks;
	size_t at, at_marks; /* in struct ev_trained */
	bool shares;         /* of 1 */
} series[] = {
#define AT(member) offsetof(struct ev_trained, member)
	{ "loss", "held out", AT(loss), AT(held), false },
	{ "KL from the teacher", NULL, AT(kl), 0, false },
	{ "first guess accepted", NULL, AT(acceptance), 0, true },
	{ "gradient norm", NULL, AT(gradient), 0, false },
#undef AT
};
enum { N_SERIES = sizeof series / sizeof *series };

static double value_of(const struct ev_trained *r, size_t at)
{
	return *(const double *)(const void *)((const char *)r + at);
}

/* The newest that is there; NaN: none. */
static double newest(const struct timeline *t, size_t at)
{
	for (int32_t i = t->n_trained; i-- > 0;)
		if (!isnan(value_of(&t->trained[i], at)))
			return value_of(&t->trained[i], at);
	return (double)NAN;
}

/* Steps that the width stands for. */
static int64_t all_steps(const struct timeline *t)
{
	const int64_t last = t->trained[t->n_trained - 1].nth;

	return t->training.e.steps > last ? t->training.e.steps : last > 0 ? last : 1;
}

struct range {
	double least, most;
};

static struct range range_of(const struct timeline *t, const struct series *s)
{
	struct range r = { INFINITY, -INFINITY };

	for (int32_t i = 0; i < t->n_trained; i++)
		for (int side = 0; side < (s->of_marks ? 2 : 1); side++) {
			const double v = value_of(&t->trained[i], side ? s->at_marks : s->at);

			r.least = fmin(r.least, v);
			r.most = fmax(r.most, v);
		}
	if (r.least > 0 && r.least < r.most / 4)
		r.least = 0;
	if (!(r.most > r.least))
		r.most = r.least + 1;
	return r;
}

static int column_of(const struct timeline *t, int32_t i, int w)
{
	const int64_t x = (t->trained[i].nth * w - 1) / all_steps(t);

	return (int)within(x, 0, w - 1);
}

static void put_marks(struct pen *p, const struct timeline *t, const struct series *s,
	struct rect c, const struct range *r)
{
	for (int32_t i = 0; s->of_marks && i < t->n_trained; i++) {
		const double v = (value_of(&t->trained[i], s->at_marks) - r->least) / (r->most - r->least);

		if (!isnan(v))
			view_put(p, c.x + column_of(t, i, c.w), c.y + c.h - 1 - (int)(v * (c.h - 1) + 0.5),
				INK_BRIGHT, "\xc3\x97");
	}
}

/* Each column has the mean of its steps; a step that has several fills them. */
static void put_curve(struct pen *p, const struct timeline *t, const struct series *s,
	struct rect c, const struct range *r)
{
	double sum = 0;
	int32_t n = 0, x = 0;

	for (int32_t i = 0; i < t->n_trained; i++) {
		const int end = column_of(t, i, c.w) + 1;
		const double v = value_of(&t->trained[i], s->at);

		if (!isnan(v)) {
			sum += v;
			n++;
		}
		if (!n || (i + 1 < t->n_trained && column_of(t, i + 1, c.w) < end))
			continue;
		for (; x < end; x++)
			view_stack(p, c.x + x, c.y, c.h, INK_BAR,
				fmax((sum / n - r->least) / (r->most - r->least) * c.h, 0.125));
		sum = n = 0;
	}
}

static void put_number(struct pen *p, int x, int y, enum ink ink, const struct series *s, double v)
{
	if (s->shares)
		view_put_right(p, x, y, ink, "%s", view_percent(v).text);
	else
		view_put_right(p, x, y, ink, "%.4g", v);
}

static void put_series(
	struct pen *p, int y, int h, const struct timeline *t, const struct series *s)
{
	const struct rect c = { AXIS, y + 1, p->r.w - AXIS, h - 1 };
	const struct range r = range_of(t, s);
	int x = view_put(p, 0, y, INK_DIM, "%s", s->label) + 9;

	put_number(p, x, y, INK_BRIGHT, s, newest(t, s->at));
	if (s->of_marks && !isnan(newest(t, s->at_marks))) {
		x += view_say(p, x, y, IN_BRIGHT "   \xc3\x97 " IN_DIM "%s", s->of_marks) + 9;
		put_number(p, x, y, INK_BRIGHT, s, newest(t, s->at_marks));
	}
	put_number(p, AXIS - 1, c.y, INK_DIM, s, r.most);
	put_number(p, AXIS - 1, c.y + c.h - 1, INK_DIM, s, r.least);
	put_curve(p, t, s, c, &r);
	put_marks(p, t, s, c, &r);
}

/* As many curves as there is room for, the first ones first. Returns the line after them. */
static int put_all(struct pen *p, int y, int end, const struct timeline *t)
{
	int n = 0, h, fit = (end - y) / (CHART_LEAST + 1);

	for (int i = 0; i < N_SERIES; i++)
		n += !isnan(newest(t, series[i].at));
	n = at_most(n, fit);
	h = n ? (end - y) / n : 0;
	h = at_most(h, CHART_MOST);
	for (int i = 0; i < N_SERIES && n > 0; i++)
		if (!isnan(newest(t, series[i].at))) {
			put_series(p, y, h, t, &series[i]);
			y += h;
			n--;
		}
	return y;
}

static void put_axis(struct pen *p, int y, const struct timeline *t)
{
	const struct ev_trained *last = &t->trained[t->n_trained - 1];

	view_put(p, AXIS, y, INK_DIM, "step %lld, %s tokens, %s", (long long)last->nth,
		view_count(last->tokens).text, view_ns((double)t->last_t_ns).text);
	if (!isnan(last->rate))
		view_put(p, AXIS + 40, y, INK_DIM, "rate %.3g", last->rate);
	view_put_right(p, p->r.w, y, INK_DIM, "%lld", (long long)all_steps(t));
}

/* What training keeps in memory, in all and for each number that is trained. */
static void put_memory(struct pen *p, int y, const struct ev_training *m)
{
	const int64_t bytes[] = { m->weight_bytes, m->gradient_bytes, m->optimizer_bytes };
	static const char *const of[] = { "weights", ", gradients", ", optimizer" };
	double all = 0;
	int x = view_put(p, 0, y, INK_DIM, "memory   ");

	for (int i = 0; i < 3; i++) {
		if (bytes[i] == EV_NULL_I)
			continue;
		x += view_say(p, x, y, IN_DIM "%s " IN_TEXT "%s", of[i], view_bytes((double)bytes[i]).text);
		all += (double)bytes[i];
	}
	if (m->params > 0)
		view_put(p, x, y, INK_DIM, ": %.3g bytes each", all / (double)m->params);
}

static void training_draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	const struct tl_training *m = &t->training;
	int y;

	(void)s;
	if (!t->n_trained) {
		view_empty(p, "training",
			"loss, divergence, acceptance and gradients of a training: a trainer tells them to "
			"cutaway record FILE, and cutaway replay --follow FILE shows them while it goes on");
		return;
	}
	view_head(p, "training", "%s%s%s", m->name, *m->teacher ? " from " : "", m->teacher);
	if (m->e.params > 0)
		view_put(p, 0, 1, INK_DIM, "%s numbers are trained", view_count(m->e.params).text);
	y = put_all(p, 2, p->r.h - FOOT, t);
	put_axis(p, y, t);
	put_memory(p, y + 1, &m->e);
}

const struct view view_training = {
	VIEW(TRAINING, training, "training", 60, 10, 40),
	.draw = training_draw,
};
