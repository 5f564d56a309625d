/* A grammar as the automaton runs it: nodes, each of which takes a byte or says where to go on.
 * Thread: read-only once compiled. */
#pragma once

#include "engine/grammar/expr.h"

enum node_kind {
	NODE_SET,    /* takes one byte of set arg, then next */
	NODE_SPLIT,  /* next or arg */
	NODE_CALL,   /* rule's beginning arg, then next */
	NODE_LOOP,   /* arg, which comes back here, `least` to `most` times (-1: without end), then next
				  */
	NODE_RETURN, /* to what called, or comes back to a loop */
};

struct grammar_node {
	enum node_kind kind;
	int32_t next, arg, least, most;
	int32_t rule; /* that it is of */
};

struct program {
	struct grammar_node *node;
	int32_t n_nodes, cap_nodes;
	int32_t start; /* node that the root begins with */
	struct byte_set *set;
	int32_t n_sets;
	char **rule;   /* [n_rules] names */
	bool *limited; /* [n_rules] */
	int32_t limit; /* see expr.h */
	int32_t n_rules;
	/* bytes that all sets treat alike are of one class */
	unsigned char class_of[256];
	int32_t n_classes;
};

/* -1 with the error: a rule that is not defined, begins with itself or never ends. */
int grammar_compile(struct grammar *g, struct program *out, struct err *e);
void program_free(struct program *p);
