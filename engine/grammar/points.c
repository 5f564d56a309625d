/* Sets of code points, and what UTF-8 makes of them. See expr.h. */
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/array.h"
#include "engine/grammar/expr.h"

void points_add(struct points *p, uint32_t from, uint32_t to)
{
	int32_t first = 0, end;

	while (first < p->n && p->range[first].to + 1 < from)
		first++;
	for (end = first; end < p->n && p->range[end].from <= to + 1; end++) {
		from = p->range[end].from < from ? p->range[end].from : from;
		to = p->range[end].to > to ? p->range[end].to : to;
	}
	p->failed = p->failed || !ARRAY_ROOM(p->range, p->cap, p->n + 1);
	if (p->failed)
		return;
	memmove(p->range + first + 1, p->range + end, (size_t)(p->n - end) * sizeof *p->range);
	p->range[first] = (struct point_range){ from, to };
	p->n += first + 1 - end;
}

void points_add_all(struct points *p, const struct points *other)
{
	p->failed |= other->failed;
	for (int32_t i = 0; i < other->n; i++)
		points_add(p, other->range[i].from, other->range[i].to);
}

void points_invert(struct points *p)
{
	struct points out = { .failed = p->failed };
	uint32_t next = 0;

	for (int32_t i = 0; i < p->n; i++) {
		if (p->range[i].from > next)
			points_add(&out, next, p->range[i].from - 1);
		next = p->range[i].to + 1;
	}
	if (next <= POINTS_LAST)
		points_add(&out, next, POINTS_LAST);
	points_free(p);
	*p = out;
}

void points_without(struct points *p, uint32_t from, uint32_t to)
{
	points_invert(p);
	points_add(p, from, to);
	points_invert(p);
}

bool points_have(const struct points *p, uint32_t c)
{
	for (int32_t i = 0; i < p->n; i++)
		if (c >= p->range[i].from && c <= p->range[i].to)
			return true;
	return false;
}

void points_free(struct points *p)
{
	free(p->range);
	*p = (struct points){ 0 };
}

/* ---- UTF-8 ---- */

static int32_t same_length(
	struct grammar *g, const unsigned char *from, const unsigned char *to, int n);

/* A first byte, and n - 1 more between two texts. */
static int32_t digits(struct grammar *g, int first, int last, const unsigned char *from,
	const unsigned char *to, int n)
{
	return expr_then(g, expr_bytes(g, first, last), same_length(g, from, to, n - 1));
}

/* Code points of n bytes each, whose bytes range digit by digit: a first, a last, and between them
 * any continuation. */
static int32_t same_length(
	struct grammar *g, const unsigned char *from, const unsigned char *to, int n)
{
	static const unsigned char least[3] = { 0x80, 0x80, 0x80 }, most[3] = { 0xbf, 0xbf, 0xbf };
	const bool whole_from = n > 1 && !memcmp(from + 1, least, (size_t)n - 1),
			   whole_to = n > 1 && !memcmp(to + 1, most, (size_t)n - 1);
	int32_t all;
	int first = *from, last = *to;

	if (n == 1)
		return expr_bytes(g, first, last);
	if (first == last)
		return digits(g, first, first, from + 1, to + 1, n);
	all = whole_from ? expr_never(g) : digits(g, first, first, from + 1, most, n);
	if (!whole_to)
		all = expr_or(g, all, digits(g, last, last, least, to + 1, n));
	first += !whole_from;
	last -= !whole_to;
	return first <= last ? expr_or(g, all, digits(g, first, last, least, most, n)) : all;
}

int32_t expr_points(struct grammar *g, uint32_t from, uint32_t to)
{
	static const uint32_t part[][2] = { { 0, 0x7f }, { 0x80, 0x7ff }, { 0x800, 0xd7ff },
		{ 0xe000, 0xffff }, { 0x10000, POINTS_LAST } };
	int32_t all = expr_never(g);

	for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
		const uint32_t a = from > part[i][0] ? from : part[i][0],
					   b = to < part[i][1] ? to : part[i][1];
		unsigned char first[4], last[4];

		if (a > b)
			continue;
		utf8proc_encode_char((utf8proc_int32_t)b, last);
		all = expr_or(g, all,
			same_length(g, first, last, (int)utf8proc_encode_char((utf8proc_int32_t)a, first)));
	}
	return all;
}

int32_t expr_of_points(struct grammar *g, struct points *p)
{
	int32_t all = p->failed ? grammar_no_memory(g) : expr_never(g);
	struct byte_set ascii = { { 0 } };

	for (int32_t i = 0; i < p->n; i++) {
		if (p->range[i].from < 0x80)
			byte_add(
				&ascii, (int)p->range[i].from, p->range[i].to < 0x80 ? (int)p->range[i].to : 0x7f);
		if (p->range[i].to >= 0x80)
			all = expr_or(g, all,
				expr_points(g, p->range[i].from < 0x80 ? 0x80 : p->range[i].from, p->range[i].to));
	}
	points_free(p);
	return expr_or(g, expr_set(g, &ascii), all);
}
