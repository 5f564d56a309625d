/* A table in a view: its columns, the line of their heads, cells placed by them, and a list of rows
 * that scrolls. Thread: the UI's; no state. */
#pragma once

#include "tui/views/view.h"

/* Columns of the screen. A column that does not fit between its neighbours and the right edge is
 * not shown. */
struct column {
	const char *head; /* NULL: none */
	/* above 0: numbers, which end where the column ends; below: so much of words, which begin where
	 * it begins; 0: words that take what is left */
	int w;
	int gap; /* before it; with w 0 after it, too, if another column follows */
};

struct table {
	struct pen *p;
	const struct column *column;
	int n; /* columns; fewer: the last ones are not shown */
	int y; /* line of the heads, then of the row */
};
#define TABLE(p_, columns_, y_)                                                                    \
	{                                                                                              \
		.p = (p_), .column = (columns_), .n = (int)(sizeof(columns_) / sizeof *(columns_)),        \
		.y = (y_)                                                                                  \
	}

/* Where a column lies in the line t->y, clipped to the pen. .w 0: it is not shown. */
struct rect table_rect(const struct table *t, int column);
/* A pen for its cell, for bars, tokens and tints. */
struct pen table_cell(const struct table *t, int column);
void table_put(const struct table *t, int column, enum ink ink, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void table_heads(const struct table *t); /* dim */
/* A bar over the cell. */
void table_bar(const struct table *t, int column, enum ink ink, double part);

/* A list of n rows of which `fit` are shown: keeps *first within it and returns it. */
int table_first(int64_t *first, int n, int fit);
/* Keys of such a list; true if it was one. */
bool table_key(int key, int64_t *first, int n);
