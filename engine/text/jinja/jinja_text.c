/* Characters, and values as text: what {{ … }} prints, Python's repr inside lists and dicts, and
 * JSON. */
#include <math.h>
#include <stdio.h>
#include <utf8proc.h>

#include "engine/text/jinja/jinja_private.h"

size_t jt_length(struct jstr s)
{
	size_t n = 0;
	int32_t c;

	for (size_t i = 0; i < s.n; n++)
		i += text_point(s.at + i, s.n - i, &c);
	return n;
}

size_t jt_offset(struct jstr s, size_t index)
{
	size_t i = 0;
	int32_t c;

	while (index-- && i < s.n)
		i += text_point(s.at + i, s.n - i, &c);
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

	while (left && s.n && (n = text_point(s.at, s.n, &c)) && stripped(s.at, n, c, chars)) {
		s.at += n;
		s.n -= n;
	}
	while (right && s.n) {
		for (n = 1; n < 4 && n < s.n && (s.at[s.n - n] & 0xc0) == 0x80;)
			n++;
		if (text_point(s.at + s.n - n, n, &c) != n) /* invalid: a byte alone */
			text_point(s.at + s.n - (n = 1), 1, &c);
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
static void put_float(struct jinja *j, double f, bool json)
{
	char text[64], *e;
	int digits = 0, exponent;

	if (isnan(f) || isinf(f)) {
		jinja_puts(j, isnan(f) ? json ? "NaN" : "nan" : f > 0 ? "" : "-");
		if (isinf(f))
			jinja_puts(j, json ? "Infinity" : "inf");
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
		n = text_point(s.at + i, s.n - i, &c);
		put_repr_char(j, c, s.at + i, n, quote);
	}
	jinja_put(j, &quote, 1);
}

/* How values are written: as Python's repr, or as json.dumps does. */
struct style {
	bool json, ascii, sorted, lines;
	struct jstr indent; /* of one level */
	struct jstr comma, colon;
};

static void put_code(struct jinja *j, uint32_t c)
{
	char text[16];

	if (c < 0x10000)
		snprintf(text, sizeof text, "\\u%04x", c);
	else
		snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
			0xdc00 + ((c - 0x10000) & 0x3ff));
	jinja_puts(j, text);
}

static void put_json_str(struct jinja *j, const struct style *w, struct jstr s)
{
	static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
	int32_t c;

	jinja_puts(j, "\"");
	for (size_t i = 0, n; i < s.n; i += n) {
		n = text_point(s.at + i, s.n - i, &c);
		const char *special = c > 0 && c < 0x80 ? strchr(from, c) : NULL;

		if (special) {
			jinja_puts(j, "\\");
			jinja_put(j, &to[special - from], 1);
		} else if (c >= 0 && (c < ' ' || (w->ascii && c >= 0x7f))) {
			put_code(j, (uint32_t)c);
		} else {
			jinja_put(j, s.at + i, n);
		}
	}
	jinja_puts(j, "\"");
}

static void put_break(struct jinja *j, const struct style *w, int level)
{
	if (!w->lines)
		return;
	jinja_puts(j, "\n");
	for (int i = 0; i < level; i++)
		jinja_put(j, w->indent.at, w->indent.n);
}

static void put_value(struct jinja *j, const struct style *w, struct jval v, int level);

/* In JSON keys are texts. */
static void put_key(struct jinja *j, const struct style *w, struct jval key)
{
	const bool quoted = w->json && key.type != J_STR;

	if (quoted && !jv_number(key) && key.type != J_NONE)
		jinja_fail(j, "%s cannot be a key in JSON", jv_type(key));
	jinja_puts(j, quoted ? "\"" : "");
	put_value(j, w, key, 0);
	jinja_puts(j, quoted ? "\"" : "");
	jinja_put(j, w->colon.at, w->colon.n);
}

static const struct jpair *sort_by_key(struct jinja *j, const struct jdict *d)
{
	struct jpair *p = jinja_alloc(j, d->n * sizeof *p);

	for (size_t i = 0, k; i < d->n; i++) {
		for (k = i; k && jv_compare(j, d->at[i].key, p[k - 1].key) < 0; k--)
			p[k] = p[k - 1];
		p[k] = d->at[i];
	}
	return p;
}

/* Of a list or a dict: what stands before item i. */
static void put_before(struct jinja *j, const struct style *w, size_t i, int level)
{
	if (i)
		jinja_put(j, w->comma.at, w->comma.n);
	put_break(j, w, level + 1);
}

static void put_dict(struct jinja *j, const struct style *w, const struct jdict *d, int level)
{
	const struct jpair *p = w->sorted ? sort_by_key(j, d) : d->at;

	jinja_puts(j, "{");
	for (size_t i = 0; i < d->n; i++) {
		put_before(j, w, i, level);
		put_key(j, w, p[i].key);
		put_value(j, w, p[i].value, level + 1);
	}
	if (d->n)
		put_break(j, w, level);
	jinja_puts(j, "}");
}

static void put_list(struct jinja *j, const struct style *w, const struct jlist *l, int level)
{
	static const char *const open[] = { "[", "(", "", "dict_keys([", "dict_values([",
		"dict_items([" };
	const bool tuple = l->kind == LIST_TUPLE && !w->json, view = l->kind > LIST_TUPLE;

	jinja_puts(j, w->json ? "[" : open[l->kind]);
	for (size_t i = 0; i < l->n; i++) {
		put_before(j, w, i, level);
		put_value(j, w, l->at[i], level + 1);
	}
	if (l->n)
		put_break(j, w, level);
	jinja_puts(j, tuple && l->n == 1 ? ",)" : tuple ? ")" : view ? "])" : "]");
}

/* What JSON has no form for. */
static void refuse(struct jinja *j, struct jval v)
{
	if (v.type == J_UNDEF || v.type > J_DICT || (v.type == J_LIST && v.u.list->kind > LIST_TUPLE))
		jinja_fail(j, "%s cannot be written as JSON", jv_type(v));
}

static void put_value(struct jinja *j, const struct style *w, struct jval v, int level)
{
	char text[32];

	jinja_step(j, 1);
	jinja_deeper(j);
	if (w->json)
		refuse(j, v);
	if (v.type == J_LIST && (v.u.list->kind == LIST_RANGE || v.u.list->kind == LIST_GENERATOR))
		jinja_fail(j, "%s has no text", jv_type(v));
	switch (v.type) {
	case J_UNDEF: jinja_puts(j, "Undefined"); break;
	case J_NONE: jinja_puts(j, w->json ? "null" : "None"); break;
	case J_BOOL:
		jinja_puts(j, w->json ? v.u.b ? "true" : "false" : v.u.b ? "True" : "False");
		break;
	case J_INT:
		snprintf(text, sizeof text, "%lld", (long long)v.u.i);
		jinja_puts(j, text);
		break;
	case J_FLOAT: put_float(j, v.u.f, w->json); break;
	case J_STR:
		jinja_puts(j, v.safe && !w->json ? "Markup(" : "");
		w->json ? put_json_str(j, w, v.u.s) : put_repr_str(j, v.u.s);
		jinja_puts(j, v.safe && !w->json ? ")" : "");
		break;
	case J_LIST: put_list(j, w, v.u.list, level); break;
	case J_DICT: put_dict(j, w, v.u.dict, level); break;
	case J_SPACE:
		jinja_puts(j, "<Namespace ");
		put_dict(j, w, v.u.dict, level);
		jinja_puts(j, ">");
		break;
	default: jinja_fail(j, "%s has no text", jv_type(v));
	}
	j->depth--;
}

static const struct style repr = { .comma = { ", ", 2, NULL }, .colon = { ": ", 2, NULL } };

void jt_put(struct jinja *j, struct jval v)
{
	if (v.type == J_STR)
		jinja_put(j, v.u.s.at, v.u.s.n);
	else if (v.type != J_UNDEF)
		put_value(j, &repr, v, 0);
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

/* --- the filter tojson, as transformers has it: Python's json.dumps with ensure_ascii off --- */

static void set_indent(struct jinja *j, struct style *w, const struct jval *v)
{
	static const char spaces[] = "                ";
	int64_t n;

	if (!v || v->type == J_NONE)
		return;
	w->lines = true;
	w->comma = (struct jstr){ ",", 1, NULL };
	if (v->type == J_STR) {
		w->indent = v->u.s;
		return;
	}
	n = jv_int(j, *v, "an indent");
	if (n > (int64_t)sizeof spaces - 1)
		jinja_fail(j, "an indent is larger than %zu", sizeof spaces - 1);
	w->indent = (struct jstr){ spaces, n > 0 ? (size_t)n : 0, NULL };
}

static void set_separators(struct jinja *j, struct style *w, const struct jval *v)
{
	if (!v || v->type == J_NONE)
		return;
	if (v->type != J_LIST || v->u.list->n != 2)
		jinja_fail(j, "separators are two strings");
	w->comma = jv_text(j, v->u.list->at[0], "a separator");
	w->colon = jv_text(j, v->u.list->at[1], "a separator");
}

struct jval filter_tojson(struct jinja *j, const struct jcall *c)
{
	struct style w = repr;
	size_t mark = j->n_out;

	w.json = true;
	w.ascii = jv_is_on(c->arg[0]);
	set_indent(j, &w, c->arg[1]);
	set_separators(j, &w, c->arg[2]);
	w.sorted = jv_is_on(c->arg[3]);
	put_value(j, &w, c->self, 0);
	return jinja_cut(j, mark);
}
