/* A search as rows: its tree in the order of the screen, the score and text of each branch. For
 * view_search.c and the chat; nothing is drawn here. Thread: the UI's. */
#pragma once

#include "tui/views/view_util.h"

enum search_sort { SEARCH_OF_SAMPLES, SEARCH_OF_BEAMS, SEARCH_OF_TREE };
enum { SEARCH_DEEPEST = 24 };

struct search_row {
	const struct tl_node *k;
	const struct tl_member *m; /* a simulation that runs from k; NULL: the row is k itself */
	struct view_rail rail;
	bool won;     /* on the way to the best answer */
	int32_t lead; /* own tokens on that path */
};
struct search_rows {
	struct search_row *row;
	int n, n_hidden; /* hidden: pruned, or tried once, if rows are scarce */
};

enum search_sort search_sort(const struct tl_search *s);
/* Exponent of a beam's length penalty. */
double search_alpha(const struct tl_search *s);
/* The node of the best answer so far, or of the branch that leads; NULL: there is none. */
const struct tl_node *search_leader(const struct tl_search *s);
/* Branches that compute. */
int search_running(const struct tl_search *s);
/* Branches that have ended and wait for the command's score. */
int search_waiting(const struct tl_search *s);
bool search_waits(const struct tl_search *s, const struct tl_node *k);
/* Score of a branch: that of its best answer, else of its present text. NaN: not known. */
double search_score(const struct tl_search *s, const struct tl_node *k);

/* How a tree search selects: mean + bonus (UCT), as in engine/search/mcts.c. */
struct search_uct {
	/* mean: value scaled between the lowest and the highest so far, reduced for running
	 * simulations */
	double mean, bonus;
	int32_t tries, above; /* visits and running simulations, here and in the parent */
};
/* False for the root. */
bool search_uct(const struct tl_search *s, const struct tl_node *k, struct search_uct *out);

/* Rows of a search; all: including pruned branches and those tried once. false: no memory. */
bool search_rows_make(struct search_rows *g, const struct tl_search *s, bool all);
void search_rows_free(struct search_rows *g);

/* Text of tokens, without control tokens and with line breaks as spaces: those of a branch itself,
 * or from the answer's beginning on. Returns its length. */
/* from, to: of its own tokens. */
size_t search_own_text(const struct timeline *t, const struct tl_node *k, int32_t from, int32_t to,
	char *out, size_t cap);
/* Its own tokens; for a branch that ended and was pruned later, those of its answer. */
int32_t search_own_tokens(const struct tl_node *k);
size_t search_member_text(
	const struct timeline *t, const struct tl_member *m, int32_t from, char *out, size_t cap);
size_t search_whole_text(const struct timeline *t, const struct tl_search *s,
	const struct tl_node *k, char *out, size_t cap);

/* What the files of the view "search" share: the text below its tree. */
enum { SEARCH_JUDGE_MAX = 72, SEARCH_WHY_H = 6 };

/* What scores the answers, in at most `most` bytes. Returns out. */
const char *view_search_judge(char out[SEARCH_JUDGE_MAX], const struct tl_search *s, size_t most);
/* Explains the rank of a row, and shows its text: SEARCH_WHY_H lines from y on. */
void view_search_why(struct pen *p, int y, const struct timeline *t, const struct tl_search *s,
	const struct search_row *r);
