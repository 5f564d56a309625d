/* Constrained decoding: what a grammar lets a request's next token be. A request's text is read by
 * the automaton of its grammar (automaton.h); requests of the same grammar share one, so that what
 * one of them has found out is known to the others. What is allowed is a function of the tokens and
 * the grammar alone.
 *
 * A spec says which grammar: "json", "schema:JSON", "regex:EXPRESSION", "choice:A|B" (or a JSON
 * array of texts), "gbnf:GRAMMAR" (readers.h). Thread: the engine's. */
#pragma once

#include "engine/grammar/mask.h"
#include "engine/text/tokenizer.h"

struct constraint {
	char *spec;
	struct automaton automaton;
	struct masks masks;
	int32_t users;
	struct constraint *next;
};

struct constraints {
	struct spell spell; /* of the vocabulary; made with the first grammar */
	bool spelled;
	char *controls; /* names of control tokens, as the trie has them */
	int32_t *end;   /* tokens that end a text */
	int32_t n_ends;
	struct constraint *open; /* the newest first */
};

/* What a request keeps of its grammar. */
struct bound {
	struct constraints *home;
	struct constraint *constraint;
	int32_t from;      /* position of the first token that it rules */
	int32_t at, state; /* the state before position `at` */
	int64_t ns, made;  /* of masks since the caller set them to 0: time, and those not known yet */
};

/* Reads the spec and tries an answer's first byte: -1 with ERR_USAGE, what is wrong with it. */
int constraint_check(const char *spec, struct err *e);
void constraints_close(struct constraints *c);

/* from: position of the first token that it rules. c outlives it. */
int bound_open(struct bound **b, struct constraints *c, const struct tokenizer *t, const char *spec,
	int32_t from, struct err *e);
void bound_close(struct bound *b); /* may be NULL */

/* The state before position n of ids, all of which from b->from on the grammar rules; STATE_DEAD:
 * they do not follow it. */
int32_t bound_state(struct bound *b, const int32_t *ids, int32_t n);
/* The state after token id at position pos. An end of the text leads nowhere. */
int32_t bound_next(const struct bound *b, int32_t state, int32_t id, int32_t pos);
/* What is allowed in a state, the tokens that end the text among them where it may end. NULL:
 * nothing, and *why is the reason. */
const struct mask *bound_mask(struct bound *b, int32_t state, const char **why);
/* Where a token dies: the bytes of it that lead on, and the rule that forbids the next one. */
int32_t bound_forbids(const struct bound *b, int32_t state, int32_t id, const char **rule);
