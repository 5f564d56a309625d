/* Two configurations side by side: the same prompts answered under both, and what that cost.
 *
 * All figures are a fold of the events of two recordings, live (a sink of each engine) and from
 * files. What was run for a comparison is marked by events `setting` of the name `compare`, whose
 * value is "A run: LABEL" (or B), "A warm-up: …", "A score N: …" (a given text; its answer begins
 * at token N) or "off", after which the next begins anew. In a recording with such marks only the
 * requests under "run" count; in one without, all answers of the conversation, of `run` and of
 * /load do. Thread: one at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/json.h"
#include "base/median.h"
#include "event/event.h"
#include "event/texts.h"

#define COMPARE_MARK "compare" /* name of the setting */
enum { COMPARE_LABEL = 256 };

struct compare_answer {
	int64_t request; /* first member: find.h */
	char *text;      /* what was asked */
	int32_t *id;     /* [n] tokens of the answer */
	int32_t n, cap, n_prompt;
	double asked_ns, first_ns, newest_ns; /* t_ns of its request, of its first and newest step */
	int64_t first_step, step;             /* those that gave its first and its newest token */
	int32_t n_first;                      /* tokens that the first of them gave */
	/* of its steps (one with rows of several answers is the last one's alone) */
	int64_t steps, pages; /* pages: the most in use */
	double rows, bytes;
	double *gap; /* [n_gaps] ms from a step that gave tokens to the next */
	int n_gaps, cap_gaps;
	bool counted; /* neither a warm-up nor stopped, refused or rewound */
	bool over;
	int finish; /* EV_FINISH_x, once it is over */
	char why[160];
};

enum compare_phase { COMPARE_OTHER, COMPARE_WARM_UP, COMPARE_RUN, COMPARE_SCORE };

struct compare_side {
	char label[COMPARE_LABEL]; /* its settings; of a file without marks the file's name */
	char model[96], machine[64];
	int64_t vocab;
	struct ev_texts texts; /* of token ids */
	struct compare_answer *answer;
	int n_answers, cap_answers;
	double logp; /* of the scored answers */
	int64_t n_scored;
	/* while folding */
	enum compare_phase phase;
	bool marked;
	int64_t score_from, scored; /* first token of the answer; request */
	int64_t step;               /* a step, and the answer that has a row in it */
	int in_step;
};

struct compare {
	struct compare_side side[2];
	int newest; /* side of the newest mark */
	bool no_memory;
};

/* side -1: the marks say which (one recording that has both), and what has no mark is ignored. */
void compare_fold(struct compare *c, int side, const struct event *ev);
/* Folds a recording; side as above. */
int compare_read(struct compare *c, int side, const char *path, struct err *e);
void compare_free(struct compare *c);
/* Checks the fold: memory, and (side -1) that there was a comparison. */
int compare_check(const struct compare *c, const char *path, struct err *e);

/* ---- the table ---- */

struct compare_figure {
	struct median side[2], ratio; /* ratio: B / A, of the pairs */
};

struct compare_difference {
	const struct compare_answer *answer[2];
	int32_t at; /* first token that differs, index into both answers */
};

struct compare_total {
	int64_t tokens, steps, pages; /* pages: the most in use */
	double rows, bytes;
};

struct compare_table {
	int n_pairs, n_equal, n_prompts;  /* pairs of counted answers; those with the same tokens */
	bool same_vocab;                  /* else tokens are not compared */
	struct compare_total total[2];    /* over the answers of all pairs */
	struct compare_figure rate, ttft; /* tokens a second after the first step that gave some; ms */
	double itl50[2], itl99[2];        /* ms */
	double perplexity[2];             /* of A's answers under each; NaN: not scored */
	struct compare_difference *difference; /* of the first pair of each prompt that parts */
	int n_differences;
};

/* -1: no memory. */
int compare_table(const struct compare *c, struct compare_table *t, struct err *e);
void compare_table_free(struct compare_table *t);

/* Figures as rows of text: for the table in words and for screens. */
struct compare_row {
	char name[32];
	char cell[3][32]; /* A, B, B / A; "" where there is none */
	bool range;       /* where the median above it lies */
};
enum { COMPARE_ROWS = 12 };
int compare_rows(const struct compare_table *t, struct compare_row row[COMPARE_ROWS]);
/* The tokens of a side from the first that differs on, quoted on one line; or how it ended. */
void compare_quote(
	const struct compare *c, const struct compare_difference *d, int side, char *buf, size_t cap);
/* All of it with what was run, as plain text. */
void compare_print(const struct compare *c, const struct compare_table *t, FILE *out);
void compare_json(const struct compare *c, const struct compare_table *t, struct json *j);
