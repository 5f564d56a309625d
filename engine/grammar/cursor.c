/* See cursor.h. */
#include "engine/grammar/cursor.h"

#include <stdio.h>

#include "base/text.h"
int32_t cursor_fail(struct cursor *c, const char *what)
{
	int line = 1;
	size_t left = (size_t)(c->end - c->at), shown = left < 24 ? left : 24;

	for (const char *t = c->text; t < c->at; t++)
		line += *t == '\n';
	shown = shown < left ? text_fit(c->at, shown) : shown;
	for (size_t i = 0; i < shown; i++)
		if (c->at[i] == '\n')
			shown = i;
	return left ? grammar_fail(
					  c->g, ERR_USAGE, "line %d: %s, at: %.*s", line, what, (int)shown, c->at)
				: grammar_fail(c->g, ERR_USAGE, "line %d: %s, at its end", line, what);
}

uint32_t cursor_point(struct cursor *c)
{
	int32_t point;
	size_t n;

	if (c->at == c->end)
		return CURSOR_END;
	n = text_point(c->at, (size_t)(c->end - c->at), &point);
	if (point < 0) {
		cursor_fail(c, "no valid UTF-8");
		return CURSOR_END;
	}
	c->at += n;
	return (uint32_t)point;
}

uint32_t cursor_hex(struct cursor *c, int n)
{
	uint32_t value = 0;

	for (int i = 0; i < n; i++, c->at++) {
		const int digit = c->at < c->end ? text_hex(*c->at) : -1;

		if (digit < 0) {
			cursor_fail(c, "hexadecimal digits are needed");
			return CURSOR_END;
		}
		value = value * 16 + (uint32_t)digit;
	}
	if (value <= POINTS_LAST)
		return value;
	cursor_fail(c, "no code point");
	return CURSOR_END;
}

int32_t cursor_number(struct cursor *c)
{
	int32_t n = -1;

	for (; cursor_byte(c) >= '0' && cursor_byte(c) <= '9'; c->at++) {
		n = (n < 0 ? 0 : n) * 10 + (int32_t)cursor_byte(c) - '0';
		n = n > GRAMMAR_MOST_REPEAT ? GRAMMAR_MOST_REPEAT + 1 : n;
	}
	return n;
}

static bool braces(struct cursor *c, int32_t *least, int32_t *most)
{
	const char *from = c->at++;

	*least = *most = cursor_number(c);
	if (cursor_take(c, ','))
		*most = cursor_number(c);
	else if (*least < 0)
		c->at = from;
	if (c->at > from + 1 && cursor_take(c, '}')) {
		*least = *least < 0 ? 0 : *least;
		if (*most >= 0 && *most < *least)
			cursor_fail(c, "the least number of times is above the most, before this");
		return true;
	}
	c->at = from;
	cursor_fail(c, "{n}, {n,}, {,m} or {n,m} is needed");
	return false;
}

bool cursor_repeat(struct cursor *c, int32_t *least, int32_t *most)
{
	*least = 0;
	*most = -1;
	if (cursor_take(c, '*'))
		return true;
	if (cursor_take(c, '+')) {
		*least = 1;
		return true;
	}
	if (cursor_take(c, '?')) {
		*most = 1;
		return true;
	}
	return cursor_byte(c) == '{' && braces(c, least, most);
}
