/* bench: see bench.h. Thread: the caller's, with the engine's pool and the log writer beside it.
 *
 * Times are of this thread's clock around whole steps, so that planning, sampling, events and the
 * ring are in them; the log writer works beside. */
#include "sessions/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/gguf.h"
#include "trace/ring.h"
#include "trace/writer.h"

enum {
	MAX_RUNS = 4096,
	N_BATCH = 16,
	DEEP = 1024,
	PREFILL = 512,
	FIRST = 64,
	MOST_GENERATED = 160
};

struct samples {
	double value[MAX_RUNS];
	int n;
};

struct bench {
	struct engine *engine;
	struct ring *ring;
	struct writer *writer;
	char folder[512], file[544];
	bool recording; /* events go to the ring */
	int32_t *ids;	/* text long enough for every prompt */
	size_t n_ids;
	int64_t n_tokens, n_finished; /* since they were last set to 0 */
	struct ev_step step;		  /* the newest */
	double token_s;				  /* about how long a decoded token takes */
	void (*tell)(void *arg, const char *what);
	void *arg;
};

static double now(void) /* seconds */
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void on_event(void *arg, const struct event *ev)
{
	struct bench *b = arg;
	if (ev->kind == EV_token)
		b->n_tokens++;
	else if (ev->kind == EV_finish)
		b->n_finished++;
	else if (ev->kind == EV_step)
		b->step = ev->u.step;
	if (b->recording)
		ring_push(b->ring, ev);
}

static void add(struct samples *s, double value)
{
	if (s->n < MAX_RUNS)
		s->value[s->n++] = value;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static struct bench_figure figure(struct samples *s)
{
	struct bench_figure f = {NAN, NAN, NAN, s->n};
	if (!s->n)
		return f;
	qsort(s->value, (size_t)s->n, sizeof *s->value, by_value);
	f.median = (s->value[(s->n - 1) / 2] + s->value[s->n / 2]) / 2;
	f.low = s->value[0];
	f.high = s->value[s->n - 1];
	return f;
}

static struct bench_figure single(double value)
{
	return (struct bench_figure){value, value, value, 1};
}

static int64_t submit(struct bench *b, int32_t at, int32_t n_ids, int32_t n_generated, bool greedy,
					  struct err *e)
{
	struct engine_request q = {
		.kind = EV_REQUEST_KIND_load,
		.ids = b->ids + at,
		.n_ids = n_ids,
		.max_tokens = n_generated,
		.params = SAMPLE_DEFAULTS,
		.text = "bench",
		.ignore_end = true,
	};
	if (greedy)
		q.params.temperature = 0;
	return engine_submit(b->engine, &q, e);
}

/* Steps until n tokens were generated since the counters were set to 0, or nothing is left to do.
 */
static int step_until(struct bench *b, int64_t n, struct err *e)
{
	int more = 1;
	while (b->n_tokens < n && (more = engine_step(b->engine, e)) > 0)
		;
	if (more < 0)
		return -1;
	if (b->n_tokens < n)
		return err_set(
			e, ERR_USAGE,
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

/* Tokens that take about this long, in 8 … most. */
static int32_t tokens_of(const struct bench *b, double seconds, int32_t most)
{
	double n = seconds / b->token_s;
	return n < 8 ? 8 : n > most ? most : (int32_t)n;
}

/* Seconds a token of n_requests sequences that decode together, after a prompt of n_ids tokens. The
 * first few steps are not counted. Negative: an error. */
static double time_decode(struct bench *b, int32_t n_ids, int32_t n_generated, int n_requests,
						  struct err *e)
{
	int32_t warm = n_generated / 8 + 1;
	b->n_tokens = 0;
	for (int i = 0; i < n_requests; i++)
		if (submit(b, 5 * i, n_ids, warm + n_generated + 2, false, e) < 0)
			return -1;
	/* all have begun when the slowest has: its prompt is done, and the others decode beside it */
	do {
		if (step_until(b, b->n_tokens + 1, e))
			return -1;
	} while (b->step.prefill_rows || b->n_tokens < (int64_t)n_requests * warm);
	int64_t before = b->n_tokens;
	b->n_finished = 0;
	double start = now();
	int more = 1;
	while (b->n_tokens - before < (int64_t)n_requests * n_generated && !b->n_finished && more > 0)
		more = engine_step(b->engine, e);
	double seconds = (now() - start) / (double)(b->n_tokens - before);
	if (more < 0 || step_to_end(b, e))
		return -1;
	return seconds;
}

/* Seconds from the arrival of a prompt to its first token. The prefix cache must be off. */
static double time_first(struct bench *b, int32_t n_ids, struct err *e)
{
	b->n_tokens = 0;
	double start = now();
	if (submit(b, 0, n_ids, 1, false, e) < 0 || step_until(b, 1, e))
		return -1;
	double seconds = now() - start;
	return step_to_end(b, e) ? -1 : seconds;
}

/* ---- the measurements: each repeats for some seconds, at least once ---- */

static int measure_first(struct bench *b, int32_t n_ids, double seconds, bool as_rate,
						 struct bench_figure *out, struct err *e)
{
	struct samples s = {.n = 0};
	double end = now() + seconds;
	*out = (struct bench_figure){NAN, NAN, NAN, 0};
	if (engine_info(b->engine)->ctx <= n_ids)
		return 0;
	if (engine_set(b->engine, "prefix-cache", "off", e))
		return -1;
	do {
		double t = time_first(b, n_ids, e);
		if (t < 0)
			return -1;
		add(&s, as_rate ? n_ids / t : t * 1e3);
	} while (now() < end && s.n < 15);
	*out = figure(&s);
	return engine_set(b->engine, "prefix-cache", "on", e);
}

static int measure_decode(struct bench *b, int32_t n_ids, int n_requests, double seconds, int runs,
						  struct bench_figure *out, struct err *e)
{
	struct samples s = {.n = 0};
	double end = now() + seconds;
	*out = (struct bench_figure){NAN, NAN, NAN, 0};
	if (engine_info(b->engine)->ctx < n_ids + MOST_GENERATED)
		return 0; /* cannot be measured with this context */
	do {
		double t = time_decode(b, n_ids, tokens_of(b, 0.7, MOST_GENERATED - 32), n_requests, e);
		if (t < 0)
			return -1;
		add(&s, 1 / t);
	} while (now() < end && s.n < runs);
	*out = figure(&s);
	return 0;
}

/* Times of steps with and without drafts, at the same depths of a text that repeats itself. */
static int collect_steps(struct bench *b, const char *spec, int32_t rows, struct samples *s,
						 struct err *e)
{
	enum { PATTERN = 12, TIMES = 12 };
	int32_t prompt[PATTERN * TIMES];
	for (int i = 0; i < PATTERN * TIMES; i++)
		prompt[i] = b->ids[i % PATTERN];
	struct engine_request q = {
		.kind = EV_REQUEST_KIND_load,
		.ids = prompt,
		.n_ids = PATTERN * TIMES,
		.max_tokens = tokens_of(b, 0.5, 96),
		.params = SAMPLE_DEFAULTS,
		.text = "bench",
		.ignore_end = true,
	};
	q.params.temperature = 0;
	int more = 1;
	if (engine_set(b->engine, "spec", spec, e) || engine_submit(b->engine, &q, e) < 0)
		return -1;
	while (!engine_idle(b->engine) && (more = engine_step(b->engine, e)) > 0)
		if (!b->step.prefill_rows && b->step.rows == rows)
			add(s, (double)b->step.ns);
	return more < 0 ? -1 : engine_set(b->engine, "spec", "off", e);
}

static int measure_cost4(struct bench *b, double seconds, struct bench_figure *out, struct err *e)
{
	struct samples ratios = {.n = 0};
	double end = now() + seconds;
	do {
		struct samples one = {.n = 0}, four = {.n = 0};
		if (collect_steps(b, "off", 1, &one, e) || collect_steps(b, "ngram:3", 4, &four, e))
			return -1;
		if (one.n && four.n)
			add(&ratios, figure(&four).median / figure(&one).median);
	} while (now() < end && ratios.n < 7);
	*out = figure(&ratios);
	return 0;
}

static double time_recorded(struct bench *b, bool on, struct err *e)
{
	b->recording = on;
	engine_observe(b->engine, on);
	double t = time_decode(b, 32, tokens_of(b, 1.2, 256), 1, e);
	b->recording = true;
	engine_observe(b->engine, true);
	writer_flush(b->writer); /* what this run left to write is not the next one's burden */
	return t;
}

/* Pairs of runs with recording on and off, in the order on off off on, so that a drift cancels. */
static int measure_recording(struct bench *b, double seconds, struct bench_figure *out,
							 struct err *e)
{
	struct samples percent = {.n = 0};
	double end = now() + seconds;
	do {
		bool first = percent.n % 2 == 0;
		double a = time_recorded(b, first, e), c = time_recorded(b, !first, e);
		if (a < 0 || c < 0)
			return -1;
		add(&percent, 100 * ((first ? a / c : c / a) - 1));
	} while (now() < end && percent.n < 15);
	*out = figure(&percent);
	return 0;
}

static double resident_bytes(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (!f || fscanf(f, "%*d %ld", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages ? (double)pages * (double)sysconf(_SC_PAGESIZE) : NAN;
}

/* ---- setting up ---- */

static int measure_start(const struct engine_options *o, struct bench_figure *out, struct err *e)
{
	struct samples s = {.n = 0};
	struct engine_options plain = *o;
	double end = now() + 5;
	plain.measure = false;
	do {
		struct engine *engine = NULL;
		double start = now();
		if (engine_open(&engine, &plain, e))
			return -1;
		add(&s, 1e3 * (now() - start));
		engine_close(engine);
	} while (now() < end && s.n < 5);
	*out = figure(&s);
	return 0;
}

/* Bytes of the file's weights that one decoded token needs: all tensors but an embedding of which
 * only one row is read. */
static int count_weights(const char *model, double *bytes, struct err *e)
{
	struct gguf *g = NULL;
	if (gguf_open(&g, model, e))
		return -1;
	bool tied = !gguf_find(g, "output.weight");
	*bytes = 0;
	for (int32_t i = 0; i < gguf_n_tensors(g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);
		if (tied || strcmp(t->name, "token_embd.weight"))
			*bytes += (double)t->bytes;
	}
	gguf_close(g);
	return 0;
}

static int make_text(struct bench *b, struct err *e)
{
	char part[400];
	size_t cap = 0;
	for (int i = 0; b->n_ids < DEEP + 5 * N_BATCH; i++) {
		int n = snprintf(
			part, sizeof part,
			"Chapter %d. On day %d of the voyage the captain wrote that the wind had turned to "
			"the north, that %d barrels of water were left, and that nobody on board could say "
			"how far the coast was. The cook made soup. The stars, she added, were very clear.\n",
			i + 1, 3 * i + 2, 90 - i);
		if (tokenizer_encode(engine_tokenizer(b->engine), part, (size_t)n, false, &b->ids,
							 &b->n_ids, &cap, e))
			return -1;
	}
	return 0;
}

static int open_recording(struct bench *b, struct err *e)
{
	const char *tmp = getenv("TMPDIR");
	if (!tmp || !*tmp || strlen(tmp) > sizeof b->folder - 32)
		tmp = "/tmp";
	snprintf(b->folder, sizeof b->folder, "%s/cutaway-bench.XXXXXX", tmp);
	if (!mkdtemp(b->folder)) {
		b->folder[0] = 0;
		return err_set(e, ERR_IO, "%s: no folder for a recording could be made there", tmp);
	}
	snprintf(b->file, sizeof b->file, "%s/bench.db", b->folder);
	return ring_open(&b->ring, RING_BYTES, e) || writer_open(&b->writer, b->file, b->ring, e) ? -1
																							  : 0;
}

static int open_all(struct bench *b, const struct engine_options *o, struct err *e)
{
	if (engine_open(&b->engine, o, e) || make_text(b, e) || open_recording(b, e))
		return -1;
	if (engine_add_sink(b->engine, on_event, b))
		return err_set(e, ERR_MEMORY, "bench: the engine takes no sink");
	b->recording = true;
	engine_begin(b->engine, NULL);
	b->token_s = 0.1;
	b->token_s = time_decode(b, 16, 16, 1, e); /* warms up, and says how long runs may be */
	return b->token_s < 0 ? -1 : 0;
}

static int close_all(struct bench *b, struct err *e)
{
	static const char *const tail[] = {"", "-wal", "-shm", "-journal", ".lock"};
	int status = 0;
	engine_close(b->engine);
	if (b->writer && writer_close(b->writer, e))
		status = -1;
	if (b->ring)
		ring_close(b->ring);
	for (size_t i = 0; *b->folder && i < sizeof tail / sizeof *tail; i++) {
		char path[576];
		snprintf(path, sizeof path, "%s%s", b->file, tail[i]);
		unlink(path);
	}
	if (*b->folder)
		rmdir(b->folder);
	free(b->ids);
	return status;
}

static void say(struct bench *b, const char *what)
{
	if (b->tell)
		b->tell(b->arg, what);
}

static int measure_all(struct bench *b, struct bench_report *r, struct err *e)
{
	say(b, "decoding");
	if (measure_decode(b, 16, 1, 20, 9, &r->decode_tok_s, e))
		return -1;
	r->rss_bytes = single(resident_bytes());
	say(b, "first token");
	if (measure_first(b, FIRST, 10, false, &r->ttft_ms, e))
		return -1;
	say(b, "prefill");
	if (measure_first(b, PREFILL, 15, true, &r->prefill_tok_s, e))
		return -1;
	say(b, "decoding 1,024 tokens deep");
	if (measure_decode(b, DEEP, 1, 15, 7, &r->decode_1k_tok_s, e))
		return -1;
	say(b, "batches of 8 and 16");
	if (measure_decode(b, 16, 8, 12, 5, &r->batch8_tok_s, e) ||
		measure_decode(b, 16, N_BATCH, 15, 5, &r->batch16_tok_s, e))
		return -1;
	say(b, "steps of 4 rows");
	if (measure_cost4(b, 10, &r->cost4, e))
		return -1;
	say(b, "the cost of recording");
	return measure_recording(b, 40, &r->record_percent, e);
}

int bench_run(const struct engine_options *o, void (*tell)(void *arg, const char *what), void *arg,
			  struct bench_report *out, struct err *e)
{
	struct engine_options used = *o;
	struct bench b = {.tell = tell, .arg = arg};
	memset(out, 0, sizeof *out);
	used.slots = used.slots < N_BATCH ? N_BATCH : used.slots;
	used.pages = used.pages ? used.pages : 8192 / used.page_size;
	used.spec = "off";
	used.measure = true;
	say(&b, "starting");
	if (count_weights(o->model, &out->weight_bytes, e) || measure_start(&used, &out->start_ms, e))
		return -1;
	int status = open_all(&b, &used, e);
	if (!status) {
		out->info = *engine_info(b.engine);
		snprintf(out->isa, sizeof out->isa, "%s", out->info.isa);
		snprintf(out->backend, sizeof out->backend, "%s", out->info.backend);
		status = measure_all(&b, out, e);
	}
	if (close_all(&b, e))
		status = -1;
	if (status)
		return -1;
	out->read_gb_s = single(out->info.read_bandwidth / 1e9);
	out->bandwidth_fraction = out->decode_tok_s;
	out->bandwidth_fraction.median *= out->weight_bytes / out->info.read_bandwidth;
	out->bandwidth_fraction.low *= out->weight_bytes / out->info.read_bandwidth;
	out->bandwidth_fraction.high *= out->weight_bytes / out->info.read_bandwidth;
	return 0;
}
