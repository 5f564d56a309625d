/* What the search methods share (search.c, search_member.c). Not part of the public API. Thread:
 * the engine's. */
#pragma once

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/core/engine_impl.h"
#include "engine/search/search.h"

enum { SEARCH_WIDTH = 64 }; /* members at once */

struct search_choice { /* a token that could come next */
	int32_t id;
	float logit;
	double p;    /* of the row as it is, as token events have it */
	double logp; /* nats, of the row with logit bias */
};

/* What the token event of the branch reported. */
struct search_token {
	double p, entropy;
	int64_t hash;
	float logp; /* nats */
};

/* A running continuation. */
struct search_member {
	struct search *search;
	struct request *r;
	int32_t node;               /* the method's own number */
	double logp;                /* of its tokens after the prompt of the search */
	struct search_token *token; /* each of them, [limit] */
	/* with search_ops.chooses: its newest row is computed, and it waits for its next token */
	bool held;
	int32_t n_choices;
	struct search_choice *choice; /* [2 * width], the most probable first */
	int64_t hash;
	double entropy;
};

/* A member that has ended by itself. */
struct search_end {
	int64_t request, sample;
	int32_t node;
	const struct search_answer *answer; /* with its score; NULL: no answer */
};

/* An answer that waits for its score. */
struct search_waiting {
	struct search_answer answer;
	struct search_end end;
	char *text; /* for a command; NULL: no command scores it */
	size_t size;
};

struct search {
	struct search *next;
	int64_t id;
	const struct search_ops *ops;
	void *state;
	struct engine *engine;
	struct engine_request q; /* the request searched for; the search owns what it points to */
	struct setting_stops stops;
	int32_t width; /* members at once */
	struct search_options options;
	struct search_member *member[SEARCH_WIDTH];
	int32_t n_members;
	float *biased; /* [vocab]: a row with logit bias; NULL: there is none, or tokens are drawn */
	struct search_answer *answer;
	int32_t n_answers, cap_answers;
	struct search_waiting *waiting; /* the oldest first */
	int32_t n_waiting, cap_waiting;
	int64_t arrival_ns;
	struct search_view view;
};

struct search_ops {
	struct search_method about;
	/* args: what follows "name:", or NULL. Sets s->width and s->state, which is freed with the
	 * search; close() frees what that points to, if it points to anything. */
	int (*open)(struct search *s, const char *args, struct err *e);
	void (*close)(struct search *s);
	/* Starts its first members. */
	int (*begin)(struct search *s, struct err *e);
	bool chooses; /* tokens are chosen by step(), not drawn */
	/* Scores an answer of n tokens where no command does; NULL: logp / n. */
	double (*score)(const struct search *s, double logp, int32_t n);
	/* After each step of the engine. */
	int (*step)(struct search *s, struct err *e);
	/* A member has ended, and its answer has its score; the member may have been freed long before.
	 * NULL: the method need not know. */
	int (*ended)(struct search *s, const struct search_end *end, struct err *e);
};

/* The table; ends with NULL. */
extern const struct search_ops *const search_table[];

/* A new member with these tokens, the search's prompt first; token [n - prompt] describes those
 * after it. */
struct search_member *search_start(struct search *s, const int32_t *ids, int32_t n,
	const struct search_token *token, int64_t sample, int32_t node, struct err *e);
/* Forks a held member, sharing its pages at once; the branch goes on with another of its
 * choices. */
struct search_member *search_fork(
	struct search *s, struct search_member *m, int32_t choice, int32_t node, struct err *e);
/* Appends one of its choices to a held member. The member may end: then it is freed. */
int search_append(struct search *s, struct search_member *m, int32_t choice);
/* Ends a member without making it an answer. */
void search_drop(struct search *s, struct search_member *m);
/* Makes an answer of a member's tokens after the search's prompt, and one more choice that ends
 * them. */
int search_keep(struct search *s, struct search_member *m, int32_t choice, struct err *e);

/* Scores the waiting answers, in the order in which they came, until one is not ready yet. */
int search_score_waiting(struct search *s, int wait_ms, struct err *e);
/* Drops the waiting answers. */
void search_forget_waiting(struct search *s);

/* Tells of a member; parent: the node that its own is below, or -1. */
void search_tell(const struct search_member *m, enum ev_code_search_action action, int32_t parent);
/* Begins an event of the search in *ev: the caller fills in the rest and emits it. */
struct ev_search *search_event(
	const struct search *s, enum ev_code_search_action action, struct event *ev);
void search_emit(const struct search *s, struct event *ev);
