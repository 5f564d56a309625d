/* The canvas: pens never draw outside, wide characters stay whole, nothing raw reaches a cell; and
 * the theme. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/term/canvas.h"
#include "tui/term/theme.h"
#include "tests/support/canvas_text.h"

static struct canvas make(int w, int h)
{
	struct canvas c = { 0 };

	assert_int_equal(canvas_resize(&c, w, h, NULL), 0);
	return c;
}

static void expect(struct canvas *c, const char *text)
{
	char *got = canvas_to_text(c);

	assert_string_equal(got, text);
	free(got);
	canvas_free(c);
}

static void text_is_clipped(void **state)
{
	struct canvas c = make(8, 3);
	struct pen p = pen_of(&c, (struct rect){ 2, 1, 4, 1 });

	(void)state;
	assert_int_equal(pen_text(&p, 0, 0, "abcdefgh", -1), 4);
	pen_text(&p, 0, 1, "below", -1);
	pen_text(&p, 0, -1, "above", -1);
	pen_text(&p, 9, 0, "right", -1);
	expect(&c, "\n  abcd\n\n");
}

static void a_pen_off_the_canvas_draws_nothing(void **state)
{
	struct canvas c = make(4, 2);
	struct pen p = pen_of(&c, (struct rect){ 10, 10, 5, 5 });
	struct pen q = pen_sub(&p, (struct rect){ -20, -20, 100, 100 });

	(void)state;
	pen_text(&p, 0, 0, "x", -1);
	pen_text(&q, 0, 0, "x", -1);
	pen_head(&q, "title", "figure");
	expect(&c, "\n\n");
}

static void wide_characters_stay_whole(void **state)
{
	struct canvas c = make(6, 3);
	struct pen p = pen_of(&c, (struct rect){ 0, 0, 5, 3 });

	(void)state;
	assert_int_equal(pen_text(&p, 0, 0, "日本語", -1), 4); /* the third would hang over */
	pen_text(&p, 0, 1, "日本", -1);
	pen_text(&p, 1, 1, "x", -1); /* over the right half of the first */
	pen_text(&p, 0, 2, "日本", -1);
	pen_text(&p, 2, 2, "y", -1); /* over the left half of the second */
	expect(&c, "日本\n x本\n日y\n");
}

static void clip_shows_an_ellipsis(void **state)
{
	struct canvas c = make(12, 3);
	struct pen p = pen_of(&c, (struct rect){ 0, 0, 12, 3 });

	(void)state;
	pen_clip(&p, 0, 0, 6, "abcdef", -1);
	pen_clip(&p, 0, 1, 6, "abcdefg", -1);
	c.ascii = true;
	pen_clip(&p, 0, 2, 6, "abcdefg", -1);
	expect(&c, "abcdef\nabcde…\nabcde~\n");
}

/* 183 is not 1834: what does not fit says so, at either end of the pen. */
static void a_number_that_is_cut_says_so(void **state)
{
	struct canvas c = make(9, 4);
	struct pen p = pen_of(&c, (struct rect){ 0, 0, 9, 4 });

	(void)state;
	pen_printf(&p, 0, 0, "step %d", 1834);
	pen_printf(&p, 0, 1, "step %d", 18345);
	pen_right(&p, 4, 2, "%d", 18345);
	pen_printf(&p, 0, 3, "step %d ", 1834); /* a blank is nothing to tell of */
	expect(&c, "step 1834\nstep 183…\n183…\nstep 1834\n");
}

static void no_control_reaches_a_cell(void **state)
{
	struct canvas c = make(80, 4);
	struct pen p = pen_of(&c, (struct rect){ 0, 0, 80, 4 });

	(void)state;
	for (int i = 0; i < 256; i++) {
		char text[3] = { (char)i, 'm', 0 };

		pen_text(&p, 0, i % 4, text, 2);
	}
	pen_text(&p, 0, 0, "\033[31mred\xe2\x80\xae\xc2\x9b", -1);
	for (int i = 0; i < c.w * c.h; i++)
		for (const unsigned char *s = (const unsigned char *)c.cell[i].text; *s; s++)
			assert_true(*s >= ' ' && *s != 0x7f && !(s[0] == 0xc2 && s[1] < 0xa0));
	canvas_free(&c);
}

/* A cell holds what takes its columns and no more, whatever the text was. */
static void cells_hold_one_character(void **state)
{
	(void)state;
	for (int ascii = 0; ascii < 2; ascii++) {
		struct canvas c = make(600, 1);
		struct pen p = pen_of(&c, (struct rect){ 0, 0, 600, 1 });
		int x = 0;

		c.ascii = ascii;
		for (int i = 1; i < 256; i++)
			x += pen_text(&p, x, 0, (char[]){ (char)i }, 1);
		x += pen_text(&p, x, 0, "\xc2\x85\xe2\x80\xae\xef\xbb\xbf", -1);
		assert_true(x < 600);
		for (int i = 0; i < c.w; i++)
			if ((unsigned char)c.cell[i].text[0] < 0x80)
				assert_true(strlen(c.cell[i].text) <= 1);
		canvas_free(&c);
	}
}

static void heads_drop_the_last_parts(void **state)
{
	struct canvas c = make(40, 4);
	struct pen p = pen_of(&c, (struct rect){ 0, 0, 40, 1 });

	(void)state;
	pen_head(&p, "KV pages", "21 of 512 · 3 shared");
	p = pen_of(&c, (struct rect){ 0, 1, 24, 1 });
	pen_head(&p, "KV pages", "21 of 512 · 3 shared");
	p = pen_of(&c, (struct rect){ 0, 2, 12, 1 });
	pen_head(&p, "KV pages", "21 of 512 · 3 shared");
	p = pen_of(&c, (struct rect){ 0, 3, 5, 1 });
	pen_head(&p, "KV pages", NULL);
	expect(&c, "KV pages ────────── 21 of 512 · 3 shared\n"
			   "KV pages ───── 21 of 512\n"
			   "KV pages ───\n"
			   "KV p…\n");
}

static int rgb_of(enum ink ink, bool light)
{
	struct theme t = { .depth = THEME_TRUE, .light = light };

	return theme_style(&t, ink, 0, 0).fg;
}

/* Every ink has a colour of its own where there are colours, in both themes. */
static void inks_differ(void **state)
{
	(void)state;
	for (int light = 0; light < 2; light++)
		for (int a = INK_REQUEST_0; a <= INK_REQUEST_7; a++) {
			assert_int_not_equal(rgb_of(a, light), rgb_of(INK_ACCEPTED, light));
			assert_int_not_equal(rgb_of(a, light), rgb_of(INK_REJECTED, light));
			for (int b = a + 1; b <= INK_REQUEST_7; b++)
				assert_int_not_equal(rgb_of(a, light), rgb_of(b, light));
		}
}

/* Greys of text are stronger, in any depth; what has a hue keeps it. */
static void a_projector_shows_nothing_dim(void **state)
{
	static const int greys[] = { INK_TEXT, INK_DIM, INK_RULE, INK_BAR_CUT, INK_TINT_0 };

	(void)state;
	for (int depth = THEME_MONO; depth <= THEME_TRUE; depth++)
		for (int light = 0; light < 2; light++)
			for (int ink = 0; ink < INK_N; ink++) {
				struct theme near = { .depth = depth, .light = light }, far = near;
				struct theme_style a = theme_style(&near, ink, 0, 0), b;
				bool grey = false;

				far.projector = true;
				b = theme_style(&far, ink, 0, 0);
				for (size_t i = 0; i < sizeof greys / sizeof *greys; i++)
					grey |= ink == greys[i] || ink == INK_TINT_0 + 1;
				if (!grey)
					assert_memory_equal(&a, &b, sizeof a);
				else if (depth == THEME_TRUE)
					assert_int_not_equal(a.fg, b.fg);
				if (ink == INK_DIM)
					assert_false(b.dim || (depth == THEME_16 && b.fg == 8));
			}
}

static void styles_fit_their_depth(void **state)
{
	(void)state;
	for (int depth = THEME_MONO; depth <= THEME_TRUE; depth++)
		for (int light = 0; light < 2; light++)
			for (int ink = 0; ink < INK_N; ink++)
				for (int paper = 0; paper < INK_N; paper++) {
					struct theme t = { .depth = depth, .light = light };
					struct theme_style s = theme_style(&t, ink, paper, ATTR_BOLD);
					int max = depth == THEME_MONO  ? -1
							  : depth == THEME_16  ? 15
							  : depth == THEME_256 ? 255
												   : 0xffffff;

					assert_true(s.bold && s.fg >= -1 && s.fg <= max && s.bg >= -1 && s.bg <= max);
					assert_true(depth == THEME_MONO || s.fg == -1 || s.fg != s.bg);
				}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_clipped),
		cmocka_unit_test(a_pen_off_the_canvas_draws_nothing),
		cmocka_unit_test(wide_characters_stay_whole),
		cmocka_unit_test(clip_shows_an_ellipsis),
		cmocka_unit_test(a_number_that_is_cut_says_so),
		cmocka_unit_test(no_control_reaches_a_cell),
		cmocka_unit_test(cells_hold_one_character),
		cmocka_unit_test(heads_drop_the_last_parts),
		cmocka_unit_test(inks_differ),
		cmocka_unit_test(a_projector_shows_nothing_dim),
		cmocka_unit_test(styles_fit_their_depth),
	};

	return cmocka_run_group_tests_name("canvas", tests, NULL, NULL);
}
