/* Modified rejection sampling: Leviathan, Kalman and Matias 2023, "Fast inference from transformers
 * via speculative decoding", algorithm 1; Chen et al. 2023, "Accelerating large language model
 * decoding with speculative sampling". See sampler.h. */
#include "engine/sampler_impl.h"

#include <assert.h>

/* The drafter's distribution: dense, or all of q on one id. */
struct proposal {
	const float *dense;
	int32_t id;
	float q;
};

static float proposed(const struct proposal *d, int32_t id)
{
	if (d->dense)
		return d->dense[id];
	return id == d->id ? d->q : 0;
}

static float target(const struct sampler *s, int32_t id)
{
	return s->greedy ? 1.0f : sampler_share(sampler_weight(s, id), s->kept_mass);
}

/* An exponential race of the residual, by the same construction as the plain draw: time -log(u) /
 * r. At most a block of ids. */
static void arrive(const struct sampler *s, const struct proposal *d, const int32_t *id, int32_t n,
				   float *arrival)
{
	struct k_draw_key key = s->key;

	key.purpose = PURPOSE_RESIDUAL;
	s->pass->wait_ids(id, n, &key, arrival);
	for (int32_t i = 0; i < n; i++) {
		float r = sampler_survives(s, id[i]) ? target(s, id[i]) - proposed(d, id[i]) : 0;

		arrival[i] = r > 0 ? arrival[i] / r : INFINITY;
	}
}

static void race_residual(const struct sampler *s, const struct proposal *d, int32_t *winner,
						  float *least)
{
	int32_t n = s->n_list < 0 ? s->vocab : s->n_list;

	/* No residual at all is left by rounding alone, with p and q equal: then the plain winner
	 * serves. */
	*winner = s->winner;
	*least = INFINITY;
	for (int32_t at = 0; at < n; at += K_DRAW_BLOCK) {
		int32_t id[K_DRAW_BLOCK], size = n - at < K_DRAW_BLOCK ? n - at : K_DRAW_BLOCK;
		float arrival[K_DRAW_BLOCK];

		for (int32_t i = 0; i < size; i++)
			id[i] = s->n_list < 0 ? at + i : s->list[at + i];
		arrive(s, d, id, size, arrival);
		for (int32_t i = 0; i < size; i++)
			if (arrival[i] < *least) { /* ids ascend: the lowest keeps a tie */
				*winner = id[i];
				*least = arrival[i];
			}
	}
}

static void fill_arrivals(const struct sampler *s, const struct proposal *d,
						  struct sample_result *out)
{
	for (int32_t i = 0; i < out->n_candidates; i++) {
		int32_t id = (int32_t)out->candidate[i].id;

		if (out->candidate[i].cut == EV_CUT_kept)
			arrive(s, d, &id, 1, &out->candidate[i].arrival);
	}
}

bool sampler_reject(struct sampler *s, int32_t draft, float q, const float *q_dense,
					struct sample_key key, struct sample_result *out, float *u, float *threshold)
{
	struct proposal d = {q_dense, draft, q};
	float p, least;
	int32_t winner;

	assert(draft >= 0 && draft < s->vocab);
	s->key.pos = (uint32_t)key.pos;
	s->key.sample = (uint32_t)key.sample;
	p = sampler_survives(s, draft) ? target(s, draft) : 0;
	q = proposed(&d, draft);
	*threshold = q > 0 ? p / q : p > 0 ? INFINITY : 0;
	*u = k_draw_u(s->key.seed, (uint32_t)draft, s->key.pos, s->key.sample, PURPOSE_ACCEPT);
	if (*u < *threshold) {
		sampler_finish(s, draft, NAN, out);
		return true;
	}
	race_residual(s, &d, &winner, &least);
	sampler_finish(s, winner, least, out);
	fill_arrivals(s, &d, out);
	return false;
}
