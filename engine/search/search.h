/* Searches: several continuations of one prompt are generated at once, and the best is the answer.
 *
 * Every continuation is an ordinary request in the batch; a branch shares the pages of its common
 * prefix with its parent, copied on first write (Kwon et al. 2023, section 4.4). A method is one
 * file in engine/search/ and one line in the table there. Everything a search does is emitted:
 * events `search` (its nodes) and `sharing` (pages with and without sharing, counted each step).
 * Thread: the engine's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/core/engine.h"

enum score_verdict {
	SCORE_FAILED, /* scoring failed: the search ends with the error */
	SCORE_KNOWN,
	SCORE_LATER, /* not yet: it is called again, for the same answer */
};
/* Scores a whole answer: the larger the better. It may block for wait_ms, which is 0 while there is
 * other work. text NULL: scores that it has begun are not needed any more. */
typedef enum score_verdict search_score_fn(
	void *arg, const char *text, size_t size, int wait_ms, double *score, struct err *e);

struct search_options {
	const char *method;     /* "best:8", "beam:4", "beam:4,0.6", "mcts:64": see search_table */
	search_score_fn *score; /* NULL: by the mean log-probability of its tokens */
	void *arg;              /* must live until the search is closed */
	const char *scorer;     /* the name of `score` in the log; NULL: none */
};

struct search_method {
	const char *name, *args, *doc;
};

/* How much mcts explores: the factor of UCT's second term. */
#define SEARCH_EXPLORE 0.7

struct search_token;

/* An answer that a search found. */
struct search_answer {
	int64_t request;
	int32_t *ids;               /* its own tokens, the prompt left out; owned by the search */
	struct search_token *token; /* what was emitted for each; owned by the search */
	int32_t n;
	double logp; /* of all its tokens, nats */
	double score;
	enum ev_code_finish reason;
};

struct search_view {
	const struct search_answer *answer;      /* the best first */
	int32_t n_answers, n_running, n_waiting; /* waiting: answers for their score */
	bool done, cancelled;
	/* the request as which the best answer is emitted when the search is over; 0: none */
	int64_t taken;
	struct err err; /* why it failed; code 0: it did not */
	/* KV pages of its members in the step that had the most: as shared, and as if nothing were
	 * shared */
	int32_t most_pages, most_unshared;
	int64_t pages, unshared; /* sums over steps */
	int64_t rows_shared;     /* positions that a branch took from its parent, not computed again */
};

/* Begins a search for q. Its branches are requests of kind `search`, with samples that count up
 * from q's. When it is over, however it ends, the best answer is emitted as a request of q's kind,
 * with the tokens, probabilities and hashes of its branch and source `taken`: nothing is computed
 * again, and a reader of the events (a conversation, a view, a replay, verify) finds an ordinary
 * answer, whose pages are in the prefix cache. Returns its number (from 1), or -1. */
int64_t engine_search(struct engine *e, const struct search_options *o,
	const struct engine_request *q, struct err *err);
/* Whether such a search could begin. */
int engine_search_check(struct engine *e, const struct search_options *o, struct err *err);
/* Ends all of its requests at once and releases their pages. False: it is over or there is none. */
bool engine_search_cancel(struct engine *e, int64_t search);
/* The state of a search; false if there is no such search. Valid until the next call that steps or
 * changes the engine. */
bool engine_search_look(const struct engine *e, int64_t search, struct search_view *out);
/* Frees a search, which is cancelled if it is not over. */
void engine_search_close(struct engine *e, int64_t search);
