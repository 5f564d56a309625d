/* The view denoising: a canvas whose cells are known, against what must stand there, and whole
 * pictures against files. UPDATE_GOLDEN=1 writes those anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/view_check.h"
#include "tui/views/views.h"

enum { FROM = 10, N = 60, BLOCK = 20, STEPS = 15, A_STEP = 4 };

static const char *const words[] = { "The", " cat", " sat", " on", " a", " mat", ",", " and", " it",
	" slept", ".", "\n" };
enum { WORDS = sizeof words / sizeof *words };

static float sure(int32_t cell)
{
	return (float)((cell * 37) % 90 + 10) / 100;
}

/* A step of the blocks from the left: of the block's masks every third from the nth on is fixed. */
static void tell(struct said *d, int32_t nth, int32_t fixed[N])
{
	const int32_t first = (nth - 1) * A_STEP / BLOCK * BLOCK, end = first + BLOCK;
	struct ev_denoised cells[BLOCK];
	struct event ev;
	int32_t n = 0, block_pos = -1;

	for (int32_t i = 0; i < BLOCK; i++) {
		const int32_t at = first + i, turn = first / A_STEP + 1 + i * 7 % (BLOCK / A_STEP);

		if (fixed[at])
			continue;
		block_pos = block_pos < 0 ? at : block_pos;
		fixed[at] = turn == nth ? nth : 0;
		cells[n++] = (struct ev_denoised){ (uint32_t)(FROM + at), (uint32_t)(at % WORDS), sure(at),
			3 - 2 * sure(at), fixed[at] != 0 };
	}
	ev_init(&ev, EV_denoise);
	ev.u.denoise = (struct ev_denoise){ .step = d->t.last_step + 1,
		.request = 1,
		.nth = nth,
		.pos = FROM,
		.tokens = N,
		.block_pos = FROM + block_pos,
		.block_end = FROM + end,
		.fixed = A_STEP,
		.masked = N - A_STEP * nth,
		.schedule = EV_SCHEDULE_confidence,
		.steps = STEPS,
		.block = BLOCK,
		.above = 0.9f,
		.cells = { cells, (size_t)n * sizeof *cells } };
	say_event(d, &ev);
	ev_init(&ev, EV_step);
	ev.u.step.step = d->t.last_step + 1;
	say_event(d, &ev);
}

static struct said told(int32_t steps)
{
	struct said d;
	int32_t fixed[N] = { 0 };

	say_begin(&d, "Tell me of a cat.");
	for (int32_t i = 0; i < WORDS; i++) {
		struct event ev;

		ev_init(&ev, EV_vocab);
		ev.u.vocab.id = i;
		ev.u.vocab.bytes = (struct ev_span){ words[i], strlen(words[i]) };
		say_event(&d, &ev);
	}
	for (int32_t nth = 1; nth <= steps; nth++)
		tell(&d, nth, fixed);
	return d;
}

static void what_is_known(void **state)
{
	struct said d = told(8);
	struct view_state s = fresh;

	(void)state;
	assert_int_equal(d.t.request[0].canvas.n, N);
	assert_shows(&view_denoise, &d.t, &s, 100, 30, "step 8 of 15", true);
	assert_shows(&view_denoise, &d.t, &s, 100, 30, "28 masks left", true);
	assert_shows(&view_denoise, &d.t, &s, 100, 30, "blocks of 20", true);
	assert_shows(&view_denoise, &d.t, &s, 100, 30, "32 tokens in 8 steps: 4.00 a step", true);
	assert_shows(
		&view_denoise, &d.t, &s, 100, 30, "560 rows computed (one after another: 42)", true);
	s.cursor[VIEW_DENOISE] = 2;
	assert_shows(&view_denoise, &d.t, &s, 100, 30,
		"position 11: ' cat' was fixed in step 3, p 0.47, entropy of its row 2.06 bits", true);
	assert_true(view_denoise.key(KEY_LEFT_, &d.t, &s));
	assert_true(view_denoise.key(KEY_LEFT_, &d.t, &s));
	assert_int_equal(s.cursor[VIEW_DENOISE], 1);
	s.cursor[VIEW_DENOISE] = N;
	assert_shows(&view_denoise, &d.t, &s, 100, 30, "a mask, and nothing proposed yet", true);
	assert_true(view_denoise.key(KEY_RIGHT_, &d.t, &s));
	assert_int_equal(s.cursor[VIEW_DENOISE], N);
	timeline_free(&d.t);
}

static void what_is_not_there(void **state)
{
	struct said d = told(0);
	struct view_state s = fresh;

	(void)state;
	assert_shows(&view_denoise, &d.t, &s, 80, 24, "only a diffusion model", true);
	assert_false(view_denoise.key(KEY_LEFT_, &d.t, &s));
	timeline_free(&d.t);
}

/* Events of a recording that was changed. */
static void what_lies(void **state)
{
	struct said d = told(3);
	const struct tl_canvas was = d.t.request[0].canvas;
	const struct ev_denoise lies[] = {
		{ .request = 1, .nth = 4, .pos = -1, .tokens = N },
		{ .request = 1, .nth = 4, .pos = INT64_MAX, .tokens = N, .block_pos = INT64_MAX },
		{ .request = 1, .nth = 4, .pos = FROM, .tokens = INT64_MAX },
		{ .request = 1, .nth = 4, .pos = FROM, .tokens = 0 },
		{ .request = 1, .nth = 0, .pos = FROM, .tokens = N, .block_pos = FROM, .block_end = FROM },
		{ .request = 1,
			.nth = 4,
			.pos = FROM,
			.tokens = N,
			.block_pos = FROM,
			.block_end = 1 << 30 },
		{ .request = 1,
			.nth = 4,
			.pos = FROM,
			.tokens = N,
			.block_pos = FROM,
			.block_end = FROM,
			.schedule = 99 },
		{ .request = 1,
			.nth = 4,
			.pos = FROM,
			.tokens = N,
			.block_pos = FROM,
			.block_end = FROM,
			.cells = { "abc", 3 } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
		struct event ev;

		ev_init(&ev, EV_denoise);
		ev.u.denoise = lies[i];
		ev.u.denoise.step = d.t.last_step + 1;
		say_event(&d, &ev);
		assert_memory_equal(&was, &d.t.request[0].canvas, sizeof was);
	}
	timeline_free(&d.t);
}

static void pictures(void **state)
{
	static const int size[][2] = { { 80, 24 }, { 120, 40 }, { 200, 50 } };
	struct said d = told(8);
	int differ = 0;

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct view_state s = fresh;
		char name[64];

		snprintf(name, sizeof name, "denoise-%dx%d", size[i][0], size[i][1]);
		differ +=
			golden_differs(name, text_of(&view_denoise, &d.t, &s, size[i][0], size[i][1], false));
	}
	timeline_free(&d.t);
	assert_int_equal(differ, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_known),
		cmocka_unit_test(what_is_not_there),
		cmocka_unit_test(what_lies),
		cmocka_unit_test(pictures),
	};

	return cmocka_run_group_tests_name("view_denoise", tests, NULL, NULL);
}
