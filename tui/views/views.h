/* The table of views. Thread: the UI's. */
#pragma once

#include "tui/views/view.h"

/* Each is a file view_x.c with its struct view view_x, its text of F1 in help/x.txt, and a line
 * here: in the order of the keys 1-9; 0 selects the others in turn. */
#define VIEWS(X)                                                                                   \
	X(CHAT, chat)                                                                                  \
	X(NEXT, next)                                                                                  \
	X(PAGES, pages)                                                                                \
	X(BATCH, batch)                                                                                \
	X(SPECULATION, speculation)                                                                    \
	X(PREFIX, prefix)                                                                              \
	X(ATTENTION, attention)                                                                        \
	X(TIME, time)                                                                                  \
	X(SAMPLER, sampler)                                                                            \
	X(WATCH, watch)                                                                                \
	X(TREE, tree)                                                                                  \
	X(LENS, lens)                                                                                  \
	X(DRAFTERS, drafters)                                                                          \
	X(SEARCH, search)                                                                              \
	X(LESSON, lesson)                                                                              \
	X(COST, cost)                                                                                  \
	X(FORMULAS, formulas)                                                                          \
	X(ROOFLINE, roofline)                                                                          \
	X(PRICE, price)                                                                                \
	X(SPARSITY, sparsity)                                                                          \
	X(OUTLIERS, outliers)                                                                          \
	X(IMPORTANCE, importance)                                                                      \
	X(QUEUE, queue)                                                                                \
	X(LATENCY, latency)                                                                            \
	X(REQUESTS, requests)                                                                          \
	X(EXPERTS, experts)                                                                            \
	X(MEMORY, memory)                                                                              \
	X(STATE, state)                                                                                \
	X(DENOISE, denoise)                                                                            \
	X(RUNS, runs)                                                                                  \
	X(RANKS, ranks)                                                                                \
	X(TRAINING, training)                                                                          \
	X(LAYERS, layers)                                                                              \
	X(ADAPTERS, adapters)

/* Index in views[] and in the arrays of struct view_state. */
enum view_index {
#define X(NAME, name) VIEW_##NAME,
	VIEWS(X)
#undef X
		VIEW_N
};

_Static_assert((int)VIEW_N <= (int)LAYOUT_VIEWS,
	"struct view_state and struct layout have no room for another view");

#define X(NAME, name)                                                                              \
	extern const struct view view_##name;                                                          \
	extern const char view_help_##name[]; /* help/name.txt */
VIEWS(X)
#undef X

/* The first members of its struct, by its row: VIEW(CHAT, chat, title, min_w, min_h, want_h). Its
 * id is the row's name, or another one. */
#define VIEW(NAME, name, ...) VIEW_AS(NAME, name, #name, __VA_ARGS__)
#define VIEW_AS(NAME, name_, id_, title, w, h, want)                                               \
	.name = (title), .id = (id_), .help = view_help_##name_, .min_w = (w), .min_h = (h),           \
	.want_h = (want), .index = VIEW_##NAME

/* The view that a digit chooses while the view `now` (or -1: none) has the keys; -1: the key is no
 * digit. */
int view_of_digit(int key, int now);

/* Index of a view; -1: there is none of this id. */
int view_by_id(const char *id);

/* view_help.c: the first sentence of the view's help, without its point. */
void view_summary(int view, char *out, size_t cap);

/* view_window.c: the newest window of a request (0: of any), from line y on. Returns the line after
 * it, y if there is none. */
int view_window_draw(struct pen *p, int y, const struct timeline *t, int64_t request);

/* view_spec_lanes.c: the newest steps of a drafter that guesses beside the model; likewise. */
int view_spec_lanes(struct pen *p, int y, const struct timeline *t, int64_t request);

/* view_spec_table.c: the drafted tokens, newest last, scrolled by the view's cursor. */
void view_spec_table(struct pen *p, const struct timeline *t, struct view_state *s);
/* view_search.c: text of the leading answer of a search. Returns its length. */
int view_search_leading(
	const struct timeline *t, const struct tl_search *s, char *text, size_t cap);
