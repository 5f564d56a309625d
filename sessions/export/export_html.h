/* Inside sessions/export/export_html*.c: the lists of the page's data, gathered in memory as rows
 * of JSON and written at the end. */
#pragma once

#include "sessions/export/export_impl.h"

/* In the order of the page's data. */
#define HTML_LISTS(X)                                                                              \
	X(requests)                                                                                    \
	X(tokens)                                                                                      \
	X(steps)                                                                                       \
	X(pages)                                                                                       \
	X(session) X(finishes) X(searches) X(sharing) X(attention) X(drafters) X(shadows) X(prices)

enum html_list_id {
#define X(name) HTML_##name,
	HTML_LISTS(X)
#undef X
		HTML_N_LISTS
};

enum { HTML_MOST_STEPS = 100000 };

struct html_list {
	char *text;
	size_t size;
	FILE *out;
	int64_t n, left_out; /* rows */
};

struct html_drafting; /* what is counted of drafters until the end */

struct html {
	struct html_list list[HTML_N_LISTS];
	struct html_drafting *drafting;
	double stage_ns[EV_N_stage];
	int64_t step; /* the last that ended */
	int64_t preempted;
	int64_t attention_bytes; /* of the rows that are kept */
};

/* Begins a row; NULL: there are `most`, and it is counted as left out. */
FILE *html_row(struct html_list *l, int64_t most);
/* Bytes of a session as JSON in which nothing can end a script element; before: comes first. */
void html_text(struct exporter *x, FILE *out, const char *before, struct ev_span bytes);
/* Numbers of a row, the first after `before`; absent, or more than a double holds exactly: -1. */
#define HTML_NUMBERS(out, before, ...)                                                             \
	html_numbers(out, before, (const int64_t[]){ __VA_ARGS__ },                                    \
		sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))
void html_numbers(FILE *out, const char *before, const int64_t *v, size_t n);

/* export_html_views.c: searches, attention and drafters. False: no memory. */
bool html_views_begin(struct html *h);
void html_views_event(struct exporter *x, struct html *h, const struct event *ev);
/* Writes the rows that are sums over the recording. */
void html_views_end(struct exporter *x, struct html *h);
