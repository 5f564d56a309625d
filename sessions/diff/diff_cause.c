/* Where a pair diverges, why, and how far. See diff.h. */
#include "base/text.h"
#include "sessions/diff/diff_impl.h"

enum { MAX_CANDIDATES = 16 };

/* ---- distances ---- */

static float p_of(const struct ev_candidate *c, int n, uint32_t id)
{
	for (int i = 0; i < n; i++)
		if (c[i].id == id)
			return c[i].p;
	return -1;
}

static double term(double p, double q)
{
	return p > 0 ? p * log(p / fmax(q, 1e-12)) : 0;
}

/* D(A || B) over the candidates that both name and one bin for the rest. Merging outcomes never
 * increases the divergence (Cover and Thomas 2006, "Elements of Information Theory", section 2.7),
 * so it is a lower bound. */
static double bound_kl(const struct ev_candidate *a, int n_a, const struct ev_candidate *b, int n_b)
{
	double kl = 0, rest_a = 1, rest_b = 1;

	for (int i = 0; i < n_a; i++) {
		double p = (double)a[i].p, q = (double)p_of(b, n_b, a[i].id);

		if (!(p >= 0 && p <= 1 && q >= 0 && q <= 1))
			continue;
		kl += term(p, q);
		rest_a -= p;
		rest_b -= q;
	}
	kl += term(rest_a > 1e-6 ? rest_a : 0, rest_b);
	return kl > 0 ? kl : 0;
}

static void add_kl(struct diff_distance *d, double kl)
{
	d->kl += (kl - d->kl) / ++d->n_kl;
	d->kl_max = fmax(d->kl_max, kl);
}

static void add_position(struct diff *d, struct diff_distance *to, const struct history_row *a,
	const struct history_row *b, bool same)
{
	struct ev_candidate ca[MAX_CANDIDATES], cb[MAX_CANDIDATES];
	int n_a, n_b;

	to->n++;
	to->same += same;
	if (a->hash == b->hash && a->hash != EV_NULL_I && d->same_model) {
		to->n_top++;
		to->top++;
		to->none++;
		add_kl(to, 0);
		return;
	}
	n_a = history_candidates(d->h[0], a, ca, MAX_CANDIDATES);
	n_b = history_candidates(d->h[1], b, cb, MAX_CANDIDATES);
	if (!n_a || !n_b || !d->same_vocab)
		return;
	to->n_top++;
	to->top += ca[0].id == cb[0].id;
	add_kl(to, bound_kl(ca, n_a, cb, n_b));
}

/* Positions count from the first that both drew: after different prompts, the first tokens of the
 * two answers are compared. */
static void measure(struct diff *d, struct diff_pair *p)
{
	bool aligned = p->cause != DIFF_PROMPT;
	int32_t i = aligned ? p->from[0] : p->side[0].n_prompt,
			k = aligned ? p->from[1] : p->side[1].n_prompt;
	int32_t parting = p->from[0] + p->at;

	for (; i < p->side[0].n && k < p->side[1].n; i++, k++) {
		const struct history_row *a = diff_row_at(p, 0, i), *b = diff_row_at(p, 1, k);
		bool after = !aligned || i > parting;

		if (a && b)
			add_position(d, after ? &p->after : &p->before, a, b,
				diff_same_token(d, p, i - p->from[0], k - p->from[1]));
	}
}

/* ---- settings ---- */

static void say_int(struct diff_pair *p, const char *name, int64_t a, int64_t b)
{
	if (a != b)
		text_append(p->settings, sizeof p->settings, ", ", "%s %lld and %lld", name, (long long)a,
			(long long)b);
}

static bool penalised(const struct sample_params *p)
{
	return p->repeat_penalty != 1 || p->frequency_penalty != 0 || p->presence_penalty != 0;
}

/* Can the setting change a draw of either? A greedy choice is changed by penalties alone. */
static bool matters(int setting, const struct sample_params *a, const struct sample_params *b)
{
	switch (setting) {
	case ANSWER_AT_top_k:
	case ANSWER_AT_top_p:
	case ANSWER_AT_min_p:
	case ANSWER_AT_seed: return a->temperature > 0 || b->temperature > 0;
	case ANSWER_AT_penalty_window: return penalised(a) || penalised(b);
	default: return true;
	}
}

/* Compares the sampling settings of the table: the last is the seed. */
static void compare_settings(struct diff_pair *p)
{
	const struct history_request *q = p->side[0].request, *r = p->side[1].request;
	const struct answer_settings a = { .params = q->params }, b = { .params = r->params };

	for (int i = 0; i <= ANSWER_AT_seed; i++) {
		char x[40], y[40];

		setting_text(&answer_settings[i], &a, x, sizeof x);
		setting_text(&answer_settings[i], &b, y, sizeof y);
		if (!setting_same(&answer_settings[i], &a, &b) && matters(i, &a.params, &b.params))
			text_append(p->settings, sizeof p->settings, ", ", "%s %s and %s",
				answer_settings[i].name, x, y);
	}
	if (matters(ANSWER_AT_seed, &a.params, &b.params))
		say_int(p, "sample", q->sample, r->sample);
}

/* ---- the cause ---- */

struct comparing {
	const struct diff *d;
	const struct diff_pair *p;
	int32_t at[2]; /* hunks begin here */
};

static bool same(void *arg, int32_t i, int32_t k)
{
	const struct comparing *c = arg;

	return diff_same_token(c->d, c->p, c->at[0] + i, c->at[1] + k);
}

/* The first row, with equal tokens before it, whose hash differs; at the latest where the tokens
 * differ. */
static int32_t first_hash(const struct diff_pair *p, int32_t until)
{
	for (int32_t i = 0; i <= until; i++) {
		const struct history_row *a = diff_row_at(p, 0, p->from[0] + i),
								 *b = diff_row_at(p, 1, p->from[1] + i);

		if (a && b && a->hash != b->hash && !ev_is_given(a->source) && !ev_is_given(b->source))
			return i;
	}
	return INT32_MAX;
}

static bool is_chosen(const struct history_row *row)
{
	return row->source == EV_SOURCE_chosen || row->source == EV_SOURCE_taken;
}

static enum diff_cause cause_of_draw(
	struct diff_pair *p, const struct history_row *a, const struct history_row *b)
{
	if (ev_is_given(a->source) || ev_is_given(b->source))
		return DIFF_FORCED;
	if (a->hash != b->hash)
		return DIFF_LOGITS;
	if (is_chosen(a) || is_chosen(b))
		return DIFF_CHOSEN;
	if (a->by_rejection != b->by_rejection)
		text_append(p->settings, sizeof p->settings, ", ", "rule %s and %s",
			a->by_rejection ? "rejection" : "race", b->by_rejection ? "rejection" : "race");
	return p->settings[0] ? DIFF_SETTING : DIFF_DRAW;
}

static enum diff_cause cause_of(struct diff *d, struct diff_pair *p, int32_t n_a, int32_t n_b)
{
	int32_t hash = first_hash(p, p->at < n_a && p->at < n_b ? p->at : p->at - 1);
	const struct history_row *a, *b;

	p->hash_at = hash == INT32_MAX ? -1 : hash;
	/* logits that differ after equal tokens are reported even if no token differs; with another
	 * model they always do */
	if (hash < p->at && d->same_model) {
		p->at = hash;
		return DIFF_LOGITS;
	}
	if (p->at >= n_a && p->at >= n_b)
		return hash == INT32_MAX ? DIFF_EQUAL : DIFF_LOGITS;
	if (p->at >= n_a || p->at >= n_b) {
		say_int(p, "max-tokens", p->side[0].request->max_tokens, p->side[1].request->max_tokens);
		if (strcmp(p->side[0].request->stop, p->side[1].request->stop))
			text_append(p->settings, sizeof p->settings, ", ", "stop strings differ");
		return DIFF_LENGTH;
	}
	a = diff_row(p, 0);
	b = diff_row(p, 1);
	if (!a || !b) { /* the token that was forced in a fork is the end of its prompt */
		const struct history_request *q = p->side[0].request, *r = p->side[1].request;
		int32_t pos = p->from[0] + p->at;

		return q->forced_pos == pos || r->forced_pos == pos ? DIFF_FORCED : DIFF_PROMPT;
	}
	return cause_of_draw(p, a, b);
}

static int find_hunks(struct diff *d, struct diff_pair *p, struct err *e)
{
	struct comparing c = { .d = d, .p = p };
	int32_t n[2];

	for (int s = 0; s < 2; s++) {
		int32_t prompt = p->side[s].n_prompt - p->from[s];

		/* if the prompts differ, only the answers are aligned */
		c.at[s] = p->cause == DIFF_PROMPT ? prompt : p->at;
		n[s] = p->side[s].n - p->from[s] - c.at[s];
	}
	p->hunk = diff_hunks(n[0], n[1], same, &c, DIFF_MOST_EDITS, &p->n_hunks);
	if (p->n_hunks < 0)
		return err_set(e, ERR_MEMORY, "no memory to lay two texts side by side");
	for (int32_t i = 0; i < p->n_hunks; i++) {
		p->hunk[i].a += p->from[0] + c.at[0];
		p->hunk[i].a_end += p->from[0] + c.at[0];
		p->hunk[i].b += p->from[1] + c.at[1];
		p->hunk[i].b_end += p->from[1] + c.at[1];
	}
	return 0;
}

int diff_compare(struct diff *d, struct diff_pair *p, struct err *e)
{
	int32_t n_a = p->side[0].n - p->from[0], n_b = p->side[1].n - p->from[1];

	while (p->at < n_a && p->at < n_b && diff_same_token(d, p, p->at, p->at))
		p->at++;
	compare_settings(p);
	p->cause = cause_of(d, p, n_a, n_b);
	measure(d, p);
	return p->cause == DIFF_EQUAL ? 0 : find_hunks(d, p, e);
}
