/* The text of the view "search" below its tree. Thread: the UI's. */
#ifndef CUTAWAY_TUI_VIEW_SEARCH_H
#define CUTAWAY_TUI_VIEW_SEARCH_H

#include "tui/views/search_tree.h"
#include "tui/term/canvas.h"

enum { SEARCH_JUDGE_MAX = 72, SEARCH_WHY_H = 6 };

/* What scores the answers, in at most `most` bytes. Returns out. */
const char *view_search_judge(char out[SEARCH_JUDGE_MAX], const struct tl_search *s, size_t most);
/* Explains the rank of a row, and shows its text: SEARCH_WHY_H lines from y on. */
void view_search_why(struct pen *p, int y, const struct timeline *t, const struct tl_search *s,
	const struct search_row *r);

#endif
