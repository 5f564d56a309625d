/* The view "adapters": the low-rank adapters beside the model, who has which, and what they cost. A
 * step computes requests with different ones, and with none, together. */

#include "tui/views/view_util.h"

enum { AT_NAME, AT_RANK, AT_MATRICES, AT_BYTES, AT_SCALE, AT_ALL, AT_RUN, AT_ROWS, AT_BAR };
static const struct column columns[] = { { "adapter", -20, 0 }, { "rank", 5, 1 },
	{ "matrices", 9, 1 }, { "memory", 9, 1 }, { "scale", 6, 1 }, { "requests", 9, 1 },
	{ "running", 8, 1 }, { "rows", 5, 1 }, { NULL, 0, 2 } };

/* Requests with an adapter, name NULL: with none; rows of the newest step, of `all`. */
struct use {
	int32_t requests, running, rows, all;
};

static bool has(const struct tl_request *r, const char *name)
{
	return r && (name ? r->adapter && !strcmp(r->adapter, name) : !r->adapter);
}

static struct use use_of(const struct timeline *t, const char *name)
{
	struct use u = { 0 };

	for (int32_t i = 0; i < t->n_requests; i++) {
		const struct tl_request *r = &t->request[i];

		u.requests += has(r, name);
		u.running += has(r, name) && r->state == TL_RUNNING;
	}
	for (int32_t i = 0; i < t->n_batch; i++) {
		u.all += t->batch[i].rows;
		u.rows += has(timeline_request(t, t->batch[i].request), name) ? t->batch[i].rows : 0;
	}
	return u;
}

static void draw_use(const struct table *table, struct use u)
{
	table_put(table, AT_ALL, INK_TEXT, "%d", u.requests);
	table_put(table, AT_RUN, INK_TEXT, "%d", u.running);
	table_put(table, AT_ROWS, INK_TEXT, "%d", u.rows);
	if (u.all)
		table_bar(table, AT_BAR, INK_BAR, (double)u.rows / u.all);
}

static void draw_adapter(struct table *table, const struct timeline *t, const struct tl_adapter *a)
{
	table->y++;
	table_put(table, AT_NAME, INK_TEXT, "%s", a->name);
	table_put(table, AT_RANK, INK_TEXT, "%s", view_count(a->e.rank).text);
	table_put(table, AT_MATRICES, INK_TEXT, "%s", view_count(a->e.matrices).text);
	table_put(table, AT_BYTES, INK_TEXT, "%s", view_bytes((double)a->e.bytes).text);
	table_put(table, AT_SCALE, INK_TEXT, "%.3g", a->e.scale);
	draw_use(table, use_of(t, a->name));
}

/* What the adapters' ops took of the steps that had any. */
static void draw_cost(struct pen *p, const struct timeline *t, int y)
{
	const struct tl_sample m = timeline_sample(t, TL_DECODE);
	const struct tl_cost *c = &m.stage[EV_STAGE_adapter];
	double all = 0;

	for (int i = 0; i < EV_N_stage; i++)
		all += m.stage[i].ns;
	if (!(c->ns > 0) || y >= p->r.h)
		return;
	view_put(p, 0, y, INK_DIM, "decoding, %d step%s: A x and B of it take %s of %s (%s), %s read",
		m.n, plural(m.n), view_ns(c->ns).text, view_ns(all).text, view_percent(c->ns / all).text,
		view_bytes(c->bytes).text);
}

static void adapters_draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	struct table table = TABLE(p, columns, 1);
	const int fit = p->r.h - 4;
	const int first = table_first(&s->cursor[VIEW_ADAPTERS], t->n_adapters, fit);

	if (!t->n_adapters) {
		view_empty(p, "adapters",
			"low-rank adapters (LoRA): cutaway chat --lora FILE opens one or several beside the "
			"model, and /adapter NAME chooses for the next answers");
		return;
	}
	view_head(p, "adapters", "%d beside the model", t->n_adapters);
	table_heads(&table);
	for (int32_t i = first; i < t->n_adapters && i < first + fit; i++)
		draw_adapter(&table, t, &t->adapter[i]);
	table.y++;
	table_put(&table, AT_NAME, INK_DIM, "none");
	draw_use(&table, use_of(t, NULL));
	draw_cost(p, t, table.y + 2);
}

static bool adapters_key(int key, const struct timeline *t, struct view_state *s)
{
	return table_key(key, &s->cursor[VIEW_ADAPTERS], t->n_adapters);
}

const struct view view_adapters = {
	VIEW(ADAPTERS, adapters, "adapters", 60, 6, 40),
	.draw = adapters_draw,
	.key = adapters_key,
};
