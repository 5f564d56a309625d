/* Python's two ways of formatting: "%s" % values, and "{}".format(values). */
#include <stdio.h>

#include "engine/text/jinja/jinja_private.h"

struct format {
	bool left, right, centre, zero, plus, space, alternate;
	int width, precision; /* precision -1: none */
	char type;
};

static int read_number(struct jinja *j, struct jstr *s)
{
	int n = 0;

	for (; s->n && *s->at >= '0' && *s->at <= '9'; s->at++, s->n--) {
		n = n * 10 + *s->at - '0';
		if (n > 1000)
			jinja_fail(j, "a format is wider than 1000");
	}
	return n;
}

static bool take(struct jstr *s, char c)
{
	if (!s->n || *s->at != c)
		return false;
	s->at++;
	s->n--;
	return true;
}

static void put_number(struct jinja *j, const struct format *f, struct jval v)
{
	char spec[32], text[1500];
	bool real = strchr("eEfFgG", f->type);

	if (!jv_number(v))
		jinja_fail(j, "%s is no number for %%%c", jv_type(v), f->type);
	snprintf(spec, sizeof spec, "%%%s%s%s%s%s%d%s%s%c", f->left ? "-" : "",
		f->zero && !f->left ? "0" : "", f->plus ? "+" : "", f->space ? " " : "",
		f->alternate ? "#" : "", f->width, f->precision >= 0 ? ".*" : "", real ? "" : "ll",
		f->type == 'u' || f->type == 'i' ? 'd' : f->type);
	if (real && f->precision >= 0)
		snprintf(text, sizeof text, spec, f->precision, jv_double(v));
	else if (real)
		snprintf(text, sizeof text, spec, jv_double(v));
	else {
		long long i = v.type == J_FLOAT ? (long long)(v.u.f < 9e18 && v.u.f > -9e18 ? v.u.f : 0)
										: (long long)jv_int(j, v, "it");

		if (f->precision >= 0)
			snprintf(text, sizeof text, spec, f->precision, i);
		else
			snprintf(text, sizeof text, spec, i);
	}
	jinja_puts(j, text);
}

static void put_spaces(struct jinja *j, int64_t n)
{
	while (n-- > 0)
		jinja_puts(j, " ");
}

static void put_text(struct jinja *j, const struct format *f, struct jval v, bool repr)
{
	size_t mark = j->n_out;
	struct jstr s;
	int64_t pad;

	if (repr)
		jt_put_repr(j, v);
	else
		jt_put(j, v);
	s = jinja_cut(j, mark).u.s;
	if (f->precision >= 0)
		s.n = jt_offset(s, (size_t)f->precision);
	pad = f->width - (int64_t)jt_length(s);
	if (pad < 0)
		pad = 0;
	put_spaces(j, f->left ? 0 : f->centre ? pad / 2 : pad);
	jinja_put(j, s.at, s.n);
	put_spaces(j, f->left ? pad : f->centre ? pad - pad / 2 : 0);
}

static struct format read_percent(struct jinja *j, struct jstr *s)
{
	struct format f = { .precision = -1 };

	for (; s->n && memchr("-+ #0", *s->at, 5); s->at++, s->n--) {
		f.left |= *s->at == '-';
		f.plus |= *s->at == '+';
		f.space |= *s->at == ' ';
		f.alternate |= *s->at == '#';
		f.zero |= *s->at == '0';
	}
	f.width = read_number(j, s);
	if (take(s, '.'))
		f.precision = read_number(j, s);
	if (!s->n || !memchr("srdiufFeEgGxXo%", *s->at, 15))
		jinja_fail(j, "a format after %% is not known");
	f.type = *s->at++;
	s->n--;
	return f;
}

static struct jval named_value(struct jinja *j, struct jstr *s, const struct jdict *named)
{
	const char *end = memchr(s->at, ')', s->n);
	const struct jval *v;

	if (!end || !named)
		jinja_fail(j, "a format with names needs a dict");
	v = jv_get(j, named, jv_view(s->at, (size_t)(end - s->at)));
	if (!v)
		jinja_fail(j, "a format names what its dict does not have");
	s->n -= (size_t)(end + 1 - s->at);
	s->at = end + 1;
	return *v;
}

static void put_percent(struct jinja *j, const struct format *f, struct jval v)
{
	if (f->type == 's' || f->type == 'r')
		put_text(j, f, v, f->type == 'r');
	else
		put_number(j, f, v);
}

struct jval jinja_percent(
	struct jinja *j, struct jstr s, const struct jval *args, size_t n, const struct jdict *named)
{
	size_t mark = j->n_out, used = 0;
	bool by_name = false;

	while (s.n) {
		const char *sign = memchr(s.at, '%', s.n);
		size_t before = sign ? (size_t)(sign - s.at) : s.n;

		jinja_step(j, 1);
		jinja_put(j, s.at, before);
		s.at += before + !!sign;
		s.n -= before + !!sign;
		if (!sign)
			break;
		bool own = take(&s, '(');
		struct jval v = own ? named_value(j, &s, named) : jv_none();
		struct format f = read_percent(j, &s);

		by_name |= own;
		if (f.type == '%') {
			jinja_puts(j, "%");
			continue;
		}
		if (!own && used >= n)
			jinja_fail(j, "a format has more places than values");
		put_percent(j, &f, own ? v : args[used++]);
	}
	if (used < n && !by_name && !named)
		jinja_fail(j, "a format has fewer places than values");
	return jinja_cut(j, mark);
}

/* --- braces --- */

static struct jval braces_value(
	struct jinja *j, struct jstr *s, const struct jargs *a, size_t *next)
{
	size_t n = 0, index = 0;

	while (n < s->n && !memchr("}!:.[", s->at[n], 5))
		n++;
	struct jstr name = { s->at, n, NULL };

	s->at += n;
	s->n -= n;
	for (size_t i = 0; i < a->n_kw; i++)
		if (n && jstr_is(name, a->kw[i].name))
			return a->kw[i].v;
	if (n)
		index = (size_t)read_number(j, &name);
	else
		index = (*next)++;
	if (name.n && n)
		jinja_fail(j, "a format names an argument that is not there");
	if (index >= a->n)
		jinja_fail(j, "a format has more places than values");
	return a->at[index];
}

static struct format read_braces(struct jinja *j, struct jstr *s)
{
	struct format f = { .precision = -1 };

	f.left = take(s, '<');
	f.right = take(s, '>');
	f.centre = take(s, '^');
	f.plus = take(s, '+');
	f.space = take(s, ' ');
	f.alternate = take(s, '#');
	f.zero = take(s, '0');
	f.width = read_number(j, s);
	if (take(s, '.'))
		f.precision = read_number(j, s);
	if (s->n && memchr("sdfFeEgGxXo", *s->at, 11)) {
		f.type = *s->at++;
		s->n--;
	}
	return f;
}

static void put_braces(struct jinja *j, struct jstr *s, struct jval v)
{
	struct format f = { .precision = -1 };
	bool repr = false;

	if (take(s, '!')) {
		repr = take(s, 'r');
		if (!repr && !take(s, 's'))
			jinja_fail(j, "a format's conversion is not known");
	}
	if (take(s, ':'))
		f = read_braces(j, s);
	if (!take(s, '}'))
		jinja_fail(j, "a format in braces is not known");
	if (!f.type && v.type == J_INT && !repr)
		f.type = 'd';
	if (f.type && f.type != 's' && !f.centre) {
		put_number(j, &f, v);
	} else {
		f.left |= !f.right && !f.centre;
		put_text(j, &f, v, repr);
	}
}

struct jval jinja_braces(struct jinja *j, struct jstr s, const struct jargs *args)
{
	size_t mark = j->n_out, next = 0;

	while (s.n) {
		char c = *s.at++;

		s.n--;
		if (c == '{' && !take(&s, '{')) {
			struct jval v = braces_value(j, &s, args, &next);

			put_braces(j, &s, v);
		} else if (c == '}' && !take(&s, '}')) {
			jinja_fail(j, "a single } stands in a format");
		} else {
			jinja_put(j, &c, 1);
		}
	}
	return jinja_cut(j, mark);
}
