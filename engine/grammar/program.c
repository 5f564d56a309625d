/* From expressions to nodes. See program.h.
 *
 * What could not run is refused first: rules that are not defined, that can never end, and that
 * begin with themselves, which the automaton would follow without taking a byte (Aho and Ullman
 * 1972, section 2.4). The three are fixed points over the expressions, which come in an order in
 * which parts go before what is made of them. */
#include "engine/grammar/program.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

void program_free(struct program *p)
{
	for (int32_t i = 0; i < p->n_rules; i++)
		free(p->rule[i]);
	free(p->rule);
	free(p->limited);
	free(p->node);
	free(p->set);
	*p = (struct program){ 0 };
}

/* ---- what can be run ---- */

struct look {
	const struct grammar *g;
	bool *ends, *empty; /* by expression: it can end at all; it can be the empty text */
	signed char *seen;  /* by rule: 0 not yet, 1 on the way, 2 done */
	/* of the search for rules that begin with themselves: expressions yet to look at, each with the
	 * depth of its rule on the way */
	int32_t *todo, n_todo, cap_todo;
};

/* What of an expression follows from the same of its parts: that it can end, or, which no byte can,
 * that it can be the empty text. */
static bool follows(const struct look *l, const bool *what, const struct expr *x)
{
	switch (x->kind) {
	case EXPR_NEVER: return false;
	case EXPR_SET: return what == l->ends;
	case EXPR_THEN: return what[x->a] && what[x->b];
	case EXPR_OR: return what[x->a] || what[x->b];
	case EXPR_REPEAT: return !x->least || what[x->a];
	case EXPR_RULE: return l->g->rule[x->a].expr >= 0 && what[l->g->rule[x->a].expr];
	default: return true;
	}
}

enum {
	PASSES = 400
}; /* forward and backward by turns; a grammar that a person wrote needs a few */

static int fixed_point(const struct look *l, bool *what, struct err *e)
{
	const int32_t n = l->g->n_exprs;
	bool again = true;

	for (int pass = 0; again; pass++) {
		if (pass == PASSES)
			return err_set(e, ERR_USAGE, "its rules refer to one another too deeply");
		again = false;
		for (int32_t k = 0; k < n; k++) {
			const int32_t i = pass % 2 ? n - 1 - k : k;

			if (!what[i] && follows(l, what, &l->g->expr[i]))
				what[i] = again = true;
		}
	}
	return 0;
}

/* Looks at what an expression may begin with, iteratively, since chains are long. A rule that is
 * begun before it ended begins with itself. */
static int begins_with_itself(struct look *l, int32_t rule, struct err *e, int depth);

static int look_at(struct look *l, int32_t at, struct err *e, int depth)
{
	const int32_t first = l->n_todo;

	for (l->todo[l->n_todo++] = at; l->n_todo > first;) {
		const int32_t i = l->todo[--l->n_todo];
		const struct expr *x = &l->g->expr[i];

		if (!ARRAY_ROOM(l->todo, l->cap_todo, l->n_todo + 3))
			return err_set(e, ERR_MEMORY, "no memory");
		if (x->kind == EXPR_RULE && begins_with_itself(l, x->a, e, depth + 1))
			return -1;
		if (x->kind == EXPR_THEN || x->kind == EXPR_OR || x->kind == EXPR_REPEAT)
			l->todo[l->n_todo++] = x->a;
		if (x->kind == EXPR_OR || (x->kind == EXPR_THEN && l->empty[x->a]))
			l->todo[l->n_todo++] = x->b;
	}
	return 0;
}

static int begins_with_itself(struct look *l, int32_t rule, struct err *e, int depth)
{
	if (l->seen[rule] == 2)
		return 0;
	if (l->seen[rule] == 1)
		return err_set(e, ERR_USAGE,
			"rule %.60s begins with itself: put what it begins with first, as in list ::= item "
			"(\",\" item)*",
			l->g->rule[rule].name);
	if (depth > 1000)
		return err_set(e, ERR_USAGE, "its rules begin with one another too deeply, at %.60s",
			l->g->rule[rule].name);
	l->seen[rule] = 1;
	if (look_at(l, l->g->rule[rule].expr, e, depth))
		return -1;
	l->seen[rule] = 2;
	return 0;
}

static int well_founded(struct look *l, struct err *e)
{
	const struct grammar *g = l->g;

	for (int32_t i = 0; i < g->n_rules; i++)
		if (g->rule[i].expr < 0)
			return err_set(e, ERR_USAGE, "rule %.60s is used and not defined", g->rule[i].name);
	if (fixed_point(l, l->ends, e) || fixed_point(l, l->empty, e))
		return -1;
	if (!l->ends[g->rule[0].expr])
		return err_set(
			e, ERR_USAGE, "no text satisfies it: rule %.60s never ends", g->rule[0].name);
	for (int32_t i = 0; i < g->n_rules; i++)
		if (begins_with_itself(l, i, e, 0))
			return -1;
	return 0;
}

/* ---- nodes ---- */

struct compiler {
	const struct look *look;
	struct program *p;
	int32_t *entry; /* by rule: its first node, or -1 */
	int32_t rule;
	bool failed;
};

static int32_t node(struct compiler *c, enum node_kind kind, int32_t next, int32_t arg)
{
	struct program *p = c->p;

	if (!ARRAY_ROOM(p->node, p->cap_nodes, p->n_nodes + 1)) {
		c->failed = true;
		return 0;
	}
	p->node[p->n_nodes] =
		(struct grammar_node){ .kind = kind, .next = next, .arg = arg, .rule = c->rule };
	return p->n_nodes++;
}

static int32_t flat(struct compiler *c, int32_t at, int32_t next);

static int32_t flat_or(struct compiler *c, int32_t at, int32_t next)
{
	const struct grammar *g = c->look->g;
	int32_t all = -1;

	for (bool more = true; more;) {
		const int32_t one = g->expr[at].kind == EXPR_OR ? g->expr[at].b : at;

		more = one != at;
		if (c->look->ends[one]) {
			const int32_t n = flat(c, one, next);

			all = all < 0 ? n : node(c, NODE_SPLIT, n, all);
		}
		at = more ? g->expr[at].a : at;
	}
	return all;
}

static int32_t flat_repeat(struct compiler *c, const struct expr *x, int32_t next)
{
	int32_t loop, body;

	if (!c->look->ends[x->a])
		return next;
	if (!x->least && x->most == 1)
		return node(c, NODE_SPLIT, flat(c, x->a, next), next);
	if (x->least <= 1 && x->most < 0) { /* no need to count: comes back by itself */
		loop = node(c, NODE_SPLIT, 0, next);
		body = flat(c, x->a, loop);
		c->p->node[loop].next = body;
		return x->least ? body : loop;
	}
	loop = node(c, NODE_LOOP, next, 0);
	body = flat(c, x->a, node(c, NODE_RETURN, 0, 0));
	c->p->node[loop].arg = body;
	c->p->node[loop].least = x->least;
	c->p->node[loop].most = x->most;
	return loop;
}

/* Nodes of an expression that can end, before those of what follows it. */
static int32_t flat(struct compiler *c, int32_t at, int32_t next)
{
	const struct expr *x = &c->look->g->expr[at];

	for (; x->kind == EXPR_THEN; x = &c->look->g->expr[at]) {
		next = flat(c, x->b, next);
		at = x->a;
	}
	switch (x->kind) {
	case EXPR_SET: return node(c, NODE_SET, next, x->a);
	case EXPR_OR: return flat_or(c, at, next);
	case EXPR_REPEAT: return flat_repeat(c, x, next);
	case EXPR_RULE:
		return node(c, NODE_CALL, next, x->a); /* of which the entry is filled in later */
	default: return next;
	}
}

static void flat_rules(struct compiler *c)
{
	const struct grammar *g = c->look->g;

	for (c->rule = 0; c->rule < g->n_rules; c->rule++)
		c->entry[c->rule] = c->look->ends[g->rule[c->rule].expr]
								? flat(c, g->rule[c->rule].expr, node(c, NODE_RETURN, 0, 0))
								: -1;
	for (int32_t i = 0; i < c->p->n_nodes; i++)
		if (c->p->node[i].kind == NODE_CALL)
			c->p->node[i].arg = c->entry[c->p->node[i].arg];
	c->p->start = c->entry[0];
}

/* Numbers the classes anew, from 0, in the order of their first bytes. Returns how many. */
static int renumber(int class_of[256])
{
	int number[512], n = 0;

	memset(number, -1, sizeof number);
	for (int b = 0; b < 256; b++) {
		if (number[class_of[b]] < 0)
			number[class_of[b]] = n++;
		class_of[b] = number[class_of[b]];
	}
	return n;
}

/* Splits the classes by each set: bytes of a class that are in it go to one of their own. */
static void find_classes(struct program *p)
{
	int class_of[256] = { 0 }, with[256];

	p->n_classes = 1;
	for (int32_t s = 0; s < p->n_sets; s++) {
		int n = p->n_classes;

		memset(with, -1, sizeof with);
		for (int b = 0; b < 256; b++) {
			if (!byte_has(&p->set[s], b))
				continue;
			if (with[class_of[b]] < 0)
				with[class_of[b]] = n++;
			class_of[b] = with[class_of[b]]; /* n: no byte that is still to come has it */
		}
		p->n_classes = renumber(class_of);
	}
	for (int b = 0; b < 256; b++)
		p->class_of[b] = (unsigned char)class_of[b];
}

static int take_names(struct grammar *g, struct program *p, struct err *e)
{
	p->rule = calloc((size_t)g->n_rules, sizeof *p->rule);
	p->limited = calloc((size_t)g->n_rules, sizeof *p->limited);
	if (!p->rule || !p->limited)
		return err_set(e, ERR_MEMORY, "no memory");
	p->limit = g->limit;
	for (int32_t i = 0; i < g->n_rules; i++) {
		p->limited[i] = g->rule[i].limited;
		p->rule[i] = g->rule[i].name;
		g->rule[i].name = NULL;
	}
	p->n_rules = g->n_rules;
	p->set = g->set;
	p->n_sets = g->n_sets;
	g->set = NULL;
	g->n_sets = g->cap_sets = 0;
	return 0;
}

static int build(struct grammar *g, const struct look *l, struct program *p, struct err *e)
{
	struct compiler c = { .look = l, .p = p };

	c.entry = calloc((size_t)g->n_rules, sizeof *c.entry);
	if (!c.entry)
		return err_set(e, ERR_MEMORY, "no memory");
	flat_rules(&c);
	free(c.entry);
	if (c.failed)
		return err_set(e, ERR_MEMORY, "no memory");
	if (take_names(g, p, e))
		return -1;
	find_classes(p);
	return 0;
}

int grammar_compile(struct grammar *g, struct program *out, struct err *e)
{
	struct look l = { .g = g };
	int rc = -1;

	*out = (struct program){ 0 };
	if (g->err.code || !g->n_rules)
		return err_set(e, g->err.code ? g->err.code : ERR_USAGE, "%s",
			g->err.code ? g->err.text : "it is empty");
	l.ends = calloc((size_t)g->n_exprs + 1, sizeof *l.ends);
	l.empty = calloc((size_t)g->n_exprs + 1, sizeof *l.empty);
	l.seen = calloc((size_t)g->n_rules, sizeof *l.seen);
	if (!l.ends || !l.empty || !l.seen || !ARRAY_ROOM(l.todo, l.cap_todo, 64))
		err_set(e, ERR_MEMORY, "no memory");
	else if (!well_founded(&l, e))
		rc = build(g, &l, out, e);
	free(l.ends);
	free(l.empty);
	free(l.seen);
	free(l.todo);
	if (rc)
		program_free(out);
	return rc;
}
