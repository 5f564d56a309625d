/* Methods of strings, lists, dicts and loops: those that change nothing. */
#include <stdlib.h>
#include <utf8proc.h>

#include "engine/text/jinja/jinja_private.h"

static struct jval part(struct jstr s, size_t from, size_t to)
{
	s.at += from;
	s.n = to - from;
	s.grow = NULL;
	return (struct jval){ .type = J_STR, .u.s = s };
}

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

/* ß alone becomes two letters; other such letters stay as Unicode's simple mapping has them. */
static void put_upper(struct jinja *j, int32_t c)
{
	if (c == 0xdf)
		jinja_puts(j, "SS");
	else
		jt_put_char(j, utf8proc_toupper(c));
}

/* upper: of the first letter of each word (title) or of the text alone, or of all. */
static struct jval change_case(struct jinja *j, struct jstr s, char how)
{
	size_t mark = j->n_out;
	bool inside = false;
	int32_t c;

	for (size_t i = 0, n; i < s.n; i += n) {
		n = jt_next(s.at + i, s.n - i, &c);
		jinja_step(j, 1);
		if (c < 0)
			jinja_put(j, s.at + i, n);
		else if (how == 'u' || ((how == 't' || how == 'c') && !inside) ||
				 (how == 's' && utf8proc_islower(c)))
			put_upper(j, c);
		else
			jt_put_char(j, utf8proc_tolower(c));
		inside = how == 'c' || cased(c);
	}
	return jinja_cut(j, mark);
}

static struct jval str_upper(struct jinja *j, const struct jcall *c)
{
	return change_case(j, c->self.u.s, 'u');
}

static struct jval str_lower(struct jinja *j, const struct jcall *c)
{
	return change_case(j, c->self.u.s, 'l');
}

static struct jval str_title(struct jinja *j, const struct jcall *c)
{
	return change_case(j, c->self.u.s, 't');
}

static struct jval str_capitalize(struct jinja *j, const struct jcall *c)
{
	return change_case(j, c->self.u.s, 'c');
}

static struct jval str_swapcase(struct jinja *j, const struct jcall *c)
{
	return change_case(j, c->self.u.s, 's');
}

/* --- ends --- */

static struct jval strip(struct jinja *j, const struct jcall *c, bool left, bool right)
{
	const struct jval *chars = c->arg[0] && c->arg[0]->type != J_NONE ? c->arg[0] : NULL;
	struct jval v = { .type = J_STR, .safe = c->self.safe };

	if (chars)
		text_arg(j, c, 0);
	v.u.s = jt_strip(c->self.u.s, chars, left, right);
	return v;
}

static struct jval str_strip(struct jinja *j, const struct jcall *c)
{
	return strip(j, c, true, true);
}

static struct jval str_lstrip(struct jinja *j, const struct jcall *c)
{
	return strip(j, c, true, false);
}

static struct jval str_rstrip(struct jinja *j, const struct jcall *c)
{
	return strip(j, c, false, true);
}

static bool has_end(struct jstr s, struct jstr end, bool first)
{
	return end.n <= s.n && !memcmp(first ? s.at : s.at + s.n - end.n, end.at, end.n);
}

static struct jval any_end(struct jinja *j, const struct jcall *c, bool first)
{
	if (c->arg[0]->type != J_LIST)
		return jv_bool(has_end(c->self.u.s, text_arg(j, c, 0), first));
	for (size_t i = 0; i < c->arg[0]->u.list->n; i++)
		if (has_end(c->self.u.s, jv_text(j, c->arg[0]->u.list->at[i], "a prefix"), first))
			return jv_bool(true);
	return jv_bool(false);
}

static struct jval str_startswith(struct jinja *j, const struct jcall *c)
{
	return any_end(j, c, true);
}

static struct jval str_endswith(struct jinja *j, const struct jcall *c)
{
	return any_end(j, c, false);
}

static struct jval str_removeprefix(struct jinja *j, const struct jcall *c)
{
	struct jstr s = c->self.u.s, end = text_arg(j, c, 0);

	return part(s, has_end(s, end, true) ? end.n : 0, s.n);
}

static struct jval str_removesuffix(struct jinja *j, const struct jcall *c)
{
	struct jstr s = c->self.u.s, end = text_arg(j, c, 0);

	return part(s, 0, has_end(s, end, false) ? s.n - end.n : s.n);
}

/* --- searching --- */

static size_t count_of(struct jinja *j, struct jstr s, struct jstr what)
{
	size_t n = 0;

	if (!what.n)
		return jt_length(s) + 1;
	for (const char *at; (at = memmem(s.at, s.n, what.at, what.n)); n++) {
		jinja_step(j, 1);
		s.n -= (size_t)(at - s.at) + what.n;
		s.at = at + what.n;
	}
	return n;
}

static struct jval str_count(struct jinja *j, const struct jcall *c)
{
	return jv_of_int((int64_t)count_of(j, c->self.u.s, text_arg(j, c, 0)));
}

static struct jval str_find(struct jinja *j, const struct jcall *c)
{
	struct jstr s = c->self.u.s, what = text_arg(j, c, 0);
	const char *at = memmem(s.at, s.n, what.at, what.n);

	s.n = at ? (size_t)(at - s.at) : 0;
	return jv_of_int(at ? (int64_t)jt_length(s) : -1);
}

static const char *last_of(struct jstr s, struct jstr what)
{
	for (size_t i = s.n + 1; i-- > 0;)
		if (s.n - i >= what.n && !memcmp(s.at + i, what.at, what.n))
			return s.at + i;
	return NULL;
}

static struct jval str_rfind(struct jinja *j, const struct jcall *c)
{
	struct jstr s = c->self.u.s;
	const char *at = last_of(s, text_arg(j, c, 0));

	jinja_step(j, s.n / 4);
	s.n = at ? (size_t)(at - s.at) : 0;
	return jv_of_int(at ? (int64_t)jt_length(s) : -1);
}

static struct jval str_index(struct jinja *j, const struct jcall *c)
{
	struct jval at = str_find(j, c);

	if (at.u.i < 0)
		jinja_fail(j, "a text that index() looks for is not there");
	return at;
}

static struct jval str_replace(struct jinja *j, const struct jcall *c)
{
	struct jstr s = c->self.u.s, old = text_arg(j, c, 0), by = text_arg(j, c, 1);
	int64_t most = int_arg(j, c, 2, -1);
	size_t mark = j->n_out;
	int32_t code;

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
				return jinja_cut(j, mark);
			used = jt_next(s.at, s.n, &code);
			jinja_put(j, s.at, used);
		}
		s.at += used;
		s.n -= used;
	}
	jinja_put(j, s.at, s.n);
	return jinja_cut(j, mark);
}

/* --- splitting and joining --- */

static void split_at(
	struct jinja *j, struct jlist *out, struct jstr s, struct jstr by, int64_t most)
{
	for (const char *at; most && (at = memmem(s.at, s.n, by.at, by.n)); most--) {
		jv_add(j, out, part(s, 0, (size_t)(at - s.at)));
		s.n -= (size_t)(at - s.at) + by.n;
		s.at = at + by.n;
	}
	jv_add(j, out, part(s, 0, s.n));
}

static void split_space(struct jinja *j, struct jlist *out, struct jstr s, int64_t most)
{
	int32_t c;

	for (s = jt_strip(s, NULL, true, false); s.n; most--) {
		size_t n = 0, used = 0;

		while (most && n < s.n && (used = jt_next(s.at + n, s.n - n, &c)) && !jt_space(c))
			n += used;
		if (!most)
			n = s.n;
		jv_add(j, out, part(s, 0, n));
		if (!most)
			return;
		s = jt_strip(part(s, n, s.n).u.s, NULL, true, false);
	}
}

static void reverse(struct jlist *l)
{
	for (size_t i = 0; i < l->n / 2; i++) {
		struct jval v = l->at[i];

		l->at[i] = l->at[l->n - 1 - i];
		l->at[l->n - 1 - i] = v;
	}
}

static struct jval str_split(struct jinja *j, const struct jcall *c)
{
	struct jval list = jv_list(j, LIST_PLAIN);
	int64_t most = int_arg(j, c, 1, -1);

	if (!c->arg[0] || c->arg[0]->type == J_NONE) {
		split_space(j, list.u.list, c->self.u.s, most);
		return list;
	}
	if (!text_arg(j, c, 0).n)
		jinja_fail(j, "an empty text separates nothing");
	split_at(j, list.u.list, c->self.u.s, text_arg(j, c, 0), most);
	return list;
}

static struct jval str_rsplit(struct jinja *j, const struct jcall *c)
{
	struct jstr s = c->self.u.s, by;
	struct jval list = jv_list(j, LIST_PLAIN);
	int64_t most = int_arg(j, c, 1, -1);
	const char *at;

	if (most < 0)
		return str_split(j, c);
	if (!c->arg[0] || c->arg[0]->type == J_NONE)
		jinja_fail(j, "rsplit at white space with a limit is not supported");
	by = text_arg(j, c, 0);
	if (!by.n)
		jinja_fail(j, "an empty text separates nothing");
	for (; most && (at = last_of(s, by)); most--) {
		jinja_step(j, s.n / 16);
		jv_add(j, list.u.list, part(s, (size_t)(at - s.at) + by.n, s.n));
		s.n = (size_t)(at - s.at);
	}
	jv_add(j, list.u.list, part(s, 0, s.n));
	reverse(list.u.list);
	return list;
}

static bool ends_line(int32_t c)
{
	return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
		   c == 0x2029;
}

static struct jval str_splitlines(struct jinja *j, const struct jcall *c)
{
	struct jstr s = c->self.u.s;
	struct jval list = jv_list(j, LIST_PLAIN);
	bool keep = c->arg[0] && jv_true(*c->arg[0]);
	int32_t code;

	for (size_t i = 0, from = 0; i < s.n; from = i) {
		size_t end = i, used = 0;

		while (end < s.n && (used = jt_next(s.at + end, s.n - end, &code)) && !ends_line(code))
			end += used;
		i = end + (end < s.n ? used : 0);
		if (end + 1 < s.n && s.at[end] == '\r' && s.at[end + 1] == '\n')
			i++;
		jv_add(j, list.u.list, part(s, from, keep ? i : end));
	}
	return list;
}

static struct jval partition(struct jinja *j, const struct jcall *c, bool last)
{
	struct jstr s = c->self.u.s, by = text_arg(j, c, 0);
	const char *at = last ? last_of(s, by) : memmem(s.at, s.n, by.at, by.n);
	size_t n = at ? (size_t)(at - s.at) : s.n;
	struct jval list = jv_list(j, LIST_TUPLE);

	jinja_step(j, s.n / 4);
	if (!at && last) {
		jv_add(j, list.u.list, jv_const(""));
		jv_add(j, list.u.list, jv_const(""));
	}
	jv_add(j, list.u.list, part(s, 0, n));
	if (at || !last) {
		jv_add(j, list.u.list, at ? part(s, n, n + by.n) : jv_const(""));
		jv_add(j, list.u.list, at ? part(s, n + by.n, s.n) : jv_const(""));
	}
	return list;
}

static struct jval str_partition(struct jinja *j, const struct jcall *c)
{
	return partition(j, c, false);
}

static struct jval str_rpartition(struct jinja *j, const struct jcall *c)
{
	return partition(j, c, true);
}

static struct jval str_join(struct jinja *j, const struct jcall *c)
{
	struct jlist items = jv_items(j, *c->arg[0]);
	size_t mark = j->n_out;

	for (size_t i = 0; i < items.n; i++) {
		struct jstr s = jv_text(j, items.at[i], "what is joined");

		if (i)
			jinja_put(j, c->self.u.s.at, c->self.u.s.n);
		jinja_put(j, s.at, s.n);
	}
	return jinja_cut(j, mark);
}

static struct jval str_format(struct jinja *j, const struct jcall *c)
{
	return jinja_braces(j, c->self.u.s, c->all);
}

/* --- kinds of characters --- */

/* All characters, one at least, are of categories from `from` to `to`. */
static struct jval all_between(struct jstr s, int from, int to, int also_from, int also_to)
{
	int32_t c;

	for (size_t i = 0; i < s.n;) {
		i += jt_next(s.at + i, s.n - i, &c);
		int k = c < 0 ? -1 : (int)utf8proc_category(c);

		if (!((k >= from && k <= to) || (k >= also_from && k <= also_to)))
			return jv_bool(false);
	}
	return jv_bool(s.n);
}

static struct jval str_isalpha(struct jinja *j, const struct jcall *c)
{
	(void)j;
	return all_between(c->self.u.s, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO, -2, -2);
}

static struct jval str_isdigit(struct jinja *j, const struct jcall *c)
{
	(void)j;
	return all_between(c->self.u.s, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_ND, -2, -2);
}

static struct jval str_isalnum(struct jinja *j, const struct jcall *c)
{
	(void)j;
	return all_between(c->self.u.s, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO,
		UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

static struct jval str_isspace(struct jinja *j, const struct jcall *c)
{
	(void)j;
	return jv_bool(c->self.u.s.n && !jt_strip(c->self.u.s, NULL, true, false).n);
}

static struct jval str_islower(struct jinja *j, const struct jcall *c)
{
	return jinja_find(jinja_tests, "lower", 5)->call(j, c);
}

static struct jval str_isupper(struct jinja *j, const struct jcall *c)
{
	return jinja_find(jinja_tests, "upper", 5)->call(j, c);
}

const struct jbuiltin methods_str[] = {
	{ "upper", "", 0, str_upper },
	{ "lower", "", 0, str_lower },
	{ "title", "", 0, str_title },
	{ "capitalize", "", 0, str_capitalize },
	{ "swapcase", "", 0, str_swapcase },
	{ "strip", "chars", 0, str_strip },
	{ "lstrip", "chars", 0, str_lstrip },
	{ "rstrip", "chars", 0, str_rstrip },
	{ "startswith", "prefix", 1, str_startswith },
	{ "endswith", "suffix", 1, str_endswith },
	{ "removeprefix", "prefix", 1, str_removeprefix },
	{ "removesuffix", "suffix", 1, str_removesuffix },
	{ "count", "sub", 1, str_count },
	{ "find", "sub", 1, str_find },
	{ "rfind", "sub", 1, str_rfind },
	{ "index", "sub", 1, str_index },
	{ "replace", "old new count", 2, str_replace },
	{ "split", "sep maxsplit", 0, str_split },
	{ "rsplit", "sep maxsplit", 0, str_rsplit },
	{ "splitlines", "keepends", 0, str_splitlines },
	{ "partition", "sep", 1, str_partition },
	{ "rpartition", "sep", 1, str_rpartition },
	{ "join", "iterable", 1, str_join },
	{ "format", "*", 0, str_format },
	{ "isalpha", "", 0, str_isalpha },
	{ "isdigit", "", 0, str_isdigit },
	{ "isalnum", "", 0, str_isalnum },
	{ "isspace", "", 0, str_isspace },
	{ "islower", "", 0, str_islower },
	{ "isupper", "", 0, str_isupper },
	{ NULL, "", 0, NULL },
};
