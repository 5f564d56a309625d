/* Memory, errors, output and values of the interpreter. See jinja_private.h. */
#include <stdarg.h>
#include <stdio.h>

#include "base/array.h"
#include "engine/text/jinja/jinja_private.h"

void jinja_fail(struct jinja *j, const char *fmt, ...)
{
	char text[400];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	if (!strncmp(text, "the template refuses", 20))
		err_set(j->err, ERR_INPUT, "%s", text);
	else
		err_set(j->err, ERR_INPUT, "line %d of the template: %s", j->line, text);
	longjmp(j->home, 1);
}

void jinja_no_memory(struct jinja *j)
{
	err_no_memory(j->err, "a chat template");
	longjmp(j->home, 1);
}

void jinja_undefined(struct jinja *j, struct jval v)
{
	jinja_fail(j, "'%s' is undefined", v.u.what ? v.u.what : "it");
}

void *jinja_alloc(struct jinja *j, size_t size)
{
	struct jchunk *c = j->chunk;
	size_t need = (size + 15) & ~(size_t)15, cap = need > 65536 ? need : 65536;

	if (size > j->o.bytes || (!(c && c->cap - c->used >= need) && j->bytes + cap > j->o.bytes))
		jinja_fail(j, "it needs more than %zu bytes of memory", j->o.bytes);
	if (!c || c->cap - c->used < need) {
		c = malloc(sizeof *c + cap);
		if (!c)
			jinja_no_memory(j);
		*c = (struct jchunk){ j->chunk, 0, cap };
		j->chunk = c;
		j->bytes += cap;
	}
	c->used += need;
	return memset(c->data + c->used - need, 0, need);
}

void jinja_release(struct jinja *j, struct jchunk *until, size_t used)
{
	while (j->chunk != until) {
		struct jchunk *before = j->chunk->before;

		j->bytes -= j->chunk->cap;
		free(j->chunk);
		j->chunk = before;
	}
	if (until)
		until->used = used;
}

void jinja_step(struct jinja *j, size_t n)
{
	j->steps += n;
	if (j->steps > j->o.steps)
		jinja_fail(j, "it does not end within %llu steps", (unsigned long long)j->o.steps);
}

void jinja_deeper(struct jinja *j)
{
	if (++j->depth > j->o.depth)
		jinja_fail(j, "it is nested deeper than %d levels", j->o.depth);
}

const char *jinja_intern(struct jinja *j, const char *text, size_t size)
{
	uint32_t hash = 2166136261u;
	struct jname *n;

	jinja_step(j, size / 16);
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (uint8_t)text[i]) * 16777619u;
	for (n = j->names[hash & 255]; n; n = n->next) {
		jinja_step(j, 1);
		if (n->n == size && !memcmp(n->text, text, size))
			return n->text;
	}
	n = jinja_alloc(j, sizeof *n + size + 1);
	n->n = size;
	memcpy(n->text, text, size);
	n->next = j->names[hash & 255];
	j->names[hash & 255] = n;
	return n->text;
}

/* --- output --- */

void jinja_put(struct jinja *j, const char *text, size_t size)
{
	if (size > j->o.output || j->n_out + size > j->o.output)
		jinja_fail(j, "its text is longer than %zu bytes", j->o.output);
	if (!ARRAY_ROOM(j->out, j->cap_out, j->n_out + size + 1))
		jinja_no_memory(j);
	if (size)
		memcpy(j->out + j->n_out, text, size);
	j->n_out += size;
	jinja_step(j, size / 64);
}

void jinja_puts(struct jinja *j, const char *text)
{
	jinja_put(j, text, strlen(text));
}

struct jval jinja_cut(struct jinja *j, size_t mark)
{
	struct jval v = jv_str(j, j->out ? j->out + mark : "", j->n_out - mark);

	j->n_out = mark;
	return v;
}

struct jval jinja_cut_as(struct jinja *j, size_t mark, struct jval of)
{
	struct jval v = jinja_cut(j, mark);

	v.safe = of.safe;
	return v;
}

/* --- values --- */

struct jval jv_str(struct jinja *j, const char *text, size_t size)
{
	char *copy = jinja_alloc(j, size);

	jinja_step(j, size / 64);
	if (size)
		memcpy(copy, text, size);
	return jv_view(copy, size);
}

struct jval jv_list(struct jinja *j, enum jlist_kind kind)
{
	struct jval v = { .type = J_LIST, .u.list = jinja_alloc(j, sizeof(struct jlist)) };

	v.u.list->kind = kind;
	return v;
}

struct jval jv_dict(struct jinja *j)
{
	return (struct jval){ .type = J_DICT, .u.dict = jinja_alloc(j, sizeof(struct jdict)) };
}

/* Room for one more in an array of the arena: a larger copy. */
static void *room(struct jinja *j, void *at, size_t n, size_t *cap, size_t each)
{
	void *more;

	jinja_step(j, 1);
	if (n < *cap)
		return at;
	*cap = *cap ? 2 * *cap : 4;
	more = jinja_alloc(j, *cap * each);
	if (n)
		memcpy(more, at, n * each);
	return more;
}

void jv_add(struct jinja *j, struct jlist *l, struct jval v)
{
	l->at = room(j, l->at, l->n, &l->cap, sizeof *l->at);
	l->at[l->n++] = v;
}

const struct jval *jv_get(struct jinja *j, const struct jdict *d, struct jval key)
{
	if (key.type == J_LIST && key.u.list->kind != LIST_TUPLE)
		jinja_fail(j, "a list cannot be a key");
	if (key.type == J_DICT)
		jinja_fail(j, "a dict cannot be a key");
	for (size_t i = 0; i < d->n; i++)
		if (jv_equal(j, d->at[i].key, key))
			return &d->at[i].value;
	return NULL;
}

void jv_put(struct jinja *j, struct jdict *d, struct jval key, struct jval v)
{
	struct jval *there = (struct jval *)jv_get(j, d, key);

	if (there) {
		*there = v;
		return;
	}
	d->at = room(j, d->at, d->n, &d->cap, sizeof *d->at);
	d->at[d->n++] = (struct jpair){ key, v };
}

const char *jv_type(struct jval v)
{
	static const char *const name[] = { "undefined", "none", "a boolean", "an integer", "a float",
		"a string", "a list", "a dict", "a namespace", "a macro", "a function", "a method",
		"a loop" };
	static const char *const kind[] = { "a list", "a tuple", "a range", "keys of a dict",
		"values of a dict", "pairs of a dict", "a generator" };

	return v.type == J_LIST ? kind[v.u.list->kind] : name[v.type];
}

bool jv_true(struct jval v)
{
	switch (v.type) {
	case J_UNDEF:
	case J_NONE: return false;
	case J_BOOL: return v.u.b;
	case J_INT: return v.u.i;
	case J_FLOAT: return v.u.f != 0;
	case J_STR: return v.u.s.n;
	case J_LIST: return v.u.list->n || v.u.list->kind == LIST_GENERATOR;
	case J_DICT: return v.u.dict->n;
	default: return true;
	}
}

bool jv_number(struct jval v)
{
	return v.type == J_BOOL || v.type == J_INT || v.type == J_FLOAT;
}

double jv_double(struct jval v)
{
	return v.type == J_FLOAT ? v.u.f : v.type == J_BOOL ? v.u.b : (double)v.u.i;
}

int64_t jv_int(struct jinja *j, struct jval v, const char *what)
{
	if (v.type != J_INT && v.type != J_BOOL)
		jinja_fail(j, "%s must be an integer, not %s", what, jv_type(v));
	return v.type == J_BOOL ? v.u.b : v.u.i;
}

struct jstr jv_text(struct jinja *j, struct jval v, const char *what)
{
	if (v.type != J_STR)
		jinja_fail(j, "%s must be a string, not %s", what, jv_type(v));
	return v.u.s;
}

static bool lists_equal(struct jinja *j, const struct jlist *a, const struct jlist *b)
{
	if (a->n != b->n || a->kind != b->kind)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (!jv_equal(j, a->at[i], b->at[i]))
			return false;
	return true;
}

static bool dicts_equal(struct jinja *j, const struct jdict *a, const struct jdict *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++) {
		const struct jval *v = jv_get(j, b, a->at[i].key);

		if (!v || !jv_equal(j, a->at[i].value, *v))
			return false;
	}
	return true;
}

static bool same_kind_equal(struct jinja *j, struct jval a, struct jval b)
{
	switch (a.type) {
	case J_UNDEF:
	case J_NONE: return true;
	case J_STR:
		jinja_step(j, a.u.s.n / 64);
		return a.u.s.n == b.u.s.n && !memcmp(a.u.s.at, b.u.s.at, a.u.s.n);
	case J_LIST: return lists_equal(j, a.u.list, b.u.list);
	case J_DICT: return dicts_equal(j, a.u.dict, b.u.dict);
	default: return a.u.dict == b.u.dict;
	}
}

bool jv_equal(struct jinja *j, struct jval a, struct jval b)
{
	bool equal;

	jinja_step(j, 1);
	if (jv_number(a) && jv_number(b))
		return a.type == J_FLOAT || b.type == J_FLOAT ? jv_double(a) == jv_double(b)
													  : jv_int(j, a, "it") == jv_int(j, b, "it");
	if (a.type != b.type)
		return false;
	jinja_deeper(j);
	equal = same_kind_equal(j, a, b);
	j->depth--;
	return equal;
}

static int list_compare(struct jinja *j, const struct jlist *a, const struct jlist *b)
{
	int order = 0;

	jinja_deeper(j);
	for (size_t i = 0; i < a->n && i < b->n && !order; i++)
		if (!jv_equal(j, a->at[i], b->at[i]))
			order = jv_compare(j, a->at[i], b->at[i]);
	j->depth--;
	return order ? order : (a->n > b->n) - (a->n < b->n);
}

int jv_compare(struct jinja *j, struct jval a, struct jval b)
{
	double x, y;

	jinja_step(j, 1);
	if (a.type == J_STR && b.type == J_STR) { /* the order of UTF-8 is that of code points */
		size_t n = a.u.s.n < b.u.s.n ? a.u.s.n : b.u.s.n;
		int order = n ? memcmp(a.u.s.at, b.u.s.at, n) : 0; /* of any size: 2 says nothing here */

		jinja_step(j, n / 64);
		return order ? (order > 0) - (order < 0) : (a.u.s.n > b.u.s.n) - (a.u.s.n < b.u.s.n);
	}
	if (a.type == J_LIST && b.type == J_LIST && a.u.list->kind == b.u.list->kind)
		return list_compare(j, a.u.list, b.u.list);
	if (!jv_number(a) || !jv_number(b))
		jinja_fail(j, "%s and %s have no order", jv_type(a), jv_type(b));
	if (a.type != J_FLOAT && b.type != J_FLOAT) {
		int64_t p = jv_int(j, a, "it"), q = jv_int(j, b, "it");

		return (p > q) - (p < q);
	}
	x = jv_double(a);
	y = jv_double(b);
	return x > y ? 1 : x < y ? -1 : x == y ? 0 : 2;
}

bool jv_contains(struct jinja *j, struct jval all, struct jval one)
{
	struct jlist items;

	if (all.type == J_STR) {
		struct jstr s = jv_text(j, one, "what is looked for in a string");

		jinja_step(j, all.u.s.n / 16);
		return memmem(all.u.s.at, all.u.s.n, s.at, s.n);
	}
	if (all.type == J_DICT)
		return jv_get(j, all.u.dict, one);
	items = jv_items(j, all);
	for (size_t i = 0; i < items.n; i++)
		if (jv_equal(j, items.at[i], one))
			return true;
	return false;
}

size_t jv_length(struct jinja *j, struct jval v)
{
	switch (v.type) {
	case J_UNDEF: return 0;
	case J_STR: jinja_step(j, v.u.s.n / 16); return jt_length(v.u.s);
	case J_DICT: return v.u.dict->n;
	case J_LOOP: jinja_loop_has(j, v.u.loop, SIZE_MAX); return v.u.loop->items.n;
	case J_LIST:
		if (v.u.list->kind != LIST_GENERATOR)
			return v.u.list->n;
		break;
	default: break;
	}
	jinja_fail(j, "%s has no length", jv_type(v));
}

struct jlist jv_items(struct jinja *j, struct jval v)
{
	struct jlist l = { 0 };
	int32_t c;

	if (v.type == J_LIST) {
		l = *v.u.list;
		l.cap = l.n; /* what is added goes to a copy */
		if (l.kind == LIST_GENERATOR)
			v.u.list->n = v.u.list->cap = 0;
	} else if (v.type == J_DICT) {
		for (size_t i = 0; i < v.u.dict->n; i++)
			jv_add(j, &l, v.u.dict->at[i].key);
	} else if (v.type == J_STR) {
		for (size_t i = 0, n; i < v.u.s.n; i += n) {
			n = text_point(v.u.s.at + i, v.u.s.n - i, &c);
			jv_add(j, &l, jv_view(v.u.s.at + i, n));
		}
	} else if (v.type != J_UNDEF) {
		jinja_fail(j, "%s cannot be gone through", jv_type(v));
	}
	jinja_step(j, l.n / 8);
	return l;
}

int64_t jv_index(struct jinja *j, struct jval index, size_t n)
{
	int64_t i = jv_int(j, index, "an index");

	if (i < 0)
		i += (int64_t)n;
	return i >= 0 && i < (int64_t)n ? i : -1;
}
