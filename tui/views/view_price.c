/* The price view: what the lossy settings cost at each token of an answer, against its exact twin,
 * and what they save in a decode step. All of it is the events price and step.
 * Thread: the UI's. */

#include "tui/views/view_util.h"

#define NANO 1e-9

enum { CHART_MIN = 6, AXIS = 9, TOKEN_W = 18 };
enum { AT_LABEL, AT_LOSSY, AT_EXACT, AT_MORE };
static const struct column sides[] = { { NULL, -22, 0 }, { NULL, 12, 0 }, { NULL, 12, 0 },
	{ NULL, 0, 2 } };
enum { AT_POS, AT_DRAWN, AT_BEST, AT_EXACT_BEST, AT_KL, AT_RANK };
static const struct column partings[] = { { "at", 6, 0 }, { "drawn", -TOKEN_W, 1 },
	{ "lossy best", -TOKEN_W, 1 }, { "exact best", -TOKEN_W, 1 }, { "KL", 7, 0 },
	{ "rank", 6, 0 } };

/* Of the tokens of an answer that have a twin. */
struct sums {
	int32_t n, equal, most; /* most: index of the token of the largest kl */
	double kl, lossy, exact;
};
/* Means of the decode steps in which the twin computed as many rows. */
struct step_sums {
	int n;
	double bytes[2], ops[2], ns[2]; /* lossy, exact */
};

static bool has_twin(const struct tl_token *k)
{
	return k->price.kl != EV_NULL_I && k->price.lossy != EV_NULL_I && k->price.exact != EV_NULL_I;
}

static bool parts(const struct tl_token *k)
{
	return has_twin(k) && k->price.best != k->price.exact_best;
}

static struct sums sums_of(const struct tl_request *r)
{
	struct sums s = { .most = -1 };

	for (int32_t i = 0; i < r->n_tokens; i++) {
		const struct tl_token *k = &r->token[i];

		if (!has_twin(k))
			continue;
		s.n++;
		s.equal += !parts(k);
		s.kl += (double)k->price.kl * NANO;
		s.lossy += (double)k->price.lossy * NANO;
		s.exact += (double)k->price.exact * NANO;
		if (s.most < 0 || k->price.kl > r->token[s.most].price.kl)
			s.most = i;
	}
	return s;
}

static struct step_sums steps_of(const struct timeline *t)
{
	struct step_sums m = { 0 };

	for (int32_t i = 0; i < t->n_steps; i++) {
		const struct ev_step *s = &t->step[i].s;

		if (timeline_phase(&t->step[i]) != TL_DECODE || s->twin_rows != s->rows)
			continue;
		m.n++;
		m.bytes[0] += (double)s->bytes;
		m.bytes[1] += (double)s->twin_bytes;
		m.ops[0] += (double)s->ops;
		m.ops[1] += (double)s->twin_ops;
		m.ns[0] += (double)s->kernel_ns;
		m.ns[1] += (double)s->twin_ns;
	}
	for (int i = 0; i < 2 && m.n; i++) {
		m.bytes[i] /= m.n;
		m.ops[i] /= m.n;
		m.ns[i] /= m.n;
	}
	return m;
}

/* ---- the table ---- */

static void put_row(
	struct table *t, const char *label, const char *lossy, const char *exact, const char *more)
{
	t->y++;
	table_put(t, AT_LABEL, INK_DIM, "%s", label);
	table_put(t, AT_LOSSY, INK_BRIGHT, "%s", lossy);
	table_put(t, AT_EXACT, INK_TEXT, "%s", exact);
	table_put(t, AT_MORE, INK_DIM, "%s", more);
}

static void put_cost(
	struct table *t, const char *label, const double v[2], struct view_text (*format)(double v))
{
	put_row(t, label, format(v[0]).text, format(v[1]).text,
		v[1] > 0 ? view_form("%s of the exact", view_percent(v[0] / v[1]).text).text : "");
}

static struct view_text format_ops(double ops)
{
	return view_form("%.4g Gop", ops / 1e9);
}

static int draw_table(struct pen *p, int y, const struct timeline *t, const struct sums *s)
{
	struct table table = TABLE(p, sides, y - 1);
	const struct step_sums m = steps_of(t);

	put_row(&table, "", "lossy", "exact", "");
	put_row(&table, "perplexity", view_form("%.4g", exp(s->lossy / s->n)).text,
		view_form("%.4g", exp(s->exact / s->n)).text,
		view_form(
			"of the %s token%s that the lossy model drew", view_count(s->n).text, plural(s->n))
			.text);
	if (!m.n)
		return table.y + 1;
	put_cost(&table, "a decode step: bytes", m.bytes, view_bytes);
	put_cost(&table, "  operations", m.ops, format_ops);
	put_cost(&table, "  time of kernels", m.ns, view_ns);
	return table.y + 1;
}

/* ---- the chart: kl of each token, and both perplexities up to there ---- */

/* Tokens first to end share column x. */
static void column_range(const struct tl_request *r, int w, int x, int32_t *first, int32_t *end)
{
	*first = (int32_t)((int64_t)x * r->n_tokens / w);
	*end = (int32_t)((int64_t)(x + 1) * r->n_tokens / w);
	if (*end <= *first)
		*end = *first + 1;
}

static void draw_kl(struct pen *p, struct rect c, const struct tl_request *r, double most)
{
	for (int x = 0; x < c.w; x++) {
		int32_t first, end;
		double kl = 0;
		bool differ = false;

		column_range(r, c.w, x, &first, &end);
		for (int32_t i = first; i < end && i < r->n_tokens; i++) {
			kl = has_twin(&r->token[i]) ? fmax(kl, (double)r->token[i].price.kl * NANO) : kl;
			differ |= parts(&r->token[i]);
		}
		view_stack(p, c.x + x, c.y, c.h, differ ? INK_REJECTED : INK_BAR,
			most > 0 ? ceil(8 * kl / most * c.h) / 8 : 0);
	}
}

static void draw_curves(
	struct pen *p, struct rect c, const struct tl_request *r, double least, double most)
{
	double lossy = 0, exact = 0;
	int32_t n = 0, i = 0;

	for (int x = 0; x < c.w; x++) {
		int32_t first, end;

		column_range(r, c.w, x, &first, &end);
		for (; i < end && i < r->n_tokens; i++)
			if (has_twin(&r->token[i])) {
				lossy += (double)r->token[i].price.lossy * NANO;
				exact += (double)r->token[i].price.exact * NANO;
				n++;
			}
		for (int side = 0; n && side < 2; side++) {
			const double v = ((side ? lossy : exact) / n - least) / (most - least);

			view_put(p, c.x + x, c.y + c.h - 1 - (int)(v * (c.h - 1) + 0.5),
				side ? INK_BRIGHT : INK_TEXT, "%s", side ? "\xc3\x97" : "\xe2\x80\xa2");
		}
	}
}

/* Of both curves. */
static void curve_range(const struct tl_request *r, double *least, double *most)
{
	double lossy = 0, exact = 0;
	int32_t n = 0;

	*least = INFINITY;
	*most = -INFINITY;
	for (int32_t i = 0; i < r->n_tokens; i++) {
		if (!has_twin(&r->token[i]))
			continue;
		lossy += (double)r->token[i].price.lossy * NANO;
		exact += (double)r->token[i].price.exact * NANO;
		n++;
		*least = fmin(*least, fmin(lossy, exact) / n);
		*most = fmax(*most, fmax(lossy, exact) / n);
	}
	if (!(*most > *least))
		*most = *least + 1;
}

static int chart(struct pen *p, int y, int h, const struct tl_request *r, const struct sums *s)
{
	const int top = (h - 3) / 2;
	const struct rect curves = { AXIS, y + 1, p->r.w - AXIS - 1, top };
	const struct rect kl = { AXIS, y + 2 + top, p->r.w - AXIS - 1, h - 3 - top };
	const double peak = (double)r->token[s->most].price.kl * NANO;
	double least, most;

	if (h < CHART_MIN || curves.w < 20)
		return y;
	curve_range(r, &least, &most);
	view_put(p, 0, y, INK_DIM, "perplexity up to each token:  ");
	view_put(p, 30, y, INK_TEXT, "\xe2\x80\xa2 exact");
	view_put(p, 39, y, INK_BRIGHT, "\xc3\x97 lossy");
	view_put_right(p, AXIS - 1, curves.y, INK_DIM, "%.3g", exp(most));
	view_put_right(p, AXIS - 1, curves.y + curves.h - 1, INK_DIM, "%.3g", exp(least));
	draw_curves(p, curves, r, least, most);
	view_put(p, 0, kl.y - 1, INK_DIM, "KL of each token, nats:  ");
	view_put(p, 25, kl.y - 1, INK_REJECTED, "best token differs");
	view_put_right(p, AXIS - 1, kl.y, INK_DIM, "%.3g", peak);
	view_put_right(p, AXIS - 1, kl.y + kl.h - 1, INK_DIM, "0");
	draw_kl(p, kl, r, peak);
	view_put(p, kl.x, kl.y + kl.h, INK_DIM, "1st");
	view_put_right(p, kl.x + kl.w, kl.y + kl.h, INK_DIM, "token %d", (int)r->n_tokens);
	return y + h;
}

/* ---- where they part: the newest last ---- */

static void draw_parting(
	const struct table *table, const struct timeline *t, const struct tl_token *k)
{
	const int32_t id[] = { k->id, k->price.best, k->price.exact_best };

	table_put(table, AT_POS, INK_DIM, "%lld", (long long)k->pos);
	for (int i = 0; i < 3; i++)
		view_put_token(table->p, table_rect(table, AT_DRAWN + i).x, table->y, TOKEN_W, t, id[i]);
	table_put(table, AT_KL, INK_TEXT, "%.3g", (double)k->price.kl * NANO);
	table_put(table, AT_RANK, INK_TEXT, "%d", (int)k->price.rank);
}

static void draw_partings(
	struct pen *p, int y, const struct timeline *t, const struct tl_request *r)
{
	struct table table = TABLE(p, partings, y);
	int rows = 0;

	for (int32_t i = r->n_tokens; i-- > 0 && rows < p->r.h - y - 1;)
		rows += parts(&r->token[i]);
	if (rows < 1 || !table_rect(&table, AT_RANK).w)
		return;
	table_heads(&table);
	for (int32_t i = r->n_tokens; i-- > 0 && rows > 0;)
		if (parts(&r->token[i])) {
			table.y = y + rows--;
			draw_parting(&table, t, &r->token[i]);
		}
}

/* ---- all of it ---- */

static void price_draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	const struct lossy_settings l = view_lossy(t);
	const struct tl_request *r = view_request(t, s);
	const struct sums sums = r ? sums_of(r) : (struct sums){ .n = 0 };
	char names[64];
	int y, room;

	if (!sums.n) {
		view_empty(p, "price",
			"what lossy settings cost at each token: `/twin on` (an exact reference), then a lossy "
			"setting (/cache-format e4m3), and ask");
		return;
	}
	view_head(p, "price", "%s \xc2\xb7 KL %.3g nats a token \xc2\xb7 best equal in %d of %d",
		*lossy_print(&l, names, sizeof names) ? names : "exact", sums.kl / sums.n, (int)sums.equal,
		(int)sums.n);
	y = draw_table(p, 1, t, &sums) + 1;
	room = p->r.h - y;
	y = chart(p, y, room > 24 ? room * 3 / 5 : room > 14 ? room - 5 : room, r, &sums);
	draw_partings(p, y + 1, t, r);
}

const struct view view_price = {
	VIEW(PRICE, price, "price", 46, 4, 18),
	.draw = price_draw,
};
