/* Shares of pages over the columns of a pen. Thread: any; no state. */
#ifndef CUTAWAY_TUI_VIEW_SCALE_H
#define CUTAWAY_TUI_VIEW_SCALE_H

#include <math.h>
#include <stdint.h>

/* Pages over columns: several columns a page while there is room, else several pages a column. */
struct scale {
	int32_t n, per_column; /* pages */
	int w, x_page;         /* columns in all, and of a page */
};

static inline struct scale scale_make(int32_t n, int w, int page_w)
{
	struct scale c = { .n = n, .per_column = 1, .x_page = page_w };

	if (w < 1)
		return (struct scale){ 0 };
	while (c.x_page > 1 && (int64_t)c.x_page * n > w)
		c.x_page--;
	c.per_column = (int32_t)(((int64_t)n + w - 1) / w);
	c.w = c.per_column > 1 ? (int)(((int64_t)n + c.per_column - 1) / c.per_column) : c.x_page * n;
	return c;
}

static inline double column_share(const struct scale *c, const float *page, int x)
{
	int32_t from = c->per_column > 1 ? x * c->per_column : x / c->x_page;
	double sum = 0;

	for (int32_t i = from; i < from + c->per_column && i < c->n; i++)
		sum += (double)page[i];
	return sum;
}

static inline int column_of_page(const struct scale *c, int32_t page)
{
	return c->per_column > 1 ? page / c->per_column : page * c->x_page;
}

static inline double highest(const struct scale *c, const float *page)
{
	double most = 0;

	for (int x = 0; x < c->w; x++)
		most = fmax(most, column_share(c, page, x));
	return most;
}

#endif
