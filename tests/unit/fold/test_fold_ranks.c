/* Ranks in the timeline: sums of the session and of the newest steps, lanes, and what hostile
 * events leave of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "fold/timeline.h"

static struct {
	struct timeline t;
	int64_t seq;
} w;

static void feed(struct event *ev)
{
	ev->seq = ++w.seq;
	ev->t_ns = w.seq * 1000;
	timeline_fold(&w.t, ev);
}

static void feed_rank(int64_t rank, int64_t first_kv_head)
{
	struct event ev;

	ev_init(&ev, EV_rank);
	ev.u.rank.rank = rank;
	ev.u.rank.layers = 30;
	ev.u.rank.first_kv_head = first_kv_head;
	ev.u.rank.host = ev_text("here");
	feed(&ev);
}

static void feed_traffic(
	int64_t step, int64_t rank, int64_t compute, int64_t sent, const uint32_t *lane, size_t n_lane)
{
	struct event ev;

	ev_init(&ev, EV_traffic);
	ev.u.traffic.step = step;
	ev.u.traffic.rank = rank;
	ev.u.traffic.compute_ns = compute;
	ev.u.traffic.sent = sent;
	ev.u.traffic.start_ns = -7;
	ev.u.traffic.lane = (struct ev_span){ n_lane ? lane : NULL, n_lane * sizeof *lane };
	feed(&ev);
}

static void feed_step(int64_t step, int64_t rows)
{
	struct event ev;

	ev_init(&ev, EV_step);
	ev.u.step.step = step;
	ev.u.step.rows = rows;
	feed(&ev);
}

static int begin(void **state)
{
	(void)state;
	timeline_free(&w.t);
	w.seq = 0;
	feed_rank(0, 0);
	feed_rank(1, EV_NULL_I);
	return 0;
}

static int end(void **state)
{
	(void)state;
	timeline_free(&w.t);
	return 0;
}

static void what_a_rank_has_is_kept(void **state)
{
	(void)state;
	assert_int_equal(w.t.n_ranks, 2);
	assert_int_equal(w.t.rank[0].has.layers, 30);
	assert_true(w.t.rank[0].has.first_kv_head == 0 && w.t.rank[1].has.first_kv_head == EV_NULL_I);
	assert_string_equal(w.t.rank[1].host, "here");
	assert_int_equal(w.t.rank[1].has.threads, 0); /* absent */
}

/* A step counts when it has ended, with the rows that it had. */
static void sums_are_those_of_the_steps(void **state)
{
	struct tl_traffic k;

	(void)state;
	for (int64_t step = 1; step <= 100; step++) {
		feed_traffic(step, 0, step, 10, NULL, 0);
		feed_traffic(step, 1, 1, EV_NULL_I, NULL, 0);
		feed_step(step, 2);
	}
	feed_traffic(101, 0, 1000, 1000, NULL, 0);
	assert_int_equal(w.t.n_odd, 0);
	k = w.t.rank[0].sum;
	assert_true(k.steps == 100 && k.rows == 200 && k.compute_ns == 5050 && k.sent == 1000);
	assert_int_equal(w.t.rank[1].sum.sent, 0);
	k = timeline_traffic(&w.t, 0);
	assert_true(k.steps == TL_SHARE && k.rows == 2 * TL_SHARE && k.sent == 10 * TL_SHARE);
	assert_int_equal(k.compute_ns, (100 + 37) * TL_SHARE / 2); /* of the steps 37 … 100 */
}

static void a_lane_is_the_newest(void **state)
{
	static const uint32_t lane[] = { 5, 6, 7 };

	(void)state;
	feed_traffic(1, 1, 1, 1, lane, 3);
	feed_step(1, 1);
	feed_traffic(2, 1, 1, 1, lane + 1, 2);
	feed_traffic(2, 1, 1, 1, NULL, 0);
	assert_true(w.t.rank[1].lane_step == 2 && w.t.rank[1].n_lane == 2);
	assert_true(w.t.rank[1].lane[0] == 6 && w.t.rank[1].lane[1] == 7);
	assert_int_equal(w.t.rank[1].lane_start_ns, -7);
	assert_int_equal(w.t.rank[0].lane_step, 0);
	for (int64_t step = 2; step <= 2 * TL_WINDOW; step++)
		feed_step(step, 1);
	assert_true(w.t.rank[1].lane_step == 0 && w.t.rank[1].n_lane == 0 && w.t.n_traffic == 0);
	assert_int_equal(w.t.rank[1].sum.steps, 3);
}

static void refused(void)
{
	static int64_t odd;

	odd = w.seq == 3 ? 0 : odd;
	assert_int_equal(w.t.n_odd, ++odd);
	assert_true(w.t.n_ranks == 2 && w.t.n_traffic == 0);
}

static void nonsense_is_refused(void **state)
{
	static uint32_t lane[TL_LANE + 1];
	struct event ev;

	(void)state;
	feed_rank(3, 0); /* there is no rank 2 */
	refused();
	feed_rank(-1, 0);
	refused();
	feed_traffic(1, 2, 1, 1, NULL, 0);
	refused();
	feed_traffic(1, -1, 1, 1, NULL, 0);
	refused();
	feed_traffic(1, INT64_MAX, 1, 1, NULL, 0);
	refused();
	feed_traffic(1, 0, 1, 1, lane, TL_LANE + 1);
	refused();
	feed_traffic(0, 0, 1, 1, NULL, 0);
	refused();
	feed_traffic(1, 0, TL_INT_MAX + 1, 1, NULL, 0);
	refused();
	ev_init(&ev, EV_traffic);
	ev.u.traffic.step = 1;
	ev.u.traffic.rank = 0;
	ev.u.traffic.lane = (struct ev_span){ lane, 7 };
	feed(&ev);
	refused();
	ev.u.traffic.lane.size = 8;
	ev.u.traffic.start_ns = INT64_MIN + 1;
	feed(&ev);
	refused();
}

static void there_are_at_most_64(void **state)
{
	(void)state;
	for (int64_t i = 2; i < 70; i++)
		feed_rank(i, 0);
	assert_true(w.t.n_ranks == TL_MOST_RANKS && w.t.n_odd == 70 - TL_MOST_RANKS);
}

/* A keyframe holds no number above TL_INT_MAX. */
static void a_sum_does_not_overflow(void **state)
{
	(void)state;
	for (int64_t step = 1; step <= 3; step++) {
		feed_traffic(step, 0, TL_INT_MAX, 1, NULL, 0);
		feed_step(step, 1);
	}
	assert_int_equal(w.t.rank[0].sum.compute_ns, TL_INT_MAX);
	assert_int_equal(timeline_traffic(&w.t, 0).compute_ns, TL_INT_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_a_rank_has_is_kept, begin),
		cmocka_unit_test_setup(sums_are_those_of_the_steps, begin),
		cmocka_unit_test_setup(a_lane_is_the_newest, begin),
		cmocka_unit_test_setup(nonsense_is_refused, begin),
		cmocka_unit_test_setup(there_are_at_most_64, begin),
		cmocka_unit_test_setup(a_sum_does_not_overflow, begin),
	};

	return cmocka_run_group_tests_name("fold_ranks", tests, NULL, end);
}
