/* What each token of an answer cost, with the KV cache and without it: rows, query-key pairs, time.
 * The newest answer of each kind; the one in focus stands for its kind. */

#include "tui/views/view_util.h"

enum { CHART_MIN = 4, AXIS = 8, ROWS = 9, GROWTH = 22, LEAST_W = 36 };
enum { AT_LABEL, AT_WITH, AT_WITHOUT, AT_GROWTH };
static const struct column columns[] = { { NULL, -12, 0 }, { NULL, 12, 0 }, { NULL, 12, 0 },
	{ NULL, 0, 2 } };

/* An answer, and which of its tokens say what they cost. */
struct side {
	const struct tl_request *r; /* NULL: there is none of this kind */
	int64_t rows, pairs;        /* of all its tokens */
	double ns;
};

/* Without a cache the newest token computed all before it again. */
static bool recomputes(const struct tl_request *r)
{
	const struct tl_token *last = r->n_tokens > 1 ? &r->token[r->n_tokens - 1] : NULL;

	return last && last->rows != EV_NULL_I && last->pos > 1 && last->rows >= last->pos;
}

static bool counted(const struct tl_request *r)
{
	return r->n_tokens > 1 && r->token[r->n_tokens - 1].rows != EV_NULL_I;
}

static struct side side_of(const struct tl_request *r)
{
	struct side s = { .r = r };

	for (int32_t i = 0; r && i < r->n_tokens; i++) {
		const struct tl_token *k = &r->token[i];

		s.rows += at_least(k->rows, 0);
		s.pairs += at_least(k->pairs, 0);
		s.ns += k->ns > 0 ? (double)k->ns : 0;
	}
	return s;
}

static void find(
	const struct timeline *t, const struct view_state *s, struct side *with, struct side *without)
{
	const struct tl_request *focus = view_request(t, s), *of[2] = { NULL, NULL };

	for (int32_t i = t->n_requests; i-- > 0;) {
		const struct tl_request *r = &t->request[i];

		if (counted(r) && !of[recomputes(r)])
			of[recomputes(r)] = r;
	}
	if (focus && counted(focus))
		of[recomputes(focus)] = focus;
	*with = side_of(of[0]);
	*without = side_of(of[1]);
}

/* ---- the table ---- */

static const struct tl_token *newest(const struct side *s)
{
	return s->r ? &s->r->token[s->r->n_tokens - 1] : NULL;
}

static void put_row(
	struct table *t, const char *label, const char *with, const char *without, const char *growth)
{
	table_put(t, AT_LABEL, INK_DIM, "%s", label);
	table_put(t, AT_WITH, INK_TEXT, "%s", with);
	table_put(t, AT_WITHOUT, INK_BRIGHT, "%s", without);
	if (table_rect(t, AT_GROWTH).w >= GROWTH)
		table_put(t, AT_GROWTH, INK_DIM, "%s", growth);
	t->y++;
}

static void put_counts(
	struct table *t, const char *label, int64_t with, int64_t without, const char *growth)
{
	put_row(t, label, view_count(with).text, view_count(without).text, growth);
}

static void put_times(struct table *t, double with, double without)
{
	put_row(t, "  time", view_ns(with).text, view_ns(without).text, "measured");
}

/* v of a side that there is; of the other it is not known. */
#define OF(side, v) ((side)->r ? (int64_t)(v) : EV_NULL_I)
#define NS(side, v) ((side)->r ? (double)(v) : (double)NAN)

static int draw_table(struct pen *p, int y, const struct side *a, const struct side *b)
{
	const struct tl_token *with = newest(a), *without = newest(b);
	struct table t = TABLE(p, columns, y);

	put_row(&t, "", "with cache", "without", "grows with T as");
	put_counts(&t, "newest: T", OF(a, with->pos), OF(b, without->pos), "tokens before it");
	put_counts(&t, "  rows", OF(a, with->rows), OF(b, without->rows), "1 and T");
	put_counts(&t, "  pairs", OF(a, with->pairs), OF(b, without->pairs), "T and T\xc2\xb2/2");
	put_times(&t, NS(a, with->ns), NS(b, without->ns));
	put_counts(&t, "all: tokens", OF(a, a->r->n_tokens), OF(b, b->r->n_tokens), "of the answer");
	put_counts(&t, "  rows", OF(a, a->rows), OF(b, b->rows), "T and T\xc2\xb2/2");
	put_counts(&t, "  pairs", OF(a, a->pairs), OF(b, b->pairs), "T\xc2\xb2/2 and T\xc2\xb3/6");
	put_times(&t, NS(a, a->ns), NS(b, b->ns));
	return t.y;
}

/* Says what there is no room for. */
static void cut_table(struct pen *p, const struct side *a, const struct side *b)
{
	struct pen upper = pen_sub(p, (struct rect){ 0, 0, p->r.w, p->r.h - 1 });

	draw_table(&upper, 1, a, b);
	view_put(p, 0, p->r.h - 1, INK_DIM, "%s %d more lines: /view cost, then /zoom",
		glyph(p->c, GLYPH_ELLIPSIS), ROWS - (p->r.h - 2));
}

/* ---- the chart: time of each token after the first ---- */

static double ns_at(const struct side *s, int32_t i)
{
	return s->r && i < s->r->n_tokens && s->r->token[i].ns > 0 ? (double)s->r->token[i].ns
															   : (double)NAN;
}

static double most_of(const struct side *s)
{
	double most = 0;

	for (int32_t i = 1; s->r && i < s->r->n_tokens; i++)
		most = fmax(ns_at(s, i), most);
	return most;
}

static void curve(struct pen *p, const struct rect *r, const struct side *s, int32_t n, double most,
	enum ink ink, const char *mark)
{
	for (int x = 0; x < r->w; x++) {
		int32_t i = 1 + (int32_t)((int64_t)x * (n - 2) / (r->w > 1 ? r->w - 1 : 1));
		double ns = ns_at(s, i);

		if (!isnan(ns))
			view_put(p, r->x + x, r->y + r->h - 1 - (int)(ns / most * (r->h - 1)), ink, "%s", mark);
	}
}

static void chart(struct pen *p, int y, const struct side *a, const struct side *b)
{
	struct rect r = { AXIS, y + 1, p->r.w - AXIS - 1, p->r.h - y - 2 };
	int32_t n = 2;
	double most = fmax(most_of(a), most_of(b));

	if (r.h < CHART_MIN || r.w < 20 || most <= 0)
		return;
	n = a->r && a->r->n_tokens > n ? a->r->n_tokens : n;
	n = b->r && b->r->n_tokens > n ? b->r->n_tokens : n;
	view_put(p, 0, y, INK_DIM, "time of each token after the first:  ");
	view_put(p, 37, y, INK_TEXT, "\xe2\x80\xa2 with");
	view_put(p, 45, y, INK_BRIGHT, "\xc3\x97 without");
	view_put_right(p, AXIS - 1, r.y, INK_DIM, "%s", view_ns(most).text);
	view_put_right(p, AXIS - 1, r.y + r.h - 1, INK_DIM, "0");
	view_put(p, r.x, r.y + r.h, INK_DIM, "2nd");
	view_put_right(p, r.x + r.w, r.y + r.h, INK_DIM, "token %d", (int)n);
	curve(p, &r, a, n, most, INK_TEXT, "\xe2\x80\xa2");
	curve(p, &r, b, n, most, INK_BRIGHT, "\xc3\x97");
}

static void draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	struct side with, without;

	find(t, s, &with, &without);
	if (with.r && without.r && with.ns > 0)
		view_head(p, "cost of a token", "%s without cache, %s with it",
			view_label(without.r->id).text, view_label(with.r->id).text);
	else /* what fills the other column */
		pen_head(p, "cost of a token",
			!s->waiting ? NULL
			: with.r    ? "/kv-cache off, /new and ask: without"
						: "/kv-cache on, /new and ask: with");
	if (!with.r && !without.r) {
		view_nothing(p, "no answer of two tokens: ask, then /kv-cache off, /new and ask again");
		return;
	}
	if (p->r.h - 1 < ROWS)
		cut_table(p, &with, &without);
	else
		chart(p, draw_table(p, 1, &with, &without) + 1, &with, &without);
}

const struct view view_cost = {
	VIEW(COST, cost, "cost of a token", LEAST_W, 4, 11),
	.draw = draw,
};
