/* Calls: builtins get their arguments in the order of their parameters; macros are run. */
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

	while (p && p->name != name)
		p = p->next;
	return p;
}

/* Into the current scope, which is the macro's. */
static void bind_macro(struct jinja *j, const struct jnode *n, const struct jargs *args)
{
	size_t used = 0, named_used = 0;

	for (const struct jnode *p = n->a; p; p = p->next) {
		const struct jval *v = used < args->n ? &args->at[used] : NULL,
						  *named = keyword(args, p->name);

		if (v && named)
			jinja_fail(j, "the argument '%s' comes twice", p->name);
		v = v ? v : named;
		used += used < args->n;
		named_used += named != NULL;
		jinja_assign(j, p->name, v ? *v : p->a ? jinja_eval(j, p->a) : jv_undef(p->name));
	}
	if (used < args->n)
		jinja_fail(j, "the macro '%s' takes %zu arguments, not %zu", n->name, used, args->n);
	for (size_t i = 0; named_used < args->n_kw && i < args->n_kw; i++)
		if (!has_parameter(n, args->kw[i].name))
			jinja_fail(j, "the macro '%s' has no argument '%s'", n->name, args->kw[i].name);
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
