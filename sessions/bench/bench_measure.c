/* Single runs of the bench, and the measurements whose figure is a ratio of runs: each of these
 * repeats for some seconds, at least once. Times are of this thread's clock around whole steps, so
 * that planning, sampling, events and the ring are in them; the log writer runs at the same time.
 * Thread: bench_run's. */
#include "sessions/bench/bench_impl.h"

#include "base/clock.h"
#include "base/median.h"

double bench_now(void) /* seconds */
{
	return 1e-9 * (double)now_ns();
}

void bench_on_event(void *arg, const struct event *ev)
{
	struct bench *b = arg;
	if (ev->kind == EV_token) {
		if (b->n_tokens < MOST_GENERATED)
			b->token[b->n_tokens] = ev->u.token.id;
		b->n_tokens++;
	} else if (ev->kind == EV_attention)
		b->watched = true;
	else if (ev->kind == EV_finish)
		b->n_finished++;
	else if (ev->kind == EV_step) {
		b->step = ev->u.step;
		if (b->timing) {
			b->run.tokens +=
				(double)(ev->u.step.prefill_rows ? ev->u.step.prefill_rows : ev->u.step.tokens);
			b->run.bytes += (double)ev->u.step.bytes;
			b->run.ops += (double)ev->u.step.ops;
		}
	}
	if (b->recording)
		ring_push(b->session.ring, ev);
}

void bench_add(struct samples *s, double value)
{
	if (s->n < MAX_RUNS)
		s->value[s->n++] = value;
}

struct bench_figure bench_figure(struct samples *s)
{
	struct bench_figure f = { NAN, NAN, NAN, s->n, NAN, NULL };
	if (!s->n)
		return f;
	sorted_of(s->value, s->n);
	f.median = (s->value[(s->n - 1) / 2] + s->value[s->n / 2]) / 2;
	f.low = s->value[s->n / 10];
	f.high = s->value[s->n - 1 - s->n / 10];
	return f;
}

struct bench_figure bench_single(double value)
{
	return (struct bench_figure){ value, value, value, 1, NAN, NULL };
}

static int64_t submit(struct bench *b, const int32_t *ids, int32_t n_ids, int32_t n_generated,
	bool greedy, struct err *e)
{
	struct engine_request q =
		engine_own_request(EV_REQUEST_KIND_load, ids, n_ids, n_generated, "bench");
	if (greedy)
		q.params.temperature = 0;
	return engine_submit(b->engine, &q, e);
}

int64_t bench_submit(
	struct bench *b, int32_t at, int32_t n_ids, int32_t n_generated, bool greedy, struct err *e)
{
	return submit(b, b->ids + at, n_ids, n_generated, greedy, e);
}

/* Steps until n tokens were generated since the counters were set to 0, or nothing is left to
 * do. */
int bench_step_until(struct bench *b, int64_t n, struct err *e)
{
	int more = 1;
	while (b->n_tokens < n && (more = engine_step(b->engine, e)) > 0)
		;
	if (more < 0)
		return -1;
	if (b->n_tokens < n)
		return err_set(e, ERR_USAGE,
			"bench: a run ended early: is the context or the number of pages too small?");
	return 0;
}

static int step_to_end(struct bench *b, struct err *e)
{
	int more = 1;
	while (!engine_idle(b->engine) && more > 0)
		more = engine_step(b->engine, e);
	return more < 0 ? -1 : 0;
}

/* Number of tokens, 8 … most, that take about this long. */
int32_t bench_tokens_of(const struct bench *b, double seconds, int32_t most)
{
	double n = seconds / b->token_s;
	return n < 8 ? 8 : n > most ? most : (int32_t)n;
}

static void begin_timing(struct bench *b)
{
	memset(&b->run, 0, sizeof b->run);
	b->timing = true;
	b->run.wall_ns = -(double)now_ns();
}

static void end_timing(struct bench *b)
{
	b->run.wall_ns += (double)now_ns();
	b->timing = false;
}

/* Seconds a token of n_requests sequences that decode together, after a prompt of n_ids tokens. The
 * first few steps are not counted. Negative: an error. */
double bench_time_decode(
	struct bench *b, int32_t n_ids, int32_t n_generated, int n_requests, struct err *e)
{
	int32_t warm = n_generated / 8 + 1;
	b->n_tokens = 0;
	for (int i = 0; i < n_requests; i++)
		if (bench_submit(b, 5 * i, n_ids, warm + n_generated + 2, false, e) < 0)
			return -1;
	/* when the slowest has begun, its prompt is done and the others already decode */
	do {
		if (bench_step_until(b, b->n_tokens + 1, e))
			return -1;
	} while (b->step.prefill_rows || b->n_tokens < (int64_t)n_requests * warm);
	int64_t before = b->n_tokens;
	b->n_finished = 0;
	int more = 1;
	begin_timing(b);
	while (b->n_tokens - before < (int64_t)n_requests * n_generated && !b->n_finished && more > 0)
		more = engine_step(b->engine, e);
	end_timing(b);
	double seconds = 1e-9 * b->run.wall_ns / (double)(b->n_tokens - before);
	if (more < 0 || step_to_end(b, e))
		return -1;
	return seconds;
}

/* Seconds from the arrival of a prompt to its first token. The prefix cache must be off. */
double bench_time_first(struct bench *b, int32_t n_ids, struct err *e)
{
	b->n_tokens = 0;
	begin_timing(b);
	int status = bench_submit(b, 0, n_ids, 1, false, e) < 0 || bench_step_until(b, 1, e);
	end_timing(b);
	if (status || step_to_end(b, e))
		return -1;
	return 1e-9 * b->run.wall_ns;
}

/* ---- ratios: each repeats for some seconds, at least once ---- */

/* Times of steps with and without drafts, at the same depths of a text that repeats itself. */
static int collect_steps(
	struct bench *b, const char *spec, int32_t rows, struct samples *s, struct err *e)
{
	enum { PATTERN = 12, TIMES = 12 };
	int32_t prompt[PATTERN * TIMES];
	for (int i = 0; i < PATTERN * TIMES; i++)
		prompt[i] = b->ids[i % PATTERN];
	int more = 1;
	if (engine_set(b->engine, "spec", spec, e) ||
		submit(b, prompt, PATTERN * TIMES, bench_tokens_of(b, 0.5, 96), true, e) < 0)
		return -1;
	while (!engine_idle(b->engine) && (more = engine_step(b->engine, e)) > 0)
		if (!b->step.prefill_rows && b->step.rows == rows)
			bench_add(s, (double)b->step.ns);
	return more < 0 ? -1 : engine_set(b->engine, "spec", "off", e);
}

int bench_measure_cost4(struct bench *b, double seconds, struct bench_figure *out, struct err *e)
{
	struct samples ratios = { .n = 0 };
	double end = bench_now() + seconds;
	do {
		struct samples one = { .n = 0 }, four = { .n = 0 };
		if (collect_steps(b, "off", 1, &one, e) || collect_steps(b, "ngram:3", 4, &four, e))
			return -1;
		if (one.n && four.n)
			bench_add(&ratios, bench_figure(&four).median / bench_figure(&one).median);
	} while (bench_now() < end && ratios.n < 7);
	*out = bench_figure(&ratios);
	return 0;
}

/* Seconds to the first token of a prompt whose first CACHED tokens the prefix cache has; the others
 * are those of another place in the text each time. */
static double time_turn(struct bench *b, int32_t place, struct err *e)
{
	int32_t prompt[CACHED + TURN];

	memcpy(prompt, b->ids, CACHED * sizeof *prompt);
	memcpy(prompt + CACHED, b->ids + CACHED + place, TURN * sizeof *prompt);
	b->n_tokens = 0;
	double start = bench_now();
	if (submit(b, prompt, CACHED + TURN, 1, false, e) < 0 || bench_step_until(b, 1, e))
		return -1;
	double end = bench_now();
	return step_to_end(b, e) ? -1 : end - start;
}

int bench_measure_turn(struct bench *b, double seconds, struct bench_figure *out, struct err *e)
{
	struct samples s = { .n = 0 };
	if (engine_info(b->engine)->ctx <= CACHED + TURN)
		return 0;
	if (time_turn(b, 0, e) < 0) /* fills the cache */
		return -1;
	double end = bench_now() + seconds;
	do {
		double t = time_turn(b, 1 + s.n, e);
		if (t < 0)
			return -1;
		bench_add(&s, 1e3 * t);
	} while (bench_now() < end && s.n < 50);
	*out = bench_figure(&s);
	return 0;
}

/* Passages to edit and to summarise: the answers repeat much of them. */
static const char *const repeating[] = {
	"Text: The harbour office opens at seven. Every boat that comes in must say its name, its home "
	"port and how many people are on board. Fees are paid in the small house beside the crane, and "
	"the clerk stamps the paper twice. Boats that stay longer than three nights need a letter of "
	"the harbour master.\n\nThe same text, with every word kept:\n\nText: The harbour office opens "
	"at seven.",
	"Article: The new bridge over the river Lenne was opened on Friday. It cost four million euros "
	"and took two years to build. The mayor said that the new bridge over the river Lenne would "
	"halve the way to the hospital.\n\nSummary, in the article's own words: The new bridge over "
	"the river Lenne was opened on Friday.",
};

/* Seconds from the first to the last token of the continuation; its ids are then in b->token. */
static double time_repeating(struct bench *b, const char *text, const char *spec, struct err *e)
{
	enum { GENERATED = 96 };
	int32_t *ids = NULL;
	size_t n = 0, cap = 0;
	double start = 0, end;
	if (tokenizer_encode(engine_tokenizer(b->engine), text, strlen(text), false, &ids, &n, &cap, e))
		return -1;
	b->n_tokens = 0;
	memset(b->token, 0, sizeof b->token);
	int status = engine_set(b->engine, "spec", spec, e) ||
				 submit(b, ids, (int32_t)n, GENERATED, true, e) < 0 || bench_step_until(b, 1, e);
	free(ids);
	start = bench_now();
	if (status || step_to_end(b, e) || engine_set(b->engine, "spec", "off", e))
		return -1;
	end = bench_now();
	return (end - start) / (double)(b->n_tokens > 1 ? b->n_tokens - 1 : 1);
}

/* Pairs with and without drafts, which must give the same tokens. */
int bench_measure_spec(struct bench *b, double seconds, struct bench_figure *out, struct err *e)
{
	struct samples s = { .n = 0 };
	double end = bench_now() + seconds;
	do {
		int64_t plain[MOST_GENERATED];
		const char *text = repeating[(size_t)s.n % (sizeof repeating / sizeof *repeating)];
		double without = time_repeating(b, text, "off", e);
		memcpy(plain, b->token, sizeof plain);
		double with = without < 0 ? -1 : time_repeating(b, text, "ngram", e);
		if (with < 0)
			return -1;
		if (memcmp(plain, b->token, sizeof plain))
			return err_set(e, ERR_DIFFERS, "bench: drafts changed the text");
		bench_add(&s, without / with);
	} while ((bench_now() < end && s.n < 10) || s.n < 2);
	*out = bench_figure(&s);
	return 0;
}
