/* What came of a load, in words and numbers: see load.h. */
#include <math.h>
#include <stdlib.h>

#include "base/text.h"
#include "load/load.h"

/* SmolLM2-135M-Instruct Q4_1 on two threads: docs/load.md, "Counted time". */
const struct cost load_cost = { .ns = { [COST_step] = 3.7e6,
									[COST_row] = 6.7e5,
									[COST_first_rows] = 8e4,
									[COST_logits] = 3.8e5,
									[COST_position] = 980,
									[COST_pair] = 430 },
	.token_bytes = 23040 };

int load_knee(const struct load_point *p, int n)
{
	double best = 0;
	int knee = -1;

	for (int i = 0; i < n; i++) {
		const double power = p[i].result.requests_s / p[i].result.e2e.mean;

		if (p[i].result.e2e.n && power > best) {
			best = power;
			knee = i;
		}
	}
	return knee;
}

/* ---- for people ---- */

/* Three digits and a unit, in 8 columns. */
static const char *time_text(double s, char buf[16])
{
	if (isnan(s))
		snprintf(buf, 16, "%8s", "-");
	else if (s < 0.9995)
		snprintf(buf, 16, "%5.*f ms", s < 0.00995 ? 2 : s < 0.0995 ? 1 : 0, s * 1e3);
	else
		snprintf(buf, 16, "%6.*f s", s < 9.995 ? 2 : s < 99.95 ? 1 : 0, s);
	return buf;
}

static void print_quantiles(const char *name, const struct tally_quantiles *q, FILE *out)
{
	char b[5][16];

	fprintf(out, "%-12s %s %s %s %s %s%s\n", name, time_text(q->mean, b[0]),
		time_text(q->p50, b[1]), time_text(q->p90, b[2]), time_text(q->p99, b[3]),
		time_text(q->max, b[4]), q->exact ? "" : "   (percentiles to 1.6 %)");
}

static double percent(double part, double whole)
{
	return whole > 0 ? 100 * part / whole : 0;
}

static void print_room(const struct tally_result *r, const struct tally *t, FILE *out)
{
	if (r->rectangle)
		fprintf(out, "padding      %.0f %% of batches of %d padded to rectangles would be empty\n",
			percent((double)(r->rectangle - r->used), (double)r->rectangle), t->o.slots);
	if (r->reserved)
		fprintf(out,
			"reservation  %.0f %% of %d tokens reserved for each would be unused; of pages %.1f "
			"%%\n",
			percent((double)(r->reserved - r->used), (double)r->reserved), t->o.reserve,
			percent((double)(r->paged - r->used), (double)r->paged));
}

static void print_failures(const struct load_point *p, FILE *out)
{
	const struct tally_result *r = &p->result;

	if (r->n_failed)
		fprintf(out, "failed       %lld; the first: %s\n", (long long)r->n_failed, p->why);
	if (r->n_open)
		fprintf(out, "stopped      %lld request%s had not ended\n", (long long)r->n_open,
			plural(r->n_open));
	if (p->n_cut)
		fprintf(out, "cut          lengths of %lld request%s, to fit\n", (long long)p->n_cut,
			plural(p->n_cut));
}

static bool has_target(const struct load_options *o)
{
	const struct tally_slo *slo = &o->tally.slo;

	return slo->ttft_s > 0 || slo->itl_s > 0 || slo->tpot_s > 0 || slo->e2e_s > 0;
}

void load_print_point(const struct load_point *p, const struct load_options *o, FILE *out)
{
	const struct tally_result *r = &p->result;

	fprintf(out, "%lld request%s in %.4g s: %s\n\n", (long long)r->n_requests,
		plural(r->n_requests), r->span_s, p->model);
	fprintf(out, "%-12s %8s %8s %8s %8s %8s\n", "", "mean", "p50", "p90", "p99", "max");
	print_quantiles("TTFT", &r->ttft, out);
	print_quantiles("ITL", &r->itl, out);
	print_quantiles("end to end", &r->e2e, out);
	fprintf(out, "throughput   %.4g tokens/s, %.4g requests/s\n", r->tokens_s, r->requests_s);
	if (has_target(o))
		fprintf(out, "goodput      %.4g requests/s: %lld of %lld met the target\n", r->goodput_s,
			(long long)r->n_good, (long long)r->n_requests);
	fprintf(out, "queue        %.2f waited in the mean, at most %lld; %.2f ran, at most %lld\n",
		r->queue_mean, (long long)r->queue_max, r->running_mean, (long long)r->running_max);
	fprintf(out, "tokens       %lld of prompts, of them %lld cached; %lld generated\n",
		(long long)r->prompt_tokens, (long long)r->cached_tokens, (long long)r->output_tokens);
	print_room(r, &p->tally, out);
	print_failures(p, out);
}

/* ---- one list for text, JSON and CSV ---- */

enum { TIME = -1 }; /* in place of decimals: with a unit */

/* X(key, heading or NULL, decimals, value): figures r of a point, for options o. */
#define FIGURES(X)                                                                                 \
	X(ttft_mean_s, NULL, TIME, r->ttft.mean)                                                       \
	X(ttft_p50_s, "TTFT p50", TIME, r->ttft.p50)                                                   \
	X(ttft_p90_s, NULL, TIME, r->ttft.p90)                                                         \
	X(ttft_p99_s, "p99", TIME, r->ttft.p99)                                                        \
	X(itl_mean_s, NULL, TIME, r->itl.mean)                                                         \
	X(itl_p50_s, "ITL p50", TIME, r->itl.p50)                                                      \
	X(itl_p90_s, NULL, TIME, r->itl.p90)                                                           \
	X(itl_p99_s, "p99", TIME, r->itl.p99)                                                          \
	X(itl_max_s, NULL, TIME, r->itl.max)                                                           \
	X(e2e_mean_s, NULL, TIME, r->e2e.mean)                                                         \
	X(e2e_p50_s, "e2e p50", TIME, r->e2e.p50)                                                      \
	X(e2e_p90_s, NULL, TIME, r->e2e.p90)                                                           \
	X(e2e_p99_s, NULL, TIME, r->e2e.p99)                                                           \
	X(span_s, NULL, TIME, r->span_s)                                                               \
	X(tokens_s, "tokens/s", 1, r->tokens_s)                                                        \
	X(requests_s, NULL, 3, r->requests_s)                                                          \
	X(goodput_s, has_target(o) ? "goodput" : NULL, 2, r->goodput_s)                                \
	X(queue_mean, "queue", 1, r->queue_mean)                                                       \
	X(queue_max, NULL, 0, r->queue_max)                                                            \
	X(running_mean, NULL, 1, r->running_mean)                                                      \
	X(running_max, NULL, 0, r->running_max)                                                        \
	X(requests, NULL, 0, r->n_requests)                                                            \
	X(failed, NULL, 0, r->n_failed)                                                                \
	X(good, NULL, 0, r->n_good)                                                                    \
	X(open, NULL, 0, r->n_open)                                                                    \
	X(prompt_tokens, NULL, 0, r->prompt_tokens)                                                    \
	X(cached_tokens, NULL, 0, r->cached_tokens)                                                    \
	X(output_tokens, NULL, 0, r->output_tokens)                                                    \
	X(used_tokens, NULL, 0, r->used)                                                               \
	X(padded_tokens, NULL, 0, r->rectangle)                                                        \
	X(reserved_tokens, NULL, 0, r->reserved)                                                       \
	X(paged_tokens, NULL, 0, r->paged)

void load_columns(const struct load_options *o, struct listing_column column[LOAD_COLUMNS])
{
	int n = 0;

	column[n++] = (struct listing_column){ "policy", "policy", -13 };
	column[n++] = (struct listing_column){ "load",
		o->workload.arrivals == WORKLOAD_CLOSED ? "users" : "rate", 5 };
	column[n++] = (struct listing_column){ "model", NULL, 0 };
#define X(key, head, decimals, value) column[n++] = (struct listing_column){ #key, head, 8 };
	FIGURES(X)
#undef X
	column[n++] = (struct listing_column){ "exact", NULL, 0 };
	column[n++] = (struct listing_column){ "cut", NULL, 0 };
	column[n++] = (struct listing_column){ "first_failure", NULL, 0 };
	column[n++] = (struct listing_column){ NULL, "", 0 };
	column[n] = (struct listing_column){ 0 };
}

static void list_figure(struct listing *l, int decimals, double value)
{
	char b[16];

	if (decimals == TIME)
		listing_as(l, "%s", time_text(value, b));
	else
		listing_as(l, "%.*f", decimals, value);
	listing_real(l, value, 12);
}

void load_list(const struct load_point *p, struct listing *l)
{
	const struct tally_result *r = &p->result;

	listing_text(l, p->policy);
	listing_as(l, "%.4g", p->load);
	listing_real(l, p->load, 9);
	listing_text(l, p->model);
#define X(key, head, decimals, value) list_figure(l, decimals, (double)(value));
	FIGURES(X)
#undef X
	listing_bool(l, r->itl.exact && r->e2e.exact);
	listing_int(l, p->n_cut);
	listing_text(l, *p->why ? p->why : NULL);
	listing_text(l, r->n_failed ? "some failed" : p->stopped ? "stopped" : "");
}

const struct listing_column load_queue_columns[] = { { "policy", NULL, 0 }, { "load", NULL, 0 },
	{ "at_s", NULL, 0 }, { "waiting", NULL, 0 }, { 0 } };

void load_list_queue(const struct load_point *p, struct listing *l)
{
	struct tally_change *c;
	const int64_t n = tally_queue(&p->tally, &c);

	for (int64_t i = 0; i < n; i++) {
		listing_text(l, p->policy);
		listing_real(l, p->load, 9);
		listing_real(l, c[i].at_s, 12);
		listing_int(l, c[i].waiting);
	}
	free(c);
}

const struct listing_column load_request_columns[] = { { "policy", NULL, 0 }, { "load", NULL, 0 },
	{ "request", NULL, 0 }, { "user", NULL, 0 }, { "slot", NULL, 0 }, { "prompt", NULL, 0 },
	{ "cached", NULL, 0 }, { "generated", NULL, 0 }, { "arrived_s", NULL, 0 },
	{ "admitted_s", NULL, 0 }, { "first_s", NULL, 0 }, { "last_s", NULL, 0 },
	{ "ended_s", NULL, 0 }, { "longest_gap_s", NULL, 0 }, { "failed", NULL, 0 },
	{ "good", NULL, 0 }, { 0 } };

void load_list_requests(const struct load_point *p, struct listing *l)
{
	for (int64_t i = 0; i < p->tally.n_kept; i++) {
		const struct tally_request *r = &p->tally.kept[i];
		const int64_t count[] = { r->number, r->user, r->slot, r->n_prompt, r->n_cached,
			r->n_output };
		const double s[] = { r->arrived_s, r->admitted_s, r->first_s, r->newest_s, r->ended_s,
			r->longest_s };

		listing_text(l, p->policy);
		listing_real(l, p->load, 9);
		for (size_t k = 0; k < sizeof count / sizeof *count; k++)
			listing_int(l, count[k]);
		for (size_t k = 0; k < sizeof s / sizeof *s; k++)
			listing_real(l, s[k], 12);
		listing_bool(l, r->failed);
		listing_bool(l, r->good);
	}
}
