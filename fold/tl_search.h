/* Searches in the timeline: see timeline.h. */
#ifndef CUTAWAY_FOLD_TL_SEARCH_H
#define CUTAWAY_FOLD_TL_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

/* A search: its tree and who runs for it. Of a branch its own tokens are kept, those after its
 * parent's, for as long as the search is one of the newest TL_SEARCHES; when there are too many
 * nodes, the oldest that were given up go. */
enum { TL_SEARCHES = 4, TL_NODES = 4096, TL_MEMBERS = 64, TL_SHARES = 96 };
enum tl_node_state { TL_NODE_LIVE, TL_NODE_ENDED, TL_NODE_DROPPED };
struct tl_node {
	int64_t node;         /* the search's own number */
	int32_t parent;       /* -1: a root */
	int32_t from, tokens; /* it has the tokens from … tokens - 1 after the search's prompt */
	int32_t *id, cap;     /* [tokens - from] */
	enum tl_node_state state;
	int64_t request, born, last; /* born, last: steps */
	int32_t visits;              /* mcts; -1: there are none */
	double logp;                 /* nats, of all tokens up to its own end */
	double score;                /* mcts: mean value; NaN: none yet */
	int32_t n_answers;           /* that ended here */
	int64_t answer;              /* request of the best of them */
	double answer_logp, answer_score;
	/* own: what of them are its tokens: the end of the turn may be none */
	int32_t answer_tokens, answer_own;
};
struct tl_member { /* a branch that runs */
	int64_t request;
	int32_t node;
	int32_t *id, n, cap; /* its tokens after the search's prompt */
	double logp;         /* of those that it drew itself */
	/* a simulation whose value has not gone up yet: those before it have not ended */
	bool ended;
};
struct tl_search {
	int64_t id, step, last_step; /* begun; the newest that told of it */
	int64_t begin_seq, last_seq; /* of the first and the newest event that names it */
	char *method, *text, *why;   /* why it was stopped, or NULL */
	char *judge;                 /* the command that gives the scores; NULL: log-probabilities do */
	bool over, stopped;
	int32_t n_prompt;
	struct tl_node *node;
	int32_t n_nodes, cap_nodes;
	struct tl_member member[TL_MEMBERS];
	int32_t n_members;
	int64_t n_made, n_dropped, n_answers; /* nodes ever; branches given up; answers */
	/* the request of the best answer, and that as which it was told; 0: none */
	int64_t winner, taken;
	double won_score, won_logp;
	int32_t won_tokens;
	double least, most, value; /* mcts: of the values of simulations; their sum */
	int64_t steps, sum_pages, sum_unshared;
	int32_t pages, unshared, most_pages, most_unshared;
	/* of the newest steps: what sharing saved, in 255th parts; the newest last */
	uint8_t share[TL_SHARES];
	int32_t n_shares;
};

#endif
