/* cutaway bench: prints the figures. Thread: main's. */
#include <math.h>

#include "base/json.h"
#include "base/text.h"
#include "cli/open.h"
#include "cli/out.h"
#include "sessions/bench/bench.h"

static struct bench_opts {
	const char *only;
	bool turns;
} opts;

static const struct setting bench_own[] = {
	OWN(TEXT, bench_opts, only, "only", "Output", "measure this figure alone", .arg = "NAME"),
	OWN(FLAG, bench_opts, turns, "turns", "Output",
		"with --only: one run for each line on standard input, its value on a line"),
	{ 0 },
};

static void bench_progress(void *arg, const char *what)
{
	(void)arg;
	out_progress("bench: %s …", what);
}

/* Includes model and machine: without them a figure means nothing. */
static int print_json(const struct bench_report *r, struct err *e)
{
	struct json j = { 0 };
	json_put(&j, "{'run': {'model': %s, 'backend': %s, 'isa': %s, 'threads': %d}", r->info.name,
		r->backend, r->isa, r->info.threads);
#define X(name, unit, form, doc) json_real(&j, #name, r->name.median, 6);
	BENCH_FIGURES(X)
#undef X
	return json_print(&j, e);
}

static void print_figure(const char *name, const char *unit, const char *form, const char *doc,
	const struct bench_figure *f)
{
	char value[32] = "-", range[64] = "", share[32] = "";
	if (isfinite(f->median))
		snprintf(value, sizeof value, form, f->median);
	if (f->n > 1) {
		int n = snprintf(range, sizeof range, form, f->low);
		n += snprintf(range + n, sizeof range - (size_t)n, " .. ");
		n += snprintf(range + n, sizeof range - (size_t)n, form, f->high);
	}
	if (isfinite(f->share) && f->limit)
		snprintf(share, sizeof share, "%.0f%% of %s", 100 * f->share, f->limit);
	printf("%-23s %12s %-5s  %-22s  %-16s  %s\n", name, value, unit, range, share, doc);
}

static void print_table(const struct bench_report *r)
{
	printf("%s, %s %s, %d thread%s, context %d, %d pages of %d tokens\n", r->info.name, r->backend,
		r->isa, r->info.threads, plural(r->info.threads), r->info.ctx, r->state.pages,
		r->state.page_size);
	printf("model file %.1f MB (%.1f MB of weights a token), KV pool %.1f MB\n\n",
		(double)r->info.model_bytes / 1e6, r->weight_bytes / 1e6,
		(double)r->state.pages * (double)r->state.page_bytes / 1e6);
	printf("%-23s %12s %-5s  %-22s  %-16s  %s\n", "figure", "median", "", "10% .. 90%",
		"share of limit", "what");
#define X(name, unit, form, doc)                                                                   \
	if (r->name.n)                                                                                 \
		print_figure(#name, unit, form, doc, &r->name);
	BENCH_FIGURES(X)
#undef X
}

/* Each line on standard input requests a run; end of file ends the turns. */
static bool take_turn(void *arg, double value)
{
	int c;
	(void)arg;
	if (isfinite(value))
		printf("%.9g\n", value);
	else
		puts("ready");
	if (fflush(stdout))
		return false;
	while ((c = getchar()) != EOF && c != '\n')
		;
	return c != EOF;
}

static int measure(const struct cli *c, const struct engine_options *o, struct err *e)
{
	struct bench_report r;
	int status = bench_run(o, opts.only, bench_progress, NULL, &r, e);
	out_progress_end();
	if (status)
		return -1;
	if (c->json)
		return print_json(&r, e);
	print_table(&r);
	return 0;
}

static int bench_verb(const struct cli *c, struct err *e)
{
	struct engine_options o = c->engine;
	char *path = NULL;
	if (opts.only && !bench_knows(opts.only))
		return err_set(e, ERR_USAGE, "bench has no figure \"%s\"", opts.only);
	if (opts.turns && (!opts.only || c->json))
		return err_set(e, ERR_USAGE, "--turns needs --only NAME, and no other output");
	if (model_find(c, &path, e))
		return -1;
	o.model = path;
	int status = opts.turns ? bench_turns(&o, opts.only, take_turn, NULL, e) : measure(c, &o, e);
	free(path);
	return status;
}

const struct verb verb_bench = {
	VERB(bench, "", "Model|Kernels|Exactness|shadow|json"),
};
