/* Modified rejection sampling, of one candidate (Leviathan, Kalman and Matias 2023, "Fast inference
 * from transformers via speculative decoding", algorithm 1; Chen et al. 2023, "Accelerating large
 * language model decoding with speculative sampling") or of several (Miao et al. 2024, "SpecInfer",
 * algorithm 2; Yang et al. 2024, "Multi-Candidate Speculative Decoding"; without replacement: Chen
 * et al. 2024, "Sequoia"). See sampler.h.
 *
 * Correctness: for any r, accepting x ~ q with probability min(1, r(x)/q(x)), and else drawing from
 * the normalised positive part of r - q, yields r. After the last candidate the race draws from
 * that part. */
#include "engine/sample/sampler_impl.h"

#include <assert.h>

/* The distribution that a candidate was drawn from: dense, without the rejected ids, or all of q on
 * one id. */
struct proposal {
	const float *dense;
	int32_t id;
	float q;
	float left; /* mass of dense, without the ids rejected before */
};

static bool is_gone(const struct sampler *s, const float *dense, int32_t id)
{
	for (int32_t i = 0; i < s->n_gone; i++)
		if (s->gone[i] == id && s->gone_dense[i] == dense)
			return true;
	return false;
}

static struct proposal propose(const struct sampler *s, int32_t id, float q, const float *dense)
{
	struct proposal d = { dense, id, q, 1 };

	for (int32_t i = 0; dense && i < s->n_gone; i++)
		if (s->gone_dense[i] == dense)
			d.left -= dense[s->gone[i]];
	return d;
}

static float proposed(const struct sampler *s, const struct proposal *d, int32_t id)
{
	if (!d->dense)
		return id == d->id ? d->q : 0;
	if (is_gone(s, d->dense, id))
		return 0;
	return d->left == 1 ? d->dense[id] : d->left > 0 ? d->dense[id] / d->left : 0;
}

/* The residual of the target, normalised. */
static float left(const struct sampler *s, int32_t id)
{
	if (!sampler_survives(s, id))
		return 0;
	if (!s->n_gone)
		return sampler_p_draw(s, id);
	return s->rest_mass > 0 ? (float)((double)s->rest[id] / s->rest_mass) : 0;
}

static int32_t survivors(const struct sampler *s)
{
	return s->n_list < 0 ? s->vocab : s->n_list;
}

static int32_t survivor(const struct sampler *s, int32_t i)
{
	return s->n_list < 0 ? i : s->list[i];
}

static void subtract(struct sampler *s, const struct proposal *d)
{
	double mass = 0;

	for (int32_t i = 0; i < survivors(s); i++) {
		int32_t id = survivor(s, i);
		float r = left(s, id) - proposed(s, d, id);

		s->rest[id] = r > 0 ? r : 0;
		mass += (double)s->rest[id];
	}
	s->rest_mass = mass;
	if (s->n_gone < SAMPLER_GONE) {
		s->gone_dense[s->n_gone] = d->dense;
		s->gone[s->n_gone++] = d->id;
	}
}

/* An exponential race of the residual, by the same construction as the plain draw: time -log(u) /
 * r. At most a block of ids. */
static void arrive(const struct sampler *s, const int32_t *id, int32_t n, float *arrival)
{
	struct k_draw_key key = { s->params.seed, s->reject_pos, s->reject_sample, PURPOSE_RESIDUAL };

	s->pass->wait_ids(id, n, &key, arrival);
	for (int32_t i = 0; i < n; i++) {
		float r = sampler_survives(s, id[i]) ? s->rest[id[i]] : 0;

		arrival[i] = r > 0 ? arrival[i] / r : INFINITY;
	}
}

static void race_rest(const struct sampler *s, int32_t *winner, float *least)
{
	int32_t n = survivors(s);

	/* Rounding left no residual, with r and q equal: then the plain winner is used. */
	*winner = s->winner;
	*least = INFINITY;
	for (int32_t at = 0; at < n; at += K_DRAW_BLOCK) {
		int32_t id[K_DRAW_BLOCK], size = n - at < K_DRAW_BLOCK ? n - at : K_DRAW_BLOCK;
		float arrival[K_DRAW_BLOCK];

		for (int32_t i = 0; i < size; i++)
			id[i] = survivor(s, at + i);
		arrive(s, id, size, arrival);
		for (int32_t i = 0; i < size; i++)
			if (arrival[i] < *least) { /* ids ascend: the lowest keeps a tie */
				*winner = id[i];
				*least = arrival[i];
			}
	}
}

float sampler_accept_u(const struct sampler *s, int32_t draft, struct sample_key key)
{
	return k_draw_u(
		s->params.seed, (uint32_t)draft, (uint32_t)key.pos, (uint32_t)key.sample, PURPOSE_ACCEPT);
}

void sampler_reject_begin(struct sampler *s, struct sample_key key)
{
	s->n_gone = 0;
	s->rest_mass = 1;
	s->reject_pos = (uint32_t)key.pos;
	s->reject_sample = (uint32_t)key.sample;
}

bool sampler_reject_next(
	struct sampler *s, int32_t draft, float q, const float *q_dense, float *u, float *threshold)
{
	struct proposal d = propose(s, draft, q, q_dense);
	float r = left(s, draft);

	assert(draft >= 0 && draft < s->vocab);
	q = proposed(s, &d, draft);
	*threshold = q > 0 ? r / q : r > 0 ? INFINITY : 0;
	*u = k_draw_u(s->params.seed, (uint32_t)draft, s->reject_pos, s->reject_sample, PURPOSE_ACCEPT);
	if (*u < *threshold)
		return true;
	subtract(s, &d);
	return false;
}

void sampler_reject_end(struct sampler *s, int32_t accepted, struct sample_result *out)
{
	int32_t winner;
	float least;

	if (accepted >= 0) {
		sampler_finish(s, accepted, NAN, out);
		return;
	}
	race_rest(s, &winner, &least);
	sampler_finish(s, winner, least, out);
	for (int32_t i = 0; i < out->n_candidates; i++) {
		int32_t id = (int32_t)out->candidate[i].id;

		if (out->candidate[i].cut == EV_CUT_kept)
			arrive(s, &id, 1, &out->candidate[i].arrival);
	}
}
