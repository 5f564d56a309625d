/* The speculation view of a drafter that guesses beside the model: two lanes over the time of the
 * newest steps, and how much of what was drafted ahead was used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/view_check.h"
#include "tui/views/views.h"

enum { MS = 1000000 };

/* A step of 10 ms that drafted in turn for `turn` ms; ahead was drafted from then on. */
static void say_step(struct said *d, int64_t step, int64_t turn, struct ev_ahead ahead)
{
	struct event ev;

	ev_init(&ev, EV_draft);
	ev.u.draft = (struct ev_draft){ step, 1, step, 1, { "beside", 6 }, 1, EV_RULE_race,
		EV_VERDICT_rejected, 0.5, 0.2, 0.91, 0, 0.2, 0, EV_NULL_I, 1, EV_NULL_I, 0, 0 };
	ev.t_ns = step * 10 * MS - MS;
	say_event(d, &ev);
	ev_init(&ev, EV_ahead);
	ahead.step = step;
	ahead.request = 1;
	ahead.start_ns = turn * MS;
	ev.u.ahead = ahead;
	ev.t_ns = step * 10 * MS - MS;
	say_event(d, &ev);
	ev_init(&ev, EV_step);
	ev.u.step.step = step;
	ev.u.step.ns = 10 * MS;
	ev.u.step.drafters_ns = turn * MS + ahead.wait_ns;
	ev.t_ns = step * 10 * MS;
	say_event(d, &ev);
	assert_int_equal(d->t.n_odd, 0);
}

static void lanes(void **state)
{
	static const struct ev_ahead missed = {
		.assumed = 3, .held = 1, .nodes = 2, .came = EV_AHEAD_missed, .ns = 6 * MS, .wait_ns = 0
	};
	static const struct ev_ahead kept = {
		.assumed = 3, .held = 3, .nodes = 2, .came = EV_AHEAD_kept, .ns = 8 * MS, .wait_ns = 2 * MS
	};
	struct view_state zoomed = fresh;
	struct said d;
	int differ;

	(void)state;
	say_begin(&d, "q");
	say_token(&d, " yes");
	say_token(&d, " no");
	say_step(&d, 1, 3, missed);
	say_step(&d, 2, 2, kept);
	say_step(&d, 3, 0, missed);
	zoomed.zoomed = zoomed.focused = true;
	differ = golden_differs(
		"spec-78x24-beside", text_of(&view_speculation, &d.t, &zoomed, 78, 24, false));
	differ += golden_differs(
		"spec-78x24-beside-ascii", text_of(&view_speculation, &d.t, &zoomed, 78, 24, true));
	assert_int_equal(differ, 0);
	timeline_free(&d.t);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(lanes) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
