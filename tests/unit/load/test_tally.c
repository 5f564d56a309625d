/* The tally of a load (load/tally.h) against brute force over all that happened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/median.h"
#include "load/tally.h"
#include "load/workload_impl.h"

enum { N = 400, MOST_TOKENS = 60, SLOTS = 8, RESERVE = 200, PAGE = 16 };

/* What happens to a request; its tokens' times ascend, some are equal. */
struct plan {
	double arrives, admitted, token[MOST_TOKENS], ends;
	int32_t n, prompt;
	bool failed;
};
enum what { ARRIVES, ADMITTED, TOKEN, ENDS };
struct moment {
	double at;
	int32_t request, token;
	enum what what;
};

static struct plan plan[N];
static struct moment moment[N * (MOST_TOKENS + 3)];
static int n_moments;

static double u(int i, int k, uint32_t c)
{
	return workload_u(77, DRAW_OWN, i, k, c);
}

static int in_time(const void *a, const void *b)
{
	const struct moment *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	if (x->request != y->request)
		return x->request - y->request;
	return x->what != y->what ? (int)x->what - (int)y->what : x->token - y->token;
}

static void note(double at, int request, enum what what, int token)
{
	moment[n_moments++] = (struct moment){ at, request, token, what };
}

static int setup(void **state)
{
	double now = 3;

	(void)state;
	for (int i = 0; i < N; i++) {
		struct plan *p = &plan[i];

		now += 0.2 * u(i, 0, 0);
		p->arrives = p->admitted = now;
		p->admitted += u(i, 0, 1) < 0.5 ? 0 : 3 * u(i, 0, 2);
		p->n = 1 + (int32_t)(u(i, 0, 3) * MOST_TOKENS);
		p->prompt = 1 + (int32_t)(u(i, 0, 4) * 100);
		p->failed = u(i, 0, 5) < 0.1;
		p->n = p->failed && i % 2 ? 0 : p->n;
		p->ends = p->admitted + u(i, 0, 6);
		for (int k = 0; k < p->n; k++)
			p->token[k] = p->ends += u(i, k, 7) < 0.2 ? 0 : 0.06 * u(i, k, 8);
		note(p->arrives, i, ARRIVES, 0);
		note(p->admitted, i, ADMITTED, 0);
		for (int k = 0; k < p->n; k++)
			note(p->token[k], i, TOKEN, k);
		note(p->ends, i, ENDS, 0);
	}
	qsort(moment, (size_t)n_moments, sizeof *moment, in_time);
	return 0;
}

static void play(struct tally *t, const struct tally_options *o, struct tally_result *out)
{
	static struct tally_request r[N];
	struct err e = { 0 };

	tally_open(t, o);
	for (int i = 0; i < n_moments; i++) {
		const struct moment *m = &moment[i];
		struct tally_request *q = &r[m->request];

		switch (m->what) {
		case ARRIVES:
			tally_arrived(t, q, m->request, m->at);
			q->n_prompt = plan[m->request].prompt;
			break;
		case ADMITTED: tally_admitted(t, q, m->at); break;
		case TOKEN: tally_tokens(t, q, 1, m->at); break;
		default: tally_ended(t, q, plan[m->request].failed, m->at);
		}
	}
	assert_int_equal(tally_result(t, 0, out, &e), 0);
}

/* ---- brute force ---- */

static double gap(int i, int k)
{
	return plan[i].token[k] - plan[i].token[k - 1];
}

static bool is_good(int i, const struct tally_slo *slo)
{
	const struct plan *p = &plan[i];
	double gaps[MOST_TOKENS];

	for (int k = 1; k < p->n; k++)
		gaps[k - 1] = gap(i, k);
	sorted_of(gaps, p->n - 1);
	return !p->failed && (!(slo->ttft_s > 0) || p->token[0] - p->arrives <= slo->ttft_s) &&
		   (!(slo->itl_s > 0) || p->n < 2 || quantile_of(gaps, p->n - 1, 0.99) <= slo->itl_s) &&
		   (!(slo->tpot_s > 0) || p->n < 2 ||
			   (p->token[p->n - 1] - p->token[0]) / (p->n - 1) <= slo->tpot_s) &&
		   (!(slo->e2e_s > 0) || p->ends - p->arrives <= slo->e2e_s);
}

static void same_quantiles(const struct tally_quantiles *q, double *value, int n, double within)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += value[i];
	sorted_of(value, n);
	assert_int_equal(q->n, n);
	assert_true(fabs(q->mean * n / sum - 1) < 1e-9);
	assert_true(fabs(q->p50 - quantile_of(value, n, 0.5)) <= within * q->p50);
	assert_true(fabs(q->p90 - quantile_of(value, n, 0.9)) <= within * q->p90);
	assert_true(fabs(q->p99 - quantile_of(value, n, 0.99)) <= within * q->p99);
	assert_true(q->max == value[n - 1]);
}

static void check_latencies(const struct tally_result *r, double within)
{
	static double ttft[N], e2e[N], itl[N * MOST_TOKENS];
	int n = 0, n_itl = 0;

	for (int i = 0; i < N; i++) {
		if (!plan[i].failed) {
			ttft[n] = plan[i].token[0] - plan[i].arrives;
			e2e[n++] = plan[i].ends - plan[i].arrives;
		}
		for (int k = 1; k < plan[i].n; k++)
			itl[n_itl++] = gap(i, k);
	}
	same_quantiles(&r->ttft, ttft, n, within);
	same_quantiles(&r->e2e, e2e, n, within);
	same_quantiles(&r->itl, itl, n_itl, within);
}

static const struct tally_options plain = {
	.slots = SLOTS, .reserve = RESERVE, .page_size = PAGE, .keep = 50
};

static void test_latencies(void **state)
{
	struct tally_result r;
	struct tally t;

	(void)state;
	play(&t, &plain, &r);
	assert_true(r.itl.exact);
	check_latencies(&r, 0);
	tally_close(&t);
}

/* Beyond what is kept exactly: by buckets, 1.6 % wide, of nanoseconds. */
static void test_buckets(void **state)
{
	struct tally_options o = plain;
	struct tally_result r;
	struct tally t;

	(void)state;
	o.most_exact = 100;
	play(&t, &o, &r);
	assert_false(r.itl.exact || r.ttft.exact);
	check_latencies(&r, HISTOGRAM_ERROR + 1e-6);
	tally_close(&t);
}

/* The queue is the sum of all waits over the span (each instant counted by who waits then), its
 * maximum that over all moments; likewise those that ran. */
static void test_queue(void **state)
{
	double waits = 0, runs = 0, last = 0;
	int most = 0;
	struct tally_result r;
	struct tally t;

	(void)state;
	for (int i = 0; i < N; i++) {
		int now = 0;

		waits += plan[i].admitted - plan[i].arrives;
		runs += plan[i].ends - plan[i].admitted;
		last = fmax(last, plan[i].ends);
		for (int k = 0; k < N; k++)
			now += plan[k].arrives <= plan[i].arrives && plan[k].admitted > plan[i].arrives;
		/* who comes waits, if only for an instant */
		now += plan[i].admitted <= plan[i].arrives;
		most = now > most ? now : most;
	}
	play(&t, &plain, &r);
	assert_true(fabs(r.span_s - (last - plan[0].arrives)) < 1e-9);
	assert_true(fabs(r.queue_mean * r.span_s / waits - 1) < 1e-9);
	assert_true(fabs(r.running_mean * r.span_s / runs - 1) < 1e-9);
	assert_int_equal(r.queue_max, most);
	tally_close(&t);
}

/* Its length from each time on is how many have arrived and are not admitted. */
static void test_queue_over_time(void **state)
{
	struct tally_options o = plain;
	struct tally_change *c;
	struct tally_result r;
	struct tally t;
	int64_t n, most = 0;

	(void)state;
	o.keep = N;
	play(&t, &o, &r);
	n = tally_queue(&t, &c);
	assert_true(n > N);
	for (int64_t k = 0; k < n; k++) {
		int64_t waits = 0;

		for (int i = 0; i < N; i++)
			waits += plan[i].arrives <= c[k].at_s && plan[i].admitted > c[k].at_s;
		assert_int_equal(c[k].waiting, waits);
		assert_true(!k || c[k].at_s > c[k - 1].at_s);
		most = waits > most ? waits : most;
	}
	assert_true(most > 1 && c[n - 1].waiting == 0);
	free(c);
	tally_close(&t);
	o.keep = 50;
	play(&t, &o, &r);
	assert_in_range(tally_queue(&t, &c), 50, 100);
	free(c);
	tally_close(&t);
}

static void test_goodput(void **state)
{
	static const struct tally_slo slo[] = { { 0 }, { .ttft_s = 1 }, { .itl_s = 0.055 },
		{ .itl_s = 0.0585 }, { .tpot_s = 0.024 }, { .e2e_s = 2 },
		{ .ttft_s = 2, .itl_s = 0.0595, .tpot_s = 0.026, .e2e_s = 4 } };

	(void)state;
	for (size_t i = 0; i < sizeof slo / sizeof *slo; i++) {
		struct tally_options o = plain;
		struct tally_result r;
		struct tally t;
		int good = 0;

		for (int k = 0; k < N; k++)
			good += is_good(k, &slo[i]);
		assert_true(good > 10 && good < N);
		o.slo = slo[i];
		play(&t, &o, &r);
		assert_int_equal(r.n_good, good);
		assert_true(fabs(r.goodput_s * r.span_s - good) < 1e-6);
		tally_close(&t);
	}
}

static void test_room(void **state)
{
	int64_t used = 0, reserved = 0, paged = 0, rectangle = 0, output = 0, failed = 0;
	struct tally_result r;
	struct tally t;

	(void)state;
	for (int i = 0; i < N; i += SLOTS) {
		int32_t n = 0, prompt = 0, longest = 0;

		for (int k = i; k < i + SLOTS && k < N; k++) {
			const struct plan *p = &plan[k];
			const int32_t all = p->prompt + p->n;

			output += p->n;
			failed += p->failed;
			if (p->failed)
				continue;
			n++;
			prompt = p->prompt > prompt ? p->prompt : prompt;
			longest = p->n > longest ? p->n : longest;
			used += all;
			reserved += all > RESERVE ? all : RESERVE;
			paged += (all + PAGE - 1) / PAGE * PAGE;
		}
		rectangle += (int64_t)n * (prompt + longest);
	}
	play(&t, &plain, &r);
	assert_int_equal(r.used, used);
	assert_int_equal(r.reserved, reserved);
	assert_int_equal(r.paged, paged);
	assert_int_equal(r.rectangle, rectangle);
	assert_int_equal(r.output_tokens, output);
	assert_int_equal(r.n_failed, failed);
	assert_int_equal(t.n_kept, 50);
	tally_close(&t);
}

/* A run that is ended early: what is open is neither good nor failed, and the time is up to now. */
static void test_early(void **state)
{
	struct tally_request r[2];
	struct tally_result out;
	struct err e = { 0 };
	struct tally t;

	(void)state;
	tally_open(&t, &(struct tally_options){ 0 });
	assert_int_equal(tally_result(&t, 5, &out, &e), 0);
	assert_true(out.span_s == 0 && out.tokens_s == 0 && isnan(out.ttft.p50));
	tally_arrived(&t, &r[0], 0, 1);
	tally_arrived(&t, &r[1], 1, 2);
	tally_tokens(&t, &r[0], 3, 4); /* without admission */
	assert_int_equal(tally_result(&t, 11, &out, &e), 0);
	assert_true(out.span_s == 10 && out.n_open == 2 && out.n_requests == 0);
	assert_true(fabs(out.queue_mean - 1.2) < 1e-12 && fabs(out.running_mean - 0.7) < 1e-12);
	assert_true(out.itl.n == 2 && out.itl.max == 0);
	tally_ended(&t, &r[0], false, 11);
	assert_int_equal(tally_result(&t, 11, &out, &e), 0);
	assert_true(out.ttft.p50 == 3 && out.e2e.p50 == 10 && fabs(out.tokens_s - 0.3) < 1e-12);
	tally_close(&t);
}

static void test_slo(void **state)
{
	static const char *const bad[] = { "", "ttft", "ttft=", "ttft=0", "ttft=-1s", "ttft=1h",
		"itl=nan", "ttft=1s,", "ttft=1s;itl=2s", "speed=1s", "ttft=inf", "ttft=1 s" };
	struct tally_slo slo = { 0 };
	struct err e = { 0 };

	(void)state;
	assert_int_equal(tally_slo_read("ttft=500ms,itl=0.05,e2e=2min,tpot=40ms", &slo, &e), 0);
	assert_true(fabs(slo.ttft_s - 0.5) < 1e-12 && slo.itl_s == 0.05 && slo.e2e_s == 120);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		e = (struct err){ 0 };
		assert_int_equal(tally_slo_read(bad[i], &slo, &e), -1);
		assert_int_equal(e.code, ERR_USAGE);
		assert_true(slo.itl_s == 0.05);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_latencies),
		cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_queue),
		cmocka_unit_test(test_queue_over_time),
		cmocka_unit_test(test_goodput),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_early),
		cmocka_unit_test(test_slo),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
