/* Tests ("x is defined") and the global functions. */
#include <time.h>
#include <utf8proc.h>

#include "engine/text/jinja/jinja_private.h"

static struct jval test_defined(struct jinja *j, const struct jcall *c)
{
	(void)j;
	return jv_bool(c->self.type != J_UNDEF);
}

static struct jval test_undefined(struct jinja *j, const struct jcall *c)
{
	(void)j;
	return jv_bool(c->self.type == J_UNDEF);
}

static struct jval test_none(struct jinja *j, const struct jcall *c)
{
	(void)j;
	return jv_bool(c->self.type == J_NONE);
}

static struct jval test_boolean(struct jinja *j, const struct jcall *c)
{
	(void)j;
	return jv_bool(c->self.type == J_BOOL);
}

static struct jval test_true(struct jinja *j, const struct jcall *c)
{
	(void)j;
	return jv_bool(c->self.type == J_BOOL && c->self.u.b);
}

static struct jval test_false(struct jinja *j, const struct jcall *c)
{
	(void)j;
	return jv_bool(c->self.type == J_BOOL && !c->self.u.b);
}

static struct jval test_integer(struct jinja *j, const struct jcall *c)
{
	(void)j;
	return jv_bool(c->self.type == J_INT);
}

static struct jval test_float(struct jinja *j, const struct jcall *c)
{
	(void)j;
	return jv_bool(c->self.type == J_FLOAT);
}

static struct jval test_number(struct jinja *j, const struct jcall *c)
{
	(void)j;
	return jv_bool(jv_number(c->self));
}

static struct jval test_string(struct jinja *j, const struct jcall *c)
{
	(void)j;
	return jv_bool(c->self.type == J_STR);
}

static struct jval test_mapping(struct jinja *j, const struct jcall *c)
{
	(void)j;
	return jv_bool(c->self.type == J_DICT);
}

static struct jval test_sequence(struct jinja *j, const struct jcall *c)
{
	enum jtype t = c->self.type;

	(void)j;
	return jv_bool(t == J_UNDEF || t == J_STR || t == J_DICT ||
				   (t == J_LIST && c->self.u.list->kind <= LIST_TUPLE));
}

static struct jval test_iterable(struct jinja *j, const struct jcall *c)
{
	enum jtype t = c->self.type;

	(void)j;
	return jv_bool(t == J_UNDEF || t == J_STR || t == J_DICT || t == J_LIST || t == J_LOOP);
}

static struct jval test_callable(struct jinja *j, const struct jcall *c)
{
	enum jtype t = c->self.type;

	(void)j; /* Undefined has a method to be called, which fails */
	return jv_bool(t == J_UNDEF || t == J_MACRO || t == J_FUNC || t == J_METHOD || t == J_LOOP);
}

static struct jval test_odd(struct jinja *j, const struct jcall *c)
{
	return jv_bool(jv_int(j, c->self, "what is odd or even") % 2 != 0);
}

static struct jval test_even(struct jinja *j, const struct jcall *c)
{
	return jv_bool(!test_odd(j, c).u.b);
}

static struct jval test_divisibleby(struct jinja *j, const struct jcall *c)
{
	struct jval rest = jinja_binary(j, OP_MOD, c->self, *c->arg[0]);

	return jv_bool(!jv_true(rest));
}

static struct jval test_escaped(struct jinja *j, const struct jcall *c)
{
	(void)j;
	return jv_bool(c->self.safe);
}

static struct jval test_filter(struct jinja *j, const struct jcall *c)
{
	struct jstr s = jv_text(j, c->self, "a filter's name");

	return jv_bool(jinja_filter(s.at, s.n));
}

static struct jval test_test(struct jinja *j, const struct jcall *c)
{
	struct jstr s = jv_text(j, c->self, "a test's name");

	return jv_bool(jinja_find(jinja_tests, s.at, s.n));
}

/* Python's islower and isupper: letters with case are there, and all of that case. */
static bool all_in_case(struct jinja *j, struct jval v, bool upper)
{
	struct jstr s = jt_str(j, v).u.s;
	bool any = false;
	int32_t c;

	for (size_t i = 0; i < s.n;) {
		i += jt_next(s.at + i, s.n - i, &c);
		if (c < 0)
			continue;
		if (upper ? utf8proc_islower(c) : utf8proc_isupper(c))
			return false;
		any |= utf8proc_islower(c) || utf8proc_isupper(c);
	}
	return any;
}

static struct jval test_lower(struct jinja *j, const struct jcall *c)
{
	return jv_bool(all_in_case(j, c->self, false));
}

static struct jval test_upper(struct jinja *j, const struct jcall *c)
{
	return jv_bool(all_in_case(j, c->self, true));
}

static struct jval test_sameas(struct jinja *j, const struct jcall *c)
{
	return jv_bool(c->self.type == c->arg[0]->type && jv_equal(j, c->self, *c->arg[0]));
}

#define RELATION(name, op)                                                                         \
	static struct jval name(struct jinja *j, const struct jcall *c)                                \
	{                                                                                              \
		return jv_bool(jinja_relation(j, op, c->self, *c->arg[0]));                                \
	}

RELATION(test_eq, OP_EQ)
RELATION(test_ne, OP_NE)
RELATION(test_lt, OP_LT)
RELATION(test_le, OP_LE)
RELATION(test_gt, OP_GT)
RELATION(test_ge, OP_GE)
RELATION(test_in, OP_IN)

const struct jbuiltin jinja_tests[] = {
	{ "defined", "", 0, test_defined },
	{ "undefined", "", 0, test_undefined },
	{ "none", "", 0, test_none },
	{ "boolean", "", 0, test_boolean },
	{ "true", "", 0, test_true },
	{ "false", "", 0, test_false },
	{ "integer", "", 0, test_integer },
	{ "float", "", 0, test_float },
	{ "number", "", 0, test_number },
	{ "string", "", 0, test_string },
	{ "mapping", "", 0, test_mapping },
	{ "sequence", "", 0, test_sequence },
	{ "iterable", "", 0, test_iterable },
	{ "callable", "", 0, test_callable },
	{ "odd", "", 0, test_odd },
	{ "even", "", 0, test_even },
	{ "divisibleby", "num", 1, test_divisibleby },
	{ "escaped", "", 0, test_escaped },
	{ "filter", "", 0, test_filter },
	{ "test", "", 0, test_test },
	{ "lower", "", 0, test_lower },
	{ "upper", "", 0, test_upper },
	{ "sameas", "other", 1, test_sameas },
	{ "eq", "other", 1, test_eq },
	{ "equalto", "other", 1, test_eq },
	{ "==", "other", 1, test_eq },
	{ "ne", "other", 1, test_ne },
	{ "!=", "other", 1, test_ne },
	{ "lt", "other", 1, test_lt },
	{ "lessthan", "other", 1, test_lt },
	{ "<", "other", 1, test_lt },
	{ "le", "other", 1, test_le },
	{ "<=", "other", 1, test_le },
	{ "gt", "other", 1, test_gt },
	{ "greaterthan", "other", 1, test_gt },
	{ ">", "other", 1, test_gt },
	{ "ge", "other", 1, test_ge },
	{ ">=", "other", 1, test_ge },
	{ "in", "seq", 1, test_in },
	{ NULL, "", 0, NULL },
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

static void put_pairs(struct jinja *j, struct jdict *d, struct jval from)
{
	struct jlist items;

	if (from.type == J_DICT) {
		for (size_t i = 0; i < from.u.dict->n; i++)
			jv_put(j, d, from.u.dict->at[i].key, from.u.dict->at[i].value);
		return;
	}
	items = jv_items(j, from);
	for (size_t i = 0; i < items.n; i++) {
		struct jlist pair = jv_items(j, items.at[i]);

		if (pair.n != 2)
			jinja_fail(j, "a dict is made of pairs");
		jv_put(j, d, pair.at[0], pair.at[1]);
	}
}

static struct jval global_dict(struct jinja *j, const struct jcall *c)
{
	struct jval dict = jv_dict(j);

	if (c->all->n > 1)
		jinja_fail(j, "a dict is made of one value and of named ones");
	if (c->all->n)
		put_pairs(j, dict.u.dict, c->all->at[0]);
	for (size_t i = 0; i < c->all->n_kw; i++)
		jv_put(j, dict.u.dict, jv_const(c->all->kw[i].name), c->all->kw[i].v);
	return dict;
}

static struct jval global_namespace(struct jinja *j, const struct jcall *c)
{
	struct jval space = global_dict(j, c);

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
	{ "range", "*", 1, global_range },
	{ "dict", "*", 0, global_dict },
	{ "namespace", "*", 0, global_namespace },
	{ "raise_exception", "message", 1, global_raise },
	{ "strftime_now", "format", 1, global_strftime },
	{ NULL, "", 0, NULL },
};
