/* cutaway load: requests put on the engine inside, or on a server. Thread: main's. */
#include <math.h>

#include "base/json.h"
#include "base/whole_file.h"
#include "cli/change.h"
#include "cli/load_words.h"
#include "cli/open.h"
#include "cli/out.h"
#include "engine/sched/policy.h"

enum { POINTS = 64, SWEEP = 10, WIDTH = 79, ROWS = 24, CHART_H = 16 };

static struct load_opts {
	struct load_words load;
	const char *url, *rate, *users, *policies, *cost, *svg;
	bool completions, counted, sweep, natural;
} opts = { .load = { LOAD_WORDS, .requests = 40 }, .rate = "1" };

static const struct setting load_own[] = {
	LOAD_OPTIONS(load_opts, "Load"),
	OWN(TEXT, load_opts, url, "url", "Load",
		"ask this server of the OpenAI interface, and not the engine inside; its key is read from "
		"the variable CUTAWAY_API_KEY",
		.arg = "URL"),
	OWN(FLAG, load_opts, completions, "completions", "Load",
		"with --url: ask /v1/completions, with prompts as one text"),
	OWN(TEXT, load_opts, rate, "rate", "Load",
		"requests a second, of a trace how many times as fast as it was; several: a run each, and "
		"a curve",
		.arg = "R[,R…]"),
	OWN(FLAG, load_opts, sweep, "sweep", "Load",
		"doubles the last rate, or users, until throughput rises by less than a tenth"),
	OWN(TEXT, load_opts, users, "users", "Load",
		"in place of a rate: so many users, who each wait for the answer before they ask again",
		.arg = "N[,N…]"),
	OWN(FLAG, load_opts, natural, "natural", "Load",
		"answers end where the model ends them, not after the load's length"),
	OWN(TEXT, load_opts, policies, "policies", "Load",
		"run the load under each of these policies (see --policy), and compare", .arg = "LIST"),
	OWN(FLAG, load_opts, counted, "counted", "Load",
		"by counted time: nothing is computed, a step takes what --cost says, and every run gives "
		"the same"),
	OWN(TEXT, load_opts, cost, "cost", "Load",
		"with --counted: prices of a step (cutaway simulate), or a recording to fit them to",
		.arg = "FILE"),
	OWN(TEXT, load_opts, svg, "svg", "Load",
		"the curve, or of one run its requests over time, as a picture", .arg = "FILE"),
	{ 0 },
};

struct runs {
	struct load_options o;
	struct load_engine inside;
	struct load_server server;
	struct cost cost;
	double load[POINTS];
	const char *policy[POINTS];
	char policies[256];         /* their names */
	int n_loads, n_policies, n; /* n: points that ran */
	struct load_point point[POINTS];
	struct bar bar;
};

/* ---- the command line ---- */

static int read_loads(struct runs *r, struct err *e)
{
	const char *option = opts.users ? "users" : "rate", *at = opts.users ? opts.users : opts.rate;

	do {
		if (r->n_loads == POINTS)
			return err_set(e, ERR_USAGE, "--%s: at most %d", option, POINTS);
		if (words_number(&at, option, &r->load[r->n_loads], e))
			return -1;
		if (opts.users && (r->load[r->n_loads] != floor(r->load[r->n_loads]) ||
							  r->load[r->n_loads] > WORKLOAD_MOST))
			return err_set(e, ERR_USAGE, "--users: whole numbers up to %d", WORKLOAD_MOST);
		r->n_loads++;
	} while (*at);
	return 0;
}

static int read_policies(struct runs *r, const char *one, struct err *e)
{
	r->n_policies = 1;
	r->policy[0] = opts.url ? "server" : one;
	if (!opts.policies)
		return 0;
	if (opts.url)
		return err_set(e, ERR_USAGE, "--policies is of the engine inside: a server has its own");
	snprintf(r->policies, sizeof r->policies, "%s", opts.policies);
	r->n_policies = 0;
	for (char *at = strtok(r->policies, ","); at; at = strtok(NULL, ",")) {
		const struct sched_policy *p = sched_policy_find(at, e);

		if (!p || r->n_policies == POINTS)
			return err_set(e, ERR_USAGE, "--policies: at most %d", POINTS);
		r->policy[r->n_policies++] = p->name;
	}
	return r->n_policies ? 0 : err_set(e, ERR_USAGE, "--policies: at least one is needed");
}

static int read_cost(struct runs *r, struct err *e)
{
	struct cost_rows rows = { 0 };
	int rc;

	r->cost = load_cost;
	if (!opts.cost)
		return 0;
	if (!file_is_database(opts.cost))
		return cost_read(&r->cost, opts.cost, e);
	rc = cost_take_recording(&rows, opts.cost, e) || cost_fit(&r->cost, &rows, e) ? -1 : 0;
	cost_rows_free(&rows);
	return rc;
}

static int check_together(const struct cli *c, const struct runs *r, struct err *e)
{
	const bool several = r->n_loads * r->n_policies > 1 || opts.sweep;

	if (r->n_loads * r->n_policies > POINTS)
		return err_set(e, ERR_USAGE, "at most %d runs", POINTS);
	if (opts.url && (opts.counted || c->record))
		return err_set(
			e, ERR_USAGE, "--counted and --record are of the engine inside, not of --url");
	if (opts.cost && !opts.counted)
		return err_set(e, ERR_USAGE, "--cost is of --counted");
	if (opts.completions && !opts.url)
		return err_set(e, ERR_USAGE, "--completions is of --url");
	if (c->record && (several || opts.counted))
		return err_set(e, ERR_USAGE, "--record takes one run, by the machine's clock");
	if (opts.counted && strcmp(c->engine.spec, "off") != 0)
		return err_set(e, ERR_USAGE, "--counted knows no price of guessing: use --spec off");
	return 0;
}

static int read_all(struct runs *r, const struct cli *c, struct err *e)
{
	r->o.answer = &c->answer;
	r->o.natural = opts.natural;
	r->o.tally.keep = LOAD_KEEP;
	r->inside.engine = c->engine;
	r->inside.record = c->record;
	r->inside.counted = opts.counted ? &r->cost : NULL;
	r->server = (struct load_server){
		.url = opts.url, .api_key = cli_api_key(c), .completions = opts.completions
	};
	return read_loads(r, e) || words_read(&opts.load, c, opts.users != NULL, &r->o, e) ||
				   read_policies(r, c->engine.policy, e) || check_together(c, r, e) ||
				   read_cost(r, e)
			   ? -1
			   : 0;
}

/* ---- the runs ---- */

static bool progress(void *arg, const struct tally *t, double now_s)
{
	struct runs *r = arg;
	char what[120];

	snprintf(what, sizeof what, "%.0f s: %lld ended, %lld run, %lld wait, %.0f tokens/s", now_s,
		(long long)t->n_ended, (long long)t->running.now, (long long)t->waiting.now,
		now_s > 0 ? (double)t->output_tokens / now_s : 0);
	return bar_progress(&r->bar, what, t->n_ended, r->o.workload.n);
}

static int run_one(struct runs *r, int policy, int load, struct err *e)
{
	struct load_point *p = &r->point[r->n];
	int rc;

	r->n++;
	p->policy = r->policy[policy];
	p->load = r->load[load];
	r->o.workload.rate = p->load;
	r->o.workload.users = opts.users ? (int32_t)p->load : 0;
	r->inside.engine.policy = p->policy;
	snprintf(r->bar.title, sizeof r->bar.title, "%s %.4g", p->policy, p->load);
	rc = opts.url ? load_http(&r->o, &r->server, p, e) : load_inside(&r->o, &r->inside, p, e);
	out_progress_end();
	return rc;
}

/* Whether the newest point of a sweep still had more throughput than the one before. */
static bool rises(const struct runs *r, int load)
{
	const struct load_point *p = &r->point[r->n - 1];

	return !load || p->result.requests_s > 1.1 * p[-1].result.requests_s;
}

static int run_all(struct runs *r, const struct cli *c, bool *stopped, struct err *e)
{
	const bool rows = !c->json && (opts.sweep || r->n_loads * r->n_policies > 1);
	struct listing_column column[LOAD_COLUMNS];
	struct listing l;

	load_columns(&r->o, column);
	if (listing_open(&l, column, stdout, NULL, NULL, e))
		return -1;
	for (int k = 0; k < r->n_policies && !*stopped; k++)
		for (int i = 0; i < r->n_loads && !*stopped; i++) {
			const double next = 2 * r->load[i];

			if (run_one(r, k, i, e))
				return -1;
			*stopped = r->point[r->n - 1].stopped;
			if (rows)
				load_list(&r->point[r->n - 1], &l);
			fflush(stdout);
			/* the first policy says how far the sweep goes */
			if (opts.sweep && !k && i + 1 == r->n_loads && r->n_loads < SWEEP && rises(r, i) &&
				(r->n_loads + 1) * r->n_policies <= POINTS &&
				(!opts.users || next <= WORKLOAD_MOST))
				r->load[r->n_loads++] = next;
		}
	return 0;
}

/* ---- telling ---- */

static bool is_curve(const struct runs *r)
{
	return r->n_loads > 1 && r->n == r->n_loads * r->n_policies;
}

static int write_svg(const struct runs *r, struct err *e)
{
	struct whole_file f;

	if (!opts.svg)
		return 0;
	if (whole_file_open(&f, opts.svg, e))
		return -1;
	if (is_curve(r))
		load_curve_svg(r->point, r->n_policies, r->n_loads, f.out);
	else
		load_gantt_svg(&r->point[0], f.out);
	return whole_file_close(&f, 0, e);
}

static int print_json(const struct runs *r, struct err *e)
{
	struct json j = { 0 };

	json_object(&j, NULL);
	json_array(&j, "runs");
	words_json(&r->o, r->point, r->n, &j);
	json_end(&j);
	json_array(&j, "knees");
	for (int k = 0; is_curve(r) && k < r->n_policies; k++) {
		const int knee = load_knee(&r->point[k * r->n_loads], r->n_loads);

		json_object(&j, NULL);
		json_text(&j, "policy", r->policy[k]);
		if (knee >= 0)
			json_real(&j, "load", r->load[knee], 9);
		json_end(&j);
	}
	return json_print(&j, e);
}

static int report(const struct runs *r, const struct cli *c, struct err *e)
{
	if (c->json && print_json(r, e))
		return -1;
	if (r->n == 1 && !c->json) {
		load_print_point(&r->point[0], &r->o, stdout);
		putchar('\n');
		load_gantt(&r->point[0], WIDTH, ROWS, stdout);
	}
	if (is_curve(r) && !c->json) {
		putchar('\n');
		load_curve(r->point, r->n_policies, r->n_loads, WIDTH, CHART_H, stdout);
	}
	/* files come last: one that cannot be written takes no figure along */
	return out_flush(e) || write_svg(r, e) ||
				   words_write(&opts.load, c->csv, &r->o, r->point, r->n, e)
			   ? -1
			   : 0;
}

static int load_verb(const struct cli *c, struct err *e)
{
	struct runs *r = calloc(1, sizeof *r);
	char *model = NULL;
	bool stopped = false;
	int rc;

	if (!r)
		return err_no_memory(e, "a load");
	r->bar.quiet = opts.load.quiet;
	r->o.progress = progress;
	r->o.arg = r;
	rc = read_all(r, c, e) || (!opts.url && !opts.counted && model_find(c, &model, e)) ? -1 : 0;
	r->inside.engine.model = model;
	if (!rc) {
		bar_begin(&r->bar);
		rc = run_all(r, c, &stopped, e) || report(r, c, e) ? -1 : 0;
		bar_end();
	}
	for (int i = 0; i < r->n; i++)
		tally_close(&r->point[i].tally);
	free(model);
	free(r);
	if (!rc && stopped)
		return err_set(e, ERR_INTERRUPTED, "stopped: the figures are of what was done");
	return rc;
}

const struct verb verb_load = {
	VERB(load, "",
		"Model|Kernels|Exactness|Sampling|max-tokens|deadline|Scheduler|Speculation|Watching|"
		"record|json|csv"),
};
