/* cutaway simulate: a load on replicas of the engine, in simulated time. Thread: main's. */
#include <math.h>

#include "base/json.h"
#include "base/router.h"
#include "base/text.h"
#include "cli/change.h"
#include "cli/load_words.h"
#include "cli/out.h"
#include "simulate/simulate.h"

static struct simulate_opts {
	struct load_words load;
	const char *cost, *fit, *link_of, *save_cost, *against, *router;
	int32_t users, replicas;
	double rate, bandwidth;
} opts = { .load = { LOAD_WORDS, .requests = 1000 },
	.router = "round-robin",
	.replicas = 1,
	.rate = 1,
	.bandwidth = 10 };

static const struct setting simulate_own[] = {
	LOAD_OPTIONS(simulate_opts, "Simulation"),
	OWN(NUMBER, simulate_opts, rate, "rate", "Simulation",
		"requests a second, of all replicas together; of a trace how many times as fast as it was",
		.arg = "R", .low = 1e-6, .high = 1e6),
	OWN(INT, simulate_opts, users, "users", "Simulation",
		"in place of a rate: so many users, who each wait for the answer before they ask again",
		.arg = "N", .high = WORKLOAD_MOST),
	OWN(INT, simulate_opts, replicas, "replicas", "Simulation", "engines behind the router",
		.arg = "N", .low = 1, .high = 10000),
	OWN(CHOICE, simulate_opts, router, "router", "Simulation",
		"which replica gets a request: see docs/simulate.md", .more = router_name),
	OWN(NUMBER, simulate_opts, bandwidth, "bandwidth", "Simulation",
		"of the link from each prefill rank, for its pages", .arg = "X", .low = 1e-6, .high = 1e6,
		.unit = "GB/s"),
	OWN(FILE, simulate_opts, cost, "cost", "Simulation",
		"prices of a step, from --save-cost (without it and --fit: those of cutaway load "
		"--counted)",
		.arg = "FILE"),
	OWN(FILE, simulate_opts, fit, "fit", "Simulation",
		"fit the prices to the steps of this recording", .arg = "FILE"),
	OWN(FILE, simulate_opts, link_of, "link-of", "Simulation",
		"of ranks: what an exchange costs, and how much of a step they share, from this recording "
		"with --tensor-parallel",
		.arg = "FILE"),
	OWN(FILE, simulate_opts, save_cost, "save-cost", "Simulation",
		"write the prices into this file", .arg = "FILE"),
	OWN(FILE, simulate_opts, against, "against", "Simulation",
		"simulate the requests of this recording in place of a load, and print both with the error",
		.arg = "FILE"),
	{ 0 },
};

struct run {
	struct simulation s;
	struct cost cost;
	struct measured measured;
	struct bar bar;
};

/* ---- the command line ---- */

static int read_link(struct cost *c, struct err *e)
{
	struct cost_rows rows = { 0 };
	struct err why = { 0 };
	int rc = cost_take_recording(&rows, opts.link_of, e);

	if (!rc && cost_ranks_calibrate(c, &rows, &why))
		rc = err_set(e, why.code, "%s: %s", opts.link_of, why.text);
	cost_rows_free(&rows);
	return rc;
}

static int read_cost(struct run *r, struct err *e)
{
	struct cost_rows rows = { 0 };
	const char *fit = opts.fit ? opts.fit : opts.cost ? NULL : opts.against;
	int rc;

	r->cost = load_cost;
	r->s.fleet.cost = &r->cost;
	if (opts.cost && opts.fit)
		return err_set(e, ERR_USAGE, "--cost and --fit exclude each other");
	if (opts.cost)
		rc = cost_read(&r->cost, opts.cost, e);
	else if (fit)
		rc = cost_take_recording(&rows, fit, e) || cost_fit(&r->cost, &rows, e);
	else
		rc = 0;
	cost_rows_free(&rows);
	if (!rc && opts.link_of)
		rc = read_link(&r->cost, e);
	if (!rc && opts.save_cost)
		rc = cost_write(&r->cost, opts.save_cost, e);
	return rc ? -1 : 0;
}

static int check_against(const struct cli *c, struct err *e)
{
	static const char *const load[] = { "requests", "arrivals", "rate", "users", "think", "kind",
		"live", "scale", "longest" };

	for (size_t i = 0; opts.against && i < ARRAY_N(load); i++)
		if (cli_given(c, load[i]))
			return err_set(e, ERR_USAGE,
				"--against has the requests of its recording: --%s is of a load", load[i]);
	return 0;
}

static int check_together(const struct cli *c, const struct run *r, struct err *e)
{
	const struct engine_options *o = &c->engine;

	if (check_against(c, e))
		return -1;
	if (o->prefill_ranks && !r->cost.token_bytes)
		return err_set(e, ERR_USAGE,
			"pages are moved, and how many bytes a token has is not known: the cost needs "
			"token_bytes (--fit, or a line of --cost)");
	if (o->prefill_ranks && o->tensor_parallel * o->pipeline_parallel * o->sequence_parallel > 1)
		return err_set(
			e, ERR_USAGE, "--prefill-ranks have the whole model each: no other ranks go with them");
	if (strcmp(c->engine.spec, "off") != 0)
		return err_set(e, ERR_USAGE, "what a drafter guesses is not simulated: use --spec off");
	if (!c->engine.kv_cache)
		return err_set(e, ERR_USAGE, "a run without --kv-cache is not simulated");
	return 0;
}

static int read_all(struct run *r, const struct cli *c, struct err *e)
{
	struct workload_options *w = &r->s.load.workload;
	struct fleet_options *f = &r->s.fleet;

	w->rate = opts.rate;
	w->users = opts.users;
	f->replicas = opts.replicas;
	f->bandwidth = opts.bandwidth * 1e9;
	f->router = opts.router;
	f->seed = c->answer.params.seed;
	r->s.engine = c->engine;
	r->s.load.tally.keep = opts.load.table || opts.load.queue ? LOAD_KEEP : 0;
	r->s.point.policy = c->engine.policy;
	r->s.point.load = opts.users ? opts.users : opts.rate;
	return words_read(&opts.load, c, opts.users > 0, &r->s.load, e) || read_cost(r, e) ||
				   check_together(c, r, e)
			   ? -1
			   : 0;
}

/* ---- telling ---- */

static bool progress(void *arg, const struct tally *t, double now_s)
{
	struct run *r = arg;
	char what[120];

	snprintf(what, sizeof what, "%.0f s simulated: %lld of %lld ended, %lld run, %lld wait", now_s,
		(long long)t->n_ended, (long long)r->s.load.workload.n, (long long)t->running.now,
		(long long)t->waiting.now);
	return bar_progress(&r->bar, what, t->n_ended, r->s.load.workload.n);
}

static void print_fleet(const struct run *r)
{
	const struct fleet_counts *n = &r->s.counts;
	const int32_t prefill = r->s.engine.prefill_ranks, all = opts.replicas * (1 + prefill);

	printf("replicas     %d, %s; %.0f %% busy\n", opts.replicas, opts.router,
		n->now_s > 0 ? 100 * n->busy_s / n->now_s / all : 0.0);
	printf("steps        %lld of %.1f rows and %.2f ms; %lld preemption%s\n", (long long)n->steps,
		n->steps ? (double)n->rows / (double)n->steps : 0.0,
		n->steps ? 1e3 * n->busy_s / (double)n->steps : 0.0, (long long)n->preempted,
		plural(n->preempted));
	if (prefill)
		printf("prompts      %d ranks a replica for them; %.4g GB of pages moved\n", prefill,
			(double)n->moved_bytes * 1e-9);
	if (cost_ranks_number(&r->s.fleet.ranks) > 1 && n->busy_s > 0)
		printf("ranks        %d a replica: exchanges %.1f %% of a step, bubble %.1f %%; %.4g kB "
			   "sent a row\n",
			cost_ranks_number(&r->s.fleet.ranks), 100 * n->exchange_s / n->busy_s,
			100 * n->bubble_s / n->busy_s, n->rows ? 1e-3 * n->sent / (double)n->rows : 0.0);
	printf("simulated    %.2f hours in %.1f s\n", n->now_s / 3600, r->s.wall_s);
}

static void print_cost(const struct run *r)
{
	if (r->cost.n_steps)
		printf("cost         fitted to %lld steps; on steps held out: median error %.1f %% of a "
			   "step, %+.1f %% of all together\n",
			(long long)r->cost.n_steps, 100 * r->cost.error, 100 * r->cost.bias);
}

/* X(name, unit factor, value): p is a point. */
#define COMPARED(X)                                                                                \
	X("tokens a second", 1, p->result.tokens_s)                                                    \
	X("requests a second", 1, p->result.requests_s)                                                \
	X("TTFT mean, ms", 1e3, p->result.ttft.mean)                                                   \
	X("TTFT p50", 1e3, p->result.ttft.p50)                                                         \
	X("TTFT p90", 1e3, p->result.ttft.p90)                                                         \
	X("TTFT p99", 1e3, p->result.ttft.p99)                                                         \
	X("ITL mean, ms", 1e3, p->result.itl.mean)                                                     \
	X("ITL p50", 1e3, p->result.itl.p50)                                                           \
	X("ITL p99", 1e3, p->result.itl.p99)                                                           \
	X("end to end p50, ms", 1e3, p->result.e2e.p50)                                                \
	X("end to end p99", 1e3, p->result.e2e.p99)                                                    \
	X("waiting, mean", 1, p->result.queue_mean)                                                    \
	X("tokens cached", 1, (double)p->result.cached_tokens)

static const char *const compared[] = {
#define X(name, unit, value) name,
	COMPARED(X)
#undef X
};
enum { N_COMPARED = ARRAY_N(compared) };

static void values_of(const struct load_point *p, double out[N_COMPARED])
{
	int i = 0;

#define X(name, unit, value) out[i++] = (unit) * (value);
	COMPARED(X)
#undef X
}

static const struct listing_column against_columns[] = { { "figure", "", -22 },
	{ "measured", "measured", 12 }, { "simulated", "simulated", 12 }, { "error", "error", 10 },
	{ 0 } };

static int list_against(const struct run *r, const struct cli *c, struct json *j, struct err *e)
{
	double was[N_COMPARED], is[N_COMPARED];
	struct listing l;

	values_of(&r->measured.point, was);
	values_of(&r->s.point, is);
	if (listing_open(&l, against_columns, stdout, j, c->csv, e))
		return -1;
	for (int i = 0; i < N_COMPARED; i++) {
		const double error = was[i] > 0 ? is[i] / was[i] - 1 : (double)NAN;

		listing_text(&l, compared[i]);
		listing_as(&l, "%.5g", was[i]);
		listing_real(&l, was[i], 9);
		listing_as(&l, "%.5g", is[i]);
		listing_real(&l, is[i], 9);
		if (isfinite(error))
			listing_as(&l, "%+.1f %%", 100 * error);
		listing_real(&l, error, 6);
	}
	return listing_end(&l, 0, e);
}

static int print_against(const struct run *r, const struct cli *c, struct err *e)
{
	struct json j = { 0 };

	if (c->json)
		json_array(&j, NULL);
	else
		printf("%lld requests of %s\n\n", (long long)r->s.point.result.n_requests, opts.against);
	if (list_against(r, c, c->json ? &j : NULL, e))
		return -1;
	if (c->json)
		return 0;
	printf("%-22s %12lld %12lld\n\n", "steps", (long long)r->measured.counts.steps,
		(long long)r->s.counts.steps);
	print_cost(r);
	return out_flush(e);
}

static int print_json(const struct run *r, struct err *e)
{
	const struct fleet_counts *n = &r->s.counts;
	struct json j = { 0 };

	json_put(&j, "{'steps': %ld, 'rows': %ld, 'preemptions': %ld, 'busy_s': %.9g, 'ranks': %d",
		n->steps, n->rows, n->preempted, n->busy_s, cost_ranks_number(&r->s.fleet.ranks));
	json_put(&j, "'exchange_s': %.9g, 'bubble_s': %.9g, 'sent_bytes': %.12g, 'simulated_s': %.9g",
		n->exchange_s, n->bubble_s, n->sent, n->now_s);
	json_put(&j, "'moved_bytes': %ld, 'cost_error': %.4g, 'cost_bias': %.4g, 'runs': [",
		n->moved_bytes, r->cost.error, r->cost.bias);
	words_json(&r->s.load, &r->s.point, 1, &j);
	json_end(&j);
	return json_print(&j, e);
}

static int print_all(const struct run *r, const struct cli *c, struct err *e)
{
	if (opts.against)
		return print_against(r, c, e);
	if (c->json)
		return print_json(r, e);
	load_print_point(&r->s.point, &r->s.load, stdout);
	print_fleet(r);
	print_cost(r);
	return out_flush(e);
}

/* Files come last: one that cannot be written takes no figure along. */
static int report(const struct run *r, const struct cli *c, struct err *e)
{
	return print_all(r, c, e) || words_write(&opts.load, opts.against ? NULL : c->csv, &r->s.load,
									 &r->s.point, 1, e)
			   ? -1
			   : 0;
}

/* ---- the runs ---- */

static int run_it(struct run *r, const struct cli *c, struct err *e)
{
	if (!opts.against) {
		snprintf(r->s.point.model, sizeof r->s.point.model, "simulated");
		return simulate_run(&r->s, e);
	}
	if (measured_read(&r->measured, opts.against, e))
		return -1;
	for (int i = 0; i < N_ENGINE_SETTINGS; i++) /* as recorded, but what is given here */
		if (!cli_given(c, engine_settings[i].name))
			setting_copy(&engine_settings[i], &r->s.engine, &r->measured.engine);
	return simulate_against(&r->s, &r->measured, e);
}

static int simulate_verb(const struct cli *c, struct err *e)
{
	struct run *r = calloc(1, sizeof *r);
	bool stopped;
	int rc;

	if (!r)
		return err_no_memory(e, "a simulation");
	r->bar.quiet = opts.load.quiet;
	r->s.fleet.progress = progress;
	r->s.fleet.arg = r;
	rc = read_all(r, c, e);
	if (!rc) {
		bar_begin(&r->bar);
		rc = run_it(r, c, e);
		out_progress_end();
		rc = rc || report(r, c, e) ? -1 : 0;
		bar_end();
	}
	stopped = r->s.point.stopped;
	measured_close(&r->measured);
	tally_close(&r->s.point.tally);
	free(r);
	if (!rc && stopped)
		return err_set(e, ERR_INTERRUPTED, "stopped: the figures are of what was done");
	return rc;
}

const struct verb verb_simulate = {
	VERB(simulate, "",
		"ctx|Scheduler|spec|seed|max-tokens|json|csv|tensor-parallel|pipeline-parallel|"
		"micro-batches|sequence-parallel|link|exchange|prefill-ranks|prefill-least"),
};
