/* What came of a load, in words and numbers: see load.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "load/load.h"

/* SmolLM2-135M-Instruct Q4_1 on two threads: docs/load.md, "Counted time". */
const struct cost load_cost = { .ns = { [COST_step] = 3.7e6,
									[COST_row] = 6.7e5,
									[COST_first_rows] = 8e4,
									[COST_logits] = 3.8e5,
									[COST_position] = 980,
									[COST_pair] = 430 },
	.token_bytes = 23040 };

void load_close(struct load_point *p)
{
	tally_close(&p->tally);
}

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
		fprintf(out, "stopped      %lld requests had not ended\n", (long long)r->n_open);
	if (p->n_cut)
		fprintf(out, "cut          lengths of %lld requests, to fit\n", (long long)p->n_cut);
}

static bool has_target(const struct load_options *o)
{
	const struct tally_slo *slo = &o->tally.slo;

	return slo->ttft_s > 0 || slo->itl_s > 0 || slo->tpot_s > 0 || slo->e2e_s > 0;
}

void load_print_point(const struct load_point *p, const struct load_options *o, FILE *out)
{
	const struct tally_result *r = &p->result;

	fprintf(out, "%lld requests in %.4g s: %s\n\n", (long long)r->n_requests, r->span_s, p->model);
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

void load_print_head(const struct load_options *o, FILE *out)
{
	fprintf(out, "%-13s %5s %8s %8s %8s %8s %8s %8s %6s%s\n", "policy",
		o->workload.arrivals == WORKLOAD_CLOSED ? "users" : "rate", "TTFT p50", "p99", "ITL p50",
		"p99", "e2e p50", "tokens/s", "queue", has_target(o) ? " goodput" : "");
}

void load_print_row(const struct load_point *p, const struct load_options *o, FILE *out)
{
	const struct tally_result *r = &p->result;
	char b[5][16];

	fprintf(out, "%-13s %5.4g %s %s %s %s %s %8.1f %6.1f", p->policy, p->load,
		time_text(r->ttft.p50, b[0]), time_text(r->ttft.p99, b[1]), time_text(r->itl.p50, b[2]),
		time_text(r->itl.p99, b[3]), time_text(r->e2e.p50, b[4]), r->tokens_s, r->queue_mean);
	if (has_target(o))
		fprintf(out, " %7.3g", r->goodput_s);
	fputs(r->n_failed ? " some failed\n" : p->stopped ? " stopped\n" : "\n", out);
}

/* ---- for programs ---- */

/* Figures of a point that JSON and CSV have alike. */
#define FIGURES(X)                                                                                 \
	X(ttft_mean_s, r->ttft.mean)                                                                   \
	X(ttft_p50_s, r->ttft.p50)                                                                     \
	X(ttft_p90_s, r->ttft.p90)                                                                     \
	X(ttft_p99_s, r->ttft.p99)                                                                     \
	X(itl_mean_s, r->itl.mean)                                                                     \
	X(itl_p50_s, r->itl.p50)                                                                       \
	X(itl_p90_s, r->itl.p90)                                                                       \
	X(itl_p99_s, r->itl.p99)                                                                       \
	X(itl_max_s, r->itl.max)                                                                       \
	X(e2e_mean_s, r->e2e.mean)                                                                     \
	X(e2e_p50_s, r->e2e.p50)                                                                       \
	X(e2e_p90_s, r->e2e.p90)                                                                       \
	X(e2e_p99_s, r->e2e.p99)                                                                       \
	X(span_s, r->span_s)                                                                           \
	X(tokens_s, r->tokens_s)                                                                       \
	X(requests_s, r->requests_s)                                                                   \
	X(goodput_s, r->goodput_s)                                                                     \
	X(queue_mean, r->queue_mean)                                                                   \
	X(queue_max, r->queue_max)                                                                     \
	X(running_mean, r->running_mean)                                                               \
	X(running_max, r->running_max)                                                                 \
	X(requests, r->n_requests)                                                                     \
	X(failed, r->n_failed)                                                                         \
	X(good, r->n_good)                                                                             \
	X(open, r->n_open)                                                                             \
	X(prompt_tokens, r->prompt_tokens)                                                             \
	X(cached_tokens, r->cached_tokens)                                                             \
	X(output_tokens, r->output_tokens)                                                             \
	X(used_tokens, r->used)                                                                        \
	X(padded_tokens, r->rectangle)                                                                 \
	X(reserved_tokens, r->reserved)                                                                \
	X(paged_tokens, r->paged)

void load_json(const struct load_point *p, const struct load_options *o, struct json *j)
{
	const struct tally_result *r = &p->result;

	json_object(j, NULL);
	json_text(j, "policy", p->policy);
	json_real(j, o->workload.arrivals == WORKLOAD_CLOSED ? "users" : "rate", p->load, 9);
	json_text(j, "model", p->model);
#define X(name, value) json_real(j, #name, (double)(value), 12);
	FIGURES(X)
#undef X
	json_bool(j, "exact", r->itl.exact && r->e2e.exact);
	json_int(j, "cut", p->n_cut);
	if (*p->why)
		json_text(j, "first_failure", p->why);
	json_end(j);
}

void load_csv_head(FILE *out)
{
	fputs("policy,load", out);
#define X(name, value) fputs("," #name, out);
	FIGURES(X)
#undef X
	fputc('\n', out);
}

static void csv_number(double x, FILE *out)
{
	if (isnan(x))
		fputc(',', out);
	else
		fprintf(out, ",%.12g", x);
}

void load_csv(const struct load_point *p, FILE *out)
{
	const struct tally_result *r = &p->result;

	fprintf(out, "%s,%.9g", p->policy, p->load);
#define X(name, value) csv_number((double)(value), out);
	FIGURES(X)
#undef X
	fputc('\n', out);
}

void load_queue_head(FILE *out)
{
	fputs("policy,load,at_s,waiting\n", out);
}

void load_queue(const struct load_point *p, FILE *out)
{
	struct tally_change *c;
	const int64_t n = tally_queue(&p->tally, &c);

	for (int64_t i = 0; i < n; i++)
		fprintf(
			out, "%s,%.9g,%.12g,%lld\n", p->policy, p->load, c[i].at_s, (long long)c[i].waiting);
	free(c);
}

void load_requests_head(FILE *out)
{
	fputs("policy,load,request,user,slot,prompt,cached,generated,arrived_s,admitted_s,first_s,"
		  "last_s,ended_s,longest_gap_s,failed,good\n",
		out);
}

void load_requests(const struct load_point *p, FILE *out)
{
	for (int64_t i = 0; i < p->tally.n_kept; i++) {
		const struct tally_request *r = &p->tally.kept[i];
		const double s[] = { r->arrived_s, r->admitted_s, r->first_s, r->newest_s, r->ended_s,
			r->longest_s };

		fprintf(out, "%s,%.9g,%lld,%d,%d,%d,%d,%d", p->policy, p->load, (long long)r->number,
			r->user, r->slot, r->n_prompt, r->n_cached, r->n_output);
		for (size_t k = 0; k < sizeof s / sizeof *s; k++)
			csv_number(s[k], out);
		fprintf(out, ",%d,%d\n", r->failed, r->good);
	}
}
