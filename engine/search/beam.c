/* Beam search: at each token the `width` most probable continuations of all live ones go on (Graves
 * 2012; Sutskever et al. 2014), with the length penalty of Wu et al. 2016 in the form that is
 * common today: an answer of n tokens scores logp / n^alpha.
 *
 * Of the 2 * width best continuations those that end the turn become answers, if they are among the
 * best `width`; of the rest the first `width` live on. The search is over when there are `width`
 * answers and no live continuation could score better than the worst of them at its present length.
 * Each live continuation is a request; one with several heirs is forked and shares its pages, one
 * without is dropped. Thread: the engine's. */
#include "engine/search/search_impl.h"

enum { DEFAULT_WIDTH = 4 };

struct beam {
	double alpha;
	int32_t n_nodes;
};

struct heir { /* a continuation of a member */
	struct search_member *m;
	int32_t choice, order;
	double logp;
};

static struct beam *beam_of(const struct search *s)
{
	return s->state;
}

static int beam_open(struct search *s, const char *args, struct err *e)
{
	struct beam *b = calloc(1, sizeof *b);
	char *end = (char *)(uintptr_t)args;
	long width = DEFAULT_WIDTH;

	if (!b)
		return err_no_memory(e, "a beam search");
	s->state = b;
	b->alpha = 1;
	if (args)
		width = strtol(args, &end, 10);
	if (args && end != args && *end == ',' && end[1])
		b->alpha = strtod(end + 1, &end);
	if (args && (end == args || *end || width < 1 || width > SEARCH_WIDTH / 2 || !(b->alpha >= 0) ||
					b->alpha > 10))
		return err_set(e, ERR_USAGE,
			"beam:%.40s is not beam:width[,alpha] with a width from 1 to %d and a length penalty "
			"from 0 to 10",
			args, SEARCH_WIDTH / 2);
	s->width = (int32_t)width;
	return 0;
}

static int beam_begin(struct search *s, struct err *e)
{
	struct search_member *m = search_start(s, s->q.ids, s->q.n_ids, NULL, s->q.sample, 0, e);

	if (!m)
		return -1;
	beam_of(s)->n_nodes = 1;
	search_tell(m, EV_SEARCH_node, -1);
	return 0;
}

static double score_of(const struct search *s, double logp, int32_t n)
{
	return logp / pow(n, beam_of(s)->alpha);
}

/* Best first; ties in the order of the members and of their choices. */
static int by_logp(const void *a, const void *b)
{
	const struct heir *x = a, *y = b;

	if (x->logp != y->logp)
		return x->logp > y->logp ? -1 : 1;
	return x->order - y->order;
}

static int32_t collect(struct search *s, struct heir *out)
{
	int32_t n = 0;

	for (int32_t i = 0; i < s->n_members; i++)
		for (int32_t c = 0; c < s->member[i]->n_choices; c++, n++)
			out[n] = (struct heir){ s->member[i], c, n,
				s->member[i]->logp + s->member[i]->choice[c].logp };
	qsort(out, (size_t)n, sizeof *out, by_logp);
	return n;
}

static bool ends(const struct search *s, const struct heir *h)
{
	return !s->q.ignore_end && tokenizer_is_end(s->engine->tokenizer, h->m->choice[h->choice].id);
}

static bool is_over(const struct search *s, double best)
{
	int32_t n = s->member[0]->r->n_ids - s->q.n_ids + 1;

	if (s->n_answers + s->n_waiting < s->width)
		return false;
	/* the scores that a command would give the others are not known */
	return s->options.score || s->answer[s->width - 1].score >= score_of(s, best, n);
}

/* The heirs of all held members: answers are kept, *n of the others live on. */
static int choose(struct search *s, struct heir *heir, int32_t *n_live, bool *over, struct err *e)
{
	int32_t n = collect(s, heir), live = 0;
	double best = heir[0].logp;

	for (int32_t i = 0; i < n && live < s->width; i++) {
		const struct heir h = heir[i];
		if (!ends(s, &h))
			heir[live++] = h;
		else if (i < s->width && search_keep(s, h.m, h.choice, e))
			return -1;
	}
	*over = is_over(s, best);
	*n_live = live;
	return 0;
}

/* The first heir of a member continues it; members without heirs are dropped first, to free their
 * slots. */
static int go_on(struct search *s, struct heir *heir, int32_t n, struct err *e)
{
	bool first[SEARCH_WIDTH];

	for (int32_t i = s->n_members - 1; i >= 0; i--) {
		bool has_heir = false;

		for (int32_t j = 0; j < n; j++)
			has_heir |= heir[j].m == s->member[i];
		if (!has_heir)
			search_drop(s, s->member[i]);
	}
	for (int32_t j = 0; j < n; j++) {
		struct search_member *m;

		first[j] = true;
		for (int32_t k = 0; k < j; k++)
			first[j] &= heir[k].m != heir[j].m;
		if (first[j])
			continue;
		m = search_fork(s, heir[j].m, heir[j].choice, beam_of(s)->n_nodes, e);
		if (!m)
			return -1;
		beam_of(s)->n_nodes++;
		search_tell(m, EV_SEARCH_node, heir[j].m->node);
		engine_end_if_due(s->engine, m->r);
	}
	for (int32_t j = 0; j < n; j++)
		if (first[j] && search_append(s, heir[j].m, heir[j].choice))
			return -1;
	return 0;
}

static int beam_step(struct search *s, struct err *e)
{
	struct heir heir[2 * SEARCH_WIDTH * SEARCH_WIDTH / 2];
	bool over;
	int32_t n;

	if (!s->n_members)
		return 0;
	for (int32_t i = 0; i < s->n_members; i++)
		if (!s->member[i]->held)
			return 0; /* it waits for a slot, pages or rows */
	if (choose(s, heir, &n, &over, e))
		return -1;
	if (!over)
		return go_on(s, heir, n, e);
	while (s->n_members)
		search_drop(s, s->member[s->n_members - 1]);
	return 0;
}

const struct search_ops search_beam = {
	.about = { "beam", "width[,alpha]",
		"the most probable continuations side by side; length penalty alpha (1)" },
	.open = beam_open,
	.begin = beam_begin,
	.chooses = true,
	.score = score_of,
	.step = beam_step,
};
