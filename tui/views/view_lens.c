/* The view "deep look": what the model computed for one token, layer by layer, recomputed. Three
 * parts: the logit lens, one row of attention, the whole distribution; beside one another where
 * there is room. */

#include "tui/state/lens.h"
#include "tui/views/view_util.h"

enum part { PART_LAYERS, PART_ATTENTION, PART_ALL, N_PARTS };
enum { WIDE_W = 110, WIDE_H = 24, GUESS_W = 20, TOP_MAX = 64, SMALL_RANK = 5 };
enum { AT_LAYER, AT_GUESS, AT_RANK, AT_P, AT_BITS, AT_SPARSE, AT_RMS };
static const struct column layer_columns[] = { { "l", 3, 0 }, { "p and guess", 0, 2 },
	{ "rank", 8, 0 }, { "p", 8, 0 }, { "bits", 7, 0 }, { "spars", 6, 0 }, { "rms", 7, 0 } };
enum { AT_POS, AT_TOKEN, AT_WEIGHT, AT_WEIGHT_BAR };
static const struct column row_columns[] = { { NULL, 6, 0 }, { NULL, 2 - GUESS_W, 2 },
	{ NULL, 9, 0 }, { NULL, 0, 2 } };
enum { AT_BEST, AT_SHARE, AT_LOGIT, AT_SHARE_BAR };
static const struct column best_columns[] = { { NULL, 2 - GUESS_W, 0 }, { NULL, 9, 0 },
	{ NULL, 8, 0 }, { NULL, 0, 2 } };

static struct view_text quote(const struct lens_look *k, const struct timeline *t, int32_t id)
{
	struct gguf_text bytes = lens_bytes(k, id);

	return bytes.size && bytes.size <= INT32_MAX
			   ? view_quote_bytes((const char *)bytes.data, (int32_t)bytes.size)
			   : view_quote(t, id);
}

/* --- the logit lens --- */

static void draw_layer(const struct table *table, const struct timeline *t,
	const struct lens_look *k, int32_t layer, bool chosen)
{
	const struct probe_layer *l = &k->probe->layer[layer];
	struct pen in = table_cell(table, AT_GUESS);

	table_put(table, AT_LAYER, chosen ? INK_BRIGHT : INK_DIM, "%d", layer);
	for (int i = 0; i < PROBE_TOP && (!i || (i + 1) * GUESS_W <= in.r.w + 1); i++) {
		const struct probe_guess *g = &l->top[i];

		view_clip(&in, i * GUESS_W, 0, GUESS_W - 1,
			g->id == k->token ? INK_ACCEPTED
			: i               ? INK_DIM
							  : INK_TEXT,
			view_form("%.2f %s", (double)g->p, quote(k, t, g->id).text).text);
	}
	table_put(table, AT_RANK, l->token_rank <= SMALL_RANK ? INK_ACCEPTED : INK_DIM, "%s",
		view_count(l->token_rank).text);
	table_put(table, AT_P, INK_DIM, "%.4f", (double)l->token_p);
	table_put(table, AT_BITS, INK_DIM, "%.2f", (double)l->entropy);
	/* a layer without a feed-forward has no activations */
	table_put(
		table, AT_SPARSE, INK_DIM, l->act_max > 0 ? "%.0f%%" : "–", 100 * (double)l->act_small);
	table_put(table, AT_RMS, INK_DIM, "%.1f", (double)l->residual_rms);
	if (chosen)
		view_mark_row(table->p, table->y);
}

static void draw_layers(
	struct pen *p, const struct timeline *t, const struct view_state *s, const struct lens_look *k)
{
	struct table table = TABLE(p, layer_columns, 1);
	int rows = p->r.h - 2, chosen = s->layer < 0 ? -1 : s->layer, first;

	view_head(p, "logit lens", "what each layer would say · rank and p of %s",
		quote(k, t, k->token).text);
	table_heads(&table);
	first = k->probe->n_layers - rows;
	first = chosen >= 0 && chosen < first ? chosen : first;
	first = at_least(first, 0);
	for (int32_t i = first; i < k->probe->n_layers && i < first + rows; i++) {
		table.y++;
		draw_layer(&table, t, k, i, i == chosen);
	}
}

/* --- a row of attention --- */

/* One head's, or the mean of a layer's, or of all. Returns of how many: a layer may have none. */
static int32_t attention_row(const struct probe *p, int32_t layer, int32_t head, float *row)
{
	int32_t from = at_least(layer, 0), to = layer < 0 ? p->n_layers : layer + 1, n = 0;

	memset(row, 0, (size_t)p->n * sizeof *row);
	for (int32_t l = from; l < to; l++)
		for (int32_t h = at_least(head, 0);
			 p->layer[l].attends && h < (head < 0 ? p->n_heads : head + 1); h++, n++)
			for (int32_t i = 0; i < p->n; i++)
				row[i] += probe_attention(p, l, h)[i];
	for (int32_t i = 0; n > 1 && i < p->n; i++)
		row[i] /= (float)n;
	return n;
}

/* The indices of the n largest values, largest first; returns how many there are. */
static int largest(const float *v, int32_t n_values, int32_t *out, int n)
{
	int found = 0;

	for (int32_t i = 0; i < n_values; i++) {
		int at = found;

		if (found == n && (n == 0 || !(v[i] > v[out[n - 1]])))
			continue;
		found += found < n;
		for (at = found - 1; at > 0 && v[out[at - 1]] < v[i]; at--)
			out[at] = out[at - 1];
		out[at] = i;
	}
	return found;
}

/* The whole row over the width: the largest value of the positions that fall on a column. */
static void draw_strip(struct pen *p, int y, const float *row, int32_t n)
{
	for (int x = 0; x < p->r.w; x++) {
		int64_t from = (int64_t)x * n / p->r.w, to = (int64_t)(x + 1) * n / p->r.w;
		float most = 0;

		if (x >= n)
			break;
		if (n < p->r.w)
			from = x, to = x + 1;
		for (int64_t i = from; i < to; i++)
			most = fmaxf(row[i], most);
		view_spark(p, x, y, view_heat_ink((double)most), most >= 1 ? 1 : 0.1 + 0.9 * (double)most);
	}
}

static void draw_attention(
	struct pen *p, const struct timeline *t, const struct view_state *s, const struct lens_look *k)
{
	const struct probe *b = k->probe;
	int32_t layer = s->layer < b->n_layers ? s->layer : -1,
			head = s->head < b->n_heads ? s->head : -1;
	float *row = malloc((size_t)b->n * sizeof *row);
	struct table table = TABLE(p, row_columns, 2);
	int32_t top[TOP_MAX];
	int n;

	if (!row || !attention_row(b, layer, head, row)) {
		pen_head(p, "attention row", layer < 0 ? "none in this model" : "none in this layer");
		view_nothing(p,
			layer < 0 ? VIEW_NO_ATTENTION : "this layer has no attention: it reads its own state");
		free(row);
		return;
	}
	view_head(p, "attention row", "%s · %s · %d positions",
		layer < 0 ? "all layers" : view_form("layer %d", layer).text,
		head < 0 ? "all heads" : view_form("head %d", head).text, b->n);
	draw_strip(p, 1, row, b->n);
	n = p->r.h - 2 > 0 ? largest(row, b->n, top, p->r.h - 2 < TOP_MAX ? p->r.h - 2 : TOP_MAX) : 0;
	for (int i = 0; i < n; i++, table.y++) {
		table_put(&table, AT_POS, INK_DIM, "%d", top[i]);
		table_put(&table, AT_TOKEN, INK_TEXT, "%s", quote(k, t, k->ids[top[i]]).text);
		table_put(&table, AT_WEIGHT, INK_TEXT, "%.5f", (double)row[top[i]]);
		table_bar(&table, AT_WEIGHT_BAR, view_heat_ink((double)row[top[i]]), (double)row[top[i]]);
	}
	free(row);
}

/* --- the whole distribution --- */

static void draw_all(struct pen *p, const struct timeline *t, const struct lens_look *k)
{
	const struct probe *b = k->probe;
	struct table table = TABLE(p, best_columns, 1);
	double mass = 0, reported = 0;
	int32_t top[TOP_MAX];
	int rows = at_most(p->r.h - 2, TOP_MAX), n;

	view_head(
		p, "distribution", "%.2f bits over %s tokens", b->stats.entropy, view_count(b->vocab).text);
	for (int32_t i = 0; i < b->vocab; i++)
		mass += exp((double)(b->logits[i] - b->stats.max));
	n = rows > 0 ? largest(b->logits, b->vocab, top, rows) : 0;
	for (int i = 0; i < n; i++, table.y++) {
		const double share = exp((double)(b->logits[top[i]] - b->stats.max)) / mass;
		const bool drawn = top[i] == k->token;

		reported += share;
		table_put(&table, AT_BEST, drawn ? INK_BRIGHT : INK_TEXT, "%s", quote(k, t, top[i]).text);
		table_put(&table, AT_SHARE, INK_TEXT, "%.5f", share);
		table_put(&table, AT_LOGIT, INK_DIM, "%.2f", (double)b->logits[top[i]]);
		table_bar(&table, AT_SHARE_BAR, drawn ? INK_BAR : INK_BAR_CUT, share);
	}
	view_put(p, 0, table.y, INK_DIM, "the other %s together", view_count(b->vocab - n).text);
	table_put(&table, AT_LOGIT, INK_DIM, "%.5f", reported < 1 ? 1 - reported : 0.0);
}

/* --- all of it --- */

static void draw_part(struct pen *p, enum part part, const struct timeline *t,
	const struct view_state *s, const struct lens_look *k)
{
	if (part == PART_LAYERS)
		draw_layers(p, t, s, k);
	else if (part == PART_ATTENTION)
		draw_attention(p, t, s, k);
	else
		draw_all(p, t, k);
}

static void draw_done(
	struct pen *p, const struct timeline *t, const struct view_state *s, const struct lens_look *k)
{
	int half = (p->r.w - 2) / 2, top = (p->r.h - 1) * 3 / 5;
	struct pen in;

	if (p->r.w < WIDE_W || p->r.h < WIDE_H) {
		in = pen_sub(p, (struct rect){ 0, 1, p->r.w, p->r.h - 1 });
		draw_part(&in, (enum part)((uint64_t)s->cursor[VIEW_LENS] % N_PARTS), t, s, k);
		return;
	}
	in = pen_sub(p, (struct rect){ 0, 2, half, p->r.h - 2 });
	draw_part(&in, PART_LAYERS, t, s, k);
	in = pen_sub(p, (struct rect){ half + 2, 2, p->r.w - half - 2, top - 1 });
	draw_part(&in, PART_ATTENTION, t, s, k);
	in = pen_sub(p, (struct rect){ half + 2, 2 + top, p->r.w - half - 2, p->r.h - 2 - top });
	draw_part(&in, PART_ALL, t, s, k);
}

static void draw_progress(struct pen *p, const struct lens_look *k)
{
	view_put(p, 0, 2, INK_TEXT, "%s", k->words);
	if (k->all > 0) {
		view_bar(p, 0, 4, at_most(p->r.w, 60), INK_BAR, (double)k->done / k->all);
		view_put(p, 0, 5, INK_DIM, "%d of %d tokens", k->done, k->all);
	}
}

static void draw_lens(struct pen *p, const struct timeline *t, struct view_state *s)
{
	const struct lens_look *k = s->lens;
	const char *same = "";

	if (!k || k->state == LENS_NOTHING) {
		view_empty(p, "deep look",
			"`/lens` looks at the token under the cursor: what each layer would say, where every "
			"head "
			"looked, the whole distribution; all of it computed again, to the bit");
		return;
	}
	if (k->state == LENS_DONE && k->hash != EV_NULL_I)
		same = (int64_t)k->probe->stats.hash == k->hash ? " · same bits as in the log"
														: " · NOT the bits of the log";
	view_head(p, "deep look", "request %s · position %d · %s%s", view_label(k->request).text, k->n,
		quote(k, t, k->token).text, same);
	if (k->state == LENS_WORKS)
		draw_progress(p, k);
	else if (k->state == LENS_FAILED)
		view_nothing(p, k->words);
	else
		draw_done(p, t, s, k);
}

static void move(int32_t *at, int by, int32_t n)
{
	*at += by;
	*at = *at < -1 ? n - 1 : *at >= n ? -1 : *at;
}

static bool key_lens(int key, const struct timeline *t, struct view_state *s)
{
	const struct lens_look *k = s->lens;

	switch (key) {
	case KEY_UP_:
	case KEY_DOWN_:
		move(&s->layer, key == KEY_DOWN_ ? 1 : -1, k && k->probe ? k->probe->n_layers : 0);
		return true;
	case '[':
	case ']':
		move(&s->head, key == ']' ? 1 : -1, k && k->probe ? k->probe->n_heads : 0);
		return true;
	case KEY_ENTER_: s->cursor[VIEW_LENS] = (s->cursor[VIEW_LENS] + 1) % N_PARTS; return true;
	case 'l': s->action.what = ACTION_LENS; return true;
	default:
		if (!view_walk_tokens(key, t, s))
			return false;
		s->action.what = ACTION_LENS;
		return true;
	}
}

const struct view view_lens = {
	VIEW(LENS, lens, "deep look", 44, 5, 16),
	.draw = draw_lens,
	.key = key_lens,
	.hints = (const struct hint[]){ { "← →", "token" }, { "↑ ↓", "layer" }, { "[ ]", "head" },
		{ "Enter", "next part" }, { NULL, NULL } },
};
