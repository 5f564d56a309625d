/* bench: see bench.h. Opens an engine that records, runs the measurements asked for, and cleans up.
 * Thread: the caller's, while the engine's pool and the log writer run, too. */
#include "sessions/bench/bench_impl.h"

#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

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

static int make_text(struct bench *b, struct err *e)
{
	char part[400];
	size_t cap = 0;
	for (int i = 0; b->n_ids < DEEPER + 5 * N_MANY; i++) {
		int n = snprintf(part, sizeof part,
			"Chapter %d. On day %d of the voyage the captain wrote that the wind had turned to "
			"the north, that %d barrels of water were left, and that nobody on board could say "
			"how far the coast was. The cook made soup. The stars, she added, were very clear.\n",
			i + 1, 3 * i + 2, 90 - i);
		if (tokenizer_encode(
				engine_tokenizer(b->engine), part, (size_t)n, false, &b->ids, &b->n_ids, &cap, e))
			return -1;
	}
	return 0;
}

static int open_all(struct bench *b, const struct engine_options *o, struct err *e)
{
	const struct session_options with = {
		.engine = *o, .sink = bench_on_event, .arg = b, .temporary = true, .sink_pushes = true
	};
	if (session_open(&b->session, &with, e))
		return -1;
	b->engine = b->session.engine;
	if (engine_info(b->engine)->diffusion)
		return err_set(e, ERR_USAGE,
			"bench: it measures prefill and decode, and a diffusion model has neither: its steps "
			"compute whole answers; see compare");
	b->recording = true;
	if (make_text(b, e) || session_begin(&b->session, NULL, NULL, e))
		return -1;
	b->token_s = 0.1;
	/* warms up, and gives the time that the lengths of runs derive from */
	b->token_s = bench_time_decode(b, SHORT, 16, 1, e);
	return b->token_s < 0 ? -1 : 0;
}

static int close_all(struct bench *b, struct err *e)
{
	int status = session_close(&b->session, e);
	free(b->ids);
	bench_free_memory(b);
	free(b);
	return status;
}

static void bench_say(struct bench *b, const char *what)
{
	if (b->report)
		b->report(b->arg, what);
}

/* ---- what is measured ---- */

/* What takes long, and is measured only if it is named. */
static bool on_demand(const struct bench_case *c)
{
	return c->n_requests == N_MANY || c->n_ids == DEEPER;
}

/* Is `only` (or NULL: any) among the names, each with a blank on either side? */
static bool wanted(const char *names, const char *only)
{
	char word[64];
	snprintf(word, sizeof word, " %s ", only ? only : "");
	return !only || strstr(names, word);
}

static int run_case(
	struct bench *b, const struct bench_case *c, struct bench_report *r, struct err *e)
{
	struct bench_figure *f = (struct bench_figure *)(void *)((char *)r + c->at);
	struct bench_shares s;
	if (!bench_fits(b, c))
		return 0;
	if (c->prefill && engine_set(b->engine, "prefix-cache", "off", e))
		return -1;
	if (bench_pairs(b, c, f, &s, e))
		return -1;
	if (f == &r->decode_tok_s) {
		r->bandwidth_fraction = s.memory;
		r->weights_fraction = s.weights;
	} else if (f == &r->prefill64_tok_s) {
		r->ttft_ms = (struct bench_figure){ 1e3 * FIRST / f->median, 1e3 * FIRST / f->high,
			1e3 * FIRST / f->low, f->n, f->share, f->limit };
	}
	return c->prefill ? engine_set(b->engine, "prefix-cache", "on", e) : 0;
}

/* Ratios, each measured for this many seconds. */
static const struct {
	const char *what, *names;
	size_t at; /* offset of the figure in a report */
	double seconds;
	int (*measure)(struct bench *b, double seconds, struct bench_figure *out, struct err *e);
} ratios[] = {
	{ "steps of 4 rows", " cost4 ", offsetof(struct bench_report, cost4), 8, bench_measure_cost4 },
	{ "text that repeats itself", " spec_speedup ", offsetof(struct bench_report, spec_speedup), 12,
		bench_measure_spec },
	{ "turns over cached ones", " turn_ms ", offsetof(struct bench_report, turn_ms), 8,
		bench_measure_turn },
	{ "the cost of recording", " record_percent ", offsetof(struct bench_report, record_percent),
		24, bench_measure_recording },
};

/* Memory is measured first: later measurements touch more pages and the buffer of the plain
 * reads. */
static int measure_all(struct bench *b, const char *only, struct bench_report *r, struct err *e)
{
	if (wanted(" rss_bytes ", only))
		r->rss_bytes = bench_single(resident_bytes());
	if (wanted(" read_gb_s reread_gb_s ", only)) {
		bench_say(b, "plain reads");
		for (double end = bench_now() + 0.5; bench_now() < end;)
			bench_look(b);
	}
	for (const struct bench_case *c = bench_cases; c->what; c++) {
		if (!wanted(c->names, only) || (!only && on_demand(c)))
			continue;
		bench_say(b, c->what);
		if (run_case(b, c, r, e))
			return -1;
	}
	for (size_t i = 0; i < sizeof ratios / sizeof *ratios; i++) {
		if (!wanted(ratios[i].names, only))
			continue;
		bench_say(b, ratios[i].what);
		if (ratios[i].measure(
				b, ratios[i].seconds, (struct bench_figure *)(void *)((char *)r + ratios[i].at), e))
			return -1;
	}
	return 0;
}

bool bench_knows(const char *name)
{
#define X(figure, unit, form, doc)                                                                 \
	if (!strcmp(name, #figure))                                                                    \
		return true;
	BENCH_FIGURES(X)
#undef X
	return false;
}

/* Options that the measurements need; recording is always on. */
static struct engine_options options_for(const struct engine_options *o, const char *figure)
{
	struct engine_options used = *o;
	const int32_t least = figure && !strcmp(figure, "batch64_tok_s") ? N_MANY : N_BATCH;
	used.slots = used.slots < least ? least : used.slots;
	used.pages = used.pages ? used.pages : 8192 / used.page_size;
	used.spec = "off";
	return used;
}

static int measure_figures(
	struct bench *b, const char *only, struct bench_report *out, struct err *e)
{
	out->info = *engine_info(b->engine);
	out->weight_bytes = b->weight_bytes = (double)out->info.weight_bytes;
	out->state = engine_state(b->engine);
	snprintf(out->isa, sizeof out->isa, "%s", out->info.isa);
	snprintf(out->backend, sizeof out->backend, "%s", out->info.backend);
	b->int_rate = 2 * engine_measure_int(b->engine);
	out->int_gmac_s = bench_single(b->int_rate / 2e9);
	const double floats = engine_measure_float(b->engine);
	out->float_gmac_s = bench_single(floats > 0 ? floats / 1e9 : (double)NAN);
	int status = measure_all(b, only, out, e);
	out->read_gb_s = bench_figure(&b->reads);
	out->reread_gb_s = bench_figure(&b->rereads);
	return status;
}

int bench_run(const struct engine_options *o, const char *only,
	void (*report)(void *arg, const char *what), void *arg, struct bench_report *out, struct err *e)
{
	struct engine_options used = options_for(o, only);
	memset(out, 0, sizeof *out);
#define X(name, unit, form, doc) out->name = (struct bench_figure){ NAN, NAN, NAN, 0, NAN, NULL };
	BENCH_FIGURES(X)
#undef X
	if (only && !bench_knows(only))
		return err_set(e, ERR_USAGE, "bench has no figure of this name: see `cutaway bench`");
	struct bench *b = calloc(1, sizeof *b);
	if (!b)
		return err_no_memory(e, "the bench");
	b->report = report;
	b->arg = arg;
	bench_say(b, "starting");
	int status =
		wanted(" start_ms start_to_first_token_ms ", only) ? bench_measure_start(&used, out, e) : 0;
	status = status || open_all(b, &used, e) || measure_figures(b, only, out, e);
	return close_all(b, e) || status ? -1 : 0;
}

/* ---- by turns with another program ---- */

static int take_starts(
	const struct engine_options *o, bool (*turn)(void *arg, double value), void *arg, struct err *e)
{
	double opened, token = NAN;
	while (turn(arg, 1e3 * token))
		if (bench_time_start(o, &opened, &token, e))
			return -1;
	return 0;
}

static int take_turns(struct bench *b, const struct bench_case *c,
	bool (*turn)(void *arg, double value), void *arg, struct err *e)
{
	double value = NAN;
	if (!bench_fits(b, c))
		return err_set(e, ERR_USAGE, "bench: %s needs a longer context or more slots", c->what);
	if (c->prefill && engine_set(b->engine, "prefix-cache", "off", e))
		return -1;
	while (turn(arg, value)) {
		value = bench_once(b, c, e);
		if (value < 0)
			return -1;
	}
	return 0;
}

int bench_turns(const struct engine_options *o, const char *figure,
	bool (*turn)(void *arg, double value), void *arg, struct err *e)
{
	struct engine_options used = options_for(o, figure);
	const struct bench_case *c = bench_cases;
	if (!strcmp(figure, "start_to_first_token_ms"))
		return take_starts(&used, turn, arg, e);
	while (c->what && !wanted(c->names, figure))
		c++;
	if (!c->what)
		return err_set(e, ERR_USAGE, "bench: \"%s\" is not measured by single runs", figure);
	struct bench *b = calloc(1, sizeof *b);
	if (!b)
		return err_no_memory(e, "the bench");
	int status = open_all(b, &used, e) || take_turns(b, c, turn, arg, e);
	return close_all(b, e) || status ? -1 : 0;
}
