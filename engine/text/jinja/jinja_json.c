/* The filter tojson, as transformers has it: Python's json.dumps with ensure_ascii off. */
#include <math.h>
#include <stdio.h>

#include "engine/text/jinja/jinja_private.h"

struct writing {
	bool ascii, sorted;
	struct jstr indent; /* of one level */
	bool lines;
	struct jstr comma, colon;
};

static void put_json(struct jinja *j, const struct writing *w, struct jval v, int level);

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

static void put_string(struct jinja *j, const struct writing *w, struct jstr s)
{
	static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
	int32_t c;

	jinja_puts(j, "\"");
	for (size_t i = 0, n; i < s.n; i += n) {
		n = jt_next(s.at + i, s.n - i, &c);
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

static void put_break(struct jinja *j, const struct writing *w, int level)
{
	if (!w->lines)
		return;
	jinja_puts(j, "\n");
	for (int i = 0; i < level; i++)
		jinja_put(j, w->indent.at, w->indent.n);
}

static void put_key(struct jinja *j, const struct writing *w, struct jval key)
{
	if (key.type == J_STR) {
		put_string(j, w, key.u.s);
		return;
	}
	if (!jv_number(key) && key.type != J_NONE)
		jinja_fail(j, "%s cannot be a key in JSON", jv_type(key));
	jinja_puts(j, "\"");
	put_json(j, w, key, 0);
	jinja_puts(j, "\"");
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

static void put_dict(struct jinja *j, const struct writing *w, const struct jdict *d, int level)
{
	const struct jpair *p = w->sorted ? sort_by_key(j, d) : d->at;

	jinja_puts(j, "{");
	for (size_t i = 0; i < d->n; i++) {
		if (i)
			jinja_put(j, w->comma.at, w->comma.n);
		put_break(j, w, level + 1);
		put_key(j, w, p[i].key);
		jinja_put(j, w->colon.at, w->colon.n);
		put_json(j, w, p[i].value, level + 1);
	}
	if (d->n)
		put_break(j, w, level);
	jinja_puts(j, "}");
}

static void put_list(struct jinja *j, const struct writing *w, const struct jlist *l, int level)
{
	jinja_puts(j, "[");
	for (size_t i = 0; i < l->n; i++) {
		if (i)
			jinja_put(j, w->comma.at, w->comma.n);
		put_break(j, w, level + 1);
		put_json(j, w, l->at[i], level + 1);
	}
	if (l->n)
		put_break(j, w, level);
	jinja_puts(j, "]");
}

static void put_json(struct jinja *j, const struct writing *w, struct jval v, int level)
{
	jinja_step(j, 1);
	jinja_deeper(j);
	switch (v.type) {
	case J_NONE: jinja_puts(j, "null"); break;
	case J_BOOL: jinja_puts(j, v.u.b ? "true" : "false"); break;
	case J_INT: jt_put(j, v); break;
	case J_FLOAT:
		if (isnan(v.u.f) || isinf(v.u.f))
			jinja_puts(j, isnan(v.u.f) ? "NaN" : v.u.f > 0 ? "Infinity" : "-Infinity");
		else
			jt_put(j, v);
		break;
	case J_STR: put_string(j, w, v.u.s); break;
	case J_DICT: put_dict(j, w, v.u.dict, level); break;
	default:
		if (v.type != J_LIST || v.u.list->kind > LIST_TUPLE)
			jinja_fail(j, "%s cannot be written as JSON", jv_type(v));
		put_list(j, w, v.u.list, level);
	}
	j->depth--;
}

static void set_indent(struct jinja *j, struct writing *w, const struct jval *v)
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

static void set_separators(struct jinja *j, struct writing *w, const struct jval *v)
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
	struct writing w = { .comma = { ", ", 2, NULL }, .colon = { ": ", 2, NULL } };
	size_t mark = j->n_out;

	w.ascii = c->arg[0] && jv_true(*c->arg[0]);
	set_indent(j, &w, c->arg[1]);
	set_separators(j, &w, c->arg[2]);
	w.sorted = c->arg[3] && jv_true(*c->arg[3]);
	put_json(j, &w, c->self, 0);
	return jinja_cut(j, mark);
}
