/* The outliers view: inputs whose channels are known, against what must stand there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/support/demo_events.h"
#include "tests/support/view_check.h"
#include "tui/views/views.h"

enum { LAYERS = 6 };

static struct timeline measured(void)
{
	static const int stages[] = { EV_STAGE_qkv, EV_STAGE_out, EV_STAGE_gate_up, EV_STAGE_down };
	struct timeline t = demo_timeline(DEMO_CHAT_STEPS);

	for (int i = 0; i < 4 * LAYERS; i++) {
		const struct {
			uint32_t channel;
			float size;
		} top[2] = { { 37, 8 }, { 5, 4 } };
		struct event ev;

		ev_init(&ev, EV_outliers);
		ev.seq = t.last_seq + 1;
		ev.t_ns = t.last_t_ns;
		ev.u.outliers = (struct ev_outliers){ .nth = i,
			.layer = i / 4,
			.stage = stages[i % 4],
			.channels = 64,
			.largest = i == 7 ? 800 : 8,
			.median = 2,
			.smoothed = 1.5,
			.above_six = 3,
			.top = { top, sizeof top } };
		timeline_fold(&t, &ev);
	}
	return t;
}

static void has(const char *text, const char *words)
{
	if (!strstr(text, words))
		fail_msg("\"%s\" is not in\n%s", words, text);
}

static void by_layer(void **state)
{
	struct timeline t = measured();
	struct view_state s = fresh;
	char *text = text_of(&view_outliers, &t, &s, 100, 24, false);

	(void)state;
	assert_int_equal(t.n_outliers, 4 * LAYERS);
	has(text, "up to 400");
	has(text, "    0    4.0    1.5   3");
	has(text, "  400    1.5   3");
	has(text, "widest: layer 1 down, of 64 channels 37: 8, 5: 4");
	free(text);
	text = text_of(&view_outliers, &t, &s, 80, 7, false); /* the least: three lines for six layers
														   */
	has(text, "0–1");
	has(text, "  400    1.5   3");
	free(text);
	timeline_free(&t);
}

static void not_measured(void **state)
{
	struct timeline t = demo_timeline(DEMO_CHAT_STEPS);
	struct view_state s = fresh;
	char *text = text_of(&view_outliers, &t, &s, 80, 24, false);

	(void)state;
	has(text, "far larger than the rest, by layer: /outliers measure");
	free(text);
	timeline_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(by_layer),
		cmocka_unit_test(not_measured) };

	return cmocka_run_group_tests_name("view_outliers", tests, NULL, NULL);
}
