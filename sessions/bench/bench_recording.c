/* What recording costs. One sequence decodes, and recording is switched on and off every two dozen
 * steps: four blocks, on off off on and the next time off on on off, are one comparison, in which
 * the growing depth and a steady drift of the machine cancel. For on and for off, a comparison
 * takes the median step with attention events and the median of the others, and weighs them by
 * frequency, so that disturbances of single steps do not count. Medians also hide the steps that
 * the log writer delays; so all its processor time is added, as if a kernel thread had waited for
 * it throughout: it is measured over consecutive steps, in which it commits as often as in a
 * session. The figure is the median of the comparisons; low and high are where that median lies
 * with 95 % confidence (base/median.h). Thread: bench_run's. */
#include "base/clock.h"
#include "base/median.h"
#include "sessions/bench/bench_impl.h"

enum {
	DEPTH = 512,
	BLOCK = 24,
	LEAST = 4,
	SETTLE = 2,
	PER_PROMPT = 6,
	STRETCH = 128,
	ENOUGH = 128
};

/* How a sequence is divided: its prompt, the steps of a block, and the comparisons after one
 * prompt. */
struct cut {
	int32_t prompt, block, n;
	int32_t stretch; /* steps over which the writer is timed */
};

static struct cut cut_for(int32_t ctx)
{
	struct cut c = { .prompt = ctx / 2 < DEPTH ? ctx / 2 : DEPTH, .block = BLOCK };
	int32_t room = ctx - c.prompt - 2;

	c.stretch = room / 6 < STRETCH ? room / 6 : STRETCH;
	room -= 2 * (c.stretch + SETTLE);
	if (room / 4 < BLOCK + SETTLE)
		c.block = room / 4 - SETTLE;
	c.n = c.block < LEAST ? 0 : room / (4 * (c.block + SETTLE));
	c.n = c.n < PER_PROMPT ? c.n : PER_PROMPT;
	return c;
}

/* Steps of one kind. */
struct side {
	struct samples plain, watched; /* ns; watched: steps with attention events */
};

static void switch_recording(struct bench *b, bool on)
{
	b->recording = on;
	engine_observe(b->engine, on);
}

/* The first steps after the switch are not timed. */
static int time_block(struct bench *b, const struct cut *c, bool on, struct side *to, struct err *e)
{
	switch_recording(b, on);
	b->n_tokens = 0;
	if (bench_step_until(b, SETTLE, e))
		return -1;
	for (int32_t i = 0; i < c->block; i++) {
		int64_t start = now_ns();
		b->watched = false;
		if (bench_step_until(b, b->n_tokens + 1, e))
			return -1;
		bench_add(b->watched ? &to->watched : &to->plain, (double)(now_ns() - start));
	}
	return 0;
}

/* Processor time of the writer, ns a step; NaN: an error. */
static double time_writer(struct bench *b, const struct cut *c, bool on, struct err *e)
{
	double ns;

	switch_recording(b, on);
	if (!b->recording)
		return 0;
	writer_flush(b->session.writer);
	ns = -(double)writer_processor_ns(b->session.writer);
	b->n_tokens = 0;
	if (bench_step_until(b, c->stretch, e))
		return NAN;
	writer_flush(b->session.writer); /* the events of these steps are written */
	return (ns + (double)writer_processor_ns(b->session.writer)) / c->stretch;
}

static double time_of(struct side *s)
{
	double all = s->plain.n + s->watched.n;
	double plain = s->plain.n ? bench_figure(&s->plain).median * s->plain.n : 0;
	double watched = s->watched.n ? bench_figure(&s->watched).median * s->watched.n : 0;

	return (plain + watched) / all;
}

/* Four blocks: by how many percent those with recording took longer. NaN: an error. */
static double compare(
	struct bench *b, const struct cut *c, bool first, double writer, struct err *e)
{
	static _Thread_local struct side side[2]; /* off, on */

	for (int i = 0; i < 2; i++)
		side[i].plain.n = side[i].watched.n = 0;
	for (int i = 0; i < 4; i++) {
		bool on = (i == 0 || i == 3) == first;
		if (time_block(b, c, on, &side[on], e))
			return NAN;
	}
	return 100 * ((time_of(&side[1]) + writer) / time_of(&side[0]) - 1);
}

/* The comparisons of one sequence. */
static int compare_all(struct bench *b, const struct cut *c, struct samples *percent, struct err *e)
{
	int32_t n = c->n * 4 * (c->block + SETTLE) + 2 * c->stretch + 1;
	double writer;
	int64_t id;

	b->n_tokens = 0;
	if ((id = bench_submit(b, 0, c->prompt, n + 1, false, e)) < 0 || bench_step_until(b, 1, e))
		return -1;
	writer = time_writer(b, c, true, e) - time_writer(b, c, false, e);
	if (isnan(writer))
		return -1;
	for (int32_t i = 0; i < c->n; i++) {
		double value = compare(b, c, percent->n % 2 == 0, writer, e);
		if (isnan(value))
			return -1;
		bench_add(percent, value);
	}
	engine_cancel(b->engine, id);
	return 0;
}

int bench_measure_recording(
	struct bench *b, double seconds, struct bench_figure *out, struct err *e)
{
	struct samples percent = { .n = 0 };
	struct cut c = cut_for(engine_info(b->engine)->ctx);
	double end = bench_now() + seconds;
	struct median m;
	int status = 0;

	if (!c.n)
		return 0; /* cannot be measured with this context */
	do
		status = compare_all(b, &c, &percent, e);
	while (!status && bench_now() < end && percent.n < ENOUGH);
	switch_recording(b, true);
	if (status)
		return -1;
	*out = bench_figure(&percent);
	m = median_of(percent.value, percent.n);
	out->low = m.low;
	out->high = m.high;
	return 0;
}
