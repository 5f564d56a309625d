/* cutaway bench: prints the figures. Thread: main's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/whole_file.h"
#include "cli/bench_search.h"
#include "cli/cli.h"
#include "cli/model.h"
#include "cli/out.h"
#include "sessions/bench.h"
#include "sessions/bench_spec.h"
#include "sessions/profile.h"
#include "sessions/roofline.h"

static struct bench_said {
	const char *only, *search, *svg;
	bool roofline, profile, turns;
} said;

static const struct setting bench_own[] = {
	OWN(TEXT, bench_said, only, .name = "only", .group = "Output", .arg = "NAME", .doc = "measure this figure alone"),
	OWN(TEXT, bench_said, search, .name = "search", .group = "Output", .arg = "METHOD+METHOD", .bare = true,
		.doc = "what searches cost and share: best:8+beam:4+mcts:32, or these; see docs/search.md"),
	OWN(FLAG, bench_said, roofline, .name = "roofline", .group = "Output",
		.doc = "draw each kernel stage against the limits of the machine"),
	OWN(FLAG, bench_said, profile, .name = "profile", .group = "Output",
		.doc = "print where a token's time goes, stage by stage"),
	OWN(FLAG, bench_said, turns, .name = "turns", .group = "Output",
		.doc = "with --only: one run for each line on standard input, its value on a line"),
	OWN(FILE, bench_said, svg, .name = "svg", .group = "Output", .arg = "FILE", .doc = "write that picture as SVG"),
	{ 0 },
};

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

/* What was measured: without it a figure means nothing. */
static int print_json_run(const struct bench_report *r, struct err *e)
{
	char *name = text_json(r->info.name, strlen(r->info.name));

	if (!name)
		return err_set(e, ERR_MEMORY, "no memory for the model's name");
	printf("{\"run\":{\"model\":%s,\"backend\":\"%s\",\"isa\":\"%s\",\"threads\":%d}", name, r->backend,
		   r->isa, r->info.threads);
	free(name);
	return 0;
}

static int print_json(const struct bench_report *r, struct err *e)
{
	if (print_json_run(r, e))
		return -1;
#define X(name, unit, form, doc) print_json_number(#name, r->name.median, ",");
	BENCH_FIGURES(X)
#undef X
	printf("}\n");
	return 0;
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
	printf("%s, %s %s, %d threads, context %d, %d pages of %d tokens\n", r->info.name, r->backend, r->isa,
		   r->info.threads, r->info.ctx, r->state.pages, r->state.page_size);
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

static int draw_roofline(const struct cli *c, const struct bench_report *r, struct err *e)
{
	struct roofline plot;
	roofline_of(&plot, r);
	if (said.roofline) {
		putchar('\n');
		roofline_print(&plot, c->ascii, stdout);
	}
	if (!said.svg)
		return 0;
	struct whole_file f;
	if (whole_file_open(&f, said.svg, e))
		return -1;
	roofline_svg(&plot, f.out);
	return whole_file_close(&f, 0, e);
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
	if (said.only && !bench_knows(said.only))
		return err_set(e, ERR_USAGE, "bench has no figure \"%s\"", said.only);
	if (c->json && (said.roofline || said.profile))
		return err_set(e, ERR_USAGE, "--json goes with neither --roofline (see --svg) nor --profile");
	if (cli_given(c, "max-tokens") && (!cli_given(c, "spec") || !c->answer.max_tokens))
		return err_set(e, ERR_USAGE, "bench has --max-tokens N, from 1, for --spec alone");
	if (said.turns && (!said.only || c->json || said.roofline || said.profile || said.svg))
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
	int status = bench_run(o, said.only, telling ? tell : NULL, NULL, &r, e);
	if (telling)
		fprintf(stderr, "\r\033[K");
	if (status)
		return -1;
	if (c->json && print_json(&r, e))
		return -1;
	if (!c->json)
		print_table(&r);
	if ((said.profile || said.roofline || said.svg) && !has_stages(&r))
		return err_set(e, ERR_USAGE,
					   "%s has no kernel stages to show; decode_tok_s, decode_1k_tok_s and "
					   "prefill_tok_s have, where the context is long enough",
					   said.only ? said.only : "bench");
	if (said.profile)
		profile_print(&r, stdout);
	return said.roofline || said.svg ? draw_roofline(c, &r, e) : 0;
}

/* ---- bench --spec ---- */

static void print_shares(const struct bench_spec_line *l)
{
	for (int i = 0; i < 5; i++)
		if (l->judged[i] > 0)
			printf(" %4.0f%%", 100 * l->accepted[i] / l->judged[i]);
		else
			printf("     -");
}

static void print_spec(const struct bench_spec *r)
{
	printf("%s, %s, %d threads; plain decoding %.1f tok/s\na step of K rows against one:", r->info.name, r->isa,
		   r->info.threads, r->plain_tok_s);
	for (int i = 0; i < r->n_rows; i++)
		printf("  %d: %.2f", r->rows[i], r->cost[i]);
	printf("\n\n%-22s %-6s %6s  %-29s  %6s %-14s %7s %7s %9s %7s\n", "drafter", "kind", "a step",
		   "accepted at 1 2 3 4 5 ahead", "speed", "  10 .. 90 %", "whole", "steady", "predicted", "off by");
	for (int i = 0; i < r->n; i++) {
		const struct bench_spec_line *l = &r->line[i];

		printf("%-22s %-6s %6.2f ", l->spec, l->kind, l->steps > 0 ? l->tokens / l->steps : (double)NAN);
		print_shares(l);
		printf("  %5.2fx %5.2f .. %5.2f %6.2fx %6.2fx", l->speed, l->low, l->high, l->whole, l->steady);
		if (isfinite(l->predicted))
			printf(" %8.2fx %+6.1f%%", l->predicted, 100 * (l->predicted / l->steady - 1));
		putchar('\n');
	}
}

static void print_mixed(const struct bench_mixed *m)
{
	const struct bench_mixed_line *best, *plain = &m->line[0];
	double of_best = bench_mixed_auto(m, &best);

	if (m->n < 2)
		return;
	printf("\na mixed session: %d prompts, kinds by turns; time counted from what rows cost, wall clock of one run\n"
		   "%-22s %6s %8s %9s %7s %8s\n", m->prompts, "drafter", "a step", "counted", "predicted", "off by", "wall");
	for (int i = 1; i < m->n; i++) {
		const struct bench_mixed_line *l = &m->line[i];

		double speed = plain->counted_ns / plain->tokens / (l->counted_ns / l->tokens);

		printf("%-22s %6.2f %7.2fx", l->spec, l->tokens / l->steps, speed);
		if (isfinite(l->predicted))
			printf(" %8.2fx %+6.1f%%", l->predicted, 100 * (l->predicted / speed - 1));
		else
			printf("%18s", "");
		printf(" %7.2fx\n", plain->ns / plain->tokens / (l->ns / l->tokens));
	}
	if (isfinite(of_best))
		printf("auto: %.1f %% of the speed of the best, %s\n", 100 * of_best, best->spec);
}

static void print_json_mixed(const struct bench_mixed *m)
{
	const struct bench_mixed_line *best;

	printf(",\"mixed\":[");
	for (int i = 0; i < m->n; i++) {
		const struct bench_mixed_line *l = &m->line[i];

		printf("%s{\"drafter\":\"%s\",\"steps\":%.0f,\"tokens\":%.0f", i ? "," : "", l->spec, l->steps, l->tokens);
		print_json_number("counted_ns", l->counted_ns, ",");
		print_json_number("ns", l->ns, ",");
		print_json_number("predicted", l->predicted, ",");
		putchar('}');
	}
	putchar(']');
	print_json_number("auto_of_best", bench_mixed_auto(m, &best), ",");
}

static void print_json_shares(const struct bench_spec_line *l)
{
	printf(",\"judged\":[");
	for (int i = 0; i < DRAFT_MAX; i++)
		printf("%s%.0f", i ? "," : "", l->judged[i]);
	printf("],\"accepted\":[");
	for (int i = 0; i < DRAFT_MAX; i++)
		printf("%s%.0f", i ? "," : "", l->accepted[i]);
	printf("]}");
}

static void print_spec_json(const struct bench_spec *r)
{
	printf("{\"plain_tok_s\":%.6g,\"cost\":{", r->plain_tok_s);
	for (int i = 0; i < r->n_rows; i++)
		printf("%s\"%d\":%.4f", i ? "," : "", r->rows[i], r->cost[i]);
	printf("},\"lines\":[");
	for (int i = 0; i < r->n; i++) {
		const struct bench_spec_line *l = &r->line[i];

		printf("%s{\"drafter\":\"%s\",\"kind\":\"%s\",\"pairs\":%d", i ? "," : "", l->spec, l->kind, l->pairs);
		print_json_number("steps", l->steps, ",");
		print_json_number("tokens", l->tokens, ",");
		print_json_number("speed", l->speed, ",");
		print_json_number("low", l->low, ",");
		print_json_number("high", l->high, ",");
		print_json_number("whole", l->whole, ",");
		print_json_number("steady", l->steady, ",");
		print_json_number("predicted", l->predicted, ",");
		print_json_shares(l);
	}
	putchar(']');
	print_json_mixed(&r->mixed);
	puts("}");
}

static int measure_spec(const struct cli *c, const struct engine_options *o, struct err *e)
{
	struct bench_spec *r = malloc(sizeof *r);
	bool telling = isatty(STDERR_FILENO);
	int status;

	if (!r)
		return err_set(e, ERR_MEMORY, "no memory for the bench");
	status = bench_spec_run(o, c->engine.spec, cli_given(c, "max-tokens") ? c->answer.max_tokens : BENCH_SPEC_TOKENS,
							telling ? tell : NULL, NULL, r, e);
	if (telling)
		fprintf(stderr, "\r\033[K");
	if (!status && c->json)
		print_spec_json(r);
	else if (!status)
		print_spec(r), print_mixed(&r->mixed);
	free(r);
	return status;
}

static int bench_verb(const struct cli *c, struct err *e)
{
	struct engine_options o = c->engine;
	char *path = NULL;
	if (check_options(c, e) || model_find(c, &path, e))
		return -1;
	o.model = path;
	int status = cli_given(c, "search") ? bench_search(c, said.search, &o, isatty(STDERR_FILENO) ? tell : NULL, e)
				 : cli_given(c, "spec") ? measure_spec(c, &o, e) : said.turns ? bench_turns(&o, said.only, take_turn, NULL, e) : measure(c, &o, e);
	free(path);
	return status || out_flush(e) ? -1 : 0;
}

const struct verb verb_bench = {
	.name = "bench",
	.operands = "",
	.summary = "speed against the limits of this machine",
	.doc = "Measures the engine as it is used, with recording on: medians of several runs. Takes a few "
		   "minutes at most.",
	.example = "cutaway bench --json",
	.takes = "Model|Kernels|Exactness|max-tokens|spec|json|ascii",
	.min_operands = 0,
	.max_operands = 0,
	.run = bench_verb,
	.own = bench_own,
	.said = &said,
};
