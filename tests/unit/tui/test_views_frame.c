/* No size and no stream of events makes the views of pages, speculation, prefix cache, attention
 * and time draw outside of their frame, and no key hurts them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "tests/support/demo_events.h"
#include "tests/support/demo_random.h"
#include "tui/views/views.h"

static const struct view *const mine[] = { &view_pages, &view_speculation, &view_prefix,
	&view_attention, &view_time };
enum { N_MINE = sizeof mine / sizeof *mine };

static void guarded_draw(const struct view *v, const struct timeline *t, struct view_state *s,
	struct canvas *c, int w, int h)
{
	struct pen p;

	canvas_clear(c);
	p = pen_of(c, (struct rect){ 2, 1, w, h });
	v->draw(&p, t, s);
	for (int y = 0; y < c->h; y++)
		for (int x = 0; x < c->w; x++)
			if (x < 2 || x >= 2 + w || y < 1 || y >= 1 + h)
				assert_string_equal(c->cell[y * c->w + x].text, " ");
}

static void sink(void *arg, const struct event *ev)
{
	timeline_fold(arg, ev);
}

static void sweep(const struct timeline *t, int steps)
{
	static const int some[] = { 1, 2, 3, 4, 5, 7, 9, 11, 13, 16, 19, 23, 28, 33, 38, 43, 50 };
	struct canvas c = { 0 };
	struct err e;

	assert_int_equal(canvas_resize(&c, 124, 52, &e), 0);
	for (int v = 0; v < N_MINE; v++)
		for (int w = 1; w <= 120; w += steps)
			for (size_t i = 0; i < sizeof some / sizeof *some; i++)
				for (int zoom = 0; zoom < 2; zoom++) {
					struct view_state s = { .token = w % 3 - 1,
						.page = w % 40 - 1,
						.layer = w % 7 - 1,
						.head = w % 5 - 1,
						.zoomed = zoom,
						.request = w % 6 };
					c.ascii = w % 2;
					guarded_draw(mine[v], t, &s, &c, w, some[i]);
				}
	canvas_free(&c);
}

static void no_size_draws_outside(void **state)
{
	static const int at[] = { 0, 1, 20, DEMO_CHAT_STEPS, DEMO_STEPS };
	struct timeline t;

	(void)state;
	for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
		timeline_init(&t);
		if (i)
			demo_play(sink, &t, at[i]);
		sweep(&t, i < 2 ? 7 : 3);
		timeline_free(&t);
	}
}

static void no_stream_of_events_breaks_a_view(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct demo_random d = { .state = seed };
		struct timeline t;

		timeline_init(&t);
		for (int i = 0; i < 3000; i++) {
			struct event ev;

			demo_random_event(&d, &ev);
			timeline_fold(&t, &ev);
		}
		sweep(&t, 29);
		timeline_free(&t);
	}
}

/* Any key at any time, before anything happened and after. */
static void keys_are_safe_and_known(void **state)
{
	static const int keys[] = { KEY_UP_, KEY_DOWN_, KEY_LEFT_, KEY_RIGHT_, KEY_HOME_, KEY_END_,
		KEY_PAGE_UP, KEY_PAGE_DOWN, KEY_ESC, KEY_ENTER_, 'q', 0x1f600 };
	enum { N_KEYS = sizeof keys / sizeof *keys };
	struct canvas c = { 0 };
	struct err e;

	(void)state;
	assert_int_equal(canvas_resize(&c, 124, 52, &e), 0);
	for (int steps = 0; steps <= DEMO_CHAT_STEPS; steps += DEMO_CHAT_STEPS)
		for (int v = 0; v < N_MINE; v++) {
			struct view_state s = { .token = -1, .page = -1, .layer = -1, .head = -1 };
			struct timeline t;

			timeline_init(&t);
			if (steps)
				demo_play(sink, &t, steps);
			for (int i = 0; i < 300; i++) {
				s.zoomed = i / 30 % 2;
				mine[v]->key(keys[(i * i + 7 * i) % N_KEYS], &t, &s);
				guarded_draw(mine[v], &t, &s, &c, 20 + i % 100, 1 + i % 50);
			}
			assert_false(mine[v]->key('q', &t, &s));
			timeline_free(&t);
		}
	canvas_free(&c);
}

static void each_explains_itself(void **state)
{
	(void)state;
	for (int v = 0; v < N_MINE; v++) {
		const char *help = mine[v]->help;

		assert_ptr_equal(views[mine[v]->index], mine[v]);
		assert_non_null(strstr(help, "Why it matters:"));
		assert_non_null(strstr(help, "Try:"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_size_draws_outside),
		cmocka_unit_test(no_stream_of_events_breaks_a_view),
		cmocka_unit_test(keys_are_safe_and_known),
		cmocka_unit_test(each_explains_itself),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
