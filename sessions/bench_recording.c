/* What recording costs, what somebody who follows the recording does to it, and drafters in the shadow that compute
 * nothing. One sequence decodes, and what is
 * measured is switched on and off every two dozen steps: four
 * blocks, on off off on and the next time off on on off, are one comparison, in which the growing depth and a
 * steady drift of the machine cancel. Steps are timed by eights, so that each group has a row whose attention is
 * watched, and a comparison takes the median group of either kind: what else the machine does to single groups
 * does not count. Nor do then the moments at which the log's writer is in the way; so all its processor
 * time is added instead, as if it had kept a kernel thread waiting throughout. The figure is the median of the
 * comparisons; low and high are where that median lies with 95 % confidence, whatever the distribution (order
 * statistics: the sign test turned round; Conover, Practical Nonparametric Statistics, 3.2).
 * Thread: bench_run's. */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "sessions/bench_impl.h"

enum { DEPTH = 512, GROUP = 8, BLOCK = 24, SETTLE = 2, PER_PROMPT = 4, ENOUGH = 128 };

/* How a sequence is cut: its prompt, the steps of a block, and the comparisons behind one prompt. */
struct cut {
	int32_t prompt, block, n;
	void (*turn)(struct bench *b, bool on);
};

static struct cut cut_for(int32_t ctx, void (*turn)(struct bench *b, bool on))
{
	struct cut c = {.prompt = ctx / 2 < DEPTH ? ctx / 2 : DEPTH, .block = BLOCK, .turn = turn};
	int32_t room = ctx - c.prompt - 2;

	if (room / 4 < BLOCK + SETTLE)
		c.block = (room / 4 - SETTLE) / GROUP * GROUP;
	c.n = c.block < GROUP ? 0 : room / (4 * (c.block + SETTLE));
	c.n = c.n < PER_PROMPT ? c.n : PER_PROMPT;
	return c;
}

/* Groups of steps of one kind, and what the writer took for theirs. */
struct side {
	struct samples groups; /* ns */
	double writer_ns;
	int32_t steps;
};

static void switch_recording(struct bench *b, bool on)
{
	b->recording = on;
	engine_observe(b->engine, on);
}

static void switch_shadow(struct bench *b, bool on)
{
	engine_pause_shadow(b->engine, !on);
}

/* The first steps behind the switch are not timed. */
static int time_block(struct bench *b, const struct cut *c, bool on, struct side *to, struct err *e)
{
	c->turn(b, on);
	to->writer_ns -= (double)writer_processor_ns(b->writer);
	b->n_tokens = 0;
	if (bench_step_until(b, SETTLE, e))
		return -1;
	for (int32_t i = 0; i < c->block; i += GROUP) {
		int64_t start = now_ns();
		if (bench_step_until(b, b->n_tokens + GROUP, e))
			return -1;
		bench_add(&to->groups, (double)(now_ns() - start));
	}
	if (b->recording)
		writer_flush(b->writer); /* all of what these steps cost, and nothing left for the next block */
	to->writer_ns += (double)writer_processor_ns(b->writer);
	to->steps += SETTLE + c->block;
	return 0;
}

/* Four blocks: by how many percent those with recording took longer. NaN: an error. */
static double compare(struct bench *b, const struct cut *c, bool first, struct err *e)
{
	struct side side[2] = {{.steps = 0}, {.steps = 0}}; /* off, on */
	for (int i = 0; i < 4; i++) {
		bool on = (i == 0 || i == 3) == first;
		if (time_block(b, c, on, &side[on], e))
			return NAN;
	}
	double off = bench_figure(&side[0].groups).median, on = bench_figure(&side[1].groups).median;
	double writer = (side[1].writer_ns / side[1].steps - side[0].writer_ns / side[0].steps) * GROUP;
	return 100 * ((on + writer) / off - 1);
}

/* The comparisons of one sequence. */
static int compare_all(struct bench *b, const struct cut *c, struct samples *percent, struct err *e)
{
	int32_t n = c->n * 4 * (c->block + SETTLE) + 1;
	int64_t id;
	b->n_tokens = 0;
	if ((id = bench_submit(b, 0, c->prompt, n + 1, false, e)) < 0 || bench_step_until(b, 1, e))
		return -1;
	for (int32_t i = 0; i < c->n; i++) {
		double value = compare(b, c, percent->n % 2 == 0, e);
		if (isnan(value))
			return -1;
		bench_add(percent, value);
	}
	engine_cancel(b->engine, id);
	return 0;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Where the median of n sorted values lies with 95 % confidence: the normal approximation of the binomial. */
static void confidence(const struct samples *s, double *low, double *high)
{
	int out = (int)floor(s->n / 2.0 - 0.98 * sqrt(s->n));
	out = out < 0 ? 0 : out;
	*low = s->value[out];
	*high = s->value[s->n - 1 - out];
}

static int measure(struct bench *b, void (*turn)(struct bench *b, bool on), double seconds, struct bench_figure *out,
				   struct err *e)
{
	struct samples percent = {.n = 0};
	struct cut c = cut_for(engine_info(b->engine)->ctx, turn);
	double end = bench_now() + seconds;
	int status = 0;

	if (!c.n)
		return 0; /* cannot be measured with this context */
	do
		status = compare_all(b, &c, &percent, e);
	while (!status && bench_now() < end && percent.n < ENOUGH);
	if (status)
		return -1;
	*out = bench_figure(&percent);
	qsort(percent.value, (size_t)percent.n, sizeof *percent.value, by_value);
	confidence(&percent, &out->low, &out->high);
	return 0;
}

int bench_measure_recording(struct bench *b, double seconds, struct bench_figure *out, struct err *e)
{
	int status = measure(b, switch_recording, seconds, out, e);

	switch_recording(b, true);
	return status;
}

int bench_measure_follow(struct bench *b, double seconds, struct bench_figure *out, struct err *e)
{
	int64_t drew;
	int status;

	writer_flush(b->writer);
	b->follower = bench_follower_open(b->file);
	if (!b->follower)
		return 0;
	drew = bench_follower_drew(b->follower);
	status = measure(b, bench_follower_turn, seconds, out, e);
	if (bench_follower_drew(b->follower) == drew)
		*out = bench_single(NAN); /* it showed nothing of all this */
	bench_follower_close(b->follower);
	b->follower = NULL;
	return status;
}

int bench_measure_shadow(struct bench *b, double seconds, struct bench_figure *out, struct err *e)
{
	int status = engine_set(b->engine, "shadow", "free", e);

	switch_recording(b, false); /* it is not what is measured */
	if (!status)
		status = measure(b, switch_shadow, seconds, out, e);
	switch_recording(b, true);
	return engine_set(b->engine, "shadow", "off", e) ? -1 : status;
}
