/* What the fold says of traffic against the events themselves, counted the plain way: latencies in
 * time and in steps, waits by user and class, targets met, the queue's order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/median.h"
#include "fold/timeline.h"
#include "tests/support/traffic.h"

enum { REQUESTS = 1000, TOKENS = 40000, STEPS = 700 };

struct life {
	int64_t came_ns, came_step, in_ns, in_step, first_ns, first_step, newest_ns, newest_step;
	int64_t end_ns, priority;
	char user[16];
	double gap_ns[64];
	int n_gaps;
	bool in;
};

static struct {
	struct timeline t;
	struct life life[REQUESTS];
	double of[2][TL_N_LATENCIES][TOKENS]; /* ns, steps */
	int n[TL_N_LATENCIES];
	int64_t step, n_events[EV_N_KINDS];
} w;

static void note(enum tl_latency which, int64_t ns, int64_t steps)
{
	w.of[0][which][w.n[which]] = (double)ns;
	w.of[1][which][w.n[which]++] = (double)steps;
}

static void on_token(struct life *l, const struct event *ev)
{
	if (!l->first_ns) {
		l->first_ns = ev->t_ns;
		l->first_step = ev->u.token.step;
		note(TL_TTFT, ev->t_ns - l->came_ns, ev->u.token.step - l->came_step);
	} else {
		note(TL_ITL, ev->t_ns - l->newest_ns, ev->u.token.step - l->newest_step);
		l->gap_ns[l->n_gaps++] = (double)(ev->t_ns - l->newest_ns);
	}
	l->newest_ns = ev->t_ns;
	l->newest_step = ev->u.token.step;
}

static void on_event(void *arg, const struct event *ev)
{
	struct life *l;

	(void)arg;
	timeline_fold(&w.t, ev);
	w.n_events[ev->kind]++;
	switch (ev->kind) {
	case EV_request:
		l = &w.life[ev->u.request.request];
		l->came_ns = ev->t_ns;
		l->came_step = w.step;
		l->priority = ev->u.request.priority;
		if (ev->u.request.user.data)
			memcpy(l->user, ev->u.request.user.data, ev->u.request.user.size);
		break;
	case EV_admit:
		l = &w.life[ev->u.admit.request];
		if (!l->in)
			note(TL_QUEUE, ev->t_ns - l->came_ns, w.step - l->came_step);
		l->in_ns = l->in ? l->in_ns : ev->t_ns;
		l->in_step = l->in ? l->in_step : w.step;
		l->in = true;
		break;
	case EV_token: on_token(&w.life[ev->u.token.request], ev); break;
	case EV_finish:
		l = &w.life[ev->u.finish.request];
		l->end_ns = ev->t_ns;
		note(TL_E2E, ev->t_ns - l->came_ns, ev->u.finish.step - l->came_step);
		break;
	case EV_step: w.step = ev->u.step.step; break;
	default: break;
	}
}

static void play(const char *policy, const char *const *settings)
{
	timeline_free(&w.t);
	memset(&w, 0, sizeof w);
	timeline_init(&w.t);
	traffic_play(policy, STEPS, settings, on_event, NULL);
	assert_int_equal(w.t.n_odd, 0);
	assert_true(w.n[TL_E2E] > 60 && w.n_events[EV_queue] > 20 && w.n_events[EV_preempt] > 0);
}

static void quantiles_are_those_of_the_events(void **state)
{
	static const double q[] = { 0, 0.5, 0.9, 0.99, 1 };

	(void)state;
	play("shortest", NULL);
	for (int i = 0; i < TL_N_LATENCIES; i++)
		for (int steps = 0; steps < 2; steps++)
			for (size_t k = 0; k < sizeof q / sizeof *q; k++) {
				double *values = w.of[steps][i];
				const double is = quantile_of(sorted_of(values, w.n[i]), w.n[i], q[k]);
				const double got =
					histogram_quantile(steps ? &w.t.latency_steps[i] : &w.t.latency[i], q[k]);

				assert_int_equal(
					histogram_n(steps ? &w.t.latency_steps[i] : &w.t.latency[i]), w.n[i]);
				if (!(fabs(got - is) <= HISTOGRAM_ERROR * is))
					fail_msg("latency %d, steps %d, p%g: %g, and it is %g", i, steps, 100 * q[k],
						got, is);
			}
}

static void waits_are_those_of_the_events(void **state)
{
	(void)state;
	play("fair", NULL);
	assert_true(w.t.n_users == 3 && w.t.n_priorities == 3);
	for (int by_user = 0; by_user < 2; by_user++)
		for (int32_t g = 0; g < 3; g++) {
			const struct tl_group *is = by_user ? &w.t.user[g] : &w.t.priority[g];
			struct tl_group sum = { 0 };

			for (int i = 1; i < REQUESTS && w.life[i].came_ns; i++) {
				const struct life *l = &w.life[i];
				const int64_t ns = l->in_ns - l->came_ns;

				if (by_user ? strcmp(l->user, is->user ? is->user : "")
							: l->priority != is->priority)
					continue;
				sum.arrived++;
				if (!l->in)
					continue;
				sum.admitted++;
				sum.ns += ns;
				sum.steps += l->in_step - l->came_step;
				sum.most_ns = ns > sum.most_ns ? ns : sum.most_ns;
			}
			assert_true(sum.arrived > 5 && sum.arrived == is->arrived);
			assert_true(sum.admitted == is->admitted && sum.ns == is->ns &&
						sum.steps == is->steps && sum.most_ns == is->most_ns);
		}
}

static bool meets(struct life *l, double ttft, double itl)
{
	const double p99 = quantile_of(sorted_of(l->gap_ns, l->n_gaps), l->n_gaps, 0.99);

	return (double)(l->first_ns - l->came_ns) <= ttft && !(p99 > itl);
}

static void targets_are_counted(void **state)
{
	static const char *const settings[] = { "slo-ttft", "150", "slo-itl", "25", NULL };
	int64_t met = 0, ended = 0, late = 0;

	(void)state;
	play("fcfs", settings);
	for (int i = 1; i < REQUESTS && w.life[i].came_ns; i++) {
		struct life *l = &w.life[i];

		if (!l->end_ns)
			continue;
		ended++;
		met += meets(l, 150e6, 25e6);
		late += l->first_ns - l->came_ns > 150000000;
	}
	assert_true(met > 5 && late > 5 && met + late < ended);
	assert_int_equal(w.t.slo.ended, ended);
	assert_int_equal(w.t.slo.met, met);
	assert_int_equal(w.t.slo.late, late);
}

static void a_new_target_counts_anew(void **state)
{
	static const char *const settings[] = { "slo-ttft", "150", NULL };
	struct event ev;

	(void)state;
	play("fcfs", settings);
	ev_init(&ev, EV_setting);
	ev.u.setting.name = ev_text("slo-ttft");
	for (int i = 0; i < 2; i++) { /* the same again changes nothing */
		const int64_t ended = i ? 0 : w.t.slo.ended;

		ev.seq = w.t.last_seq + 1;
		ev.t_ns = w.t.last_t_ns;
		ev.u.setting.value = ev_text(i ? "200" : "150");
		timeline_fold(&w.t, &ev);
		assert_int_equal(w.t.slo.ended, ended);
	}
}

/* Ranks do not fall, and whoever is first when a slot is free enters next. */
static int64_t told[2], checked;
static void check_order(void *arg, const struct event *ev)
{
	const struct ev_queued *q = ev->kind == EV_queue ? ev->u.queue.order.data : NULL;
	const size_t n = q ? ev->u.queue.order.size / sizeof *q : 0;

	(void)arg;
	if (ev->kind == EV_request)
		told[0] = 0; /* who came may go first */
	if (ev->kind == EV_admit && told[0]) {
		assert_int_equal(ev->u.admit.request, told[0]);
		assert_int_equal(ev->u.admit.rank, told[1]);
		checked++;
		told[0] = 0;
	}
	for (size_t i = 1; i < n; i++)
		assert_true(q[i].rank >= q[i - 1].rank);
	if (n) {
		told[0] = q[0].request;
		told[1] = q[0].rank;
	}
	if (ev->kind == EV_preempt || (ev->kind == EV_queue && !n))
		told[0] = 0;
}

static void the_first_told_enters_next(void **state)
{
	(void)state;
	checked = 0;
	traffic_play("priority", STEPS, NULL, check_order, NULL);
	assert_true(checked > 20);
	traffic_play("deadline", STEPS, NULL, check_order, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantiles_are_those_of_the_events),
		cmocka_unit_test(waits_are_those_of_the_events),
		cmocka_unit_test(targets_are_counted),
		cmocka_unit_test(a_new_target_counts_anew),
		cmocka_unit_test(the_first_told_enters_next),
	};

	return cmocka_run_group_tests_name("traffic", tests, NULL, NULL);
}
