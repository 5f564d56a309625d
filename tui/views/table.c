/* See table.h. */
#include "tui/views/table.h"

#include <stdarg.h>

#include "tui/views/view_util.h"

/* What the column of w 0 gets. */
static int rest_of(const struct table *t)
{
	int rest = t->p->r.w;

	for (int i = 0; i < t->n; i++)
		rest -= abs(t->column[i].w) + t->column[i].gap;
	return at_least(rest, 0);
}

static int width(const struct table *t, int column)
{
	return t->column[column].w ? abs(t->column[column].w) : rest_of(t);
}

struct rect table_rect(const struct table *t, int column)
{
	struct rect r = { .y = t->y, .w = width(t, column), .h = 1 };

	for (int i = 0; i < column; i++)
		r.x += t->column[i].gap + width(t, i);
	r.x += t->column[column].gap;
	if (column >= t->n)
		r.w = 0;
	else if (r.x + r.w > t->p->r.w)
		r.w = t->column[column].w > 0 || r.x > t->p->r.w ? 0 : t->p->r.w - r.x;
	return r;
}

struct pen table_cell(const struct table *t, int column)
{
	return pen_sub(t->p, table_rect(t, column));
}

/* A number that is too wide takes room at its left; words are cut. */
static void put(const struct table *t, int column, enum ink ink, bool cut, const char *text)
{
	const struct rect r = table_rect(t, column);
	struct pen in = *t->p;

	in.ink = (uint8_t)ink;
	if (r.w && t->column[column].w > 0)
		pen_right(&in, r.x + r.w, r.y, "%s", text);
	else if (r.w)
		pen_clip(&in, r.x, r.y, cut ? r.w : in.r.w - r.x, text, -1);
}

void table_put(const struct table *t, int column, enum ink ink, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	put(t, column, ink, true, text);
}

void table_heads(const struct table *t)
{
	for (int i = 0; i < t->n; i++)
		if (t->column[i].head)
			put(t, i, INK_DIM, false, t->column[i].head);
}

void table_bar(const struct table *t, int column, enum ink ink, double part)
{
	struct pen p = table_cell(t, column);

	view_bar(&p, 0, 0, p.r.w, ink, part);
}

int table_first(int64_t *first, int n, int fit)
{
	*first = at_most(*first, n - fit);
	*first = at_least(*first, 0);
	return (int)*first;
}

bool table_key(int key, int64_t *first, int n)
{
	const int64_t most = n > 1 ? n - 1 : 0;
	int64_t below = most - *first;

	if (!view_scroll(key, &below, 8, most))
		return false;
	*first = most - below;
	return true;
}
