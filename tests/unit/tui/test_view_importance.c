/* The importance view: layers whose shares are known, against what must stand there. */
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

enum { LAYERS = 6 };

static void add(struct timeline *t, int nth, double influence, const float *head, size_t n_heads)
{
	float least[16];
	struct event ev;

	for (int k = 0; k < 16; k++)
		least[k] = k == 15 ? 1 : 0.016f * (float)(k + 1);
	ev_init(&ev, EV_importance);
	ev.seq = t->last_seq + 1;
	ev.t_ns = t->last_t_ns;
	ev.u.importance = (struct ev_importance){ .nth = nth,
		.layer = nth,
		.influence = influence,
		.heads = { head, n_heads * sizeof *head },
		.channels = 128,
		.least = { least, sizeof least } };
	timeline_fold(t, &ev);
}

static struct timeline measured(void)
{
	static const float head[4] = { 0.4f, 0.3f, 0.2f, 0.1f };
	struct timeline t = demo_timeline(DEMO_CHAT_STEPS);

	for (int i = 0; i < LAYERS; i++)
		add(&t, i, i == 3 ? 0.0125 : 0.5, head, 4);
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
	char *text = text_of(&view_importance, &t, &s, 100, 24, false);

	(void)state;
	assert_int_equal(t.n_importance, LAYERS);
	has(text, "layer 3 does least: it turns the stream by 0.0125");
	has(text, "40 30 20 10");
	has(text, "13%");
	has(text, "76%");
	free(text);
	text = text_of(&view_importance, &t, &s, 80, 6, false); /* four lines for six layers */
	has(text, "   3 ");
	has(text, "0.0125");
	free(text);
	timeline_free(&t);
}

/* A measurement begins anew, and what a hostile recording says stays in bounds. */
static void hostile(void **state)
{
	struct timeline t = measured();
	struct view_state s = fresh;
	float head[200];
	char *text;

	(void)state;
	for (int i = 0; i < 200; i++)
		head[i] = i % 3 ? INFINITY : i % 2 ? NAN : -1e30f;
	add(&t, 0, (double)NAN, head, 200);
	add(&t, 1, (double)INFINITY, head, 0);
	add(&t, 300, 1, head, 1); /* no model has so many layers */
	assert_int_equal(t.n_importance, 2);
	assert_int_equal(t.importance[0].n_heads, TL_IMPORTANT_HEADS);
	for (int w = 70; w < 200; w += 43) {
		text = text_of(&view_importance, &t, &s, w, 6, false);
		has(text, "+");
		free(text);
	}
	timeline_free(&t);
}

static void not_measured(void **state)
{
	struct timeline t = demo_timeline(DEMO_CHAT_STEPS);
	struct view_state s = fresh;
	char *text = text_of(&view_importance, &t, &s, 80, 24, false);

	(void)state;
	has(text, "each layer and head adds to the answer: /importance measure");
	free(text);
	timeline_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(by_layer), cmocka_unit_test(hostile),
		cmocka_unit_test(not_measured) };

	return cmocka_run_group_tests_name("view_importance", tests, NULL, NULL);
}
