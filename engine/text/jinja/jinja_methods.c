/* Methods of strings and dicts: those that change nothing. */
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
		else if (how == 'u' || ((how == 't' || how == 'c') && !inside))
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

/* --- parts --- */

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

/* Of Python's fields only {}. */
static struct jval str_format(struct jinja *j, const struct jcall *c)
{
	struct jstr s = c->self.u.s;
	size_t mark = j->n_out, next = 0;

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
	{ "upper", "", 0, str_upper },
	{ "lower", "", 0, str_lower },
	{ "title", "", 0, str_title },
	{ "capitalize", "", 0, str_capitalize },
	{ "strip", "chars", 0, str_strip },
	{ "lstrip", "chars", 0, str_lstrip },
	{ "rstrip", "chars", 0, str_rstrip },
	{ "startswith", "prefix", 1, str_startswith },
	{ "endswith", "suffix", 1, str_endswith },
	{ "replace", "old new count", 2, str_replace },
	{ "split", "sep maxsplit", 0, str_split },
	{ "format", "*", 0, str_format },
	{ NULL, "", 0, NULL },
};

/* --- dicts --- */

static struct jval dict_get(struct jinja *j, const struct jcall *c)
{
	const struct jval *v = jv_get(j, c->self.u.dict, *c->arg[0]);

	return v ? *v : c->arg[1] ? *c->arg[1] : jv_none();
}

static struct jval dict_keys(struct jinja *j, const struct jcall *c)
{
	struct jval list = jv_list(j, LIST_VIEW);

	*list.u.list = jv_items(j, c->self);
	list.u.list->kind = LIST_VIEW;
	return list;
}

static struct jval dict_values(struct jinja *j, const struct jcall *c)
{
	struct jval list = jv_list(j, LIST_VIEW);

	for (size_t i = 0; i < c->self.u.dict->n; i++)
		jv_add(j, list.u.list, c->self.u.dict->at[i].value);
	return list;
}

static struct jval dict_items(struct jinja *j, const struct jcall *c)
{
	struct jval list = jv_list(j, LIST_VIEW);

	for (size_t i = 0; i < c->self.u.dict->n; i++) {
		struct jval pair = jv_list(j, LIST_TUPLE);

		jv_add(j, pair.u.list, c->self.u.dict->at[i].key);
		jv_add(j, pair.u.list, c->self.u.dict->at[i].value);
		jv_add(j, list.u.list, pair);
	}
	return list;
}

const struct jbuiltin methods_dict[] = {
	{ "get", "key default", 1, dict_get },
	{ "keys", "", 0, dict_keys },
	{ "values", "", 0, dict_values },
	{ "items", "", 0, dict_items },
	{ NULL, "", 0, NULL },
};
