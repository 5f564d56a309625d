/* The views of trainings and of files that are quantised: known numbers, against what must stand
 * there; and what a hostile recording says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/demo_events.h"
#include "tests/support/view_check.h"
#include "tui/views/views.h"

static void fold(struct timeline *t, struct event *ev)
{
	ev->seq = t->last_seq + 1;
	ev->t_ns = t->last_t_ns;
	timeline_fold(t, ev);
}

static void train(struct timeline *t, int64_t nth, double loss, double held)
{
	struct event ev;

	ev_init(&ev, EV_trained);
	ev.u.trained.step = t->n_trained + 1;
	ev.u.trained.nth = nth;
	ev.u.trained.loss = loss;
	ev.u.trained.held = held;
	ev.u.trained.tokens = 100 * nth;
	fold(t, &ev);
}

static void change(
	struct timeline *t, int64_t layer, double nearest, double error, struct ev_span alphas)
{
	struct event ev;

	ev_init(&ev, EV_changed);
	ev.u.changed.step = t->n_changed + 1;
	ev.u.changed.layer = layer;
	ev.u.changed.layers = 4;
	ev.u.changed.method = ev_text("gptq");
	ev.u.changed.nearest = nearest;
	ev.u.changed.error = error;
	ev.u.changed.alphas = alphas;
	ev.u.changed.ns = 2000000000;
	fold(t, &ev);
}

static void has(const char *text, const char *words)
{
	if (!strstr(text, words))
		fail_msg("\"%s\" is not in\n%s", words, text);
}

static void has_not(const char *text, const char *words)
{
	if (strstr(text, words))
		fail_msg("\"%s\" is in\n%s", words, text);
}

static void training(void **state)
{
	struct timeline t = demo_timeline(DEMO_CHAT_STEPS);
	struct view_state s = fresh;
	struct event ev;
	char *text = text_of(&view_training, &t, &s, 80, 20, false);

	(void)state;
	has(text, "replay --follow FILE");
	free(text);
	ev_init(&ev, EV_training);
	ev.u.training.name = ev_text("pruned");
	ev.u.training.teacher = ev_text("whole");
	ev.u.training.params = 1000;
	ev.u.training.weight_bytes = 4000;
	ev.u.training.optimizer_bytes = 8000;
	ev.u.training.steps = 40;
	fold(&t, &ev);
	for (int i = 1; i <= 20; i++)
		train(&t, i, 4 - 0.125 * i, i % 10 ? (double)NAN : 3.25);
	text = text_of(&view_training, &t, &s, 80, 20, false);
	has(text, "pruned from whole");
	has(text, "1,000 numbers");
	has(text, "loss      1.5");
	has(text, "held out     3.25");
	has(text, "3.875"); /* the axis */
	has(text, "step 20, 2,000 tokens");
	has(text, "40\n");
	has(text, ": 12 bytes each");
	has_not(text, "gradient");
	has_not(text, "KL");
	free(text);
	timeline_free(&t);
}

static void layers(void **state)
{
	static const float alpha[4] = { 0.25f, NAN, 0.5f, NAN };
	struct timeline t = demo_timeline(DEMO_CHAT_STEPS);
	struct view_state s = fresh;
	char *text = text_of(&view_layers, &t, &s, 80, 20, false);

	(void)state;
	has(text, "cutaway quantize --record");
	free(text);
	change(&t, 0, 0.04, 0.01, (struct ev_span){ NULL, 0 });
	text = text_of(&view_layers, &t, &s, 80, 20, false);
	has(text, "gptq \xc2\xb7 1 of 4");
	has(text, "20.0 %   10.0 %   0.50");
	has_not(text, "gate up");
	free(text);
	change(&t, 1, 0.16, 0.25, (struct ev_span){ alpha, sizeof alpha });
	text = text_of(&view_layers, &t, &s, 80, 20, false);
	has(text, "40.0 %   50.0 %   1.25");
	has(text, "0.25    0.50");
	has(text, "gate up");
	has_not(text, "down");
	has(text, "rms: 36.1 %, 31.6 % to the nearest \xc2\xb7 4.0");
	free(text);
	change(&t, 2, NAN, NAN, (struct ev_span){ NULL, 0 }); /* no text went through it */
	text = text_of(&view_layers, &t, &s, 80, 20, false);
	has(text, "rms: not measured \xc2\xb7 6.0");
	free(text);
	timeline_free(&t);
}

static void hostile(void **state)
{
	struct timeline t = demo_timeline(DEMO_CHAT_STEPS);
	struct view_state s = fresh;

	(void)state;
	for (int i = 0; i < 300; i++) {
		train(&t, (int64_t)1 << (i % 40), i % 3 ? INFINITY : -1e300, i % 2 ? 1e300 : -INFINITY);
		change(&t, i, i % 2 ? INFINITY : -1, i % 3 ? NAN : -INFINITY, ev_text("four floats more"));
	}
	train(&t, -1, 1, 1);
	change(&t, -1, 1, 1, ev_text(""));
	assert_int_equal(t.n_trained, 300);
	assert_int_equal(t.n_changed, 4); /* of 4 layers */
	s.scroll[VIEW_LAYERS] = INT32_MAX;
	for (int w = 60; w < 200; w += 43) {
		free(text_of(&view_training, &t, &s, w, 12, false));
		free(text_of(&view_layers, &t, &s, w, 6, false));
	}
	for (int i = t.n_trained; i < TL_MOST_TRAINED + 2; i++)
		train(&t, i, 1, 1);
	assert_int_equal(t.n_trained, TL_MOST_TRAINED / 2 + 2);
	timeline_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(training),
		cmocka_unit_test(layers),
		cmocka_unit_test(hostile),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
