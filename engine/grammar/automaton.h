/* The pushdown automaton of a grammar, over bytes. A state is a set of stacks, each of which is
 * about to take a byte; equal states have one number, so what was found out about a state (where a
 * byte leads, which tokens it allows: mask.h) is found out once. States are made as they are
 * reached. After Willard and Louf 2023 (arXiv:2307.09702, states of an automaton over a vocabulary)
 * and Dong et al. 2024 (arXiv:2411.15100, XGrammar: stacks that share their lower parts).
 *
 * Memory is bounded: where a grammar needs more stacks or states than AUTOMATON_MOST_*, failed is
 * set, and no byte leads anywhere any more. Thread: one. */
#pragma once

#include "engine/grammar/program.h"

enum {
	AUTOMATON_MOST_FRAMES = 1 << 20,
	AUTOMATON_MOST_STATES = 1 << 17,
	AUTOMATON_MOST_STACKS = 2048, /* of one state: a grammar that is more ambiguous is refused */
};
enum { STATE_DEAD = -1 };

/* A stack: its top, and the stack below, which is older. Equal stacks have one number; 0 is the
 * bottom. */
struct frame {
	int32_t node;  /* where it goes on */
	int32_t count; /* of a loop: how often its part was taken */
	int32_t parent;
};

struct state {
	int32_t first, n; /* its stacks, automaton.stack[first … first + n - 1], ascending */
	bool ends;        /* the text may end here */
	int32_t *next;    /* [n_classes] states; NULL: no byte was tried */
};

struct automaton {
	struct program program;
	struct frame *frame;
	int32_t n_frames, cap_frames;
	struct state *state;
	int32_t n_states, cap_states;
	int32_t *stack;
	int32_t n_stacks, cap_stacks;
	int32_t start;
	int64_t work, most; /* stacks followed so far, and at most; most 0: any number */
	const char *failed; /* why it can go on no more; NULL: it can */

	/* numbers by hash, open addressing: frames, states; -1: free */
	int32_t *frame_at, *state_at;
	int32_t n_frame_at, n_state_at;
	/* of the state that is being made */
	int32_t *todo, n_todo, cap_todo;
	int32_t *met; /* by frame: the state in whose making it was met last */
	int32_t cap_met, making;
	int32_t *found, n_found, cap_found;
	bool found_end;
};

/* Takes the program. */
int automaton_open(struct automaton *a, struct program *p, struct err *e);
void automaton_close(struct automaton *a);

/* The state after a byte, or STATE_DEAD. */
int32_t automaton_next(struct automaton *a, int32_t state, unsigned char byte);
/* The state without the stacks in limited rules (expr.h), where it has others: the text goes on
 * with what follows these. */
int32_t automaton_leave(struct automaton *a, int32_t state);
/* Whether the text must end in this state: no byte leads on. */
bool automaton_is_whole(struct automaton *a, int32_t state);
/* Names of the rules on the state's deepest stack, from the root on: "root > object > string". A
 * name that comes several times in a row is said once. Returns how deep the stack is. */
int32_t automaton_describe(const struct automaton *a, int32_t state, char *buf, size_t cap);
/* The name of the rule that its deepest stack is in; "" in the end. */
const char *automaton_rule(const struct automaton *a, int32_t state);
