/* The page's searches, attention and drafters. Searches and attention go in as the events are, and
 * the page folds them; drafters can have a row for every token, so they are summed here. */
#include "sessions/export/export_html.h"

enum { MOST_SEARCH_ROWS = 100000, MOST_ATTENTION = 4 << 20 /* bytes of shares */ };
enum { MOST_DRAFTERS = 64, NAME_BYTES = 256, DEPTHS = 16, MOST_IN_STEP = 1024, NOBODY = -1 };

struct counts {
	int64_t verifications, proposed, verified, accepted, tokens;
	int64_t first, last;                              /* steps */
	int64_t at_verified[DEPTHS], at_accepted[DEPTHS]; /* by tokens ahead */
};

/* Of a request in the open step: the drafter of its draft, or NOBODY for the tokens that it got. */
struct part {
	int64_t request, tokens;
	int drafter;
	uint32_t verified, accepted; /* bit i: i + 1 tokens ahead, of a tree once for each depth */
};

struct names {
	char name[MOST_DRAFTERS][NAME_BYTES];
	int n;
};

struct html_drafting {
	struct names used, guessing;
	struct counts counts[MOST_DRAFTERS];
	struct part part[MOST_IN_STEP];
	int n_parts;
	struct ev_shadow shadow[MOST_DRAFTERS]; /* the newest of each; its spans are in: */
	int64_t verified[MOST_DRAFTERS][DEPTHS], accepted[MOST_DRAFTERS][DEPTHS];
};

bool html_views_begin(struct html *h)
{
	h->drafting = calloc(1, sizeof *h->drafting);
	return h->drafting != NULL;
}

/* ---- searches ---- */

static void text_or_null(struct exporter *x, FILE *out, struct ev_span s)
{
	if (s.data)
		html_text(x, out, ",", s);
	else
		fputs(",null", out);
}

static void on_search(struct exporter *x, struct html *h, const struct ev_search *s)
{
	const struct html_list *tokens = &h->list[HTML_tokens];
	FILE *out = html_row(&h->list[HTML_searches], MOST_SEARCH_ROWS);

	if (!out)
		return;
	HTML_NUMBERS(out, "[", s->search, s->step, s->action, s->request, s->node, s->parent, s->tokens,
		s->visits);
	export_json_real(out, ",", s->logp);
	export_json_real(out, ",", s->score);
	text_or_null(x, out, s->method);
	text_or_null(x, out, s->judge);
	fprintf(out, ",%lld]", (long long)(tokens->n + tokens->left_out)); /* those before it */
}

static void on_sharing(struct html *h, const struct ev_sharing *s)
{
	FILE *out = html_row(&h->list[HTML_sharing], HTML_MOST_STEPS);

	if (!out)
		return;
	HTML_NUMBERS(out, "[", s->search, s->pages, s->unshared);
	putc(']', out);
}

/* ---- attention ---- */

static void on_attention(struct html *h, const struct ev_attention *a)
{
	struct html_list *l = &h->list[HTML_attention];
	FILE *out;

	h->attention_bytes += (int64_t)(a->share.size + a->near_zero.size);
	out = html_row(l, h->attention_bytes > MOST_ATTENTION ? 0 : INT64_MAX);
	if (!out)
		return;
	HTML_NUMBERS(out, "[", a->step, a->request, a->pos, a->pages);
	export_json_real(out, ",", a->threshold);
	fputs(",\"", out);
	export_hex(out, a->share);
	fputs("\",\"", out);
	export_hex(out, a->near_zero);
	fputs("\"]", out);
}

/* ---- drafters ---- */

/* Index of a name, which is new or not; -1: there are too many, and the row is left out. */
static int name_index(struct names *k, struct ev_span s, struct html_list *l)
{
	char name[NAME_BYTES];
	int i = 0;

	ev_copy(name, sizeof name, s);
	while (i < k->n && strcmp(k->name[i], name) != 0)
		i++;
	if (i == MOST_DRAFTERS) {
		l->left_out++;
		return -1;
	}
	if (i == k->n)
		memcpy(k->name[k->n++], name, sizeof name);
	return i;
}

static struct part *part_of(struct html_drafting *d, int64_t request, int drafter)
{
	int i = 0;

	while (i < d->n_parts && (d->part[i].request != request || d->part[i].drafter != drafter))
		i++;
	if (i == MOST_IN_STEP)
		return NULL;
	if (i == d->n_parts)
		d->part[d->n_parts++] = (struct part){ .request = request, .drafter = drafter };
	return &d->part[i];
}

static void on_draft(struct html *h, const struct ev_draft *e)
{
	struct html_drafting *d = h->drafting;
	int i = name_index(&d->used, e->drafter, &h->list[HTML_drafters]);
	int64_t depth = e->depth >= 1 ? e->depth : e->nth; /* of old: a chain */
	struct part *p = i < 0 ? NULL : part_of(d, e->request, i);
	uint32_t bit = depth >= 1 && depth <= DEPTHS ? UINT32_C(1) << (depth - 1) : 0;
	struct counts *c;

	if (!p)
		return;
	c = &d->counts[i];
	if (!c->proposed++)
		c->first = e->step;
	c->last = e->step;
	if (e->verdict == EV_VERDICT_discarded)
		return;
	c->verified++;
	p->verified |= bit;
	if (e->verdict == EV_VERDICT_accepted) {
		c->accepted++;
		p->accepted |= bit;
	}
}

/* What was not drawn (forced, chosen by a search) is no gain of a draft. */
static void count_token(struct html_drafting *d, const struct ev_token *t)
{
	bool drawn = t->source >= 0 && t->source <= EV_SOURCE_bonus;
	struct part *p = drawn ? part_of(d, t->request, NOBODY) : NULL;

	if (p)
		p->tokens++;
}

/* A step's tokens stand before, between and after its drafts, so that they meet when it ends. */
static void end_step(struct html_drafting *d)
{
	for (int i = 0; i < d->n_parts; i++) {
		const struct part *p = &d->part[i];
		struct counts *c = &d->counts[p->drafter < 0 ? 0 : p->drafter];

		if (p->drafter < 0)
			continue;
		c->verifications++;
		for (int k = 0; k < d->n_parts; k++)
			if (d->part[k].request == p->request && d->part[k].drafter < 0)
				c->tokens += d->part[k].tokens;
		for (int k = 0; k < DEPTHS; k++) {
			c->at_verified[k] += p->verified >> k & 1;
			c->at_accepted[k] += p->accepted >> k & 1;
		}
	}
	d->n_parts = 0;
}

static void take_counts(int64_t out[DEPTHS], struct ev_span s)
{
	for (size_t i = 0; i < DEPTHS; i++) {
		uint32_t n;

		out[i] = ev_item(s, i, &n, sizeof n) ? n : 0;
	}
}

static void on_shadow(struct html *h, const struct ev_shadow *s)
{
	struct html_drafting *d = h->drafting;
	int i = name_index(&d->guessing, s->drafter, &h->list[HTML_shadows]);

	if (i < 0)
		return;
	d->shadow[i] = *s;
	take_counts(d->verified[i], s->verified);
	take_counts(d->accepted[i], s->accepted);
}

void html_views_event(struct exporter *x, struct html *h, const struct event *ev)
{
	switch (ev->kind) {
	case EV_search: on_search(x, h, &ev->u.search); break;
	case EV_sharing: on_sharing(h, &ev->u.sharing); break;
	case EV_attention: on_attention(h, &ev->u.attention); break;
	case EV_draft: on_draft(h, &ev->u.draft); break;
	case EV_shadow: on_shadow(h, &ev->u.shadow); break;
	case EV_token: count_token(h->drafting, &ev->u.token); break;
	case EV_step: end_step(h->drafting); break;
	default: break;
	}
}

/* ---- the sums as rows ---- */

static FILE *name_row(struct exporter *x, struct html_list *l, const char *name)
{
	FILE *out = html_row(l, MOST_DRAFTERS);

	html_text(x, out, "[", ev_text(name));
	return out;
}

/* The end of a row. */
static void put_depths(FILE *out, const int64_t verified[DEPTHS], const int64_t accepted[DEPTHS])
{
	html_numbers(out, ",[", verified, DEPTHS);
	html_numbers(out, "],[", accepted, DEPTHS);
	fputs("]]", out);
}

static void write_drafter(struct exporter *x, struct html *h, int i)
{
	const struct counts *c = &h->drafting->counts[i];
	FILE *out = name_row(x, &h->list[HTML_drafters], h->drafting->used.name[i]);

	HTML_NUMBERS(out, ",", c->verifications, c->proposed, c->verified, c->accepted, c->tokens,
		c->first, c->last);
	put_depths(out, c->at_verified, c->at_accepted);
}

static void write_shadow(struct exporter *x, struct html *h, int i)
{
	const struct html_drafting *d = h->drafting;
	const struct ev_shadow *s = &d->shadow[i];
	FILE *out = name_row(x, &h->list[HTML_shadows], d->guessing.name[i]);

	HTML_NUMBERS(out, ",", s->used, s->step, s->steps, s->tokens, s->nodes);
	export_json_real(out, ",", s->predicted);
	export_json_real(out, ",", s->measured);
	put_depths(out, d->verified[i], d->accepted[i]);
}

void html_views_end(struct exporter *x, struct html *h)
{
	end_step(h->drafting); /* of a session that was cut off in a step */
	for (int i = 0; i < h->drafting->used.n; i++)
		write_drafter(x, h, i);
	for (int i = 0; i < h->drafting->guessing.n; i++)
		write_shadow(x, h, i);
}
