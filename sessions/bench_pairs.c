/* Runs between passes of plain reads. The rate of reads changes within seconds on a machine whose memory
 * is shared with others, and a ratio to a rate of another moment says nothing: so every run is short, has a pass
 * before and one behind it, and is held against the mean of the two. Thread: bench_run's. */
#include "sessions/bench_impl.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

enum { MEMORY = 256 << 20 };

const struct bench_case bench_cases[] = {
	{"decode_tok_s", false, SHORT, 1, BENCH_DECODE, 15, 80},
	{"decode_1k_tok_s", false, DEEP, 1, BENCH_DEEP, 12, 50},
	{"prefill_tok_s", true, PREFILL, 1, BENCH_PREFILL, 12, 25},
	{"prefill64_tok_s", true, FIRST, 1, -1, 6, 50},
	{"batch8_tok_s", false, SHORT, 8, -1, 9, 30},
	{"batch16_tok_s", false, SHORT, N_BATCH, -1, 12, 30},
	{"batch64_tok_s", false, SHORT, N_MANY, -1, 12, 30},
	{NULL, false, 0, 0, -1, 0, 0},
};

/* Mapped once, touched, and then only read. Without it (no memory) shares of it are unknown. */
static bool take_memory(struct bench *b)
{
	if (b->memory)
		return true;
	void *m = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED)
		return false;
	madvise(m, MEMORY, MADV_HUGEPAGE);
	memset(m, 1, MEMORY);
	b->memory = m;
	return true;
}

void bench_free_memory(struct bench *b)
{
	if (b->memory)
		munmap(b->memory, MEMORY);
}

struct roofs bench_look(struct bench *b)
{
	struct roofs r = {NAN, NAN};
	if (take_memory(b)) {
		r.memory = engine_measure_read(b->engine, b->memory, MEMORY);
		bench_add(&b->reads, r.memory / 1e9);
	}
	r.weights = engine_measure_read(b->engine, NULL, 0);
	bench_add(&b->rereads, r.weights / 1e9);
	return r;
}

bool bench_fits(const struct bench *b, const struct bench_case *c)
{
	int32_t ctx = engine_info(b->engine)->ctx;
	if (c->n_requests > engine_info(b->engine)->slots)
		return false;
	return c->prefill ? ctx > c->n_ids : ctx >= c->n_ids + MOST_GENERATED;
}

/* Tokens a second. A run is to be short beside the time in which the machine changes. */
double bench_once(struct bench *b, const struct bench_case *c, struct err *e)
{
	double seconds;
	if (c->prefill) {
		seconds = bench_time_first(b, c->n_ids, e);
		return seconds < 0 ? -1 : c->n_ids / seconds;
	}
	seconds = bench_time_decode(b, c->n_ids, bench_tokens_of(b, 0.15, 32), c->n_requests, e);
	return seconds < 0 ? -1 : 1 / seconds;
}

/* Mean of the two rates, weighed by time. */
static double between(double before, double after)
{
	return 2 / (1 / before + 1 / after);
}

static double longest(const struct bench *b, double bytes, double ops, double rate,
					  const char **limit)
{
	double reads = bytes / rate, integers = ops / b->int_rate;
	*limit = reads > integers ? "reads" : "integers";
	return reads > integers ? reads : integers;
}

/* The roofs' time for all that the run counted, of the time it took. */
static double share_of(const struct bench *b, double rate, const char **limit)
{
	double bytes = 0, ops = 0;
	for (int i = 0; i < EV_N_stage; i++) {
		bytes += b->run.stage[i].bytes;
		ops += b->run.stage[i].ops;
	}
	return 1e9 * longest(b, bytes, ops, rate, limit) / b->run.wall_ns;
}

static void sum_run(struct bench_profile *p, const struct bench *b, double rate)
{
	const struct bench_profile *r = &b->run;
	const char *limit;
	p->tokens += r->tokens;
	p->steps += r->steps;
	p->wall_ns += r->wall_ns;
	p->step_ns += r->step_ns;
	p->kernel_ns += r->kernel_ns;
	for (int i = 0; i < EV_N_stage; i++) {
		const struct bench_stage *s = &r->stage[i];
		p->stage[i].ns += s->ns;
		p->stage[i].bytes += s->bytes;
		p->stage[i].ops += s->ops;
		p->stage[i].roof_ns += 1e9 * longest(b, s->bytes, s->ops, rate, &limit);
	}
}

static double weights_share(const struct bench *b, double rate)
{
	return 1e9 * b->weight_bytes * b->run.tokens / rate / b->run.wall_ns;
}

int bench_pairs(struct bench *b, const struct bench_case *c, struct bench_figure *out,
				struct bench_shares *shares, struct bench_profile *profile, struct err *e)
{
	static _Thread_local struct samples value, share, memory, weights;
	const char *limit = NULL;
	double end = bench_now() + c->seconds;
	value.n = share.n = memory.n = weights.n = 0;
	struct roofs before = bench_look(b);
	do {
		double v = bench_once(b, c, e);
		if (v < 0)
			return -1;
		struct roofs after = bench_look(b);
		double rate = between(before.memory, after.memory);
		bench_add(&value, v);
		bench_add(&share, share_of(b, rate, &limit));
		bench_add(&memory, weights_share(b, rate));
		bench_add(&weights, weights_share(b, between(before.weights, after.weights)));
		if (profile)
			sum_run(profile, b, rate);
		before = after;
	} while (bench_now() < end && value.n < c->runs);
	*out = bench_figure(&value);
	out->share = bench_figure(&share).median;
	out->limit = limit;
	*shares = (struct bench_shares){bench_figure(&memory), bench_figure(&weights)};
	if (profile)
		profile->gates_ns = 1e9 * engine_measure_barriers(b->engine) * profile->steps;
	return 0;
}
