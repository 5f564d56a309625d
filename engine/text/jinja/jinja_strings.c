/* Methods of strings, and the filters that make or take text or numbers. */
#include <errno.h>
#include <utf8proc.h>

#include "engine/text/jinja/jinja_private.h"

static struct jstr text_arg(struct jinja *j, const struct jcall *c, int i)
{
	return jv_text(j, *c->arg[i], "an argument");
}

static int64_t int_arg(struct jinja *j, const struct jcall *c, int i, int64_t none)
{
	return c->arg[i] && c->arg[i]->type != J_NONE ? jv_int(j, *c->arg[i], "an argument") : none;
}

/* --- letters --- */

static bool cased(int32_t c)
{
	return c >= 0 && (utf8proc_islower(c) || utf8proc_isupper(c));
}

/* Letters that become several (ß: SS, İ: i and a dot) have them in their folded form. how: as of
 * jt_case(); 't': a word's first. */
static void put_case(struct jinja *j, int32_t c, int how)
{
	const int32_t one = how == 'l'   ? utf8proc_tolower(c)
						: how == 'u' ? utf8proc_toupper(c)
									 : utf8proc_totitle(c);
	const bool several = how == 'l' ? c == 0x130
									: utf8proc_category(c) != UTF8PROC_CATEGORY_LU &&
										  (how == 'u' || one == c || c == 0xdf);
	int32_t of[4] = { one };
	const utf8proc_ssize_t n =
		several ? utf8proc_decompose_char(c, of, 4, UTF8PROC_CASEFOLD, NULL) : 1;
	bool raise = how != 'l' && n > 1;

	for (utf8proc_ssize_t i = 0; i < n; i++) {
		const int32_t letter = n < 2 ? one : raise ? utf8proc_toupper(of[i]) : of[i];

		raise = raise && (how == 'u' || letter == of[i]);
		jt_put_char(j, letter);
	}
}

/* A capital sigma after a letter becomes another small one before none. */
static int32_t last_sigma(struct jstr s, size_t next)
{
	int32_t c = -1;

	if (next < s.n)
		text_point(s.at + next, s.n - next, &c);
	return cased(c) ? 0x3c3 : 0x3c2;
}

struct jval jt_case(struct jinja *j, struct jstr s, int how)
{
	size_t mark = j->n_out;
	bool inside = false, letter = false;
	int32_t c;

	for (size_t i = 0, n; i < s.n; i += n) {
		n = text_point(s.at + i, s.n - i, &c);
		jinja_step(j, 1);
		if (c < 0)
			jinja_put(j, s.at + i, n);
		else if (how == 'u' || (how != 'l' && !inside))
			put_case(j, c, how == 'c' || how == 't' ? 't' : 'u');
		else
			put_case(j, c == 0x3a3 && letter ? last_sigma(s, i + n) : c, 'l');
		letter = cased(c);
		inside = how != 't' || letter;
	}
	return jinja_cut(j, mark);
}

/* A method of strings, and the filter of anything as text; so is str_strip(). */
static struct jval str_case(struct jinja *j, const struct jcall *c)
{
	const struct jval self = jt_str(j, c->self);
	struct jval v = jt_case(j, self.u.s, c->how);

	v.safe = self.safe;
	return v;
}

/* --- ends --- */

enum { LEFT = 1, RIGHT = 2 };

static struct jval str_strip(struct jinja *j, const struct jcall *c)
{
	const struct jval *chars = c->arg[0] && c->arg[0]->type != J_NONE ? c->arg[0] : NULL;
	struct jval v = jt_str(j, c->self);

	if (chars) /* each character is looked for among them */
		jinja_step(j, (v.u.s.n / 16 + 1) * ((text_arg(j, c, 0).n + 15) / 16));
	v.u.s = jt_strip(v.u.s, chars, c->how & LEFT, c->how & RIGHT);
	return v;
}

static bool has_end(struct jstr s, struct jstr end, int which)
{
	return end.n <= s.n && !memcmp(which == LEFT ? s.at : s.at + s.n - end.n, end.at, end.n);
}

/* One, or any of a list. */
static struct jval str_has_end(struct jinja *j, const struct jcall *c)
{
	if (c->arg[0]->type != J_LIST)
		return jv_bool(has_end(c->self.u.s, text_arg(j, c, 0), c->how));
	for (size_t i = 0; i < c->arg[0]->u.list->n; i++) {
		const struct jstr end = jv_text(j, c->arg[0]->u.list->at[i], "a prefix");

		jinja_step(j, end.n / 64);
		if (has_end(c->self.u.s, end, c->how))
			return jv_bool(true);
	}
	return jv_bool(false);
}

/* --- parts --- */

static struct jval str_replace(struct jinja *j, const struct jcall *c)
{
	struct jstr s = c->self.u.s, old = text_arg(j, c, 0), by = text_arg(j, c, 1);
	int64_t most = int_arg(j, c, 2, -1);
	size_t mark = j->n_out;
	int32_t code;

	if (c->self.safe) {
		old = jinja_escaped(j, *c->arg[0]).u.s;
		by = jinja_escaped(j, *c->arg[1]).u.s;
	}

	for (; most; most -= most > 0) {
		const char *at = memmem(s.at, s.n, old.at, old.n);
		size_t n = at ? (size_t)(at - s.at) : 0, used = n + old.n;

		if (!at)
			break;
		jinja_step(j, 1);
		jinja_put(j, s.at, n);
		jinja_put(j, by.at, by.n);
		if (!old.n) { /* between all characters */
			if (!s.n)
				break;
			used = text_point(s.at, s.n, &code);
			jinja_put(j, s.at, used);
		}
		s.at += used;
		s.n -= used;
	}
	jinja_put(j, s.at, s.n);
	return jinja_cut_as(j, mark, c->self);
}

static void split_at(
	struct jinja *j, struct jlist *out, struct jstr s, struct jstr by, int64_t most)
{
	for (const char *at; most && (at = memmem(s.at, s.n, by.at, by.n)); most--) {
		jv_add(j, out, jv_view(s.at, (size_t)(at - s.at)));
		s.n -= (size_t)(at - s.at) + by.n;
		s.at = at + by.n;
	}
	jv_add(j, out, jv_view(s.at, s.n));
}

static void split_space(struct jinja *j, struct jlist *out, struct jstr s, int64_t most)
{
	int32_t c;

	for (s = jt_strip(s, NULL, true, false); s.n; most--) {
		size_t n = 0, used = 0;

		while (most && n < s.n && (used = text_point(s.at + n, s.n - n, &c)) && !jt_space(c))
			n += used;
		if (!most)
			n = s.n;
		jv_add(j, out, jv_view(s.at, n));
		s = jt_strip(jv_view(s.at + n, s.n - n).u.s, NULL, true, false);
	}
}

static struct jval str_split(struct jinja *j, const struct jcall *c)
{
	struct jval list = jv_list(j, LIST_PLAIN);
	int64_t most = int_arg(j, c, 1, -1);

	if (!c->arg[0] || c->arg[0]->type == J_NONE)
		split_space(j, list.u.list, c->self.u.s, most);
	else if (!text_arg(j, c, 0).n)
		jinja_fail(j, "an empty text separates nothing");
	else
		split_at(j, list.u.list, c->self.u.s, text_arg(j, c, 0), most);
	for (size_t i = 0; i < list.u.list->n; i++)
		list.u.list->at[i].safe = c->self.safe;
	return list;
}

/* Of Python's fields only {}. */
static struct jval str_format(struct jinja *j, const struct jcall *c)
{
	struct jstr s = c->self.u.s;
	size_t mark = j->n_out, next = 0;

	if (c->self.safe)
		jinja_fail(j, "format of a text that is marked safe is not known");
	for (size_t i = 0; i < s.n; i++) {
		const char *at = s.at + i;
		bool two = i + 1 < s.n && (*at == '{' || *at == '}');

		if (two && at[0] == '{' && at[1] == '}') {
			if (next >= c->all->n)
				jinja_fail(j, "a format has more places than values");
			jt_put(j, c->all->at[next++]);
		} else if (!two && *at != '{' && *at != '}') {
			jinja_put(j, at, 1);
			continue;
		} else if (two && at[0] == at[1]) {
			jinja_put(j, at, 1);
		} else {
			jinja_fail(j, "of the fields of format only {} is known");
		}
		i++;
	}
	return jinja_cut(j, mark);
}

const struct jbuiltin methods_str[] = {
	{ "upper", "", 0, str_case, 'u' },
	{ "lower", "", 0, str_case, 'l' },
	{ "title", "", 0, str_case, 't' },
	{ "capitalize", "", 0, str_case, 'c' },
	{ "strip", "chars", 0, str_strip, LEFT | RIGHT },
	{ "lstrip", "chars", 0, str_strip, LEFT },
	{ "rstrip", "chars", 0, str_strip, RIGHT },
	{ "startswith", "prefix", 1, str_has_end, LEFT },
	{ "endswith", "suffix", 1, str_has_end, RIGHT },
	{ "replace", "old new count", 2, str_replace, 0 },
	{ "split", "sep maxsplit", 0, str_split, 0 },
	{ "format", "*", 0, str_format, 0 },
	{ NULL, "", 0, NULL, 0 },
};

/* --- filters --- */

static struct jval filter_replace(struct jinja *j, const struct jcall *c)
{
	struct jval old = jt_str(j, *c->arg[0]), by = jt_str(j, *c->arg[1]);
	struct jcall with = *c;

	with.self = jt_str(j, c->self);
	with.self.safe = false;
	with.arg[0] = &old;
	with.arg[1] = &by;
	return str_replace(j, &with);
}

/* Words begin after spaces, hyphens and opening brackets: not Python's own title(). */
static struct jval filter_title(struct jinja *j, const struct jcall *c)
{
	struct jstr s = jt_str(j, c->self).u.s;
	size_t mark = j->n_out;
	int32_t code;

	for (size_t i = 0, n; i < s.n; i += n) {
		for (n = 0; i + n < s.n;) {
			n += text_point(s.at + i + n, s.n - i - n, &code);
			if (jt_space(code) || (code > 0 && code < 0x80 && strchr("-({[<", code)))
				break;
		}
		jt_put(j, jt_case(j, jv_view(s.at + i, n).u.s, 'f'));
	}
	return jinja_cut(j, mark);
}

/* how: it is safe. */
static struct jval filter_string(struct jinja *j, const struct jcall *c)
{
	struct jval v = jt_str(j, c->self);

	v.safe |= c->how;
	return v;
}

static struct jval filter_default(struct jinja *j, const struct jcall *c)
{
	bool absent = c->self.type == J_UNDEF || (jv_is_on(c->arg[1]) && !jv_true(c->self));

	(void)j;
	return !absent ? c->self : c->arg[0] ? *c->arg[0] : jv_const("");
}

/* Bytes of the break of lines that stands there, one of Python's splitlines, or 0. */
static size_t line_break(const char *at, size_t left)
{
	int32_t c;
	size_t n = text_point(at, left, &c);

	if ((c < 10 || c > 13) && (c < 0x1c || c > 0x1e) && c != 0x85 && c != 0x2028 && c != 0x2029)
		return 0;
	return n + (c == '\r' && left > 1 && at[1] == '\n');
}

/* The first line is left as it is unless `first`; lines without text unless `blank`. */
static struct jval filter_indent(struct jinja *j, const struct jcall *c)
{
	struct jstr s = jv_text(j, c->self, "what is indented");
	bool first = jv_is_on(c->arg[1]), blank = jv_is_on(c->arg[2]);
	struct jval by = c->arg[0] ? *c->arg[0] : jv_of_int(4);
	size_t mark = j->n_out;

	if (by.type != J_STR)
		by = jinja_binary(j, OP_MUL, jv_const(" "), by);
	for (size_t i = 0, n, end = 1; end; i += n + end) {
		for (n = end = 0; i + n < s.n && !(end = line_break(s.at + i + n, s.n - i - n));)
			n++;
		if (i ? blank || n : first)
			jinja_put(j, by.u.s.at, by.u.s.n);
		jinja_put(j, s.at + i, n);
		if (end && i + n + end == s.n && s.at[s.n - 1] == '\r')
			break; /* Jinja adds a newline, and both are one break */
		jinja_puts(j, end ? "\n" : "");
	}
	return jinja_cut_as(j, mark, c->self);
}

/* The whole of a string as a number, blanks around it aside, or none. base 0: a float. */
static struct jval read_number(struct jinja *j, struct jstr s, int base)
{
	char text[310], *end = text;
	struct jval v;

	s = jt_strip(s, NULL, true, true);
	if (!s.n || s.n >= sizeof text || memchr(s.at, '\0', s.n))
		return jv_none();
	for (size_t i = 0; i < s.n; i++) /* "1_000" */
		if (s.at[i] != '_' || !i || i + 1 == s.n || text_hex(s.at[i - 1]) < 0 ||
			text_hex(s.at[i + 1]) < 0)
			*end++ = s.at[i];
	*end = '\0';
	if (base < 16 && strpbrk(text, "xXpPnN")) /* strtod takes more than Python */
		return jv_none();
	errno = 0;
	v = base ? jv_of_int(strtoll(text, &end, base)) : jv_of_float(strtod(text, &end));
	if (base && errno && !*end)
		jinja_fail(j, "%s is no integer of 64 bits", text);
	return *end ? jv_none() : v;
}

static struct jval filter_int(struct jinja *j, const struct jcall *c)
{
	struct jval none = c->arg[0] ? *c->arg[0] : jv_of_int(0), v = c->self;
	int64_t base = int_arg(j, c, 1, 10);

	if (v.type == J_UNDEF)
		jinja_undefined(j, v);
	if (v.type == J_STR && base != 10 && base != 16)
		jinja_fail(j, "of the bases of int only 10 and 16 are known");
	if (v.type == J_STR) {
		v = read_number(j, c->self.u.s, (int)base);
		if (v.type == J_NONE)
			v = read_number(j, c->self.u.s, 0);
	}
	if (v.type == J_FLOAT && v.u.f > -9e18 && v.u.f < 9e18)
		return jv_of_int((int64_t)v.u.f);
	return v.type == J_INT || v.type == J_BOOL ? jv_of_int(jv_int(j, v, "it")) : none;
}

const struct jbuiltin filters_text[] = {
	{ "upper", "", 0, str_case, 'u' },
	{ "lower", "", 0, str_case, 'l' },
	{ "capitalize", "", 0, str_case, 'c' },
	{ "title", "", 0, filter_title, 0 },
	{ "trim", "chars", 0, str_strip, LEFT | RIGHT },
	{ "replace", "old new count", 2, filter_replace, 0 },
	{ "string", "", 0, filter_string, false },
	{ "safe", "", 0, filter_string, true },
	{ "default", "default_value boolean", 0, filter_default, 0 },
	{ "d", "default_value boolean", 0, filter_default, 0 },
	{ "indent", "width first blank", 0, filter_indent, 0 },
	{ "int", "default base", 0, filter_int, 0 },
	{ "tojson", "ensure_ascii indent separators sort_keys", 0, filter_tojson, 0 },
	{ NULL, "", 0, NULL, 0 },
};
