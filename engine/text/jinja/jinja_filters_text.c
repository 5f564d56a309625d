/* Filters that make or take text or numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/text/jinja/jinja_private.h"

static bool arg_true(const struct jcall *c, int i, bool none)
{
	return c->arg[i] ? jv_true(*c->arg[i]) : none;
}

static int64_t arg_int(struct jinja *j, const struct jcall *c, int i, int64_t none)
{
	return c->arg[i] ? jv_int(j, *c->arg[i], "an argument") : none;
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

static struct jval force_escape(struct jinja *j, const struct jcall *c)
{
	size_t mark = j->n_out;
	struct jval v = jt_str(j, c->self);

	jt_put_escaped(j, v.u.s);
	v = jinja_cut(j, mark);
	v.safe = true;
	return v;
}

static struct jval filter_escape(struct jinja *j, const struct jcall *c)
{
	return c->self.safe ? c->self : force_escape(j, c);
}

static struct jval filter_default(struct jinja *j, const struct jcall *c)
{
	bool absent = c->self.type == J_UNDEF || (arg_true(c, 1, false) && !jv_true(c->self));

	(void)j;
	return !absent ? c->self : c->arg[0] ? *c->arg[0] : jv_const("");
}

static struct jval filter_format(struct jinja *j, const struct jcall *c)
{
	struct jstr s = jt_str(j, c->self).u.s;
	struct jval named = jv_dict(j);

	if (c->all->n && c->all->n_kw)
		jinja_fail(j, "format takes values or named values, not both");
	for (size_t i = 0; i < c->all->n_kw; i++)
		jv_put(j, named.u.dict, jv_const(c->all->kw[i].name), c->all->kw[i].v);
	return jinja_percent(j, s, c->all->at, c->all->n, c->all->n_kw ? named.u.dict : NULL);
}

/* The first line is left as it is unless `first`; lines without text unless `blank`. */
static struct jval filter_indent(struct jinja *j, const struct jcall *c)
{
	struct jval text = jinja_concat(j, jt_str(j, c->self).u.s, (struct jstr){ "\n", 1, NULL });
	struct jcall all = { .self = text };
	struct jlist lines = *jinja_find(methods_str, "splitlines", 10)->call(j, &all).u.list;
	struct jval by = c->arg[0] && c->arg[0]->type == J_STR ? *c->arg[0] : jv_none();
	size_t mark = j->n_out;
	bool first = arg_true(c, 1, false), blank = arg_true(c, 2, false);

	if (by.type != J_STR)
		by = jinja_binary(j, OP_MUL, jv_const(" "), jv_of_int(arg_int(j, c, 0, 4)));
	for (size_t i = 0; i < lines.n; i++) {
		if (i)
			jinja_puts(j, "\n");
		if (i ? blank || lines.at[i].u.s.n : first)
			jinja_put(j, by.u.s.at, by.u.s.n);
		jinja_put(j, lines.at[i].u.s.at, lines.at[i].u.s.n);
	}
	return jinja_cut(j, mark);
}

static struct jval filter_center(struct jinja *j, const struct jcall *c)
{
	struct jval s = jt_str(j, c->self);
	int64_t width = arg_int(j, c, 0, 80), pad = width - (int64_t)jv_length(j, s);
	size_t mark = j->n_out;
	int64_t left = pad <= 0 ? 0 : pad / 2 + (pad & width & 1);

	for (int64_t i = 0; i < left; i++)
		jinja_puts(j, " ");
	jinja_put(j, s.u.s.at, s.u.s.n);
	for (int64_t i = left; i < pad; i++)
		jinja_puts(j, " ");
	return jinja_cut(j, mark);
}

static struct jval filter_truncate(struct jinja *j, const struct jcall *c)
{
	struct jstr s = jt_str(j, c->self).u.s, end = c->arg[2] ? jv_text(j, *c->arg[2], "an end")
															: (struct jstr){ "...", 3, NULL };
	int64_t most = arg_int(j, c, 0, 255), leeway = arg_int(j, c, 3, 5),
			cut = most - (int64_t)jt_length(end);
	size_t n;

	if (most > (int64_t)s.n || (int64_t)jt_length(s) <= most + leeway)
		return jv_view(s.at, s.n);
	if (cut < 0)
		jinja_fail(j, "a text cannot be cut shorter than its end");
	n = jt_offset(s, (size_t)cut);
	if (!arg_true(c, 1, false)) {
		const char *space = memrchr(s.at, ' ', n);

		n = space ? (size_t)(space - s.at) : n;
	}
	return jinja_concat(j, (struct jstr){ s.at, n, NULL }, end);
}

static struct jval filter_wordcount(struct jinja *j, const struct jcall *c)
{
	struct jstr s = jt_str(j, c->self).u.s;
	int64_t n = 0;
	bool inside = false;

	for (size_t i = 0; i < s.n; i++) {
		unsigned char b = (unsigned char)s.at[i];
		bool word =
			b == '_' || b >= 0x80 || (b >= '0' && b <= '9') || ((b | 32) >= 'a' && (b | 32) <= 'z');

		n += word && !inside;
		inside = word;
	}
	return jv_of_int(n);
}

static struct jval filter_urlencode(struct jinja *j, const struct jcall *c)
{
	struct jstr s = jt_str(j, c->self).u.s;
	size_t mark = j->n_out;
	char text[8];

	for (size_t i = 0; i < s.n; i++) {
		unsigned char b = (unsigned char)s.at[i];

		if (b &&
			(strchr("_.-~/", b) || (b >= '0' && b <= '9') || ((b | 32) >= 'a' && (b | 32) <= 'z')))
			snprintf(text, sizeof text, "%c", b);
		else
			snprintf(text, sizeof text, "%%%02X", b);
		jinja_puts(j, text);
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

static struct jval filter_float(struct jinja *j, const struct jcall *c)
{
	struct jval none = c->arg[0] ? *c->arg[0] : jv_of_float(0), v = c->self;

	if (v.type == J_UNDEF)
		jinja_fail(j, "'%s' is undefined", v.u.what ? v.u.what : "it");
	if (v.type == J_STR)
		v = read_number(j, v.u.s, true);
	return jv_number(v) ? jv_of_float(jv_double(v)) : none;
}

static struct jval filter_abs(struct jinja *j, const struct jcall *c)
{
	if (!jv_number(c->self))
		jinja_fail(j, "%s has no absolute value", jv_type(c->self));
	if (c->self.type == J_FLOAT)
		return jv_of_float(fabs(c->self.u.f));
	return jv_int(j, c->self, "it") < 0 ? jinja_binary(j, OP_SUB, jv_of_int(0), c->self)
										: jv_of_int(jv_int(j, c->self, "it"));
}

static struct jval filter_round(struct jinja *j, const struct jcall *c)
{
	int64_t digits = arg_int(j, c, 0, 0);
	struct jstr how =
		c->arg[1] ? jv_text(j, *c->arg[1], "a method") : (struct jstr){ "common", 6, NULL };
	double scale;
	char text[400];

	if (!jv_number(c->self) || digits < -300 || digits > 300)
		jinja_fail(j, "%s cannot be rounded so", jv_type(c->self));
	scale = pow(10, (double)digits);
	if (jstr_is(how, "ceil"))
		return jv_of_float(ceil(jv_double(c->self) * scale) / scale);
	if (jstr_is(how, "floor"))
		return jv_of_float(floor(jv_double(c->self) * scale) / scale);
	if (digits < 0)
		return jv_of_float(nearbyint(jv_double(c->self) * scale) / scale);
	snprintf(text, sizeof text, "%.*f", (int)digits, jv_double(c->self));
	return jv_of_float(strtod(text, NULL));
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
	{ "escape", "", 0, filter_escape },
	{ "e", "", 0, filter_escape },
	{ "forceescape", "", 0, force_escape },
	{ "default", "default_value boolean", 0, filter_default },
	{ "d", "default_value boolean", 0, filter_default },
	{ "format", "*", 0, filter_format },
	{ "indent", "width first blank", 0, filter_indent },
	{ "center", "width", 0, filter_center },
	{ "truncate", "length killwords end leeway", 0, filter_truncate },
	{ "wordcount", "", 0, filter_wordcount },
	{ "urlencode", "", 0, filter_urlencode },
	{ "int", "default base", 0, filter_int },
	{ "float", "default", 0, filter_float },
	{ "abs", "", 0, filter_abs },
	{ "round", "precision method", 0, filter_round },
	{ "tojson", "ensure_ascii indent separators sort_keys", 0, filter_tojson },
	{ NULL, "", 0, NULL },
};
