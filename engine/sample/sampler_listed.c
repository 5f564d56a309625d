/* A draw without the row: from a device's reply (struct k_draw_reply), with the same bits as from
 * the row. The values of the listed ids are put where the row's would be, and the cuts and the race
 * run over them as usual; unlisted entries are never read. See sampler.h. */
#include "engine/sample/sampler_impl.h"

#include <assert.h>
#include <math.h>

static float factor_of(const struct sample_params *p)
{
	return p->temperature > 0 ? (float)(1.0 / (double)p->temperature) : 1.0f;
}

/* For top-p and min-p, which may need more or less. Half of the blocks of 64, since the lowest
 * maxima would admit too many ids for the list; small vocabularies are listed whole. */
static int32_t usual_best(int32_t vocab)
{
	const int32_t half = vocab / K_DRAW_IDS / 2;

	if (vocab <= K_DRAW_LIST || half > K_DRAW_BEST)
		return K_DRAW_BEST;
	return half > SAMPLE_CANDIDATES ? half : SAMPLE_CANDIDATES;
}

bool sampler_request(const struct sampler *s, const struct sample_params *p, struct sample_key key,
	bool drafted, struct k_draw_request *ask)
{
	const struct sampler_cuts c = sampler_cuts_of(s, p);
	const float factor = factor_of(p);
	const bool usual = factor > 0 && factor < INFINITY;

	*ask = (struct k_draw_request){ .factor = usual ? factor : 1.0f,
		.best = SAMPLE_CANDIDATES,
		.id = -1,
		.race = !c.greedy && !c.by_k && !c.by_p && !c.by_min,
		.pos = (uint32_t)key.pos,
		.sample = (uint32_t)key.sample,
		.seed = p->seed };
	if (!usual || key.purpose != PURPOSE_TARGET || sampler_has_penalties(p) || p->logit_bias.n ||
		(c.by_k && p->top_k > K_DRAW_BEST) || (ask->race && drafted))
		return false;
	if (c.by_k)
		ask->best = p->top_k > SAMPLE_CANDIDATES ? p->top_k : SAMPLE_CANDIDATES;
	else if (!c.greedy && !ask->race)
		ask->best = usual_best(s->vocab);
	return true;
}

/* Values and weights of the listed ids to s->listed_y and listed_e, in the list's order, by the
 * passes that go over whole rows. Returns their mass. */
static uint64_t weigh_list(const struct sampler *s, const struct k_draw_reply *reply,
	const struct k_draw_entry *list, float factor, float max)
{
	const int32_t n_blocks = (reply->n + K_DRAW_BLOCK - 1) / K_DRAW_BLOCK;
	float block_max[K_DRAW_LIST / K_DRAW_BLOCK];

	for (int32_t i = 0; i < n_blocks * K_DRAW_BLOCK; i++)
		s->listed_e[i] = i < reply->n ? list[i].logit : -INFINITY;
	s->pass->scale(s->listed_e, n_blocks, factor, s->listed_y, block_max);
	return s->pass->weigh(s->listed_y, n_blocks, max, s->listed_e);
}

bool sampler_can_do(const struct sampler *s, const struct sample_params *p,
	const struct k_logit_stats *stats, const struct k_draw_reply *reply,
	const struct k_draw_entry *list)
{
	const struct sampler_cuts c = sampler_cuts_of(s, p);
	const float factor = factor_of(p), max = stats->max * factor;

	if (reply->n > K_DRAW_LIST || reply->n < 1)
		return false;
	if (c.greedy)
		return true;
	if (!(max > -INFINITY && max < INFINITY)) /* then it counts as greedy */
		return false;
	if (c.by_k || reply->n == s->vocab || (!c.by_p && !c.by_min))
		return true;
	if (c.by_p)
		return weigh_list(s, reply, list, factor, max) >=
			   sampler_least_mass(sampler_to_fixed(p->top_p), reply->mass);
	return reply->floor <= sampler_floor_of_min_p(p->min_p, max);
}

void sampler_put(struct sampler *s, int32_t id, float logit)
{
	const float y = logit * factor_of(&s->params);

	s->own[id] = logit;
	s->y[id] = y;
	s->e[id] = k_exp(k_logit_depth(y, s->max));
}

/* The places of the weighed list that the cuts and the candidates can need, to s->list: the first
 * by rank, and the shortest prefix that top-k, or top-p without top-k, keeps. */
static int32_t narrow(struct sampler *s, int32_t n)
{
	const struct sample_params *p = &s->params;
	const struct sampler_cuts c = sampler_cuts_of(s, p);
	const bool by_k = !c.greedy && c.by_k, by_p = !c.greedy && !by_k && c.by_p;
	const int32_t first = by_k && p->top_k > SAMPLE_CANDIDATES ? p->top_k : SAMPLE_CANDIDATES;
	const uint64_t need =
		by_p ? sampler_least_mass(sampler_to_fixed(p->top_p), s->mass[STAGE_PENALTIES]) : 0;
	const bool all = !c.greedy && !by_k && !by_p && c.by_min;

	return sampler_narrow(s->bucket, s->listed_y, s->listed_e, n, all ? n : first, need, s->list);
}

/* Few ids of the list are needed. The others are dropped before entries far apart are written for
 * them, each of which misses the caches. */
void sampler_pick_listed(struct sampler *s, const struct k_logit_stats *stats,
	const struct k_draw_reply *reply, const struct k_draw_entry *list,
	const struct sample_params *params, struct sample_key key, struct sample_result *out)
{
	const float factor = factor_of(params);

	sampler_begin(s, s->own, stats, params, key);
	s->reply = reply;
	s->greedy = !(params->temperature > 0);
	s->has_e = !s->greedy;
	s->max = stats->max * factor;
	s->mass[STAGE_PENALTIES] = s->greedy ? stats->mass : reply->mass;
	s->left[STAGE_PENALTIES] = s->vocab;
	weigh_list(s, reply, list, factor, s->max);
	s->n_list = narrow(s, reply->n);
	for (int32_t i = 0; i < s->n_list; i++) {
		const struct k_draw_entry one = list[s->list[i]];

		s->list[i] = one.id;
		sampler_put(s, one.id, one.logit);
	}
	if (reply->winner >= 0)
		sampler_put(s, reply->winner, reply->winner_logit);
	sampler_draw(s, out);
}

bool sampler_listed_survives(const struct sampler *s, int32_t id)
{
	int32_t low = 0, high = s->n_list;

	assert(s->n_list >= 0); /* sampler_request() requests the row for a draft whose draw has no cuts
							 */
	while (low < high) {
		const int32_t middle = low + (high - low) / 2;

		if (s->list[middle] < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < s->n_list && s->list[low] == id;
}
