/* Filters that make or take text or numbers. */
#include <stdlib.h>

#include "engine/text/jinja/jinja_private.h"

static bool arg_true(const struct jcall *c, int i, bool none)
{
	return c->arg[i] ? jv_true(*c->arg[i]) : none;
}

/* A string's method, of anything as text. */
static struct jval through_method(struct jinja *j, const struct jcall *c, const char *name)
{
	struct jcall with = *c;
	struct jval v;

	with.self = jt_str(j, c->self);
	v = jinja_find(methods_str, name, strlen(name))->call(j, &with);
	if (v.type == J_STR)
		v.safe = c->self.safe;
	return v;
}

#define BY_METHOD(name)                                                                            \
	static struct jval filter_##name(struct jinja *j, const struct jcall *c)                       \
	{                                                                                              \
		return through_method(j, c, #name);                                                        \
	}

BY_METHOD(upper)
BY_METHOD(lower)
BY_METHOD(capitalize)
BY_METHOD(strip)

static struct jval filter_replace(struct jinja *j, const struct jcall *c)
{
	struct jval old = jt_str(j, *c->arg[0]), by = jt_str(j, *c->arg[1]);
	struct jcall with = *c;

	with.arg[0] = &old;
	with.arg[1] = &by;
	return through_method(j, &with, "replace");
}

/* Words begin after spaces, hyphens and opening brackets: not Python's own title(). */
static struct jval filter_title(struct jinja *j, const struct jcall *c)
{
	struct jstr s = jt_str(j, c->self).u.s;
	size_t mark = j->n_out;
	int32_t code;

	for (size_t i = 0, n; i < s.n;) {
		for (n = 0; i + n < s.n;) {
			size_t used = jt_next(s.at + i + n, s.n - i - n, &code);

			n += used;
			if (jt_space(code) || (code > 0 && code < 0x80 && strchr("-({[<", code)))
				break;
		}
		struct jcall word = { .self = jv_view(s.at + i, n) };

		jt_put(j, jinja_find(methods_str, "capitalize", 10)->call(j, &word));
		i += n;
	}
	return jinja_cut(j, mark);
}

static struct jval filter_string(struct jinja *j, const struct jcall *c)
{
	return jt_str(j, c->self);
}

static struct jval filter_safe(struct jinja *j, const struct jcall *c)
{
	struct jval v = jt_str(j, c->self);

	v.safe = true;
	return v;
}

static struct jval filter_default(struct jinja *j, const struct jcall *c)
{
	bool absent = c->self.type == J_UNDEF || (arg_true(c, 1, false) && !jv_true(c->self));

	(void)j;
	return !absent ? c->self : c->arg[0] ? *c->arg[0] : jv_const("");
}

/* The first line is left as it is unless `first`; lines without text unless `blank`. */
static struct jval filter_indent(struct jinja *j, const struct jcall *c)
{
	struct jstr s = jt_str(j, c->self).u.s;
	bool first = arg_true(c, 1, false), blank = arg_true(c, 2, false);
	struct jval by = c->arg[0] ? *c->arg[0] : jv_of_int(4);
	size_t mark = j->n_out;

	if (by.type != J_STR)
		by = jinja_binary(j, OP_MUL, jv_const(" "), by);
	for (size_t i = 0, n; i <= s.n; i += n + 1) {
		const char *end = memchr(s.at + i, '\n', s.n - i);

		n = end ? (size_t)(end - s.at) - i : s.n - i;
		if (i ? blank || n : first)
			jinja_put(j, by.u.s.at, by.u.s.n);
		jinja_put(j, s.at + i, n + (end != NULL));
	}
	return jinja_cut(j, mark);
}

/* --- numbers --- */

/* The whole of a string as a number, blanks around it aside; none: it is not one. */
static struct jval read_number(struct jinja *j, struct jstr s, bool real)
{
	char text[310], *end;
	struct jval v;
	size_t sign;

	s = jt_strip(s, NULL, true, true);
	if (!s.n || s.n >= sizeof text || memchr(s.at, '\0', s.n))
		return jv_none();
	memcpy(text, s.at, s.n);
	text[s.n] = '\0';
	if (strpbrk(text, "xXpPnN")) /* strtod takes more than Python */
		return jv_none();
	if (real) {
		double f = strtod(text, &end);

		return *end ? jv_none() : jv_of_float(f);
	}
	strtoll(text, &end, 10);
	if (*end)
		return jv_none();
	sign = *text == '-' || *text == '+';
	v = jinja_number(j, text + sign, s.n - sign);
	return *text == '-' ? jv_of_int(-v.u.i) : v;
}

static struct jval filter_int(struct jinja *j, const struct jcall *c)
{
	struct jval none = c->arg[0] ? *c->arg[0] : jv_of_int(0), v = c->self;

	if (v.type == J_UNDEF)
		jinja_fail(j, "'%s' is undefined", v.u.what ? v.u.what : "it");
	if (v.type == J_STR) {
		v = read_number(j, c->self.u.s, false);
		if (v.type == J_NONE)
			v = read_number(j, c->self.u.s, true);
	}
	if (v.type == J_FLOAT && v.u.f > -9e18 && v.u.f < 9e18)
		return jv_of_int((int64_t)v.u.f);
	return v.type == J_INT || v.type == J_BOOL ? jv_of_int(jv_int(j, v, "it")) : none;
}

const struct jbuiltin filters_text[] = {
	{ "upper", "", 0, filter_upper },
	{ "lower", "", 0, filter_lower },
	{ "capitalize", "", 0, filter_capitalize },
	{ "title", "", 0, filter_title },
	{ "trim", "chars", 0, filter_strip },
	{ "replace", "old new count", 2, filter_replace },
	{ "string", "", 0, filter_string },
	{ "safe", "", 0, filter_safe },
	{ "default", "default_value boolean", 0, filter_default },
	{ "d", "default_value boolean", 0, filter_default },
	{ "indent", "width first blank", 0, filter_indent },
	{ "int", "default base", 0, filter_int },
	{ "tojson", "ensure_ascii indent separators sort_keys", 0, filter_tojson },
	{ NULL, "", 0, NULL },
};
