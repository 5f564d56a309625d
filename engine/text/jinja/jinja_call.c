/* Calls: builtins get their arguments in the order of their parameters; macros are run. Tests, and
 * the global functions. */
#include <time.h>

#include "engine/text/jinja/jinja_private.h"

const struct jbuiltin *jinja_find(const struct jbuiltin *table, const char *name, size_t size)
{
	for (; table->name; table++)
		if (strlen(table->name) == size && !memcmp(table->name, name, size))
			return table;
	return NULL;
}

const struct jbuiltin *jinja_filter(const char *name, size_t size)
{
	const struct jbuiltin *f = jinja_find(filters_text, name, size);

	return f ? f : jinja_find(filters_list, name, size);
}

static size_t count_parameters(const char *params)
{
	size_t n = *params != '\0';

	for (; *params; params++)
		n += *params == ' ';
	return n;
}

static void bind(
	struct jinja *j, const struct jbuiltin *f, const struct jargs *args, struct jcall *c)
{
	size_t n = count_parameters(f->params);

	if (args->n > n)
		jinja_fail(j, "%s takes %zu arguments, not %zu", f->name, n, args->n);
	for (size_t i = 0; i < args->n; i++)
		c->arg[i] = &args->at[i];
	for (size_t i = 0; i < args->n_kw; i++) {
		int at = text_word(f->params, ' ', args->kw[i].name, strlen(args->kw[i].name));

		if (at < 0 || c->arg[at])
			jinja_fail(j, "%s has no argument '%s', or has it twice", f->name, args->kw[i].name);
		c->arg[at] = &args->kw[i].v;
	}
	for (size_t i = 0; i < f->needed; i++)
		if (!c->arg[i])
			jinja_fail(j, "%s needs %zu arguments", f->name, f->needed);
}

/* What a builtin may go through without saying so. */
static size_t weight(struct jval v)
{
	return v.type == J_STR ? v.u.s.n / 16 : v.type == J_LIST ? v.u.list->n / 4 : 0;
}

struct jval jinja_builtin(
	struct jinja *j, const struct jbuiltin *f, struct jval self, const struct jargs *args)
{
	struct jcall c = { .self = self, .all = args, .how = f->how };

	if (!f->call && (args->n || args->n_kw))
		jinja_fail(j, "the test '%s' takes no arguments", f->name);
	if (!f->call)
		return jv_bool(f->needed >> self.type & 1);
	jinja_step(j, 1 + weight(self));
	for (size_t i = 0; i < args->n; i++)
		jinja_step(j, weight(args->at[i]));
	for (size_t i = 0; i < args->n_kw; i++)
		jinja_step(j, weight(args->kw[i].v));
	if (strcmp(f->params, "*"))
		bind(j, f, args, &c);
	else if (args->n < f->needed)
		jinja_fail(j, "%s needs %zu arguments", f->name, f->needed);
	return f->call(j, &c);
}

/* --- macros --- */

static struct jval *keyword(const struct jargs *args, const char *name)
{
	for (size_t i = 0; i < args->n_kw; i++)
		if (args->kw[i].name == name)
			return &args->kw[i].v;
	return NULL;
}

static bool has_parameter(const struct jnode *n, const char *name)
{
	const struct jnode *p = n->a;

	while (p && strcmp(p->name, name) != 0)
		p = p->next;
	return p;
}

/* Arguments from the first that no parameter took, where the macro has a name for them. */
static void bind_rest(struct jinja *j, const struct jnode *n, const struct jargs *args, size_t used)
{
	struct jval more = jv_list(j, LIST_TUPLE), named = jv_dict(j);

	if (used < args->n && !(n->op & REST_ARGS))
		jinja_fail(j, "the macro '%s' takes %zu arguments, not %zu", n->name, used, args->n);
	for (; used < args->n; used++)
		jv_add(j, more.u.list, args->at[used]);
	for (size_t i = 0; i < args->n_kw; i++) {
		if (has_parameter(n, args->kw[i].name))
			continue;
		if (!(n->op & REST_NAMED))
			jinja_fail(j, "the macro '%s' has no argument '%s'", n->name, args->kw[i].name);
		jv_put(j, named.u.dict, jv_const(args->kw[i].name), args->kw[i].v);
	}
	if (n->op & REST_ARGS && !has_parameter(n, "varargs"))
		jinja_assign(j, jinja_intern(j, "varargs", 7), more);
	if (n->op & REST_NAMED && !has_parameter(n, "kwargs"))
		jinja_assign(j, jinja_intern(j, "kwargs", 6), named);
}

/* Into the current scope, which is the macro's. */
static void bind_macro(struct jinja *j, const struct jnode *n, const struct jargs *args)
{
	size_t used = 0;

	for (const struct jnode *p = n->a; p; p = p->next) {
		const struct jval *v = used < args->n ? &args->at[used] : NULL,
						  *named = keyword(args, p->name);

		if (v && named)
			jinja_fail(j, "the argument '%s' comes twice", p->name);
		v = v ? v : named;
		used += used < args->n;
		jinja_assign(j, p->name, v ? *v : p->a ? jinja_eval(j, p->a) : jv_undef(p->name));
	}
	bind_rest(j, n, args, used);
}

static struct jval jinja_run_macro(
	struct jinja *j, const struct jmacro *m, const struct jargs *args)
{
	struct jscope *mine = jinja_alloc(j, sizeof *mine), *theirs = j->scope;
	size_t mark = j->n_out;

	mine->up = m->scope;
	j->scope = mine;
	bind_macro(j, m->node, args);
	jinja_run(j, m->node->b);
	j->scope = theirs;
	return jinja_cut(j, mark);
}

struct jval jinja_call(struct jinja *j, struct jval f, const struct jargs *args)
{
	switch (f.type) {
	case J_FUNC: return jinja_builtin(j, f.u.func, jv_none(), args);
	case J_METHOD: return jinja_builtin(j, f.u.method->f, f.u.method->self, args);
	case J_MACRO: return jinja_run_macro(j, f.u.macro, args);
	case J_UNDEF:
		jinja_fail(
			j, "'%s' is undefined, or not known or not allowed here", f.u.what ? f.u.what : "it");
	default: jinja_fail(j, "%s cannot be called", jv_type(f));
	}
}

/* --- tests: "x is defined" --- */

static struct jval test_bool(struct jinja *j, const struct jcall *c)
{
	(void)j;
	return jv_bool(c->self.type == J_BOOL && c->self.u.b == c->how);
}

static struct jval test_sequence(struct jinja *j, const struct jcall *c)
{
	enum jtype t = c->self.type;

	(void)j;
	return jv_bool(t == J_UNDEF || t == J_STR || t == J_DICT ||
				   (t == J_LIST && c->self.u.list->kind <= LIST_RANGE));
}

/* how: which. */
static struct jval test_relation(struct jinja *j, const struct jcall *c)
{
	return jv_bool(jinja_relation(j, (enum jop)c->how, c->self, *c->arg[0]));
}

#define IS(name, types)                                                                            \
	{                                                                                              \
		name, "", types, NULL, 0                                                                   \
	}
#define TYPE(type) ((size_t)1 << J_##type)

const struct jbuiltin jinja_tests[] = {
	IS("defined", ~TYPE(UNDEF)),
	IS("undefined", TYPE(UNDEF)),
	IS("none", TYPE(NONE)),
	IS("boolean", TYPE(BOOL)),
	IS("integer", TYPE(INT)),
	IS("float", TYPE(FLOAT)),
	IS("number", TYPE(INT) | TYPE(FLOAT) | TYPE(BOOL)),
	IS("string", TYPE(STR)),
	IS("mapping", TYPE(DICT)),
	IS("iterable", TYPE(UNDEF) | TYPE(STR) | TYPE(DICT) | TYPE(LIST) | TYPE(LOOP)),
	{ "true", "", 0, test_bool, true },
	{ "false", "", 0, test_bool, false },
	{ "sequence", "", 0, test_sequence, 0 },
	{ "eq", "other", 1, test_relation, OP_EQ },
	{ "equalto", "other", 1, test_relation, OP_EQ },
	{ "==", "other", 1, test_relation, OP_EQ },
	{ "ne", "other", 1, test_relation, OP_NE },
	{ "!=", "other", 1, test_relation, OP_NE },
	{ "in", "seq", 1, test_relation, OP_IN },
	{ NULL, "", 0, NULL, 0 },
};

/* --- global functions --- */

static struct jval global_range(struct jinja *j, const struct jcall *c)
{
	enum { MOST = 100000 }; /* as in Jinja's sandbox */
	const struct jargs *a = c->all;
	struct jval list = jv_list(j, LIST_RANGE);
	int64_t from = 0, to, step = 1;

	if (a->n > 3 || a->n_kw)
		jinja_fail(j, "range takes 1 to 3 integers");
	to = jv_int(j, a->at[a->n > 1], "an end of a range");
	if (a->n > 1)
		from = jv_int(j, a->at[0], "a begin of a range");
	if (a->n > 2)
		step = jv_int(j, a->at[2], "a step of a range");
	if (!step)
		jinja_fail(j, "the step of a range is 0");
	for (int64_t i = from; step < 0 ? i > to : i < to;) {
		if (list.u.list->n >= MOST)
			jinja_fail(j, "a range has more than %d values", MOST);
		jv_add(j, list.u.list, jv_of_int(i));
		if (__builtin_add_overflow(i, step, &i))
			break;
	}
	return list;
}

static struct jval global_namespace(struct jinja *j, const struct jcall *c)
{
	struct jval space = jv_dict(j);

	if (c->all->n)
		jinja_fail(j, "a namespace is made of named values");
	for (size_t i = 0; i < c->all->n_kw; i++)
		jv_put(j, space.u.dict, jv_const(c->all->kw[i].name), c->all->kw[i].v);
	space.type = J_SPACE;
	return space;
}

static struct jval global_raise(struct jinja *j, const struct jcall *c)
{
	struct jstr s = jt_str(j, *c->arg[0]).u.s;

	jinja_fail(j, "the template refuses: %.*s", s.n > 300 ? 300 : (int)s.n, s.at);
}

static struct jval global_strftime(struct jinja *j, const struct jcall *c)
{
	struct jstr s = jv_text(j, *c->arg[0], "a date's format");
	time_t now = (time_t)j->o.now;
	char format[200], text[1000];
	struct tm tm;

	if (s.n >= sizeof format || !gmtime_r(&now, &tm))
		jinja_fail(j, "a date's format is too long");
	memcpy(format, s.at, s.n);
	format[s.n] = '\0';
	return jv_str(j, text, strftime(text, sizeof text, format, &tm));
}

const struct jbuiltin jinja_globals[] = {
	{ "range", "*", 1, global_range, 0 },
	{ "namespace", "*", 0, global_namespace, 0 },
	{ "raise_exception", "message", 1, global_raise, 0 },
	{ "strftime_now", "format", 1, global_strftime, 0 },
	{ NULL, "", 0, NULL, 0 },
};
