/* Expressions are evaluated, statements run: text goes to the end of j->out, where captures cut it
 * off again. */
#include "engine/text/jinja/jinja_private.h"

static const struct jval *lookup_var(struct jinja *j, const char *name)
{
	for (const struct jscope *s = j->scope; s; s = s->up)
		for (const struct jvar *v = s->first; v; v = v->next) {
			jinja_step(j, 1);
			if (v->name == name)
				return &v->v;
		}
	return NULL;
}

static struct jval jinja_lookup(struct jinja *j, const char *name)
{
	const struct jval *v = lookup_var(j, name);
	const struct jbuiltin *f;

	if (v)
		return *v;
	f = jinja_find(jinja_globals, name, strlen(name));
	if (!f || (!j->o.now && !strcmp(name, "strftime_now")))
		return jv_undef(name);
	return (struct jval){ .type = J_FUNC, .u.func = f };
}

void jinja_assign(struct jinja *j, const char *name, struct jval v)
{
	struct jvar *var;

	for (var = j->scope->first; var && var->name != name; var = var->next)
		jinja_step(j, 1);
	if (!var) {
		var = jinja_alloc(j, sizeof *var);
		var->name = name;
		var->next = j->scope->first;
		j->scope->first = var;
	}
	var->v = v;
}

static struct jval eval_list(struct jinja *j, const struct jnode *n, enum jlist_kind kind)
{
	struct jval list = jv_list(j, kind);

	for (; n; n = n->next)
		jv_add(j, list.u.list, jinja_eval(j, n));
	return list;
}

static struct jval eval_dict(struct jinja *j, const struct jnode *n)
{
	struct jval dict = jv_dict(j);

	for (; n; n = n->next) {
		struct jval key = jinja_eval(j, n->a);

		jv_put(j, dict.u.dict, key, jinja_eval(j, n->b));
	}
	return dict;
}

static struct jval eval_sign(struct jinja *j, const struct jnode *n)
{
	struct jval v = jinja_eval(j, n->a);

	if (!jv_number(v))
		jinja_fail(j, "%s has no sign", jv_type(v));
	return v.type == J_FLOAT ? jv_of_float(-v.u.f) : jinja_binary(j, OP_SUB, jv_of_int(0), v);
}

static struct jval eval_compare(struct jinja *j, const struct jnode *n)
{
	struct jval a = jinja_eval(j, n->a);

	for (const struct jnode *o = n->b; o; o = o->next) {
		struct jval b = jinja_eval(j, o->a);

		if (!jinja_relation(j, (enum jop)o->op, a, b))
			return jv_bool(false);
		a = b;
	}
	return jv_bool(true);
}

static struct jval eval_concat(struct jinja *j, const struct jnode *n)
{
	struct jval all = jt_str(j, jinja_eval(j, n));

	while ((n = n->next))
		all = jinja_concat(j, all.u.s, jt_str(j, jinja_eval(j, n)).u.s);
	return all;
}

static struct jval eval_slice(struct jinja *j, const struct jnode *n)
{
	struct jval of = jinja_eval(j, n->a), part[3];
	const struct jnode *const at[3] = { n->b, n->c, n->d };

	for (int i = 0; i < 3; i++)
		part[i] = at[i] ? jinja_eval(j, at[i]) : jv_none();
	return jinja_slice(j, of, part);
}

/* --- calls --- */

static void add_keyword(struct jinja *j, struct jargs *a, const char *name, struct jval v)
{
	struct jkeyword *more;

	for (size_t i = 0; i < a->n_kw; i++)
		if (a->kw[i].name == name)
			jinja_fail(j, "the argument '%s' comes twice", name);
	more = jinja_alloc(j, (a->n_kw + 1) * sizeof *more);
	if (a->n_kw)
		memcpy(more, a->kw, a->n_kw * sizeof *more);
	more[a->n_kw++] = (struct jkeyword){ name, v };
	a->kw = more;
}

static void spread_dict(struct jinja *j, struct jargs *a, struct jval v)
{
	if (v.type != J_DICT)
		jinja_fail(j, "%s cannot be spread with **", jv_type(v));
	for (size_t i = 0; i < v.u.dict->n; i++) {
		struct jstr name = jv_text(j, v.u.dict->at[i].key, "an argument's name");

		add_keyword(j, a, jinja_intern(j, name.at, name.n), v.u.dict->at[i].value);
	}
}

static struct jargs eval_args(struct jinja *j, const struct jnode *n)
{
	struct jlist plain = { 0 };
	struct jargs a = { 0 };

	for (; n; n = n->next) {
		struct jval v =
			jinja_eval(j, n->a && (n->kind == N_KEYWORD || n->kind == N_SPREAD) ? n->a : n);

		if (n->kind == N_KEYWORD) {
			add_keyword(j, &a, n->name, v);
		} else if (n->kind == N_SPREAD && n->op) {
			spread_dict(j, &a, v);
		} else if (n->kind == N_SPREAD) {
			struct jlist items = jv_items(j, v);

			for (size_t i = 0; i < items.n; i++)
				jv_add(j, &plain, items.at[i]);
		} else {
			jv_add(j, &plain, v);
		}
	}
	a.at = plain.at;
	a.n = plain.n;
	return a;
}

static struct jval eval_call(struct jinja *j, const struct jnode *n)
{
	struct jval f = jinja_eval(j, n->a);
	struct jargs args = eval_args(j, n->b);

	j->line = n->line;
	return jinja_call(j, f, &args);
}

static struct jval eval_filter(struct jinja *j, const struct jnode *n)
{
	struct jval v;
	struct jargs args;

	if (!n->f)
		jinja_fail(j, "the %s '%s' is not known", n->kind == N_TEST ? "test" : "filter", n->name);
	v = jinja_eval(j, n->a);
	args = eval_args(j, n->b);
	j->line = n->line;
	v = jinja_builtin(j, n->f, v, &args);
	return n->kind == N_TEST && n->op ? jv_bool(!v.u.b) : v;
}

static struct jval eval_lazily(struct jinja *j, const struct jnode *n)
{
	struct jval a = jinja_eval(j, n->a);

	switch (n->kind) {
	case N_AND: return jv_true(a) ? jinja_eval(j, n->b) : a;
	case N_OR: return jv_true(a) ? a : jinja_eval(j, n->b);
	case N_NOT: return jv_bool(!jv_true(a));
	default:
		return jv_true(a) ? jinja_eval(j, n->b)
			   : n->c     ? jinja_eval(j, n->c)
						  : jv_undef("a value without else");
	}
}

static struct jval eval_one(struct jinja *j, const struct jnode *n)
{
	struct jval a;

	switch (n->kind) {
	case N_CONST: return n->v;
	case N_CAPTURED: return j->captured;
	case N_NAME: return jinja_lookup(j, n->name);
	case N_LIST: return eval_list(j, n->a, LIST_PLAIN);
	case N_TUPLE: return eval_list(j, n->a, LIST_TUPLE);
	case N_DICT: return eval_dict(j, n->a);
	case N_BINARY:
		a = jinja_eval(j, n->a);
		return jinja_binary(j, (enum jop)n->op, a, jinja_eval(j, n->b));
	case N_NEGATE: return eval_sign(j, n);
	case N_COMPARE: return eval_compare(j, n);
	case N_CONCAT: return eval_concat(j, n->a);
	case N_ATTR: return jinja_attribute(j, jinja_eval(j, n->a), n->v, false);
	case N_ITEM: a = jinja_eval(j, n->a); return jinja_attribute(j, a, jinja_eval(j, n->b), true);
	case N_SLICE: return eval_slice(j, n);
	case N_CALL: return eval_call(j, n);
	case N_FILTER:
	case N_TEST: return eval_filter(j, n);
	default: return eval_lazily(j, n);
	}
}

struct jval jinja_eval(struct jinja *j, const struct jnode *n)
{
	struct jval v;

	jinja_step(j, 1);
	jinja_deeper(j);
	j->line = n->line;
	v = eval_one(j, n);
	j->depth--;
	return v;
}

/* --- statements --- */

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

bool jinja_loop_has(struct jinja *j, struct jloop *l, size_t i)
{
	struct jscope *here = j->scope;

	for (; l->node->c && l->items.n <= i && l->seen < l->all.n; l->seen++) {
		const struct jval v = l->all.at[l->seen];

		if (l->asking)
			jinja_fail(j, "a loop's condition asks for its own items");
		l->asking = true;
		j->scope = l->outside;
		push_scope(j);
		assign_to(j, l->node->a, v);
		if (jv_true(jinja_eval(j, l->node->c)))
			jv_add(j, &l->items, v);
		l->asking = false;
	}
	j->scope = here;
	return i < l->items.n;
}

static void loop_over(struct jinja *j, const struct jnode *n, struct jval over)
{
	struct jscope *outside = j->scope;
	struct jloop *loop = jinja_alloc(j, sizeof *loop);
	const char *name = jinja_intern(j, "loop", 4);

	*loop = (struct jloop){ .node = n, .outside = outside, .all = jv_items(j, over) };
	if (!n->c)
		loop->items = loop->all;
	for (; jinja_loop_has(j, loop, loop->i); loop->i++) {
		jinja_step(j, 1);
		push_scope(j);
		jinja_assign(j, name, (struct jval){ .type = J_LOOP, .u.loop = loop });
		assign_to(j, n->a, loop->items.at[loop->i]);
		enum jflow f = jinja_run(j, n->d);

		j->scope = outside;
		if (f == FLOW_BREAK)
			return;
	}
}

/* --- one by one --- */

static enum jflow run_if(struct jinja *j, const struct jnode *n)
{
	for (; n && n->kind == S_IF; n = n->c)
		if (jv_true(jinja_eval(j, n->a)))
			return jinja_run(j, n->b);
	return n ? jinja_run(j, n->a) : FLOW_ON;
}

static struct jval macro_value(struct jinja *j, const struct jnode *n)
{
	struct jmacro *m = jinja_alloc(j, sizeof *m);

	*m = (struct jmacro){ n, j->scope };
	return (struct jval){ .type = J_MACRO, .u.macro = m };
}

static enum jflow run_scope(struct jinja *j, const struct jnode *body)
{
	struct jscope *outside = j->scope;
	enum jflow f;

	push_scope(j);
	f = jinja_run(j, body);
	j->scope = outside;
	return f;
}

static struct jval capture(struct jinja *j, const struct jnode *body)
{
	size_t mark = j->n_out;

	run_scope(j, body);
	return jinja_cut(j, mark);
}

static enum jflow run_one(struct jinja *j, const struct jnode *n)
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
	case S_GROUP: return jinja_run(j, n->a);
	case S_BREAK: return FLOW_BREAK;
	default: return FLOW_CONTINUE;
	}
	return FLOW_ON;
}

enum jflow jinja_run(struct jinja *j, const struct jnode *n)
{
	enum jflow f = FLOW_ON;

	jinja_deeper(j);
	for (; n && f == FLOW_ON; n = n->next) {
		jinja_step(j, 1);
		j->line = n->line;
		f = run_one(j, n);
	}
	j->depth--;
	return f;
}
