/* Tests ("x is defined") and the global functions. */
#include <time.h>

#include "engine/text/jinja/jinja_private.h"

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
				   (t == J_LIST && c->self.u.list->kind <= LIST_TUPLE));
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
	struct jval list = jv_list(j, LIST_PLAIN);
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
