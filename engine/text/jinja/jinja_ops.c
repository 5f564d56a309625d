/* Operators, attributes, indices and slices, as Python has them. */
#include <math.h>

#include "engine/text/jinja/jinja_private.h"

/* --- strings --- */

/* Appends in place where a stands at the end of its buffer, so that text that is added to again and
 * again takes linear time. */
struct jval jinja_concat(struct jinja *j, struct jstr a, struct jstr b)
{
	struct jgrow *g = a.grow;

	jinja_step(j, b.n / 64);
	if (!b.n)
		return (struct jval){ .type = J_STR, .u.s = a };
	if (a.n + b.n > j->o.bytes)
		jinja_fail(j, "it needs more than %zu bytes of memory", j->o.bytes);
	if (!g || a.at + a.n != g->data + g->fill || g->cap - g->fill < b.n) {
		size_t cap = (a.n + b.n) * (g ? 2 : 1);

		jinja_step(j, a.n / 64);
		g = jinja_alloc(j, sizeof *g + cap);
		g->cap = cap;
		g->fill = a.n;
		if (a.n)
			memcpy(g->data, a.at, a.n);
		a.at = g->data;
	}
	memcpy(g->data + g->fill, b.at, b.n);
	g->fill += b.n;
	return (struct jval){ .type = J_STR, .u.s = { a.at, a.n + b.n, g } };
}

struct jval jinja_escaped(struct jinja *j, struct jval v)
{
	size_t mark = j->n_out;

	if (v.safe)
		return v;
	jt_put_escaped(j, v.u.s);
	return jinja_cut(j, mark);
}

static struct jval add_strings(struct jinja *j, struct jval a, struct jval b)
{
	bool safe = a.safe || b.safe;
	struct jval v;

	if (safe) {
		a = jinja_escaped(j, a);
		b = jinja_escaped(j, b);
	}
	v = jinja_concat(j, a.u.s, b.u.s);
	v.safe = safe;
	return v;
}

static struct jval repeat(struct jinja *j, struct jval of, int64_t times)
{
	size_t mark = j->n_out;

	for (int64_t i = 0; i < times && of.u.s.n; i++) {
		jinja_step(j, 1);
		jinja_put(j, of.u.s.at, of.u.s.n);
	}
	return jinja_cut_as(j, mark, of);
}

static struct jval add_lists(struct jinja *j, const struct jlist *a, const struct jlist *b)
{
	struct jval list = jv_list(j, a->kind);

	for (size_t i = 0; i < a->n; i++)
		jv_add(j, list.u.list, a->at[i]);
	for (size_t i = 0; i < b->n; i++)
		jv_add(j, list.u.list, b->at[i]);
	return list;
}

/* --- numbers --- */

static struct jval on_integers(struct jinja *j, enum jop op, int64_t a, int64_t b)
{
	int64_t x = 0;
	bool over = false;

	if (!b && (op == OP_DIV || op == OP_FLOOR || op == OP_MOD))
		jinja_fail(j, "division by zero");
	switch (op) {
	case OP_ADD: over = __builtin_add_overflow(a, b, &x); break;
	case OP_SUB: over = __builtin_sub_overflow(a, b, &x); break;
	case OP_MUL: over = __builtin_mul_overflow(a, b, &x); break;
	case OP_DIV: return jv_of_float((double)a / (double)b);
	case OP_FLOOR:
		over = a == INT64_MIN && b == -1;
		x = over ? 0 : a / b - (a % b && (a < 0) != (b < 0));
		break;
	case OP_MOD:
		x = b == -1 ? 0 : a % b;
		x += x && (x < 0) != (b < 0) ? b : 0;
		break;
	default: break;
	}
	if (over)
		jinja_fail(j, "an integer is larger than 64 bits");
	return jv_of_int(x);
}

static struct jval on_floats(struct jinja *j, enum jop op, double a, double b)
{
	double m, div;

	if (b == 0 && (op == OP_DIV || op == OP_FLOOR || op == OP_MOD))
		jinja_fail(j, "division by zero");
	switch (op) {
	case OP_ADD: return jv_of_float(a + b);
	case OP_SUB: return jv_of_float(a - b);
	case OP_MUL: return jv_of_float(a * b);
	case OP_DIV: return jv_of_float(a / b);
	default: break;
	}
	m = fmod(a, b); /* as CPython's float_divmod */
	div = (a - m) / b - (m && (m < 0) != (b < 0));
	m = !m ? copysign(0, b) : (m < 0) != (b < 0) ? m + b : m;
	if (op == OP_MOD)
		return jv_of_float(m);
	return jv_of_float(div ? floor(div) + (div - floor(div) > 0.5) : copysign(0, a / b));
}

static bool indexed(struct jval v)
{
	return v.type == J_STR || (v.type == J_LIST && v.u.list->kind <= LIST_RANGE);
}

struct jval jinja_binary(struct jinja *j, enum jop op, struct jval a, struct jval b)
{
	static const char *const sign[] = { "+", "-", "*", "/", "//", "%" };

	if (jv_number(a) && jv_number(b)) {
		if (a.type == J_FLOAT || b.type == J_FLOAT)
			return on_floats(j, op, jv_double(a), jv_double(b));
		return on_integers(j, op, jv_int(j, a, "it"), jv_int(j, b, "it"));
	}
	if (op == OP_ADD && a.type == J_STR && b.type == J_STR)
		return add_strings(j, a, b);
	if (op == OP_ADD && a.type == J_LIST && b.type == J_LIST && a.u.list->kind == b.u.list->kind &&
		a.u.list->kind <= LIST_TUPLE)
		return add_lists(j, a.u.list, b.u.list);
	if (op == OP_MUL && b.type == J_STR && (a.type == J_INT || a.type == J_BOOL))
		return jinja_binary(j, op, b, a);
	if (op == OP_MUL && a.type == J_STR && (b.type == J_INT || b.type == J_BOOL))
		return repeat(j, a, jv_int(j, b, "it"));
	if (a.type == J_UNDEF || b.type == J_UNDEF)
		jinja_undefined(j, a.type == J_UNDEF ? a : b);
	jinja_fail(j, "%s %s %s is not possible", jv_type(a), sign[op], jv_type(b));
}

bool jinja_relation(struct jinja *j, enum jop op, struct jval a, struct jval b)
{
	int order;

	switch (op) {
	case OP_EQ: return jv_equal(j, a, b);
	case OP_NE: return !jv_equal(j, a, b);
	case OP_IN: return jv_contains(j, b, a);
	case OP_NOT_IN: return !jv_contains(j, b, a);
	default: break;
	}
	order = jv_compare(j, a, b);
	return order != 2 && (op == OP_LT      ? order < 0
							 : op == OP_LE ? order <= 0
							 : op == OP_GT ? order > 0
										   : order >= 0);
}

/* --- attributes and indices --- */

static const struct jbuiltin *method_of(struct jval v, struct jstr name)
{
	const struct jbuiltin *of = v.type == J_STR    ? methods_str
								: v.type == J_DICT ? methods_dict
												   : NULL;

	return of ? jinja_find(of, name.at, name.n) : NULL;
}

static struct jval loop_attribute(struct jinja *j, struct jloop *l, struct jstr name)
{
	if (text_word("last nextitem", ' ', name.at, name.n) >= 0)
		jinja_loop_has(j, l, l->i + 1);
	else if (text_word("length revindex revindex0", ' ', name.at, name.n) >= 0)
		jinja_loop_has(j, l, SIZE_MAX);

	int64_t i = (int64_t)l->i, n = (int64_t)l->items.n;
	const struct {
		const char *name;
		struct jval v;
	} all[] = {
		{ "index", jv_of_int(i + 1) },
		{ "index0", jv_of_int(i) },
		{ "revindex", jv_of_int(n - i) },
		{ "revindex0", jv_of_int(n - i - 1) },
		{ "first", jv_bool(!i) },
		{ "last", jv_bool(i == n - 1) },
		{ "length", jv_of_int(n) },
		{ "depth", jv_of_int(1) }, /* of loops that call themselves, which are not known */
		{ "depth0", jv_of_int(0) },
		{ "previtem", i ? l->items.at[i - 1] : jv_undef("there is no previous item") },
		{ "nextitem", i + 1 < n ? l->items.at[i + 1] : jv_undef("there is no next item") },
	};

	for (size_t k = 0; k < sizeof all / sizeof *all; k++)
		if (jstr_is(name, all[k].name))
			return all[k].v;
	return jv_undef(jinja_intern(j, name.at, name.n));
}

static struct jval method_value(struct jinja *j, struct jval self, const struct jbuiltin *f)
{
	struct jmethod *m = jinja_alloc(j, sizeof *m);

	*m = (struct jmethod){ self, f };
	return (struct jval){ .type = J_METHOD, .u.method = m };
}

static struct jval at_index(struct jinja *j, struct jval v, struct jval index)
{
	int64_t i;

	if (v.type == J_STR) {
		size_t from, n = jv_length(j, v);
		int32_t c;

		if ((i = jv_index(j, index, n)) < 0)
			return jv_undef("a character that a string does not have");
		jinja_step(j, v.u.s.n / 16); /* gone through again, after its length */
		from = jt_offset(v.u.s, (size_t)i);
		return jv_view(v.u.s.at + from, text_point(v.u.s.at + from, v.u.s.n - from, &c));
	}
	if (indexed(v) && (i = jv_index(j, index, v.u.list->n)) >= 0)
		return v.u.list->at[i];
	return jv_undef("an element that is not there");
}

/* item: v[name], where a dict's own keys come before its methods; else v.name. */
struct jval jinja_attribute(struct jinja *j, struct jval v, struct jval name, bool item)
{
	const struct jval *own = NULL;
	const struct jbuiltin *f = NULL;

	if (v.type == J_UNDEF)
		jinja_undefined(j, v);
	if (v.type == J_SPACE || (v.type == J_DICT && name.type != J_DICT &&
								 !(name.type == J_LIST && name.u.list->kind != LIST_TUPLE)))
		own = jv_get(j, v.u.dict, name);
	if (name.type == J_STR && v.type == J_LOOP)
		return loop_attribute(j, v.u.loop, name.u.s);
	if (name.type == J_STR)
		f = method_of(v, name.u.s);
	if (own && (item || !f))
		return *own;
	if (f)
		return method_value(j, v, f);
	if (name.type == J_INT || name.type == J_BOOL)
		return at_index(j, v, name);
	return jv_undef(name.type == J_STR ? jinja_intern(j, name.u.s.at, name.u.s.n) : NULL);
}

static int64_t bound(
	struct jinja *j, struct jval v, int64_t n, int64_t none, int64_t low, int64_t high)
{
	int64_t i;

	if (v.type == J_NONE)
		return none;
	i = jv_int(j, v, "a bound of a slice");
	if (i < 0)
		i = i < -n ? low : i + n;
	return i < low ? low : i > high ? high : i;
}

struct jval jinja_slice(struct jinja *j, struct jval v, const struct jval *part)
{
	int64_t step = part[2].type == J_NONE ? 1 : jv_int(j, part[2], "the step of a slice");
	struct jval list = jv_list(j, LIST_PLAIN);
	struct jlist all;
	size_t mark = j->n_out;

	if (v.type == J_UNDEF)
		jinja_undefined(j, v);
	if (!indexed(v))
		return jv_undef("a slice of what has none");
	if (!step)
		jinja_fail(j, "the step of a slice is 0");
	all = jv_items(j, v);
	list.u.list->kind = all.kind;

	int64_t n = (int64_t)all.n, low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n,
			i = bound(j, part[0], n, step < 0 ? high : low, low, high),
			end = bound(j, part[1], n, step < 0 ? low : high, low, high);

	while (step < 0 ? i > end : i < end) {
		jv_add(j, list.u.list, all.at[i]);
		if (step > n || step < -n)
			break;
		i += step;
	}
	if (v.type != J_STR)
		return list;
	for (size_t k = 0; k < list.u.list->n; k++)
		jinja_put(j, list.u.list->at[k].u.s.at, list.u.list->at[k].u.s.n);
	return jinja_cut_as(j, mark, v);
}
