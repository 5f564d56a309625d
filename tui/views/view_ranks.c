/* The ranks view: a model on several ranks, what each has, and what it does in a step: computes,
 * sends, receives, waits. Numbers of steps are those of the newest ones that nobody watched, since
 * a step that is watched sends more.
 *
 * cursor[VIEW_RANKS] is the first rank shown. Thread: the UI's. */

#include "tui/views/view_util.h"

enum { HOST_W = 10, HAS_W = 75, SIDE_BY_SIDE = 137, FEW = 4, MOST_ROWS = 4 };
enum { RANK, HAS_LAYERS, HAS_HEADS, HAS_WEIGHTS, HAS_PAGE, HAS_THREADS, HAS_ISA, HAS_HOST };
static const struct column has_columns[] = { { "rank", 4, 0 }, { "layers", -8, 2 },
	{ "KV heads", -8, 1 }, { "weights", 8, 1 }, { "a page", 8, 1 }, { "threads", 7, 2 },
	{ "isa", -8, 2 }, { "host:process", 0, 1 } };
enum { DID_COMPUTE = 1, DID_EXCHANGE, DID_N, DID_SENT, DID_RECEIVED, DID_SLOWED };
static const struct column did_columns[] = { { "rank", 4, 0 }, { "computing", 9, 2 },
	{ "exchanging", 10, 2 }, { "exchanges", 9, 2 }, { "sent a token", 12, 2 }, { "received", 8, 2 },
	{ "slowed", 6, 2 } };

static double per(int64_t n, int64_t of)
{
	return of > 0 ? (double)n / (double)of : 0;
}

static double exchange_share(const struct tl_traffic *k)
{
	return per(k->exchange_ns, k->compute_ns + k->exchange_ns);
}

/* ---- sums ---- */

struct sums {
	int64_t compute_ns, exchange_ns, slowed_ns, sent; /* of all ranks */
	int64_t rows, steps, exchanges;                   /* exchanges: most of a rank */
};

static struct sums sums_of(const struct timeline *t)
{
	struct sums s = { 0 };

	for (int32_t i = 0; i < t->n_ranks; i++) {
		const struct tl_traffic k = timeline_traffic(t, i);

		s.compute_ns += k.compute_ns;
		s.exchange_ns += k.exchange_ns;
		s.slowed_ns += k.slowed_ns;
		s.sent += k.sent;
		s.rows = at_least(k.rows, s.rows);
		s.steps = at_least(k.steps, s.steps);
		s.exchanges = at_least(k.exchanges, s.exchanges);
	}
	return s;
}

static struct view_text split_words(const struct pen *p, const struct timeline *t)
{
	const char *times = glyph(p->c, GLYPH_TIMES);
	const struct tl_split s = timeline_split(t);

	if (s.sequence > 1 && s.tensor * s.pipeline == 1)
		return view_form("sequence %d", s.sequence);
	return view_form("tensor %d %s pipeline %d%s", s.tensor, times, s.pipeline,
		s.sequence > 1 ? view_form(" %s sequence %d", times, s.sequence).text : "");
}

static void draw_head(struct pen *p, const struct timeline *t)
{
	const char *form = timeline_setting(t, "exchange"), *link = timeline_setting(t, "link");
	const bool slow = link && *link && strcmp(link, "-") != 0;

	view_head(p, view_ranks.name, "%s · %s · %.8s%s%.24s", split_words(p, t).text,
		t->rank[0].transport, form ? form : "q8", slow ? " · link " : "", slow ? link : "");
}

/* A number and its words, if they fit. */
static int put_sum(struct pen *p, int x, const char *number, const char *words)
{
	if (x + (int)(strlen(number) + strlen(words)) + 1 > p->r.w)
		return x;
	return x + view_say(p, x, 1, IN_BRIGHT "%s " IN_DIM "%s", number, words) + 3;
}

/* Of the session. */
static int put_all(struct pen *p, int x, const struct timeline *t)
{
	int64_t sent = 0;

	for (int32_t i = 0; i < t->n_ranks; i++)
		sent += t->rank[i].sum.sent; /* 64 times TL_INT_MAX at most */
	return put_sum(p, x, view_bytes((double)sent).text,
		view_form("sent in %s step%s", view_count(t->rank[0].sum.steps).text,
			plural(t->rank[0].sum.steps))
			.text);
}

static void draw_sums(struct pen *p, const struct timeline *t, const struct sums *s)
{
	const double ns = (double)s->compute_ns + (double)s->exchange_ns;
	int x;

	if (!s->steps) {
		view_put(p, 0, 1, INK_DIM, "no step yet");
		return;
	}
	x = put_sum(p, 0, view_bytes(per(s->sent, s->rows)).text, "sent a token");
	x = put_sum(p, x, view_form("%.0f", per(s->exchanges, s->steps)).text,
		s->exchanges == s->steps ? "exchange a step" : "exchanges a step");
	x = put_sum(
		p, x, view_percent((double)s->exchange_ns / (ns > 0 ? ns : 1)).text, "of the time in them");
	if (s->slowed_ns)
		x = put_sum(p, x, view_percent((double)s->slowed_ns / (ns > 0 ? ns : 1)).text,
			"by the slowed link");
	put_all(p, x, t);
}

/* ---- tables ---- */

/* first … first + n - 1. */
static void put_span(struct table *k, int column, int64_t first, int64_t n)
{
	if (n > 1)
		table_put(k, column, INK_TEXT, "%lld–%lld", (long long)first, (long long)(first + n - 1));
	else
		table_put(k, column, INK_TEXT, n ? "%lld" : "none", (long long)first);
}

static void put_has(struct table *k, const struct tl_rank *r)
{
	const struct ev_rank *has = &r->has;

	table_put(k, RANK, INK_BRIGHT, "%lld", (long long)has->rank);
	put_span(k, HAS_LAYERS, has->first_layer, has->layers);
	if (has->first_kv_head == EV_NULL_I)
		table_put(k, HAS_HEADS, INK_TEXT, "all");
	else
		put_span(k, HAS_HEADS, has->first_kv_head, has->kv_heads);
	table_put(k, HAS_WEIGHTS, INK_TEXT, "%s", view_bytes((double)has->weight_bytes).text);
	table_put(k, HAS_PAGE, INK_TEXT, "%s", view_bytes((double)has->page_bytes).text);
	table_put(k, HAS_THREADS, INK_TEXT, "%lld", (long long)has->threads);
	table_put(k, HAS_ISA, INK_TEXT, "%s", r->isa);
	table_put(k, HAS_HOST, INK_DIM, "%s:%lld", r->host, (long long)has->process);
}

/* From column `from` on: beside the other table the rank stands there. */
static void put_did(struct table *k, int from, const struct timeline *t, int32_t rank)
{
	const struct tl_traffic did = timeline_traffic(t, rank);

	if (!from)
		table_put(k, RANK, INK_BRIGHT, "%d", rank);
	if (!did.steps)
		return;
	table_put(k, DID_COMPUTE - from, INK_TEXT, "%s", view_percent(1 - exchange_share(&did)).text);
	table_put(k, DID_EXCHANGE - from, INK_TEXT, "%s", view_percent(exchange_share(&did)).text);
	table_put(k, DID_N - from, INK_TEXT, "%.0f", per(did.exchanges, did.steps));
	table_put(k, DID_SENT - from, INK_TEXT, "%s", view_bytes(per(did.sent, did.rows)).text);
	table_put(k, DID_RECEIVED - from, INK_TEXT, "%s", view_bytes(per(did.received, did.rows)).text);
	table_put(k, DID_SLOWED - from, INK_TEXT, "%s",
		view_percent(per(did.slowed_ns, did.compute_ns + did.exchange_ns)).text);
}

static void draw_has(struct pen *p, int y, const struct timeline *t, int first, int n)
{
	struct table k = TABLE(p, has_columns, y);

	k.n -= table_rect(&k, HAS_HOST).w < HOST_W;
	table_heads(&k);
	for (int i = 0; i < n; i++) {
		k.y++;
		put_has(&k, &t->rank[first + i]);
	}
}

static void draw_did(
	struct pen *p, int y, const struct timeline *t, int first, int n, const struct sums *s)
{
	const int from = p->r.w < SIDE_BY_SIDE ? 0 : DID_COMPUTE;
	struct pen right = pen_sub(p, (struct rect){ from ? HAS_W : 0, 0, p->r.w, p->r.h });
	struct table k = TABLE(&right, did_columns, y);

	k.column += from;
	k.n -= from + !s->slowed_ns;
	table_heads(&k);
	for (int i = 0; i < n; i++) {
		k.y++;
		put_did(&k, from, t, first + i);
	}
}

/* ---- what fits ---- */

struct fit {
	bool lanes, has; /* besides what they did */
	int n, rows;     /* ranks; lines of a lane */
};

static int lines_of(const struct pen *p, const struct fit *f)
{
	const bool side = p->r.w >= SIDE_BY_SIDE;

	return 2 + (f->lanes ? 1 + view_ranks_lanes_lines(f->n, f->rows) : 0) +
		   (f->has && !side ? 2 + f->n : 0) + 2 + f->n;
}

/* What they did comes first, then lanes, then what they have, of a few ranks; then more ranks; then
 * higher lanes. */
static struct fit fit_of(const struct pen *p, const struct timeline *t)
{
	struct fit f = { view_ranks_have_lanes(t), true, at_most(t->n_ranks, FEW), 1 };

	if (lines_of(p, &f) > p->r.h && p->r.w < SIDE_BY_SIDE)
		f.has = false;
	if (lines_of(p, &f) > p->r.h)
		f.lanes = false;
	f.n = t->n_ranks;
	while (f.n > 1 && lines_of(p, &f) > p->r.h)
		f.n--;
	for (f.rows = f.lanes ? MOST_ROWS : 1; f.rows > 1 && lines_of(p, &f) > p->r.h;)
		f.rows--;
	return f;
}

/* Whether there are ranks for prompts. */
static bool has_prefill(const struct timeline *t)
{
	const char *ranks = timeline_setting(t, "prefill-ranks");

	return t->n_handovers || (ranks && strcmp(ranks, "0") != 0);
}

/* --- prompts that prefill ranks computed --- */

enum { OF_REQUEST, OF_RANK, OF_TOKENS, THERE, BACK, WAITED, FIRST, ALL, WHY };
static const struct column prompt_columns[] = { { "request", 7, 0 }, { "rank", 4, 2 },
	{ "tokens", 10, 2 }, { "there", 8, 2 }, { "back", 8, 2 }, { "waited", 8, 2 },
	{ "first back", 10, 2 }, { "all back", 9, 2 }, { "", 0, 2 } };

static void put_since(
	const struct table *k, int column, const struct ev_handover *e, int64_t end_ns)
{
	if (e->asked_ns == EV_NULL_I || end_ns == EV_NULL_I || end_ns < e->asked_ns)
		return;
	table_put(k, column, INK_TEXT, "%s", view_ns((double)(end_ns - e->asked_ns)).text);
}

static void put_prompt(const struct table *k, const struct tl_handover *h)
{
	const struct ev_handover *e = &h->e;

	table_put(k, OF_REQUEST, INK_BRIGHT, "%lld", (long long)e->request);
	table_put(k, OF_RANK, INK_TEXT, "%lld", (long long)e->rank);
	if (e->computed == e->tokens)
		table_put(k, OF_TOKENS, INK_TEXT, "%lld", (long long)e->tokens);
	else
		table_put(
			k, OF_TOKENS, INK_TEXT, "%lld of %lld", (long long)e->computed, (long long)e->tokens);
	table_put(k, THERE, INK_TEXT, "%s", view_bytes((double)e->there).text);
	table_put(k, BACK, INK_TEXT, "%s", view_bytes((double)e->back).text);
	put_since(k, WAITED, e, e->start_ns);
	put_since(k, FIRST, e, e->first_ns);
	put_since(k, ALL, e, e->end_ns);
	if (*h->why)
		table_put(k, WHY, INK_TEXT, "%s", h->why);
	else if (!e->equal)
		table_put(k, WHY, INK_REJECTED, "other bytes came than were sent");
	else if (e->given)
		table_put(k, WHY, INK_DIM, "and %lld cached page%s it lacked", (long long)e->given,
			plural(e->given));
}

static void draw_prompts(struct pen *p, const struct timeline *t, struct view_state *s)
{
	struct table k = TABLE(p, prompt_columns, 2);
	const int first = table_first(&s->cursor[VIEW_RANKS], t->n_handovers, p->r.h - k.y - 1);
	const char *ranks = timeline_setting(t, "prefill-ranks");

	view_head(p, view_ranks.name, "prompts on ranks of their own%s%.8s", ranks ? " · " : "",
		ranks ? ranks : "");
	if (!t->n_handovers) {
		const char *least = timeline_setting(t, "prefill-least");

		view_put(p, 0, 2, INK_DIM, "no prompt yet of %.8s tokens or more that are not cached",
			least ? least : "64");
		return;
	}
	table_heads(&k);
	for (int i = first; i < t->n_handovers && ++k.y < p->r.h; i++)
		put_prompt(&k, &t->handover[t->n_handovers - 1 - i]);
}

static void ranks_draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	const struct sums sums = sums_of(t);
	const struct fit f = fit_of(p, t);
	const int first = table_first(&s->cursor[VIEW_RANKS], t->n_ranks, f.n);
	int y = 3;

	if (!t->n_ranks && has_prefill(t)) {
		draw_prompts(p, t, s);
		return;
	}
	if (!t->n_ranks) {
		view_empty(p, view_ranks.name,
			"one rank computes the model; --tensor-parallel 2 at the start splits "
			"it over two, to the same bits; --prefill-ranks 1 gives prompts one of "
			"their own");
		return;
	}
	draw_head(p, t);
	draw_sums(p, t, &sums);
	if (f.lanes) {
		view_ranks_lanes(p, y, t, first, f.n, f.rows);
		y += view_ranks_lanes_lines(f.n, f.rows) + 1;
	}
	draw_did(p, y, t, first, f.n, &sums);
	if (f.has)
		draw_has(p, p->r.w < SIDE_BY_SIDE ? y + f.n + 2 : y, t, first, f.n);
}

static bool ranks_key(int key, const struct timeline *t, struct view_state *s)
{
	return table_key(key, &s->cursor[VIEW_RANKS], t->n_ranks ? t->n_ranks : t->n_handovers);
}

const struct view view_ranks = {
	VIEW(RANKS, ranks, "ranks", 34, 5, 12),
	.draw = ranks_draw,
	.key = ranks_key,
};
