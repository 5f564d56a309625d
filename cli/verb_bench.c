/* cutaway bench: prints the figures. Thread: main's. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/model.h"
#include "cli/out.h"
#include "sessions/bench.h"
#include "sessions/profile.h"
#include "sessions/roofline.h"

static void tell(void *arg, const char *what)
{
	(void)arg;
	fprintf(stderr, "\r\033[Kbench: %s …", what);
}

static void print_json_number(const char *name, double value, const char *comma)
{
	if (isfinite(value))
		printf("%s\"%s\":%.6g", comma, name, value);
	else
		printf("%s\"%s\":null", comma, name);
}

static void print_json(const struct bench_report *r)
{
	const char *comma = "{";
#define X(name, unit, form, doc)                                                                   \
	print_json_number(#name, r->name.median, comma);                                               \
	comma = ",";
	BENCH_FIGURES(X)
#undef X
	printf("}\n");
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
	printf("%s, %s %s%s, %d threads, context %d, %d pages of %d tokens\n", r->info.name, r->backend, r->isa,
		   r->info.exact ? "" : ", not exact", r->info.threads, r->info.ctx, r->info.pages, r->info.page_size);
	printf("model file %.1f MB (%.1f MB of weights a token), KV pool %.1f MB\n\n",
		   (double)r->info.model_bytes / 1e6, r->weight_bytes / 1e6,
		   (double)r->info.pages * (double)r->info.page_bytes / 1e6);
	printf("%-23s %12s %-5s  %-22s  %-16s  %s\n", "figure", "median", "", "10% .. 90%",
		   "share of limit", "what");
#define X(name, unit, form, doc)                                                                   \
	if (r->name.n)                                                                                 \
		print_figure(#name, unit, form, doc, &r->name);
	BENCH_FIGURES(X)
#undef X
}

static int draw_roofline(const struct cli *c, const struct bench_report *r, struct err *e)
{
	struct roofline plot;
	roofline_of(&plot, r);
	if (c->roofline) {
		putchar('\n');
		roofline_print(&plot, c->ascii, stdout);
	}
	if (!c->svg)
		return 0;
	FILE *f = fopen(c->svg, "w");
	if (!f)
		return err_set(e, ERR_IO, "%s: %s", c->svg, strerror(errno));
	roofline_svg(&plot, f);
	bool failed = ferror(f);
	if (fclose(f) || failed)
		return err_set(e, ERR_IO, "%s: could not be written", c->svg);
	return 0;
}

/* Only these have their stages kept: see bench_cases. */
static bool has_stages(const struct bench_report *r)
{
	double tokens = 0;
	for (int i = 0; i < BENCH_N_PHASES; i++)
		tokens += r->profile[i].tokens;
	return tokens > 0;
}

static int check_options(const struct cli *c, struct err *e)
{
	if (c->only && !bench_knows(c->only))
		return err_set(e, ERR_USAGE, "bench has no figure \"%s\"", c->only);
	if (c->json && (c->roofline || c->profile))
		return err_set(e, ERR_USAGE, "--json goes with neither --roofline (see --svg) nor --profile");
	if (c->turns && (!c->only || c->json || c->roofline || c->profile || c->svg))
		return err_set(e, ERR_USAGE, "--turns needs --only NAME, and no other output");
	return 0;
}

/* A line from the other side asks for a run; the end of its lines ends the turns. */
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
	bool telling = isatty(STDERR_FILENO);
	int status = bench_run(o, c->only, telling ? tell : NULL, NULL, &r, e);
	if (telling)
		fprintf(stderr, "\r\033[K");
	if (status)
		return -1;
	if (c->json)
		print_json(&r);
	else
		print_table(&r);
	if ((c->profile || c->roofline || c->svg) && !has_stages(&r))
		return err_set(e, ERR_USAGE,
					   "%s has no kernel stages to show; decode_tok_s, decode_1k_tok_s and "
					   "prefill_tok_s have, where the context is long enough",
					   c->only ? c->only : "bench");
	if (c->profile)
		profile_print(&r, stdout);
	return c->roofline || c->svg ? draw_roofline(c, &r, e) : 0;
}

int verb_bench(const struct cli *c, struct err *e)
{
	struct engine_options o = c->engine;
	char *path = NULL;
	if (check_options(c, e) || model_find(c, &path, e))
		return -1;
	o.model = path;
	int status = c->turns ? bench_turns(&o, c->only, take_turn, NULL, e) : measure(c, &o, e);
	free(path);
	return status || out_flush(e) ? -1 : 0;
}
