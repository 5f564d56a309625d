/* See theme.h. One table of truecolor values; 256 colours are the nearest of the cube and the
 * greys, and 16 colours have a table of their own, because the nearest ones would not be
 * distinct. */
#include "tui/term/theme.h"

enum { OWN = -1 };

struct ink_colour {
	int dark, light; /* 0xrrggbb, or OWN */
	int8_t sixteen;  /* OWN: the terminal's own */
	bool dim;        /* mono: drawn dim */
};

#define BRIGHT_BLACK 8

static const struct ink_colour fixed[INK_N] = {
	[INK_TEXT] = { OWN, OWN, OWN, false },
	[INK_BRIGHT] = { 0xeceff4, 0x101216, OWN, false },
	[INK_DIM] = { 0x808896, 0x6a7180, BRIGHT_BLACK, true },
	[INK_RULE] = { 0x3a404c, 0xc8ccd4, BRIGHT_BLACK, true },
	[INK_ACCEPTED] = { 0x2fbf8f, 0x00795a, 2, false },
	[INK_REJECTED] = { 0xef6f3c, 0xb8400c, 1, false },
	[INK_BAR] = { 0x969eac, 0x6a7280, 7, false },
	[INK_BAR_CUT] = { 0x404652, 0xc4c8d0, BRIGHT_BLACK, true },
	[INK_EXCHANGE] = { 0x2456a0, 0x2f66c4, 4, false },
	[INK_PREDICTED] = { 0xc9a0ff, 0x7a3fb0, 13, false },
	[INK_BAND] = { 0x1d2027, 0xe6e8ec, OWN, false },
	/* sky, rose, straw, violet, mint, clay, ice, sand */
	[INK_REQUEST_0] = { 0x56b4e9, 0x0a6ea8, 14, false },
	[INK_REQUEST_0 + 1] = { 0xcc79a7, 0xa03c74, 13, false },
	[INK_REQUEST_0 + 2] = { 0xdcd66e, 0x7a7200, 11, false },
	[INK_REQUEST_0 + 3] = { 0x8b8fff, 0x4a48c8, 12, false },
	[INK_REQUEST_0 + 4] = { 0x7fd6c2, 0x14796a, 6, false },
	[INK_REQUEST_0 + 5] = { 0xd0967a, 0x8a4a2c, 5, false },
	[INK_REQUEST_0 + 6] = { 0xb4d4f4, 0x3c6490, 15, false },
	[INK_REQUEST_0 + 7] = { 0xb8b08c, 0x6a6444, 7, false },
	/* neighbours in a stacked bar differ: dark and light tones alternate */
	[INK_PART_0] = { 0x969eac, 0x7a8290, 7, false },
	[INK_PART_0 + 1] = { 0x68707e, 0xa4acba, BRIGHT_BLACK, true },
	[INK_PART_0 + 2] = { 0xb2bac6, 0x5c6472, 15, false },
	[INK_PART_0 + 3] = { 0x545c6a, 0xb8c0cc, BRIGHT_BLACK, true },
	[INK_PART_0 + 4] = { 0x808896, 0x8c94a2, 7, false },
	[INK_PART_0 + 5] = { 0xc4cad4, 0x4a5260, 15, false },
	[INK_PART_0 + 6] = { 0x747c8a, 0x949caa, 7, false },
	[INK_PART_0 + 7] = { 0x404652, 0xc8ced8, BRIGHT_BLACK, true },
	[INK_PART_0 + 8] = { 0x4a5260, 0xc0c6d0, BRIGHT_BLACK, true },
};

struct ramp_stop {
	double at;
	int colour;
};

static int mix(int a, int b, double t)
{
	int out = 0;

	for (int shift = 16; shift >= 0; shift -= 8) {
		int x = a >> shift & 255, y = b >> shift & 255;

		out |= (int)(x + (y - x) * t + 0.5) << shift;
	}
	return out;
}

static int ramp(const struct ramp_stop *stop, double at)
{
	while (at > stop[1].at)
		stop++;
	return mix(stop[0].colour, stop[1].colour, (at - stop[0].at) / (stop[1].at - stop[0].at));
}

/* Amber, used for nothing else. Even steps of lightness, so that the amount is visible without
 * hue. */
static int heat_colour(int level, bool light)
{
	static const struct ramp_stop dark[] = { { 0, 0x211f1d }, { 0.25, 0x4c391e }, { 0.6, 0x966418 },
		{ 0.9, 0xeab44e }, { 1, 0xf7cd72 } };
	static const struct ramp_stop pale[] = { { 0, 0xfaf4e8 }, { 0.25, 0xf4dfb4 }, { 0.6, 0xe2aa48 },
		{ 0.9, 0xb87408 }, { 1, 0x9c5c00 } };

	return ramp(light ? pale : dark, level / 15.0);
}

static int tint_colour(int level, bool light)
{
	static const struct ramp_stop dark[] = { { 0, 0x8a919e }, { 1, 0xeef1f6 } };
	static const struct ramp_stop pale[] = { { 0, 0x888f9c }, { 1, 0x14161c } };

	return ramp(light ? pale : dark, level / 7.0);
}

/* The cube has no dark ambers: below the first brown the ramp is grey. */
static const uint8_t heat_dark_256[16] = { 234, 235, 236, 237, 238, 94, 94, 94, 130, 136, 136, 172,
	172, 178, 214, 221 };
static const uint8_t heat_light_256[16] = { 255, 255, 230, 230, 229, 223, 222, 222, 221, 221, 215,
	214, 178, 172, 136, 130 };

static struct ink_colour ink_colour(enum ink ink)
{
	if (ink >= INK_HEAT_0 && ink <= INK_HEAT_15) {
		int level = (int)ink - INK_HEAT_0;

		return (struct ink_colour){ heat_colour(level, false), heat_colour(level, true),
			level < 4    ? BRIGHT_BLACK
			: level < 12 ? 3
						 : 11,
			level < 6 };
	}
	if (ink >= INK_TINT_0 && ink <= INK_TINT_7) {
		int level = (int)ink - INK_TINT_0;

		return (struct ink_colour){ tint_colour(level, false), tint_colour(level, true),
			level < 2   ? BRIGHT_BLACK
			: level < 6 ? OWN
						: 15,
			level < 2 };
	}
	return fixed[ink < INK_N ? ink : INK_TEXT];
}

/* A projector takes half of the contrast: each grey of text is the next stronger one. */
static enum ink stronger(enum ink ink)
{
	switch (ink) {
	case INK_TEXT: return INK_BRIGHT;
	case INK_DIM: return INK_TEXT;
	case INK_RULE:
	case INK_BAR_CUT: return INK_DIM;
	default: return ink >= INK_TINT_0 && ink < INK_TINT_0 + 2 ? INK_TINT_0 + 2 : ink;
	}
}

static int distance(int a, int b)
{
	int sum = 0;

	for (int shift = 16; shift >= 0; shift -= 8) {
		int d = (a >> shift & 255) - (b >> shift & 255);

		sum += d * d * (shift == 8 ? 4 : shift ? 3 : 2); /* the eye sees green best, blue least */
	}
	return sum;
}

static int xterm_rgb(int index)
{
	int cube[3], n = index - 16;

	if (index >= 232)
		return (8 + 10 * (index - 232)) * 0x010101;
	cube[0] = n / 36, cube[1] = n / 6 % 6, cube[2] = n % 6;
	for (int i = 0; i < 3; i++)
		cube[i] = cube[i] ? 55 + 40 * cube[i] : 0;
	return cube[0] << 16 | cube[1] << 8 | cube[2];
}

/* The first 16 are left out: users redefine them. */
static int nearest_256(int rgb)
{
	int best = 16;

	for (int i = 17; i < 256; i++)
		if (distance(xterm_rgb(i), rgb) < distance(xterm_rgb(best), rgb))
			best = i;
	return best;
}

static double luminance(int rgb)
{
	return 0.2126 * (rgb >> 16 & 255) + 0.7152 * (rgb >> 8 & 255) + 0.0722 * (rgb & 255);
}

static int ink_rgb(enum ink ink, bool light)
{
	struct ink_colour c = ink_colour(ink);

	return light ? c.light : c.dark;
}

static int index_256(enum ink ink, int rgb, bool light)
{
	if (rgb == OWN)
		return OWN;
	if (rgb == ink_rgb(ink, light)) { /* otherwise changed for contrast with its background */
		if (ink >= INK_HEAT_0 && ink <= INK_HEAT_15)
			return light ? heat_light_256[ink - INK_HEAT_0] : heat_dark_256[ink - INK_HEAT_0];
		if (ink == INK_REJECTED && !light)
			return 202; /* vermilion: the nearest is salmon */
	}
	return nearest_256(rgb);
}

int theme_own(const struct theme *t, bool ground)
{
	if (ground)
		return t->light ? 0xffffff : 0x14161b;
	return t->light ? 0x30343c : 0xc8ccd4;
}

static void style_rgb(const struct theme *t, enum ink ink, enum ink paper, struct theme_style *s)
{
	s->fg = ink_rgb(ink, t->light);
	s->bg = paper ? ink_rgb(paper, t->light) : OWN;
	if (s->bg != OWN) {
		bool bright = luminance(s->bg) > 110;
		int on = s->fg == OWN ? theme_own(t, false) : s->fg;
		double apart = luminance(on) - luminance(s->bg);

		if (apart < 48 && apart > -48)
			on = bright ? 0x14161b : 0xf4f6fa;
		s->fg = on;
	}
	if (t->depth == THEME_256) {
		s->fg = index_256(ink, s->fg, t->light);
		s->bg = index_256(paper, s->bg, t->light);
	}
}

static void style_16(const struct theme *t, enum ink ink, enum ink paper, struct theme_style *s)
{
	s->fg = ink_colour(ink).sixteen;
	if (t->light && s->fg >= 9 && s->fg < 15)
		s->fg -= 8; /* bright colours are unreadable on white */
	else if (t->light && (s->fg == 7 || s->fg == 15))
		s->fg = OWN;
	if (paper >= INK_HEAT_0 + 8 && paper <= INK_HEAT_15) {
		s->bg = 3;
		s->fg = 0;
	} else if (paper && !(paper >= INK_HEAT_0 && paper <= INK_HEAT_15)) {
		s->bg = ink_colour(paper).sixteen;
	}
}

static void style_mono(enum ink ink, enum ink paper, struct theme_style *s)
{
	s->dim = ink_colour(ink).dim && !paper;
	if (ink == INK_BRIGHT || ink == INK_REJECTED)
		s->bold = true;
	if (ink == INK_ACCEPTED) /* in the chat nothing else marks a drafted token */
		s->underline = true;
	if (paper >= INK_HEAT_0 + 8 && paper <= INK_HEAT_15)
		s->reverse = !s->reverse;
}

struct theme_style theme_style(const struct theme *t, enum ink ink, enum ink paper, unsigned attr)
{
	struct theme_style s = { .fg = OWN,
		.bg = OWN,
		.bold = attr & ATTR_BOLD,
		.reverse = attr & ATTR_REVERSE,
		.underline = attr & ATTR_UNDERLINE };

	if (t->projector && (ink != INK_TEXT || t->depth > THEME_16)) /* there BRIGHT is bold, or no
																	 other */
		ink = stronger(ink);
	if (t->depth == THEME_MONO)
		style_mono(ink, paper, &s);
	else if (t->depth == THEME_16)
		style_16(t, ink, paper, &s);
	else
		style_rgb(t, ink, paper, &s);
	if (s.fg != OWN && s.fg == s.bg) /* few colours, or an ink on a background of its own colour */
		s.fg = t->depth == THEME_TRUE  ? 0xf4f6fa
			   : t->depth == THEME_256 ? 231
			   : s.bg == 15            ? 0
									   : 15;
	return s;
}

bool theme_env_is_light(void)
{
	const char *value = getenv("COLORFGBG"), *last = value ? strrchr(value, ';') : NULL;
	int ground = last ? atoi(last + 1) : 0;

	return ground == 7 || (ground >= 9 && ground <= 15);
}
