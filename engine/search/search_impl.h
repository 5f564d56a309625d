/* What the methods of search share (search.c, search/). Not part of the public API. Thread: the
 * engine's. */
#ifndef CUTAWAY_ENGINE_SEARCH_IMPL_H
#define CUTAWAY_ENGINE_SEARCH_IMPL_H

#include "engine/core/engine_impl.h"
#include "engine/search/search.h"

enum { SEARCH_WIDTH = 64 }; /* members at once */

struct search_choice { /* a token that could come next */
	int32_t id;
	float logit;
	double logp; /* nats */
};

/* What was told of a token when its branch had it. */
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
	/* of a method that chooses: its newest row is computed, and it waits for its next token */
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
	const struct search_answer *answer; /* with its score; NULL: it is none */
};

/* An answer that waits for its score. */
struct search_waiting {
	struct search_answer answer;
	struct search_end end;
	char *text; /* for a command; NULL: nobody asks for it */
	size_t size;
};

struct search {
	struct search *next;
	int64_t id;
	const struct search_ops *ops;
	void *state;
	struct engine *engine;
	struct engine_request q; /* what it is about; its pointers are the search's own */
	int32_t width;           /* members at once */
	struct search_options options;
	struct search_member *member[SEARCH_WIDTH];
	int32_t n_members;
	struct search_answer *answer;
	int32_t n_answers, cap_answers;
	struct search_waiting *waiting; /* the oldest first */
	int32_t n_waiting, cap_waiting;
	int64_t arrival_ns;
	struct search_view view;
};

struct search_ops {
	struct search_method about;
	/* args: what follows "name:", or NULL. Sets s->width and s->state. */
	int (*open)(struct search *s, const char *args, struct err *e);
	void (*close)(struct search *s);
	/* Starts its first members. */
	int (*begin)(struct search *s, struct err *e);
	bool chooses; /* tokens are chosen by step(), not drawn */
	/* Of an answer of n tokens that no command scores; NULL: logp / n. */
	double (*score)(const struct search *s, double logp, int32_t n);
	/* After each step of the engine. */
	int (*step)(struct search *s, struct err *e);
	/* A member has ended, and its answer has its score; the member may be gone for long. NULL: the
	 * method need not know. */
	int (*ended)(struct search *s, const struct search_end *end, struct err *e);
};

/* The table; ends with NULL. */
extern const struct search_ops *const search_table[];

/* A new member with these tokens, the search's prompt first; of the others `token` [n - prompt] is
 * known. */
struct search_member *search_start(struct search *s, const int32_t *ids, int32_t n,
	const struct search_token *token, int64_t sample, int32_t node, int64_t parent, struct err *e);
/* A branch of a held member, at once in its pages, that goes on with another of its choices. */
struct search_member *search_fork(
	struct search *s, struct search_member *m, int32_t choice, int32_t node, struct err *e);
/* A held member goes on with one of its choices. It may end: then it is gone. */
int search_append(struct search *s, struct search_member *m, int32_t choice, struct err *e);
/* Ends a member that is no answer. */
void search_drop(struct search *s, struct search_member *m);
/* The tokens of a member after the search's prompt, and one more choice that ends them, are an
 * answer. */
int search_keep(struct search *s, struct search_member *m, int32_t choice, struct err *e);

/* Answers that wait get their score, in the order in which they came, until one takes its time. */
int search_score_waiting(struct search *s, int wait_ms, struct err *e);
/* Those that wait are given up. */
void search_forget_waiting(struct search *s);

/* Begins an event of the search in *ev: the caller fills in what more it knows, and tells it. */
struct ev_search *search_event(
	const struct search *s, enum ev_code_search_action action, struct event *ev);
void search_emit(const struct search *s, struct event *ev);

#endif
