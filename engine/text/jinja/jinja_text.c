/* Characters, and values as text: what {{ … }} prints, and Python's repr inside lists and dicts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <utf8proc.h>

#include "engine/text/jinja/jinja_private.h"

size_t jt_next(const char *at, size_t n, int32_t *c)
{
	utf8proc_int32_t code = (unsigned char)*at;
	utf8proc_ssize_t used = 1;

	if (code >= 0x80)
		used =
			utf8proc_iterate((const utf8proc_uint8_t *)at, n < 4 ? (utf8proc_ssize_t)n : 4, &code);
	*c = used > 0 ? code : -1;
	return used > 0 ? (size_t)used : 1;
}

size_t jt_length(struct jstr s)
{
	size_t n = 0;
	int32_t c;

	for (size_t i = 0; i < s.n; n++)
		i += jt_next(s.at + i, s.n - i, &c);
	return n;
}

size_t jt_offset(struct jstr s, size_t index)
{
	size_t i = 0;
	int32_t c;

	while (index-- && i < s.n)
		i += jt_next(s.at + i, s.n - i, &c);
	return i;
}

bool jt_space(int32_t c)
{
	return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f) || c == 0x85 || c == 0xa0 ||
		   c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
		   c == 0x202f || c == 0x205f || c == 0x3000;
}

static bool stripped(const char *at, size_t n, int32_t c, const struct jval *chars)
{
	if (!chars)
		return jt_space(c);
	return chars->u.s.n >= n && memmem(chars->u.s.at, chars->u.s.n, at, n);
}

/* chars: a string of those to strip, or NULL for white space. */
struct jstr jt_strip(struct jstr s, const struct jval *chars, bool left, bool right)
{
	int32_t c;
	size_t n;

	while (left && s.n && (n = jt_next(s.at, s.n, &c)) && stripped(s.at, n, c, chars)) {
		s.at += n;
		s.n -= n;
	}
	while (right && s.n) {
		for (n = 1; n < 4 && n < s.n && (s.at[s.n - n] & 0xc0) == 0x80;)
			n++;
		if (jt_next(s.at + s.n - n, n, &c) != n) /* invalid: a byte alone */
			jt_next(s.at + s.n - (n = 1), 1, &c);
		if (!stripped(s.at + s.n - n, n, c, chars))
			break;
		s.n -= n;
	}
	return s;
}

void jt_put_char(struct jinja *j, int32_t c)
{
	char utf8[8];
	utf8proc_ssize_t n = utf8proc_encode_char(c, (utf8proc_uint8_t *)utf8);

	if (n <= 0) { /* half of a pair: nothing that UTF-8 has */
		jinja_puts(j, "\xef\xbf\xbd");
		return;
	}
	jinja_put(j, utf8, (size_t)n);
}

/* --- values --- */

/* Python's repr: the fewest digits that read back as the same number. */
static void put_float(struct jinja *j, double f)
{
	char text[64], *e;
	int digits = 0, exponent;

	if (isnan(f) || isinf(f)) {
		jinja_puts(j, isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
		return;
	}
	do
		snprintf(text, sizeof text, "%.*e", digits, f);
	while (strtod(text, NULL) != f && ++digits < 17);
	e = strchr(text, 'e');
	exponent = atoi(e + 1);
	if (exponent >= -4 && exponent < 16)
		snprintf(text, sizeof text, "%.*f", digits > exponent ? digits - exponent : 1, f);
	jinja_puts(j, text);
}

static bool printable(int32_t c)
{
	if (c < 0x80)
		return c >= ' ' && c != 0x7f;
	switch (utf8proc_category(c)) {
	case UTF8PROC_CATEGORY_CN:
	case UTF8PROC_CATEGORY_CC:
	case UTF8PROC_CATEGORY_CF:
	case UTF8PROC_CATEGORY_CS:
	case UTF8PROC_CATEGORY_CO:
	case UTF8PROC_CATEGORY_ZL:
	case UTF8PROC_CATEGORY_ZP:
	case UTF8PROC_CATEGORY_ZS: return false;
	default: return true;
	}
}

static void put_repr_char(struct jinja *j, int32_t c, const char *at, size_t n, char quote)
{
	static const char escaped[] = "\n\r\t\\";
	const char *special = c > 0 && c < 0x80 ? strchr(escaped, c) : NULL;
	char text[16];

	if (special)
		snprintf(text, sizeof text, "\\%c", "nrt\\"[special - escaped]);
	else if (c == quote)
		snprintf(text, sizeof text, "\\%c", quote);
	else if (c >= 0 && !printable(c))
		snprintf(text, sizeof text,
			c < 0x100     ? "\\x%02x"
			: c < 0x10000 ? "\\u%04x"
						  : "\\U%08x",
			(unsigned)c);
	else {
		jinja_put(j, at, n);
		return;
	}
	jinja_puts(j, text);
}

static void put_repr_str(struct jinja *j, struct jstr s)
{
	bool doubled = memchr(s.at, '\'', s.n) && !memchr(s.at, '"', s.n);
	char quote = doubled ? '"' : '\'';
	int32_t c;

	jinja_put(j, &quote, 1);
	for (size_t i = 0, n; i < s.n; i += n) {
		n = jt_next(s.at + i, s.n - i, &c);
		put_repr_char(j, c, s.at + i, n, quote);
	}
	jinja_put(j, &quote, 1);
}

static void put_list(struct jinja *j, const struct jlist *l)
{
	bool tuple = l->kind == LIST_TUPLE;

	jinja_puts(j, l->kind == LIST_VIEW ? "dict_items([" : tuple ? "(" : "[");
	for (size_t i = 0; i < l->n; i++) {
		if (i)
			jinja_puts(j, ", ");
		jt_put_repr(j, l->at[i]);
	}
	jinja_puts(j, tuple && l->n == 1 ? ",)" : tuple ? ")" : l->kind == LIST_VIEW ? "])" : "]");
}

static void put_dict(struct jinja *j, const struct jdict *d)
{
	jinja_puts(j, "{");
	for (size_t i = 0; i < d->n; i++) {
		if (i)
			jinja_puts(j, ", ");
		jt_put_repr(j, d->at[i].key);
		jinja_puts(j, ": ");
		jt_put_repr(j, d->at[i].value);
	}
	jinja_puts(j, "}");
}

void jt_put_repr(struct jinja *j, struct jval v)
{
	char text[32];

	jinja_step(j, 1);
	jinja_deeper(j);
	switch (v.type) {
	case J_UNDEF: jinja_puts(j, "Undefined"); break;
	case J_NONE: jinja_puts(j, "None"); break;
	case J_BOOL: jinja_puts(j, v.u.b ? "True" : "False"); break;
	case J_INT:
		snprintf(text, sizeof text, "%lld", (long long)v.u.i);
		jinja_puts(j, text);
		break;
	case J_FLOAT: put_float(j, v.u.f); break;
	case J_STR: put_repr_str(j, v.u.s); break;
	case J_LIST: put_list(j, v.u.list); break;
	case J_DICT: put_dict(j, v.u.dict); break;
	case J_SPACE:
		jinja_puts(j, "<Namespace ");
		put_dict(j, v.u.dict);
		jinja_puts(j, ">");
		break;
	default: jinja_fail(j, "%s has no text", jv_type(v));
	}
	j->depth--;
}

void jt_put(struct jinja *j, struct jval v)
{
	if (v.type == J_STR)
		jinja_put(j, v.u.s.at, v.u.s.n);
	else if (v.type != J_UNDEF)
		jt_put_repr(j, v);
}

void jt_put_escaped(struct jinja *j, struct jstr s)
{
	static const char from[] = "&<>'\"";
	static const char *const code[] = { "&amp;", "&lt;", "&gt;", "&#39;", "&#34;" };

	for (size_t i = 0; i < s.n; i++) {
		const char *special = s.at[i] ? strchr(from, s.at[i]) : NULL;

		if (special)
			jinja_puts(j, code[special - from]);
		else
			jinja_put(j, s.at + i, 1);
	}
}

struct jval jt_str(struct jinja *j, struct jval v)
{
	size_t mark = j->n_out;

	if (v.type == J_STR)
		return v;
	jt_put(j, v);
	return jinja_cut(j, mark);
}
