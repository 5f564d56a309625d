/* Methods of dicts, and the filters that go through lists and dicts. */
#include "engine/text/jinja/jinja_private.h"

static struct jval list_of(struct jinja *j, struct jlist items, enum jlist_kind kind)
{
	struct jval v = jv_list(j, kind);

	*v.u.list = items;
	v.u.list->kind = kind;
	return v;
}

/* An attribute such as "function.name" or "0"; NULL: the value itself. */
static struct jval dotted(struct jinja *j, struct jval v, const struct jval *path)
{
	struct jstr s;

	if (!path || path->type == J_NONE)
		return v;
	if (path->type == J_INT)
		return jinja_attribute(j, v, *path, true);
	s = jv_text(j, *path, "an attribute");
	for (;;) {
		const char *dot = memchr(s.at, '.', s.n);
		size_t n = dot ? (size_t)(dot - s.at) : s.n;
		size_t digits = 0;

		while (digits < n && s.at[digits] >= '0' && s.at[digits] <= '9')
			digits++;

		struct jval name = n && n < 18 && digits == n ? jinja_number(j, s.at, n) : jv_view(s.at, n);

		v = jinja_attribute(j, v, name, true);
		if (!dot)
			return v;
		s.n -= n + 1;
		s.at += n + 1;
	}
}

static struct jval folded(struct jinja *j, struct jval v)
{
	return v.type == J_STR ? jt_case(j, v.u.s, 'l') : v;
}

/* --- dicts --- */

static struct jval dict_get(struct jinja *j, const struct jcall *c)
{
	const struct jval *v = jv_get(j, c->self.u.dict, *c->arg[0]);

	return v ? *v : c->arg[1] ? *c->arg[1] : jv_none();
}

static struct jval part_of(struct jinja *j, const struct jdict *d, enum jlist_kind kind)
{
	struct jval list = jv_list(j, kind);

	for (size_t i = 0; i < d->n; i++) {
		struct jval v = kind == LIST_KEYS ? d->at[i].key : d->at[i].value;

		if (kind == LIST_ITEMS) {
			v = jv_list(j, LIST_TUPLE);
			jv_add(j, v.u.list, d->at[i].key);
			jv_add(j, v.u.list, d->at[i].value);
		}
		jv_add(j, list.u.list, v);
	}
	return list;
}

static struct jval dict_part(struct jinja *j, const struct jcall *c)
{
	return part_of(j, c->self.u.dict, (enum jlist_kind)c->how);
}

const struct jbuiltin methods_dict[] = {
	{ "get", "key default", 1, dict_get, 0 },
	{ "keys", "", 0, dict_part, LIST_KEYS },
	{ "values", "", 0, dict_part, LIST_VALUES },
	{ "items", "", 0, dict_part, LIST_ITEMS },
	{ NULL, "", 0, NULL, 0 },
};

/* --- order --- */

struct keyed {
	struct jval key, v;
};

static void merge(struct jinja *j, const struct keyed *from, struct keyed *to, size_t a, size_t b,
	size_t end, bool reverse)
{
	size_t left = a, right = b;

	for (size_t i = a; i < end; i++) {
		bool take_left = left < b;

		if (left < b && right < end) {
			int order = jv_compare(j, from[right].key, from[left].key);

			take_left = reverse ? order == 2 || order <= 0 : order >= 0;
		}
		to[i] = take_left ? from[left++] : from[right++];
	}
}

/* Stable, as Python's; equal ones keep their order when reversed, too. */
static struct jlist sorted(
	struct jinja *j, struct jlist items, const struct jval *by, bool fold, bool reverse)
{
	struct keyed *k = jinja_alloc(j, items.n * sizeof *k),
				 *other = jinja_alloc(j, items.n * sizeof *k);
	struct jlist out = { 0 };

	for (size_t i = 0; i < items.n; i++) {
		struct jval key = dotted(j, items.at[i], by);

		k[i] = (struct keyed){ fold ? folded(j, key) : key, items.at[i] };
	}
	for (size_t width = 1; width < items.n; width *= 2) {
		for (size_t a = 0; a < items.n; a += 2 * width) {
			size_t b = a + width < items.n ? a + width : items.n,
				   end = b + width < items.n ? b + width : items.n;

			merge(j, k, other, a, b, end, reverse);
		}
		struct keyed *swap = k;

		k = other;
		other = swap;
	}
	for (size_t i = 0; i < items.n; i++)
		jv_add(j, &out, k[i].v);
	return out;
}

static struct jval filter_sort(struct jinja *j, const struct jcall *c)
{
	return list_of(j,
		sorted(j, jv_items(j, c->self), c->arg[2], !jv_is_on(c->arg[1]), jv_is_on(c->arg[0])),
		LIST_PLAIN);
}

static struct jval filter_items(struct jinja *j, const struct jcall *c)
{
	static const struct jdict none;
	struct jval v;

	if (c->self.type != J_UNDEF && c->self.type != J_DICT)
		jinja_fail(j, "%s has no pairs", jv_type(c->self));
	v = part_of(j, c->self.type == J_DICT ? c->self.u.dict : &none, LIST_ITEMS);
	v.u.list->kind = LIST_GENERATOR;
	return v;
}

static struct jval filter_dictsort(struct jinja *j, const struct jcall *c)
{
	struct jval by = jv_of_int(c->arg[1] && jstr_is(jv_text(j, *c->arg[1], "by"), "value"));

	if (c->self.type != J_DICT)
		jinja_fail(j, "%s cannot be sorted as a dict", jv_type(c->self));
	return list_of(j,
		sorted(j, *part_of(j, c->self.u.dict, LIST_ITEMS).u.list, &by, !jv_is_on(c->arg[0]),
			jv_is_on(c->arg[2])),
		LIST_PLAIN);
}

static struct jval filter_min(struct jinja *j, const struct jcall *c)
{
	struct jlist l = sorted(j, jv_items(j, c->self), c->arg[1], !jv_is_on(c->arg[0]), false);

	return l.n ? l.at[0] : jv_undef("the first of nothing");
}

static struct jval filter_unique(struct jinja *j, const struct jcall *c)
{
	struct jlist items = jv_items(j, c->self), out = { 0 };
	struct jval seen = jv_dict(j);

	for (size_t i = 0; i < items.n; i++) {
		struct jval key = dotted(j, items.at[i], c->arg[1]);

		key = jv_is_on(c->arg[0]) ? key : folded(j, key);
		if (jv_get(j, seen.u.dict, key))
			continue;
		jv_put(j, seen.u.dict, key, jv_none());
		jv_add(j, &out, items.at[i]);
	}
	return list_of(j, out, LIST_GENERATOR);
}

/* --- one value, or a list of another form --- */

/* how: the last, not the first. */
static struct jval filter_end(struct jinja *j, const struct jcall *c)
{
	struct jlist items = jv_items(j, c->self);

	if (c->how && c->self.type == J_LIST && items.kind == LIST_GENERATOR)
		jinja_fail(j, "a generator has no end to begin at");
	if (!items.n)
		return jv_undef(c->how ? "the last of nothing" : "the first of nothing");
	return items.at[c->how ? items.n - 1 : 0];
}

static struct jval filter_length(struct jinja *j, const struct jcall *c)
{
	return jv_of_int((int64_t)jv_length(j, c->self));
}

static struct jval filter_list(struct jinja *j, const struct jcall *c)
{
	return list_of(j, jv_items(j, c->self), LIST_PLAIN);
}

static struct jval filter_join(struct jinja *j, const struct jcall *c)
{
	struct jlist items = jv_items(j, c->self);
	size_t mark = j->n_out;

	for (size_t i = 0; i < items.n; i++) {
		if (i && c->arg[0])
			jt_put(j, *c->arg[0]);
		jt_put(j, dotted(j, items.at[i], c->arg[1]));
	}
	return jinja_cut(j, mark);
}

/* --- filters and tests given by their names --- */

static struct jargs rest_of(const struct jargs *a, size_t from)
{
	return (struct jargs){ .at = a->at + from, .n = a->n - from, .kw = a->kw, .n_kw = a->n_kw };
}

static struct jval map_attribute(struct jinja *j, const struct jargs *a, struct jlist items)
{
	const struct jval *none = NULL;
	struct jlist out = { 0 };

	for (size_t i = 1; i < a->n_kw; i++)
		if (!strcmp(a->kw[i].name, "default"))
			none = &a->kw[i].v;
	for (size_t i = 0; i < items.n; i++) {
		struct jval v = dotted(j, items.at[i], &a->kw[0].v);

		jv_add(j, &out, v.type == J_UNDEF && none ? *none : v);
	}
	return list_of(j, out, LIST_GENERATOR);
}

/* As in Jinja, where nothing, 0 and none are empty to map and select. */
static struct jlist items_if_any(struct jinja *j, struct jval v)
{
	return jv_items(j, jv_true(v) ? v : jv_undef(NULL));
}

/* The filter or the test of that name. */
static const struct jbuiltin *named(struct jinja *j, struct jval v, bool test)
{
	const struct jstr s = jv_text(j, v, "a name");
	const struct jbuiltin *f = test ? jinja_find(jinja_tests, s.at, s.n) : jinja_filter(s.at, s.n);

	if (!f)
		jinja_fail(j, "the %s '%.*s' is not known", test ? "test" : "filter",
			s.n > 60 ? 60 : (int)s.n, s.at);
	return f;
}

static struct jval filter_map(struct jinja *j, const struct jcall *c)
{
	struct jlist items = items_if_any(j, c->self), out = { 0 };
	const struct jbuiltin *f;
	struct jargs rest;

	if (!c->all->n && c->all->n_kw && !strcmp(c->all->kw[0].name, "attribute"))
		return map_attribute(j, c->all, items);
	if (!c->all->n)
		jinja_fail(j, "map needs a filter or attribute=");
	f = named(j, c->all->at[0], false);
	rest = rest_of(c->all, 1);
	for (size_t i = 0; i < items.n; i++)
		jv_add(j, &out, jinja_builtin(j, f, items.at[i], &rest));
	return list_of(j, out, LIST_GENERATOR);
}

enum { REJECT = 1, BY_ATTRIBUTE = 2 };

/* The values that pass a test, or those that do not; BY_ATTRIBUTE: a test of an attribute, the
 * first argument. */
static struct jval filter_choose(struct jinja *j, const struct jcall *c)
{
	const bool wanted = !(c->how & REJECT), by_attribute = c->how & BY_ATTRIBUTE;
	struct jlist items = items_if_any(j, c->self), out = { 0 };
	const struct jargs *a = c->all;
	const struct jbuiltin *f = NULL;
	struct jargs rest = { 0 };

	if (by_attribute && !a->n)
		jinja_fail(j, "it needs an attribute's name");
	if (a->n > by_attribute) {
		f = named(j, a->at[by_attribute], true);
		rest = rest_of(a, (size_t)by_attribute + 1);
	}
	for (size_t i = 0; i < items.n; i++) {
		struct jval v = dotted(j, items.at[i], by_attribute ? &a->at[0] : NULL);

		if (jv_true(f ? jinja_builtin(j, f, v, &rest) : v) == wanted)
			jv_add(j, &out, items.at[i]);
	}
	return list_of(j, out, LIST_GENERATOR);
}

const struct jbuiltin filters_list[] = {
	{ "count", "", 0, filter_length, 0 },
	{ "dictsort", "case_sensitive by reverse", 0, filter_dictsort, 0 },
	{ "first", "", 0, filter_end, false },
	{ "items", "", 0, filter_items, 0 },
	{ "join", "d attribute", 0, filter_join, 0 },
	{ "last", "", 0, filter_end, true },
	{ "length", "", 0, filter_length, 0 },
	{ "list", "", 0, filter_list, 0 },
	{ "map", "*", 0, filter_map, 0 },
	{ "min", "case_sensitive attribute", 0, filter_min, 0 },
	{ "reject", "*", 0, filter_choose, REJECT },
	{ "rejectattr", "*", 0, filter_choose, REJECT | BY_ATTRIBUTE },
	{ "select", "*", 0, filter_choose, 0 },
	{ "selectattr", "*", 0, filter_choose, BY_ATTRIBUTE },
	{ "sort", "reverse case_sensitive attribute", 0, filter_sort, 0 },
	{ "unique", "case_sensitive attribute", 0, filter_unique, 0 },
	{ NULL, "", 0, NULL, 0 },
};
