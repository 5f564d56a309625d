/* Statements run: text goes to the end of j->out, where captures cut it off again. */
#include "engine/text/jinja/jinja_private.h"

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };

static enum flow run_body(struct jinja *j, const struct jnode *n);

static void push_scope(struct jinja *j)
{
	struct jscope *s = jinja_alloc(j, sizeof *s);

	s->up = j->scope;
	j->scope = s;
}

static void set_attribute(struct jinja *j, const struct jnode *target, struct jval v)
{
	struct jval space = jinja_eval(j, target->a);

	if (space.type != J_SPACE)
		jinja_fail(j, "attributes can be set of a namespace, not of %s", jv_type(space));
	if (target->name[0] == '_')
		jinja_fail(j, "a namespace has no attributes that begin with an underscore");
	jv_put(j, space.u.dict, target->v, v);
}

static void assign_to(struct jinja *j, const struct jnode *target, struct jval v)
{
	struct jlist items;
	size_t i = 0;

	if (target->kind == N_NAME) {
		jinja_assign(j, target->name, v);
		return;
	}
	if (target->kind == N_ATTR) {
		set_attribute(j, target, v);
		return;
	}
	items = jv_items(j, v);
	for (target = target->a; target; target = target->next, i++) {
		if (i >= items.n)
			jinja_fail(j, "there are only %zu values to set", items.n);
		assign_to(j, target, items.at[i]);
	}
	if (i < items.n)
		jinja_fail(j, "there are %zu values, and %zu names to set", items.n, i);
}

/* --- loops --- */

/* The items that the loop's condition lets through. */
static struct jlist chosen_items(struct jinja *j, const struct jnode *n, struct jval over)
{
	struct jlist all = jv_items(j, over), chosen = { 0 };
	struct jscope *outside = j->scope;

	if (!n->c)
		return all;
	push_scope(j);
	for (size_t i = 0; i < all.n; i++) {
		assign_to(j, n->a, all.at[i]);
		if (jv_true(jinja_eval(j, n->c)))
			jv_add(j, &chosen, all.at[i]);
	}
	j->scope = outside;
	return chosen;
}

static void loop_over(struct jinja *j, const struct jnode *n, struct jval over)
{
	struct jscope *outside = j->scope;
	struct jloop *loop = jinja_alloc(j, sizeof *loop);
	const char *name = jinja_intern(j, "loop", 4);

	loop->items = chosen_items(j, n, over);
	for (; loop->i < loop->items.n; loop->i++) {
		jinja_step(j, 1);
		push_scope(j);
		jinja_assign(j, name, (struct jval){ .type = J_LOOP, .u.loop = loop });
		assign_to(j, n->a, loop->items.at[loop->i]);
		enum flow f = run_body(j, n->d);

		j->scope = outside;
		if (f == FLOW_BREAK)
			return;
	}
}

/* --- statements --- */

static enum flow run_if(struct jinja *j, const struct jnode *n)
{
	for (; n && n->kind == S_IF; n = n->c)
		if (jv_true(jinja_eval(j, n->a)))
			return run_body(j, n->b);
	return n ? run_body(j, n->a) : FLOW_ON;
}

static struct jval macro_value(struct jinja *j, const struct jnode *n)
{
	struct jmacro *m = jinja_alloc(j, sizeof *m);

	*m = (struct jmacro){ n, j->scope };
	return (struct jval){ .type = J_MACRO, .u.macro = m };
}

static enum flow run_scope(struct jinja *j, const struct jnode *body)
{
	struct jscope *outside = j->scope;
	enum flow f;

	push_scope(j);
	f = run_body(j, body);
	j->scope = outside;
	return f;
}

static struct jval capture(struct jinja *j, const struct jnode *body)
{
	size_t mark = j->n_out;

	run_scope(j, body);
	return jinja_cut(j, mark);
}

static enum flow run_one(struct jinja *j, const struct jnode *n)
{
	switch (n->kind) {
	case S_DATA: jinja_put(j, n->v.u.s.at, n->v.u.s.n); break;
	case S_PRINT: jt_put(j, jinja_eval(j, n->a)); break;
	case S_IF: return run_if(j, n);
	case S_FOR: loop_over(j, n, jinja_eval(j, n->b)); break;
	case S_SET: assign_to(j, n->a, jinja_eval(j, n->b)); break;
	case S_BLOCK: assign_to(j, n->a, capture(j, n->b)); break;
	case S_FILTER:
		j->captured = capture(j, n->b);
		jt_put(j, jinja_eval(j, n->a));
		break;
	case S_MACRO: jinja_assign(j, n->name, macro_value(j, n)); break;
	case S_SCOPE: return run_scope(j, n->a);
	case S_GROUP: return run_body(j, n->a);
	case S_BREAK: return FLOW_BREAK;
	default: return FLOW_CONTINUE;
	}
	return FLOW_ON;
}

static enum flow run_body(struct jinja *j, const struct jnode *n)
{
	enum flow f = FLOW_ON;

	jinja_deeper(j);
	for (; n && f == FLOW_ON; n = n->next) {
		jinja_step(j, 1);
		j->line = n->line;
		f = run_one(j, n);
	}
	j->depth--;
	return f;
}

void jinja_run(struct jinja *j, const struct jnode *body)
{
	run_body(j, body);
}
