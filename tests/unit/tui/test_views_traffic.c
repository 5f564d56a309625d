/* The views queue, latency and requests, of made-up traffic under a real policy: their text against
 * files at the three sizes of screens, and what they say where nothing came yet, without targets,
 * and of a preempted request. UPDATE_GOLDEN=1 writes the files anew: look at what changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/allocations.h"
#include "tests/support/traffic.h"
#include "tests/support/view_check.h"
#include "tui/views/views.h"

static const char *const targets[] = { "slo-ttft", "150", "slo-itl", "25", NULL };

static void fold_sink(void *arg, const struct event *ev)
{
	timeline_fold(arg, ev);
}

static struct timeline traffic(const char *policy, int steps, const char *const *settings)
{
	struct timeline t;

	timeline_init(&t);
	traffic_play(policy, steps, settings, fold_sink, &t);
	assert_int_equal(t.n_odd, 0);
	return t;
}

static void golden_texts(void **state)
{
	static const struct {
		const char *name, *policy;
		const struct view *view;
		int w, h, steps;
		bool ascii, zoomed;
	} goldens[] = {
		{ "queue-80x24", "shortest", &view_queue, 80, 24, 440, false, true },
		{ "queue-120x40", "priority", &view_queue, 120, 40, 440, false, true },
		{ "queue-200x50", "deadline", &view_queue, 200, 50, 440, false, true },
		{ "queue-80x24-static-ascii", "static", &view_queue, 80, 24, 440, true, true },
		{ "queue-49x8", "fcfs", &view_queue, 49, 8, 440, false, false },
		{ "latency-80x24", "shortest", &view_latency, 80, 24, 440, false, true },
		{ "latency-120x40", "fcfs", &view_latency, 120, 40, 440, false, true },
		{ "latency-200x50", "fcfs", &view_latency, 200, 50, 440, false, true },
		{ "latency-80x24-ascii", "static", &view_latency, 80, 24, 440, true, true },
		{ "latency-49x6", "fcfs", &view_latency, 49, 6, 440, false, false },
		{ "requests-80x24", "shortest", &view_requests, 80, 24, 440, false, true },
		{ "requests-120x40", "shortest", &view_requests, 120, 40, 440, false, true },
		{ "requests-200x50", "prefill-first", &view_requests, 200, 50, 440, false, true },
		{ "requests-80x24-ascii", "static", &view_requests, 80, 24, 440, true, true },
		{ "runs-41x19", "static", &view_runs, 41, 19, 440, false, false },
		{ "runs-80x24-ascii", "fcfs", &view_runs, 80, 24, 440, true, true },
	};
	int differ = 0;

	(void)state;
	for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
		struct timeline t = traffic(goldens[i].policy, goldens[i].steps, targets);
		struct view_state s = fresh;

		s.zoomed = s.focused = goldens[i].zoomed;
		differ += golden_differs(goldens[i].name,
			text_of(goldens[i].view, &t, &s, goldens[i].w, goldens[i].h, goldens[i].ascii));
		timeline_free(&t);
	}
	assert_int_equal(differ, 0);
}

static void without_anything_they_say_what_will_be_there(void **state)
{
	struct timeline t = { 0 };

	(void)state;
	assert_shows(&view_queue, &t, &fresh, 80, 24, "no request yet", true);
	assert_shows(&view_latency, &t, &fresh, 80, 24, "no request was admitted yet", true);
	assert_shows(&view_requests, &t, &fresh, 80, 24, "no request yet", true);
}

static void without_a_target_nothing_is_missed(void **state)
{
	struct timeline t = traffic("fcfs", 440, NULL);
	struct view_state s = fresh;

	(void)state;
	s.zoomed = true;
	assert_shows(&view_latency, &t, &s, 120, 40, "no target: /slo-ttft", true);
	assert_shows(&view_latency, &t, &s, 120, 40, "goodput", false);
	assert_shows(&view_requests, &t, &s, 120, 40, "✗", false);
	assert_shows(&view_requests, &t, &s, 120, 40, "✓", false);
	timeline_free(&t);
}

/* Counts of four digits push each other on; where there is no room the middle one goes. */
static void counts_of_steps_stay_apart(void **state)
{
	struct timeline t = traffic("fcfs", 440, NULL);
	struct view_state s = fresh;

	(void)state;
	s.zoomed = true;
	memset(&t.latency_steps[TL_E2E], 0, sizeof t.latency_steps[TL_E2E]);
	for (int i = 0; i < 1000; i++)
		histogram_add(&t.latency_steps[TL_E2E], i < 600 ? 332 : i < 950 ? 1040 : 1584);
	assert_shows(&view_latency, &t, &s, 120, 40, "e2e steps   p50 332   p90 1,0", true);
	assert_shows(&view_latency, &t, &s, 80, 40, "e2e steps   p50 332   p99 1,5", true);
	timeline_free(&t);
}

/* Each reason of the plan has its words, and a log without them none. */
static void the_queue_says_what_it_waits_for(void **state)
{
	static const char *const words[] = { [EV_HOLD_slot] = "every slot is taken",
		[EV_HOLD_policy] = "static waits for every request of the batch that ran to end",
		[EV_HOLD_pages] = "c, the first in order, lacks pages",
		[EV_HOLD_sibling] = "c lets another compute the prompt they share" };
	struct timeline t = traffic("static", 440, NULL);
	struct tl_step *last = &t.step[t.n_steps - 1];

	(void)state;
	assert_true(view_queue.min_w < 80);
	for (int i = 0; i < EV_N_hold; i++) {
		last->s.hold = i;
		last->s.hold_first = 3;
		for (int k = 0; k < EV_N_hold; k++)
			assert_shows(&view_queue, &t, &fresh, 80, 24, words[k], k == i);
	}
	last->s.hold = EV_NULL_I;
	for (int k = 0; k < EV_N_hold; k++)
		assert_shows(&view_queue, &t, &fresh, 80, 24, words[k], false);
	timeline_free(&t);
}

static void keys_choose_who_waits(void **state)
{
	struct timeline t = traffic("shortest", 440, NULL);
	struct view_state s = fresh;

	(void)state;
	assert_true(t.queue.n > 2);
	assert_true(view_queue.key(KEY_DOWN_, &t, &s));
	assert_int_equal(s.request, t.queue.order[0].request);
	assert_true(view_queue.key(KEY_DOWN_, &t, &s));
	assert_int_equal(s.request, t.queue.order[1].request);
	assert_true(view_queue.key(KEY_UP_, &t, &s));
	assert_int_equal(s.request, t.queue.order[0].request);
	assert_true(view_queue.key(KEY_ESC, &t, &s));
	assert_int_equal(s.request, 0);
	timeline_free(&t);
}

/* Each sorting of a request's gaps allocates once, and no cell of its row sorts them again:
 * on 50 lines. */
static void a_row_sorts_its_gaps_once(void **state)
{
	struct timeline t = traffic("fcfs", 440, targets);
	struct view_state s = fresh;
	long n;

	(void)state;
	n = allocations();
	free(text_of(&view_requests, &t, &s, 200, 50, false));
	assert_true(allocations() - n <= 50);
	timeline_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_texts),
		cmocka_unit_test(without_anything_they_say_what_will_be_there),
		cmocka_unit_test(without_a_target_nothing_is_missed),
		cmocka_unit_test(counts_of_steps_stay_apart),
		cmocka_unit_test(the_queue_says_what_it_waits_for),
		cmocka_unit_test(keys_choose_who_waits),
		cmocka_unit_test(a_row_sorts_its_gaps_once),
	};

	return cmocka_run_group_tests_name("views_traffic", tests, NULL, NULL);
}
