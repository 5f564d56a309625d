/* The layout at every size from 20x5 to 300x100, with and without zoom, scrubber and a tall
 * prompt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "tui/app/layout.h"

#define VIEW(n, w, h, want)                                                                        \
	{                                                                                              \
		.name = n, .id = n, .help = n, .min_w = w, .min_h = h, .want_h = want                      \
	}
static const struct view fake[] = {
	VIEW("chat", 20, 3, 12),
	VIEW("next", 24, 3, 7),
	VIEW("sampler", 30, 5, 9),
	VIEW("pages", 20, 2, 8),
	VIEW("batch", 20, 3, 6),
	VIEW("spec", 24, 2, 5),
	VIEW("prefix", 24, 2, 5),
	VIEW("attention", 24, 2, 5),
	VIEW("time", 24, 2, 3),
	VIEW("lesson", 20, 5, 20),
};
static const struct view *const fakes[] = { &fake[0], &fake[1], &fake[2], &fake[3], &fake[4],
	&fake[5], &fake[6], &fake[7], &fake[8], &fake[9], NULL };
enum { N_FAKE = 10, N_RECTS = 5 + N_FAKE };

static int rects(const struct layout *l, struct rect *r)
{
	r[0] = l->status, r[1] = l->rule, r[2] = l->prompt, r[3] = l->hints, r[4] = l->scrubber;
	memcpy(r + 5, l->view, N_FAKE * sizeof *r);
	return N_RECTS;
}

static int empty(struct rect r)
{
	return r.w <= 0 || r.h <= 0;
}

static int overlap(struct rect a, struct rect b)
{
	return !empty(a) && !empty(b) && a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h &&
		   b.y < a.y + a.h;
}

static int inside(struct rect r, int w, int h)
{
	return r.w >= 0 && r.h >= 0 &&
		   (empty(r) || (r.x >= 0 && r.y >= 0 && r.x + r.w <= w && r.y + r.h <= h));
}

static void check(const struct layout_request *ask)
{
	struct layout l;
	struct rect r[N_RECTS];
	int n, main_view = ask->zoom >= 0 ? ask->zoom : 0;

	layout_make(&l, ask);
	n = rects(&l, r);
	for (int i = 0; i < n; i++) {
		if (!inside(r[i], ask->w, ask->h))
			fail_msg("%dx%d: rectangle %d leaves the screen", ask->w, ask->h, i);
		for (int j = i + 1; j < n; j++)
			if (overlap(r[i], r[j]))
				fail_msg("%dx%d: rectangles %d and %d overlap", ask->w, ask->h, i, j);
	}
	if (l.view[main_view].w < 15 || l.view[main_view].h < 1 || l.prompt.w < 15 || l.prompt.h < 1)
		fail_msg("%dx%d: chat or prompt is missing", ask->w, ask->h);
	if (l.prompt.h > 1 && l.prompt.h > ask->h / 3)
		fail_msg("%dx%d: the prompt is taller than a third", ask->w, ask->h);
	for (int i = 1; ask->zoom < 0 && i < N_FAKE; i++)
		if (l.view[i].h && (l.view[i].w < fake[i].min_w || l.view[i].h < fake[i].min_h))
			fail_msg("%dx%d: %s is too small", ask->w, ask->h, fake[i].id);
}

static void sweep(void **state)
{
	(void)state;
	for (int w = 20; w <= 300; w++)
		for (int h = 5; h <= 100; h++)
			for (int variant = 0; variant < 32; variant++)
				check(&(struct layout_request){ .w = w,
					.h = h,
					.zoom = variant & 1 ? (w + h) % N_FAKE : -1,
					.prompt_lines = variant & 2 ? 40 : 1,
					.scrubber = variant & 4,
					.lesson = variant & 8,
					.look = variant & 16 ? (w + h) % N_FAKE : -1,
					.views = fakes });
}

static void n_views_shown(int w, int h, int expected)
{
	struct layout_request ask = {
		.w = w, .h = h, .zoom = -1, .prompt_lines = 1, .views = fakes, .look = -1
	};
	struct layout l;
	int n = 0;

	layout_make(&l, &ask);
	for (int i = 0; i < N_FAKE; i++)
		n += l.view[i].h > 0;
	assert_int_equal(n, expected);
}

/* Enough at 80x24, everything at 120x40 and 200x50, only the chat when tiny. */
static void named_sizes(void **state)
{
	(void)state;
	n_views_shown(20, 5, 1);
	n_views_shown(80, 24, 8);
	n_views_shown(120, 40, 8);
	n_views_shown(120, 50, 9);
	n_views_shown(200, 50, 9);
	n_views_shown(300, 100, 9);
}

/* Where rows are few, the batch has three slots before there is air between the views. */
static void batch_shows_slots(void **state)
{
	struct layout_request ask = { .w = 80, .h = 24, .zoom = -1, .prompt_lines = 1, .views = fakes };
	struct layout l;

	(void)state;
	layout_make(&l, &ask);
	assert_in_range(l.view[4].h, 4, 24);
}

/* A tall screen has the roofline below the chat, which keeps the rows that it has at 120x40; not
 * where a server tells nothing of it. */
static void roofline_on_a_tall_screen(void **state)
{
	static const struct view roofline = {
		.id = "roofline", .min_w = 44, .min_h = 10, .want_h = 18
	};
	const struct view *with[N_FAKE + 2] = { 0 };
	struct layout_request ask = {
		.w = 120, .h = 40, .zoom = -1, .prompt_lines = 1, .views = with, .look = -1
	};
	struct layout small, l;

	(void)state;
	memcpy(with, fakes, N_FAKE * sizeof *with);
	with[N_FAKE] = &roofline;
	layout_make(&small, &ask);
	assert_int_equal(small.view[N_FAKE].h, 0);
	ask.w = 200;
	layout_make(&l, &ask);
	assert_int_equal(l.view[N_FAKE].h, 0);
	ask.h = 50;
	layout_make(&l, &ask);
	assert_in_range(l.view[N_FAKE].h, 10, 18);
	assert_true(l.view[0].h >= small.view[0].h);
	ask.empty = 1u << N_FAKE;
	layout_make(&l, &ask);
	assert_int_equal(l.view[N_FAKE].h, 0);
}

/* What a lesson looks at is shown at 80x24, also where it is too wide to stand beside the text. */
static void lesson_shows_wide_view(void **state)
{
	static const struct view wide = { .id = "wide", .min_w = 60, .min_h = 6, .want_h = 9 };
	const struct view *with[N_FAKE + 2] = { 0 };
	struct layout_request ask = { .w = 80, .h = 24, .zoom = -1, .prompt_lines = 1, .views = with };
	struct layout l;

	(void)state;
	memcpy(with, fakes, N_FAKE * sizeof *with);
	with[N_FAKE] = &wide;
	ask.lesson = true;
	ask.look = N_FAKE;
	layout_make(&l, &ask);
	assert_in_range(l.view[N_FAKE].w, 60, 80);
	assert_in_range(l.view[N_FAKE].h, 6, 12);
	assert_int_equal(l.view[N_FAKE - 1].w, l.view[N_FAKE].w); /* few rows are the lesson's alone */
	assert_int_equal(l.view[0].h, 0);
	ask.h = 40;
	layout_make(&l, &ask);
	assert_int_equal(l.view[0].y, l.view[N_FAKE - 1].y); /* chat and lesson side by side above */
}

/* What stands beside the lesson has the rows that it wants, or, all of it, those of the chat. */
static void lesson_shows_all(void **state)
{
	static const struct view table = { .id = "table", .min_w = 30, .min_h = 4, .want_h = 11 };
	const struct view *with[N_FAKE + 2] = { 0 };
	struct layout_request ask = { .w = 80, .h = 24, .zoom = -1, .prompt_lines = 1, .views = with };
	struct layout l;

	(void)state;
	memcpy(with, fakes, N_FAKE * sizeof *with);
	with[N_FAKE] = &table;
	ask.lesson = true;
	ask.look = N_FAKE;
	layout_make(&l, &ask);
	assert_int_equal(l.view[N_FAKE].h, 11);
	assert_in_range(l.view[0].h, 6, 10);
	ask.look_all = true;
	layout_make(&l, &ask);
	assert_int_equal(l.view[N_FAKE].h, l.view[N_FAKE - 1].h);
	assert_int_equal(l.view[0].h, 0);
	ask.h = 40;
	layout_make(&l, &ask);
	assert_int_equal(l.view[0].h, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sweep),
		cmocka_unit_test(named_sizes),
		cmocka_unit_test(batch_shows_slots),
		cmocka_unit_test(roofline_on_a_tall_screen),
		cmocka_unit_test(lesson_shows_wide_view),
		cmocka_unit_test(lesson_shows_all),
	};

	return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
