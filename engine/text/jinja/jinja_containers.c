/* Methods of lists, dicts and loops: those that change nothing but the loop's own memory. */
#include "engine/text/jinja/jinja_private.h"

static struct jval list_count(struct jinja *j, const struct jcall *c)
{
	int64_t n = 0;

	for (size_t i = 0; i < c->self.u.list->n; i++)
		n += jv_equal(j, c->self.u.list->at[i], *c->arg[0]);
	return jv_of_int(n);
}

static struct jval list_index(struct jinja *j, const struct jcall *c)
{
	for (size_t i = 0; i < c->self.u.list->n; i++)
		if (jv_equal(j, c->self.u.list->at[i], *c->arg[0]))
			return jv_of_int((int64_t)i);
	jinja_fail(j, "a value that index() looks for is not there");
}

/* Nothing changes a list or a dict, so it is as good as a copy. */
static struct jval copy(struct jinja *j, const struct jcall *c)
{
	(void)j;
	return c->self;
}

const struct jbuiltin methods_list[] = {
	{ "count", "value", 1, list_count },
	{ "index", "value", 1, list_index },
	{ "copy", "", 0, copy },
	{ NULL, "", 0, NULL },
};

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
	{ "copy", "", 0, copy },
	{ NULL, "", 0, NULL },
};

static struct jval loop_cycle(struct jinja *j, const struct jcall *c)
{
	(void)j;
	return c->all->at[c->self.u.loop->i % c->all->n];
}

static struct jval loop_changed(struct jinja *j, const struct jcall *c)
{
	struct jloop *l = c->self.u.loop;
	struct jval now = jv_list(j, LIST_TUPLE), before = now;
	bool same;

	for (size_t i = 0; i < c->all->n; i++)
		jv_add(j, now.u.list, c->all->at[i]);
	before.u.list = l->seen;
	same = l->seen && jv_equal(j, before, now);
	l->seen = now.u.list;
	return jv_bool(!same);
}

const struct jbuiltin methods_loop[] = {
	{ "cycle", "*", 1, loop_cycle },
	{ "changed", "*", 0, loop_changed },
	{ NULL, "", 0, NULL },
};
