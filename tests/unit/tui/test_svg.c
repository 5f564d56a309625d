/* A canvas as SVG: what is text, what is a shape, and that nothing of a text becomes markup. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/view_check.h"
#include "tui/term/svg.h"
#include "tui/views/views.h"

static const struct theme dark = { .depth = THEME_TRUE },
						  light = { .depth = THEME_TRUE, .light = true };

/* malloc'd */
static char *svg_of(const struct canvas *c, const struct theme *t, const char *title)
{
	char *svg = NULL;
	size_t size;
	FILE *out = open_memstream(&svg, &size);

	assert_non_null(out);
	svg_write(out, c, t, title);
	assert_int_equal(fclose(out), 0);
	return svg;
}

static char *svg_line(const char *text, uint8_t ink, uint8_t paper, uint8_t attr)
{
	struct canvas c = canvas_of(12, 2, false);
	struct pen p = pen_of(&c, (struct rect){ 0, 0, 12, 2 });
	char *svg;

	p.ink = ink;
	p.paper = paper;
	p.attr = attr;
	pen_text(&p, 1, 1, text, -1);
	svg = svg_of(&c, &dark, "a title");
	canvas_free(&c);
	return svg;
}

static void has(const char *text, uint8_t ink, uint8_t paper, uint8_t attr, const char *expected)
{
	char *svg = svg_line(text, ink, paper, attr);

	if (!strstr(svg, expected))
		fail_msg("no %s in %s", expected, svg);
	free(svg);
}

static void words_keep_their_columns(void **state)
{
	(void)state;
	has("ab cd", 0, 0, 0,
		"<text x=\"10\" y=\"35\" textLength=\"50\" fill=\"#c8ccd4\">ab cd</text>");
	has("ab  cd", 0, 0, 0, "textLength=\"20\" fill=\"#c8ccd4\">ab</text>");
	has("ab  cd", 0, 0, 0, "<text x=\"50\" y=\"35\" textLength=\"20\" fill=\"#c8ccd4\">cd</text>");
	has("a\xe2\x9c\x93z", 0, 0, 0, /* a check mark: of another font */
		"<text x=\"25\" y=\"35\" text-anchor=\"middle\" fill=\"#c8ccd4\">\xe2\x9c\x93</text>");
	has("\xe6\x97\xa5z", 0, 0, 0, "<text x=\"20\" y=\"35\" text-anchor=\"middle\"");
	has("\xe6\x97\xa5z", 0, 0, 0, "<text x=\"30\" y=\"35\" textLength=\"10\"");
	/* Hebrew letters are not turned round among themselves */
	has("\xd7\x90\xd7\x91", 0, 0, 0,
		"<text x=\"15\" y=\"35\" text-anchor=\"middle\" fill=\"#c8ccd4\">\xd7\x90</text>");
}

static void styles_are_colours(void **state)
{
	(void)state;
	has("ab", INK_BRIGHT, 0, ATTR_BOLD, "fill=\"#eceff4\" font-weight=\"bold\">ab<");
	has("ab", 0, INK_BAND, 0,
		"<rect x=\"10\" y=\"20\" width=\"20\" height=\"20\" fill=\"#1d2027\"/>");
	has("ab", 0, 0, ATTR_REVERSE, "width=\"20\" height=\"20\" fill=\"#c8ccd4\"/>");
	has("ab", 0, 0, ATTR_REVERSE, "fill=\"#14161b\">ab<");
	has("ab", 0, 0, ATTR_UNDERLINE, "<rect x=\"10\" y=\"37\" width=\"20\" height=\"1\"");
}

static void bars_and_lines_are_shapes(void **state)
{
	(void)state;
	has("\xe2\x96\x88\xe2\x96\x88", INK_BAR, 0, 0, /* two full blocks: one rectangle */
		"<rect x=\"10\" y=\"20\" width=\"20\" height=\"20\" fill=\"#969eac\"/>");
	has("\xe2\x96\x84", 0, 0, 0, "<rect x=\"10\" y=\"30\" width=\"10\" height=\"10\"");
	has("\xe2\x96\x8c", 0, 0, 0, "<rect x=\"10\" y=\"20\" width=\"5\" height=\"20\"");
	has("\xe2\x96\x92", 0, 0, 0, "fill-opacity=\"0.5\"");
	has("\xe2\x96\x9a", 0, 0, 0, "<rect x=\"15\" y=\"30\" width=\"5\" height=\"10\""); /* ▚ */
	has("\xe2\x94\x80\xe2\x94\x80", 0, 0, 0, "<rect x=\"10\" y=\"30\" width=\"20\" height=\"1\"");
	has("\xe2\x94\x94", 0, 0, 0, "<rect x=\"15\" y=\"20\" width=\"1\" height=\"11\""); /* └: up */
	has("\xe2\x94\x94", 0, 0, 0, "<rect x=\"15\" y=\"30\" width=\"5\" height=\"1\"");  /* right */
}

/* Every block and every line of the two ranges lies within its cell. */
static void shapes_stay_in_their_cells(void **state)
{
	(void)state;
	for (int code = 0x2500; code < 0x25a1; code++) {
		const char text[] = { (char)0xe2, (char)(0x80 | (code >> 6 & 63)),
			(char)(0x80 | (code & 63)), 0 };
		char *svg = svg_line(text, 0, 0, 0), *at = strstr(svg, "<g "), *end = strstr(svg, "</g>");
		int x, y, w, h, n = 0;

		while ((at = strstr(at + 1, "<rect ")) && at < end) {
			assert_int_equal(
				sscanf(at, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"", &x, &y, &w, &h),
				4);
			assert_true(x >= 10 && y >= 20 && w > 0 && h > 0 && x + w <= 20 && y + h <= 40);
			n++;
		}
		assert_true(n > 0 || strstr(svg, text)); /* a shape, or the character */
		assert_true(n == 0 || !strstr(svg, text));
		free(svg);
	}
}

static void no_text_becomes_markup(void **state)
{
	static const char hostile[] = "<a>&\"'\x1b[31m\x01\x7f\xc2\x9b\xe2\x80\xae\xff\xef\xbf\xbf]]>";
	struct canvas c = canvas_of(80, 1, false);
	struct pen p = pen_of(&c, (struct rect){ 0, 0, 80, 1 });
	char *svg;

	(void)state;
	pen_text(&p, 0, 0, hostile, -1);
	svg = svg_of(&c, &dark, hostile);
	for (const char *s = svg; *s; s++)
		assert_true((unsigned char)*s >= ' ' ? *s != 0x7f : *s == '\n');
	assert_non_null(strstr(svg, "&lt;a&gt;&amp;\"'"));
	assert_null(strstr(svg, "<a>"));
	assert_null(strstr(svg, "]]>"));
	assert_null(strstr(svg, "\xe2\x80\xae")); /* right-to-left override */
	assert_null(strstr(svg, "\xef\xbf\xbf")); /* no character of XML */
	assert_null(strstr(svg, "\xc2\x9b"));
	free(svg);
	canvas_free(&c);
}

/* All views of the made-up session, dark and light: the same texts in other colours. */
static void every_view_is_a_picture(void **state)
{
	struct timeline t = demo_timeline(48);

	(void)state;
	for (int i = 0; views[i]; i++) {
		struct canvas c = canvas_of(100, 40, false);
		struct pen p = pen_of(&c, (struct rect){ 0, 0, 100, 40 });
		struct view_state s = fresh;
		char *pictures[2], *name;

		views[i]->draw(&p, &t, &s);
		pictures[0] = svg_of(&c, &dark, "");
		pictures[1] = svg_of(&c, &light, "");
		for (int k = 0; k < 2; k++) {
			name = strstr(pictures[k], views[i]->name);
			assert_non_null(name);
			free(pictures[k]);
		}
		canvas_free(&c);
	}
	timeline_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_keep_their_columns),
		cmocka_unit_test(styles_are_colours),
		cmocka_unit_test(bars_and_lines_are_shapes),
		cmocka_unit_test(shapes_stay_in_their_cells),
		cmocka_unit_test(no_text_becomes_markup),
		cmocka_unit_test(every_view_is_a_picture),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
