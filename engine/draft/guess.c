/* See guess.h. */
#include "engine/draft/guess.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/arith.h"

int guesser_open(
	struct guesser *g, const struct draft_head *head, const struct draft_env *env, struct err *e)
{
	size_t padded = ((size_t)env->vocab + 63) & ~(size_t)63,
		   rows = 2 * (size_t)env->slots * DRAFT_MAX;

	*g = (struct guesser){ .head = head, .vocab = env->vocab, .most_dense = (int32_t)rows };
	g->wide = aligned_alloc(64, padded * sizeof *g->wide);
	g->history = malloc(((size_t)env->ctx + DRAFT_MAX) * sizeof *g->history);
	g->dense = calloc(rows, (size_t)env->vocab * sizeof *g->dense);
	if (!g->wide || !g->history || !g->dense || sampler_open(&g->sampler, env->vocab, e)) {
		guesser_close(g);
		return err_no_memory(e, "a drafter's guesses");
	}
	for (size_t i = 0; i < padded; i++)
		g->wide[i] = -INFINITY;
	return 0;
}

void guesser_close(struct guesser *g)
{
	sampler_close(g->sampler);
	free(g->wide);
	free(g->history);
	free(g->dense);
	memset(g, 0, sizeof *g);
}

void guesser_begin(struct guesser *g)
{
	g->n_dense = 0;
}

static float share(const struct k_logit_stats *s, float logit)
{
	float p =
		s->mass ? k_exp(k_logit_depth(logit, s->max)) / (float)((double)s->mass * 0x1p-40) : 0;

	return p < 1 ? p : 1;
}

/* ---- the likeliest ---- */

/* Inserts row i of the head among the best; equal ones keep the order of their ids. */
static int32_t insert(const float *logits, int32_t i, int32_t *best, int32_t n, int32_t fan)
{
	int32_t at = n < fan ? n : fan - 1;

	for (; at > 0 && logits[i] > logits[best[at - 1]]; at--)
		best[at] = best[at - 1];
	best[at] = i;
	return n < fan ? n + 1 : n;
}

static int32_t find_best(const float *logits, int32_t n_logits, int32_t fan, int32_t *best)
{
	enum { BLOCK = 32 };
	float floor = -INFINITY; /* logits not above it are not among the best */
	int32_t n = 0;

	for (int32_t from = 0; from < n_logits; from += BLOCK) {
		int32_t end = n_logits - from < BLOCK ? n_logits : from + BLOCK;
		int any = 0;

		for (int32_t i = from; i < end; i++)
			any |= logits[i] > floor;
		for (int32_t i = from; any && i < end; i++)
			if (logits[i] > floor) {
				n = insert(logits, i, best, n, fan);
				floor = n == fan ? logits[best[n - 1]] : -INFINITY;
			}
	}
	return n;
}

static int32_t guess_likeliest(const struct guesser *g, const float *logits,
	const struct k_logit_stats *stats, int32_t fan, struct draft_guess *out)
{
	int32_t best[SAMPLE_CANDIDATES], n = 1;

	best[0] = stats->argmax;
	if (fan > 1)
		n = find_best(logits, g->head->n, fan, best);
	for (int32_t i = 0; i < n; i++) {
		float p = share(stats, logits[best[i]]);

		out[i] =
			(struct draft_guess){ .id = draft_true_id(g->head, best[i]), .p = p, .confidence = p };
	}
	return n;
}

/* ---- the first to arrive ---- */

/* The last tokens, as many as the penalties use. */
static int32_t write_history(
	const struct guesser *g, const struct draft_job *job, const int32_t *path, int32_t depth)
{
	int32_t window = sampler_has_penalties(job->params) ? job->params->penalty_window : 0;
	int32_t n = window < job->n ? window : job->n;

	memcpy(g->history, job->ids + job->n - n, (size_t)n * sizeof *g->history);
	if (path)
		memcpy(g->history + n, path, (size_t)depth * sizeof *path);
	return n + (path ? depth : 0);
}

static void pick(struct guesser *g, const struct draft_job *job, const int32_t *path, int32_t depth,
	const float *logits, const struct k_logit_stats *stats, struct sample_result *r)
{
	struct sample_key key = { .pos = job->n + depth,
		.sample = job->sample,
		.purpose = job->rejection ? PURPOSE_DRAFT : PURPOSE_TARGET };
	int32_t n = write_history(g, job, path, depth);
	const float *row = logits;

	if (g->head->ids) {
		for (int32_t i = 0; i < g->head->n; i++)
			g->wide[g->head->ids[i]] = logits[i];
		row = g->wide;
	}
	sampler_pick(g->sampler, row, stats, job->params, g->history, n, key, r);
}

static bool earlier(const struct ev_candidate *a, const struct ev_candidate *b)
{
	return a->arrival < b->arrival;
}

/* Ranks the candidates, which include the winner, by arrival time. Arrival times are exponential
 * with the probabilities as rates, so the lead of one gives its confidence. */
static int32_t rank_arrivals(const struct sample_result *r, int32_t fan, struct draft_guess *out)
{
	struct ev_candidate by[SAMPLE_CANDIDATES];
	float sum = 0;
	int32_t n = 0;

	for (int32_t i = 0; i < r->n_candidates; i++) {
		int32_t at = n;

		if (!(r->candidate[i].arrival > 0 && r->candidate[i].arrival < INFINITY))
			continue;
		for (; at > 0 && earlier(&r->candidate[i], &by[at - 1]); at--)
			by[at] = by[at - 1];
		by[at] = r->candidate[i];
		sum += 1 / r->candidate[i].arrival;
		n++;
	}
	for (int32_t i = 0; i < n && i < fan; i++)
		out[i] = (struct draft_guess){
			.id = (int32_t)by[i].id, .p = by[i].p, .confidence = 1 / by[i].arrival / sum
		};
	return n < fan ? n : fan;
}

/* Greedy with bias or penalties. */
static int32_t rank_values(const struct sample_result *r, int32_t fan, struct draft_guess *out)
{
	int32_t n = 0;

	for (int32_t i = 0; i < r->n_candidates && n < fan; i++)
		if (r->candidate[i].p > 0)
			out[n++] = (struct draft_guess){ .id = (int32_t)r->candidate[i].id,
				.p = r->candidate[i].p,
				.confidence = r->candidate[i].p };
	return n;
}

/* Puts x before the first of the n that come after it; at most `fan` stay. Returns where, or
 * fan. */
static int32_t place(float *sorted, int32_t n, int32_t fan, float x)
{
	int32_t at = n < fan ? n : fan;

	while (at > 0 && x < sorted[at - 1])
		at--;
	if (at < fan) {
		memmove(
			sorted + at + 1, sorted + at, (size_t)((n < fan ? n : fan - 1) - at) * sizeof *sorted);
		sorted[at] = x;
	}
	return at;
}

/* Draws without replacement: the first to arrive in the drafter's own race. The i-th has the i-th
 * greatest probability as its confidence, not its own: whether a guess is proposed must not hang on
 * what was drawn, or what is drawn seldom would be rejected seldom, too. */
static int32_t guess_drawn(struct guesser *g, int32_t fan, struct draft_guess *out)
{
	float *dense = g->dense + (size_t)g->n_dense * (size_t)g->vocab;
	float most[SAMPLE_CANDIDATES + 1], first[SAMPLE_CANDIDATES + 1], arrival;
	int32_t n = 0;

	if (g->n_dense == g->most_dense)
		return 0;
	g->n_dense++;
	for (int32_t i = 0; i < g->head->n; i++) {
		const int32_t id = draft_true_id(g->head, i);
		int32_t at;

		sampler_draft(g->sampler, id, &dense[id], &arrival);
		if (!(dense[id] > 0) || !(arrival < INFINITY))
			continue;
		place(most, n, fan, -dense[id]);
		at = place(first, n, fan, arrival);
		if (at < fan) {
			memmove(out + at + 1, out + at, (size_t)((n < fan ? n : fan - 1) - at) * sizeof *out);
			out[at] = (struct draft_guess){ .id = id, .p = dense[id], .dense = dense };
		}
		n += n < fan;
	}
	for (int32_t i = 0; i < n; i++)
		out[i].confidence = -most[i];
	return n;
}

int32_t guess_row(struct guesser *g, const struct draft_job *job, const int32_t *path,
	int32_t depth, const float *logits, const struct k_logit_stats *stats, int32_t fan,
	struct draft_guess *out)
{
	bool greedy = !(job->params->temperature > 0);
	struct sample_result r;
	int32_t n;

	if (!isfinite(stats->max))
		return 0;
	fan = fan < SAMPLE_CANDIDATES ? fan : SAMPLE_CANDIDATES;
	if (greedy && !sampler_has_penalties(job->params) && !job->params->logit_bias.n) {
		n = guess_likeliest(g, logits, stats, fan, out);
	} else {
		pick(g, job, path, depth, logits, stats, &r);
		if (job->rejection && !isnan(r.arrival))
			return guess_drawn(g, fan, out);
		n = isnan(r.arrival) ? rank_values(&r, fan, out) : rank_arrivals(&r, fan, out);
	}
	for (int32_t i = 0; job->rejection && i < n; i++)
		out[i].p = 1; /* chosen, not drawn */
	return n;
}
