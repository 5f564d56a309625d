/* Regular expressions: see readers.h.
 *
 * Validators read a schema's patterns with the expressions of their own language, in which \d, \w
 * and \s are wider than ECMA's (Python: of all scripts). So a class is what both agree on: \d, \w
 * and \s are those of ASCII, and what is said not to be one of them is one of neither. */
#include <pthread.h>

#include <utf8proc.h>

#include "engine/grammar/cursor.h"
#include "engine/grammar/readers.h"

struct reader {
	struct cursor c;
	points_writer *write;
};

static int32_t alternatives(struct reader *r);

/* ---- classes ---- */

static bool is_digit(uint32_t c)
{
	return utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_ND;
}

static bool is_word(uint32_t c)
{
	const utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);

	return c == '_' || (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_NO);
}

static bool is_space(uint32_t c)
{
	const utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);

	return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f) || c == 0x85 || c == 0xfeff ||
		   (k >= UTF8PROC_CATEGORY_ZS && k <= UTF8PROC_CATEGORY_ZP);
}

/* What every reader takes for it: of ASCII. */
static void add_narrow(struct points *p, int kind)
{
	for (uint32_t c = 0; c < 0x80; c++)
		if (kind == 'd' ? is_digit(c) : kind == 'w' ? is_word(c) : is_space(c) && c < 0x1c)
			points_add(p, c, c);
	if (kind == 's')
		points_add(p, ' ', ' ');
}

/* What any reader takes for it; of all Unicode, so they are made once. */
static struct points wide[3];
static const char wide_kind[3] = { 'd', 'w', 's' };

static void make_wide(void)
{
	static bool (*const is[3])(uint32_t) = { is_digit, is_word, is_space };

	for (int k = 0; k < 3; k++)
		for (uint32_t c = 0, from; c <= POINTS_LAST; c++) {
			if (!is[k](c))
				continue;
			for (from = c; c < POINTS_LAST && is[k](c + 1); c++)
				;
			points_add(&wide[k], from, c);
		}
}

/* kind: d, w or s. */
static void add_wide(struct points *p, int kind)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int k = 0;

	pthread_once(&once, make_wide);
	while (wide_kind[k] != kind)
		k++;
	points_add_all(p, &wide[k]);
}

/* \d \D \w \W \s \S; inverted: into a set that is inverted later. */
static void add_escape(struct points *p, int letter, bool inverted)
{
	const bool not = letter < 'a';
	struct points own = { 0 };

	(not == inverted ? add_narrow : add_wide)(&own, letter | 0x20);
	if (not )
		points_invert(&own);
	points_add_all(p, &own);
	points_free(&own);
}

static bool is_class(uint32_t b)
{
	return b < 0x80 && b && strchr("dDwWsS", (int)b);
}

/* What follows a backslash and stands for one character. */
static uint32_t escape(struct cursor *c)
{
	const uint32_t b = cursor_point(c);
	uint32_t point;

	switch (b) {
	case 'n': return '\n';
	case 'r': return '\r';
	case 't': return '\t';
	case 'f': return '\f';
	case 'v': return '\v';
	case 'x': return cursor_hex(c, 2);
	case 'u':
		if (!cursor_take(c, '{'))
			return cursor_hex(c, 4);
		for (point = 0; !cursor_take(c, '}') && point != CURSOR_END;) {
			const uint32_t digit = cursor_hex(c, 1);

			point = digit == CURSOR_END || point > POINTS_LAST ? CURSOR_END : point * 16 + digit;
		}
		return point <= POINTS_LAST ? point : CURSOR_END;
	default:
		if (b == '0' && cursor_number(c) < 0) /* with more digits it is octal to some readers */
			return 0;
		if (b == CURSOR_END || (b < 0x80 && is_word(b))) {
			cursor_fail(c, "an escape that is not supported, before this");
			return CURSOR_END;
		}
		return b;
	}
}

/* One member of a set, or the range that begins with it. */
static void add_member(struct reader *r, struct points *p, bool but)
{
	struct cursor *c = &r->c;
	uint32_t from = cursor_point(c), to;

	if (from == '\\' && is_class(cursor_byte(c))) {
		add_escape(p, *c->at++, but);
		return;
	}
	if (from == '\\')
		from = cursor_take(c, 'b') ? '\b' : escape(c);
	to = from;
	if (from != CURSOR_END && c->at + 1 < c->end && c->at[0] == '-' && c->at[1] != ']') {
		c->at++;
		to = cursor_point(c);
		if (to == '\\')
			to = is_class(cursor_byte(c)) ? CURSOR_END : escape(c);
	}
	if (from != CURSOR_END && to != CURSOR_END && from <= to)
		points_add(p, from, to);
	else
		cursor_fail(c, "[ that does not end with ], or a range that is none");
}

static int32_t set(struct reader *r)
{
	struct points p = { 0 };
	const bool but = cursor_take(&r->c, '^');

	while (!r->c.g->err.code && !cursor_take(&r->c, ']'))
		add_member(r, &p, but);
	if (but)
		points_invert(&p);
	return r->write(r->c.g, &p);
}

static int32_t one_of(struct reader *r, uint32_t from, uint32_t to)
{
	struct points p = { 0 };

	points_add(&p, from, to);
	return r->write(r->c.g, &p);
}

static int32_t dot(struct reader *r)
{
	struct points p = { 0 };

	points_add(&p, '\n', '\n');
	points_add(&p, '\r', '\r');
	points_add(&p, 0x2028, 0x2029);
	points_invert(&p);
	return r->write(r->c.g, &p);
}

static int32_t class_of(struct reader *r)
{
	struct points p = { 0 };

	add_escape(&p, *r->c.at++, false);
	return r->write(r->c.g, &p);
}

/* ---- structure ---- */

static int32_t group(struct reader *r)
{
	struct cursor *c = &r->c;
	int32_t x;

	if (cursor_take(c, '?') && !cursor_take(c, ':')) {
		if (!cursor_take(c, '<') || cursor_byte(c) == '=' || cursor_byte(c) == '!')
			return cursor_fail(c, cursor_byte(c) == '=' || cursor_byte(c) == '!'
									  ? "looking ahead or behind is not supported"
									  : "inline flags, as of (?i), are not supported");
		while (c->at < c->end && !cursor_take(c, '>'))
			c->at++;
	}
	if (++c->depth > GRAMMAR_NESTING)
		return cursor_fail(c, "too many parentheses inside one another");
	x = alternatives(r);
	c->depth--;
	return x < 0 || cursor_take(c, ')') ? x : cursor_fail(c, "a parenthesis that is not closed");
}

static int32_t atom(struct reader *r)
{
	struct cursor *c = &r->c;
	uint32_t point;

	if (cursor_take(c, '('))
		return group(r);
	if (cursor_take(c, '['))
		return set(r);
	if (cursor_take(c, '.'))
		return dot(r);
	if (cursor_byte(c) == '^' || cursor_byte(c) == '$')
		return cursor_fail(c, "^ and $ are supported at the ends of the whole alone");
	if (strchr("*+?{}])", (int)cursor_byte(c)))
		return cursor_fail(c, "a character that has a meaning of its own: put \\ before it");
	point = cursor_point(c);
	if (point == '\\' && is_class(cursor_byte(c)))
		return class_of(r);
	if (point == '\\')
		point = escape(c);
	return point == CURSOR_END ? cursor_fail(c, "a character is needed") : one_of(r, point, point);
}

static bool ends(const struct cursor *c)
{
	return c->at == c->end || *c->at == '|' || (*c->at == ')' && c->depth) ||
		   (*c->at == '$' && !c->depth && (c->at + 1 == c->end || c->at[1] == '|'));
}

static int32_t sequence(struct reader *r)
{
	struct cursor *c = &r->c;
	int32_t all = expr_empty(c->g), one, least, most;

	while (!ends(c)) {
		one = atom(r);
		if (one >= 0 && cursor_repeat(c, &least, &most)) {
			one = expr_repeat(c->g, one, least, most);
			cursor_take(c, '?'); /* lazy: the same texts */
		}
		if (one < 0 || c->g->err.code)
			return EXPR_FAILED;
		all = expr_then(c->g, all, one);
	}
	return all;
}

static int32_t alternatives(struct reader *r)
{
	int32_t all = sequence(r);

	while (cursor_take(&r->c, '|'))
		all = expr_or(r->c.g, all, sequence(r));
	return all;
}

/* An alternative of the whole, with its anchors. */
static int32_t anchored(struct reader *r, int32_t any)
{
	struct cursor *c = &r->c;
	const bool first = cursor_take(c, '^');
	int32_t x = sequence(r);

	if (!cursor_take(c, '$'))
		x = expr_then(c->g, x, any);
	return first ? x : expr_then(c->g, any, x);
}

int32_t regex_expr(
	struct grammar *g, const char *text, size_t size, bool search, points_writer *write)
{
	struct reader r = { { .g = g, .text = text, .at = text, .end = text + size }, write };
	const int32_t any = search ? expr_repeat(g, one_of(&r, 0, POINTS_LAST), 0, -1) : expr_empty(g);
	int32_t all = anchored(&r, any);

	while (cursor_take(&r.c, '|'))
		all = expr_or(g, all, anchored(&r, any));
	return all < 0 || r.c.at == r.c.end
			   ? all
			   : cursor_fail(&r.c, "something that is no part of the expression");
}

void regex_read(struct grammar *g, const char *text, size_t size)
{
	const int32_t root = rule_new(g, "regex", 5);

	rule_set(g, root, regex_expr(g, text, size, false, expr_of_points));
}
