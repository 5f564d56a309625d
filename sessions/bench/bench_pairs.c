/* Runs between passes of plain reads. On a machine whose memory bandwidth is shared, the rate of
 * reads changes within seconds, and a ratio to an earlier rate means nothing: so every run is
 * short, has a pass before and one after it, and is compared with the mean of the two. Thread:
 * bench_run's. */
#include "sessions/bench/bench_impl.h"

#include <stddef.h>
#include <sys/mman.h>

enum { MEMORY = 256 << 20 };

#define AT(figure) offsetof(struct bench_report, figure)
const struct bench_case bench_cases[] = {
	{ "decoding", " decode_tok_s bandwidth_fraction weights_fraction ", AT(decode_tok_s), false,
		SHORT, 1, 15, 80 },
	{ "first token", " prefill64_tok_s ttft_ms ", AT(prefill64_tok_s), true, FIRST, 1, 6, 50 },
	{ "prefill", " prefill_tok_s ", AT(prefill_tok_s), true, PREFILL, 1, 12, 25 },
	{ "decoding 1,024 tokens deep", " decode_1k_tok_s ", AT(decode_1k_tok_s), false, DEEP, 1, 12,
		50 },
	{ "decoding 4,096 tokens deep", " decode_4k_tok_s ", AT(decode_4k_tok_s), false, DEEPER, 1, 12,
		60 },
	{ "a batch of 8", " batch8_tok_s ", AT(batch8_tok_s), false, SHORT, 8, 9, 30 },
	{ "a batch of 16", " batch16_tok_s ", AT(batch16_tok_s), false, SHORT, N_BATCH, 12, 30 },
	{ "a batch of 64", " batch64_tok_s ", AT(batch64_tok_s), false, SHORT, N_MANY, 12, 30 },
	{ NULL, NULL, 0, false, 0, 0, 0, 0 },
};

/* Mapped once, touched, and then only read. If that fails (no memory), its shares are unknown. */
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
	struct roofs r = { NAN, NAN };
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

/* Tokens a second. A run must be short against the time in which the machine's rate changes. */
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

/* The time that the run's counted bytes and operations need at the roofs, over the time it took. */
static double share_of(const struct bench *b, double rate, const char **limit)
{
	double reads = b->run.bytes / rate, integers = b->run.ops / b->int_rate;
	*limit = reads > integers ? "reads" : "integers";
	return 1e9 * (reads > integers ? reads : integers) / b->run.wall_ns;
}

static double weights_share(const struct bench *b, double rate)
{
	return 1e9 * b->weight_bytes * b->run.tokens / rate / b->run.wall_ns;
}

int bench_pairs(struct bench *b, const struct bench_case *c, struct bench_figure *out,
	struct bench_shares *shares, struct err *e)
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
		before = after;
	} while (bench_now() < end && value.n < c->runs);
	*out = bench_figure(&value);
	out->share = bench_figure(&share).median;
	out->limit = limit;
	*shares = (struct bench_shares){ bench_figure(&memory), bench_figure(&weights) };
	return 0;
}
