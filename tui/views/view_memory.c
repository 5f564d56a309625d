/* The memory view: what the running requests hold, by what the layers keep, against what plain
 * multi-head attention would hold. It is the event memory, the pages and the requests. Thread: the
 * UI's. */

#include "tui/views/view_util.h"

enum { GROUPS = 3, NAME = 20, BAR_LEAST = 6, F16 = 2 };
enum { AT_NAME, AT_LAYERS, AT_TOKEN, AT_LONGEST, AT_HELD, AT_BACK, AT_BAR };
static const struct column columns[] = { { "what layers keep", -NAME, 0 }, { "layers", 7, 0 },
	{ "a token", 15, 0 }, { NULL, 11, 0 }, { "held now", 11, 0 }, { "given back", 11, 0 },
	{ NULL, 0, 2 } };

struct held { /* of a group */
	int64_t pages, cached, blocks, refs;
};

static struct held held_of(const struct timeline *t, int32_t g)
{
	const struct ev_memory *m = &t->memory[g];
	struct held h = { 0 };
	int32_t first = 0;

	for (int32_t i = 0; i < g; i++)
		first += (int32_t)t->memory[i].pages;
	for (int32_t i = first; i < first + m->pages && i < t->n_pages; i++) {
		h.pages += t->page[i].refs > 0;
		h.refs += t->page[i].refs;
		h.cached += !t->page[i].refs && t->page[i].cached;
	}
	for (int32_t i = 0; i < t->n_requests && m->page_size > 0; i++)
		if (t->request[i].state == TL_RUNNING)
			h.blocks += (t->request[i].computed + m->page_size - 1) / m->page_size;
	return h;
}

static struct view_text name_of(const struct ev_memory *m)
{
	switch (m->kind) {
	case EV_MEMORY_KIND_window: return view_form("window of %lld", (long long)m->window);
	case EV_MEMORY_KIND_recurrent: return view_form("states");
	case EV_MEMORY_KIND_recent: return view_form("newest, in f16");
	case EV_MEMORY_KIND_kept: return view_form("what heads keep");
	default: return view_form(m->latent == 1 ? "latents" : "keys and values");
	}
}

/* Of plain multi-head attention as wide as the model (Vaswani et al. 2017), in f16. */
static double plain_token(const struct timeline *t)
{
	return 2.0 * (double)t->session.n_layers * (double)t->session.dim * F16;
}

static int64_t running_tokens(const struct timeline *t, int *n)
{
	int64_t tokens = 0;

	*n = 0;
	for (int32_t i = 0; i < t->n_requests; i++)
		if (t->request[i].state == TL_RUNNING) {
			tokens += t->request[i].computed;
			++*n;
		}
	return tokens;
}

/* ---- the groups ---- */

static void put_group(const struct table *table, const struct timeline *t, int32_t g, double most)
{
	const struct ev_memory *m = &t->memory[g];
	const struct held h = held_of(t, g);
	const double bytes = (double)h.pages * (double)m->page_bytes;

	table_put(table, AT_NAME, INK_TEXT, "%s", name_of(m).text);
	table_put(table, AT_LAYERS, INK_TEXT, "%lld", (long long)m->layers);
	table_put(table, AT_TOKEN, INK_TEXT, "%s",
		tl_keeps_states(m) ? "0" : view_bytes(formula_group_bytes(m, 1)).text);
	table_put(table, AT_LONGEST, INK_TEXT, "%s",
		view_bytes(formula_group_bytes(m, (double)t->session.ctx)).text);
	table_put(table, AT_HELD, INK_BRIGHT, "%s", view_bytes(bytes).text);
	if (!tl_keeps_states(m) && h.blocks > h.refs && h.refs)
		table_put(table, AT_BACK, INK_TEXT, "%s",
			view_bytes((double)(h.blocks - h.refs) * (double)m->page_bytes).text);
	if (table_rect(table, AT_BAR).w >= BAR_LEAST && most > 0)
		table_bar(table, AT_BAR, INK_TEXT, bytes / most);
}

static void put_titles(const struct table *table, const struct timeline *t)
{
	view_put(table->p, 0, 1, INK_DIM,
		"bytes of a token, of a request as long as possible, and of all that run now");
	table_heads(table);
	table_put(table, AT_LONGEST, INK_DIM, "at %.7s", view_count(t->session.ctx).text);
}

/* ---- against plain attention ---- */

static int put_ratio(struct pen *p, int y, const char *label, double ours, double plain)
{
	int x = NAME + 8;

	view_put(p, 0, y, INK_DIM, "%s", label);
	x += view_say(p, x, y, IN_BRIGHT "%s" IN_DIM " for %s%s",
		ours > 0 ? view_bytes(ours).text : "nothing", view_bytes(plain).text, ours > 0 ? ": " : "");
	if (plain > 0 && ours > 0)
		view_put(p, x, y, INK_BRIGHT, ours > plain ? "%.2g times" : "1/%.3g",
			ours > plain ? ours / plain : plain / fmax(ours, 1));
	return y + 1;
}

static void put_against(struct pen *p, int y, const struct timeline *t)
{
	const double plain = plain_token(t);
	double token = 0, longest = 0, now = 0;
	int running;
	const int64_t tokens = running_tokens(t, &running);

	for (int32_t g = 0; g < t->n_memory; g++) {
		token += tl_keeps_states(&t->memory[g]) ? 0 : formula_group_bytes(&t->memory[g], 1);
		longest += formula_group_bytes(&t->memory[g], (double)t->session.ctx);
		now += (double)held_of(t, g).pages * (double)t->memory[g].page_bytes;
	}
	view_put(p, 0, y++, INK_DIM,
		"plain attention holds 2 (key, value) \xc3\x97 %lld layers \xc3\x97 width %lld \xc3\x97 2 "
		"bytes",
		(long long)t->session.n_layers, (long long)t->session.dim);
	y = put_ratio(p, y, "one more token", token, plain);
	y = put_ratio(p, y, view_form("a request of %s", view_count(t->session.ctx).text).text, longest,
		plain * (double)t->session.ctx);
	if (tokens)
		put_ratio(p, y, view_form("%d running, %s tokens", running, view_count(tokens).text).text,
			now, plain * (double)tokens);
	else
		view_put(p, 0, y, INK_DIM, "no request runs");
}

static void memory_draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	struct table table = TABLE(p, columns, GROUPS - 1);
	double most = 0, cached = 0;

	(void)s;
	if (!t->n_memory || t->session.dim < 1 || t->session.n_layers < 1) {
		view_empty(p, "memory", "nothing to show: no layer of this session's model keeps anything");
		return;
	}
	for (int32_t g = 0; g < t->n_memory; g++) {
		const struct held h = held_of(t, g);

		most += (double)h.pages * (double)t->memory[g].page_bytes;
		cached += (double)h.cached * (double)t->memory[g].page_bytes;
	}
	view_head(p, "memory", "%s held \xc2\xb7 %s more in the prefix cache", view_bytes(most).text,
		view_bytes(cached).text);
	put_titles(&table, t);
	for (int32_t g = 0; g < t->n_memory; g++) {
		table.y++;
		put_group(&table, t, g, most);
	}
	put_against(p, GROUPS + t->n_memory + 1, t);
}

const struct view view_memory = {
	VIEW(MEMORY, memory, "memory", 76, 9, 14),
	.draw = memory_draw,
};
