/* A row of logits to a token: bias, penalties, temperature, the sampling race, and what is emitted
 * about them. The cuts are in sampler_cuts.c, modified rejection in sampler_reject.c. See
 * sampler.h. */
#include "engine/sample/sampler_impl.h"

#include <assert.h>
#include <stdlib.h>

enum { LIST_SHARE = 64 }; /* survivors are drawn one by one if they are fewer than one in so many */

int sampler_open(struct sampler **out, int32_t vocab, struct err *e)
{
	struct sampler *s = calloc(1, sizeof *s);
	size_t n;

	*out = NULL;
	assert(vocab > 0 && vocab <= INT32_MAX - K_DRAW_BLOCK);
	if (!s)
		return err_no_memory(e, "the sampler");
	s->pass = k_draw_passes();
	s->vocab = vocab;
	s->n_blocks = (vocab + K_DRAW_BLOCK - 1) / K_DRAW_BLOCK;
	n = (size_t)s->n_blocks * K_DRAW_BLOCK;
	s->y = aligned_alloc(64, n * sizeof *s->y);
	s->e = aligned_alloc(64, n * sizeof *s->e);
	s->own = malloc(n * sizeof *s->own);
	s->listed_y = aligned_alloc(64, K_DRAW_LIST * sizeof *s->listed_y);
	s->listed_e = aligned_alloc(64, K_DRAW_LIST * sizeof *s->listed_e);
	s->block_max = malloc((size_t)s->n_blocks * sizeof *s->block_max);
	s->list = malloc((n + 1) * sizeof *s->list);
	s->scratch = malloc((n + 1) * sizeof *s->scratch);
	s->count = calloc(n, sizeof *s->count);
	s->bias = calloc(n, sizeof *s->bias);
	s->touched = malloc((n + SAMPLE_BIAS_MAX) * sizeof *s->touched);
	s->rest = malloc(n * sizeof *s->rest);
	s->bucket = malloc(SAMPLER_BUCKETS * sizeof *s->bucket);
	if (!s->y || !s->e || !s->own || !s->listed_y || !s->listed_e || !s->block_max || !s->list ||
		!s->scratch || !s->count || !s->bias || !s->touched || !s->bucket || !s->rest) {
		sampler_close(s);
		return err_no_memory(e, "a sampler of %d tokens", vocab);
	}
	*out = s;
	return 0;
}

void sampler_close(struct sampler *s)
{
	if (!s)
		return;
	free(s->y);
	free(s->e);
	free(s->own);
	free(s->listed_y);
	free(s->listed_e);
	free(s->block_max);
	free(s->list);
	free(s->scratch);
	free(s->count);
	free(s->bias);
	free(s->touched);
	free(s->bucket);
	free(s->rest);
	free(s);
}

static void count_history(struct sampler *s, const int32_t *history, int64_t n)
{
	const struct sample_params *p = &s->params;
	int64_t from = p->penalty_window < n ? n - p->penalty_window : 0;

	if (!sampler_has_penalties(p))
		return;
	for (int64_t i = from; i < n; i++) {
		int32_t id = history[i];

		if (id < 0 || id >= s->vocab)
			continue;
		if (!s->count[id]++)
			s->touched[s->n_touched++] = id;
	}
}

static void take_bias(struct sampler *s)
{
	const struct sample_bias *b = &s->params.logit_bias;

	for (int32_t i = 0; i < b->n; i++) {
		const int32_t id = (int32_t)b->entry[i].id;

		assert(id >= 0 && id < s->vocab);
		s->bias[id] = b->entry[i].bias;
		s->touched[s->n_touched++] = id;
	}
}

/* A logit without bias stays as it is, also -0. */
static float biased(const struct sampler *s, int32_t id)
{
	return s->bias[id] != 0 ? s->logits[id] + s->bias[id] : s->logits[id];
}

static float penalised(const struct sampler *s, int32_t id)
{
	const struct sample_params *p = &s->params;
	float l = biased(s, id);

	if (!s->count[id])
		return l;
	l = l > 0 ? l / p->repeat_penalty : l * p->repeat_penalty;
	l = l - (float)s->count[id] * p->frequency_penalty;
	return l - p->presence_penalty;
}

static void patch_block(struct sampler *s, int32_t id, float factor)
{
	int32_t b = id / K_DRAW_BLOCK;
	float max = -INFINITY;

	s->y[id] = penalised(s, id) * factor;
	for (int32_t i = b * K_DRAW_BLOCK; i < (b + 1) * K_DRAW_BLOCK; i++)
		max = s->y[i] > max ? s->y[i] : max;
	s->block_max[b] = max;
}

_Static_assert(K_DRAW_BLOCK == 64, "a word of what is allowed is of a block");

static void forbid(struct sampler *s)
{
	s->max = -INFINITY;
	for (int32_t b = 0; b < s->n_blocks; b++) {
		const uint64_t word = s->allowed[b];
		float *y = s->y + b * K_DRAW_BLOCK, max = -INFINITY;

		if (~word) {
			for (int i = 0; i < K_DRAW_BLOCK; i++) {
				y[i] = word >> i & 1 ? y[i] : -INFINITY;
				max = y[i] > max ? y[i] : max;
			}
			s->block_max[b] = max;
		}
		s->max = s->block_max[b] > s->max ? s->block_max[b] : s->max;
	}
}

static void scale_whole_row(struct sampler *s, float factor)
{
	int32_t whole = s->vocab / K_DRAW_BLOCK, rest = s->vocab % K_DRAW_BLOCK;

	s->max = whole ? s->pass->scale(s->logits, whole, factor, s->y, s->block_max) : -INFINITY;
	if (rest) {
		float tail[K_DRAW_BLOCK] __attribute__((aligned(64))), max;

		for (int i = 0; i < K_DRAW_BLOCK; i++)
			tail[i] = i < rest ? s->logits[whole * K_DRAW_BLOCK + i] : -INFINITY;
		max = s->pass->scale(tail, 1, factor, s->y + whole * K_DRAW_BLOCK, s->block_max + whole);
		s->max = max > s->max ? max : s->max;
	}
}

/* y, block_max and max: invariant 1. */
static void scale_row(struct sampler *s, float factor)
{
	scale_whole_row(s, factor);
	for (int32_t i = 0; i < s->n_touched; i++)
		patch_block(s, s->touched[i], factor);
	if (s->allowed) {
		forbid(s);
		return;
	}
	if (!s->n_touched)
		return;
	s->max = -INFINITY;
	for (int32_t b = 0; b < s->n_blocks; b++)
		s->max = s->block_max[b] > s->max ? s->block_max[b] : s->max;
}

/* What the row as it is would give to those that are allowed. */
static void weigh_allowed(struct sampler *s)
{
	scale_whole_row(s, 1.0f);
	forbid(s);
	s->allowed_mass = s->stats.mass
						  ? (float)((double)s->pass->weigh(s->y, s->n_blocks, s->stats.max, s->e) /
									(double)s->stats.mass)
						  : 1.0f;
}

/* Bias, penalties, temperature, masses. A temperature that would leave no finite maximum counts as
 * 0. */
static void weigh_row(struct sampler *s)
{
	float t = s->params.temperature;

	s->greedy = !(t > 0);
	if (s->allowed)
		weigh_allowed(s);
	scale_row(s, s->greedy ? 1.0f : (float)(1.0 / (double)t));
	if (!s->greedy && !(s->max > -INFINITY && s->max < INFINITY)) {
		s->greedy = true;
		scale_row(s, 1.0f);
	}
	s->has_e = !s->greedy || s->n_touched || s->allowed;
	s->mass[STAGE_PENALTIES] =
		s->has_e ? s->pass->weigh(s->y, s->n_blocks, s->max, s->e) : s->stats.mass;
	s->left[STAGE_PENALTIES] = s->allowed ? s->n_allowed : s->vocab;
}

static void offer(struct sampler *s, int32_t id, float arrival)
{
	if (arrival < s->winner_arrival || (arrival == s->winner_arrival && id < s->winner)) {
		s->winner = id;
		s->winner_arrival = arrival;
	}
}

/* No token below this value can arrive before the winner: u <= 1 - 2^-24, so -log(u) is no less
 * than 2^-24 within an ulp or two; 0.01 is thousands of times what log and exp may err. */
static float race_floor(const struct sampler *s)
{
	float floor = s->max - (k_log(s->winner_arrival * 0x1p24f) + 0.01f);

	return floor > s->cut_y ? floor : s->cut_y;
}

/* The whole vocabulary, block by block; blocks that cannot win any more are left out. */
static void race_blocks(struct sampler *s)
{
	float u[K_DRAW_BLOCK] __attribute__((aligned(64)));
	float floor = race_floor(s);

	for (int32_t b = 0; b < s->n_blocks; b++) {
		int32_t first = b * K_DRAW_BLOCK, before = s->winner;

		if (s->block_max[b] < floor ||
			!s->pass->contest(s->e + first, b, s->winner_arrival, &s->key, u))
			continue;
		for (int32_t i = 0; i < K_DRAW_BLOCK; i++)
			if (k_draw_may_win(u[i], s->e[first + i], s->winner_arrival) && first + i < s->vocab &&
				sampler_survives(s, first + i))
				offer(s, first + i, k_arrival(u[i], s->y[first + i], s->max));
		if (s->winner != before)
			floor = race_floor(s);
	}
}

static void race_list(struct sampler *s)
{
	float arrival[K_DRAW_BLOCK];

	for (int32_t at = 0; at < s->n_list; at += K_DRAW_BLOCK) {
		int32_t n = s->n_list - at < K_DRAW_BLOCK ? s->n_list - at : K_DRAW_BLOCK;

		s->pass->arrive_ids(s->y, s->list + at, n, s->max, &s->key, arrival);
		for (int32_t i = 0; i < n; i++)
			offer(s, s->list[at + i], arrival[i]);
	}
}

/* The race. */
static void sampler_race(struct sampler *s)
{
	float arrival[SAMPLE_CANDIDATES];

	s->winner = s->best[0];
	s->winner_arrival = NAN;
	if (s->greedy)
		return;
	if (s->n_list >= 0 && (s->reply || s->n_list <= s->vocab / LIST_SHARE)) {
		s->winner_arrival = INFINITY;
		race_list(s);
		return;
	}
	if (s->reply) { /* the device that has the row ran the race */
		s->winner = s->reply->winner;
		s->winner_arrival = s->reply->arrival;
		return;
	}
	/* The best ids first: an early winner prunes the rest. The first by rank survives every cut. */
	s->pass->arrive_ids(s->y, s->best, s->n_best, s->max, &s->key, arrival);
	s->winner_arrival = arrival[0];
	for (int32_t i = 1; i < s->n_best; i++)
		if (sampler_survives(s, s->best[i]))
			offer(s, s->best[i], arrival[i]);
	race_blocks(s);
}

static uint32_t cut_of(const struct sampler *s, int32_t id)
{
	if (sampler_survives(s, id))
		return EV_CUT_kept;
	if (!sampler_is_allowed(s, id))
		return EV_CUT_grammar;
	if (s->greedy)
		return EV_CUT_greedy;
	if (!sampler_in_prefix(s, id, s->top_k.y, s->top_k.id))
		return EV_CUT_top_k;
	return sampler_in_prefix(s, id, s->cut_y, s->cut_id) ? EV_CUT_min_p : EV_CUT_top_p;
}

struct ev_candidate sampler_candidate(const struct sampler *s, int32_t id)
{
	return (struct ev_candidate){ .id = (uint32_t)id,
		.logit = s->logits[id],
		.p = sampler_share(sampler_weight(s, id), s->mass[STAGE_PENALTIES]),
		.arrival = NAN,
		.cut = cut_of(s, id) };
}

/* What goes before a survivor survives too, so that a list of them is enough. */
static int32_t rank_of(const struct sampler *s, int32_t id)
{
	const bool listed = s->n_list >= 0;
	const int32_t n = listed ? s->n_list : s->vocab;
	int32_t rank = 0;

	for (int32_t i = 0; i < s->n_best; i++)
		if (s->best[i] == id)
			return i + 1;
	if (s->reply && !listed)
		return (int32_t)s->reply->ahead + 1;
	for (int32_t i = 0; i < n; i++)
		rank += sampler_in_prefix(s, listed ? s->list[i] : i, s->y[id], id);
	return rank;
}

static void fill_candidates(const struct sampler *s, int32_t id, struct sample_result *out)
{
	out->rank = rank_of(s, id);
	out->n_candidates = s->n_best;
	for (int32_t rank = 0; rank < s->n_best; rank++) {
		const bool drawn = rank == s->n_best - 1 && out->rank > s->n_best;

		out->candidate[rank] = sampler_candidate(s, drawn ? id : s->best[rank]);
	}
}

/* The probability before bias, penalties and temperature; for a drawn token also where its mass is
 * below the smallest unit. */
static float raw_share(const struct sampler *s, int32_t id)
{
	float weight = k_exp(k_logit_depth(s->logits[id], s->stats.max));

	return s->stats.mass ? (float)((double)weight / ((double)s->stats.mass * 0x1p-40)) : 0.0f;
}

void sampler_finish(const struct sampler *s, int32_t id, float arrival, struct sample_result *out)
{
	float weight = sampler_weight(s, id);

	out->id = id;
	out->p = raw_share(s, id);
	out->p_draw = sampler_p_draw(s, id);
	out->arrival = arrival;
	out->entropy = s->stats.entropy;
	out->survivors = s->n_survivors;
	for (int i = 0; i < EV_N_STAGES; i++) {
		uint64_t before = s->mass[i ? i - 1 : 0];
		struct ev_stage *stage = &out->stage[i];

		stage->left = (uint32_t)s->left[i];
		stage->mass = before ? (float)((double)s->mass[i] / (double)before) : 1.0f;
		stage->value = s->greedy ? 1.0f : sampler_share(weight, s->mass[i]);
	}
	out->stage[STAGE_PENALTIES].value = penalised(s, id);
	out->stage[STAGE_TEMPERATURE].value = s->y[id];
	out->n_stages = EV_N_STAGES;
	if (s->params.logit_bias.n || s->allowed)
		out->stage[out->n_stages++] =
			(struct ev_stage){ .left = (uint32_t)s->vocab, .mass = 1, .value = biased(s, id) };
	if (s->allowed)
		out->stage[out->n_stages++] = (struct ev_stage){
			.left = (uint32_t)s->n_allowed, .mass = s->allowed_mass, .value = biased(s, id)
		};
	fill_candidates(s, id, out);
}

static void fill_arrivals(const struct sampler *s, struct sample_result *out)
{
	int32_t id[SAMPLE_CANDIDATES];
	float arrival[SAMPLE_CANDIDATES];

	for (int32_t i = 0; i < out->n_candidates; i++)
		id[i] = (int32_t)out->candidate[i].id;
	s->pass->arrive_ids(s->y, id, out->n_candidates, s->max, &s->key, arrival);
	for (int32_t i = 0; i < out->n_candidates; i++)
		if (out->candidate[i].cut == EV_CUT_kept)
			out->candidate[i].arrival = arrival[i];
}

void sampler_allow(struct sampler *s, const uint64_t *allowed, int32_t n)
{
	assert(n > 0);
	s->next_allowed = allowed;
	s->n_allowed = n;
}

void sampler_begin(struct sampler *s, const float *logits, const struct k_logit_stats *stats,
	const struct sample_params *params, struct sample_key key)
{
	s->logits = logits;
	s->reply = NULL;
	s->allowed = s->next_allowed;
	s->next_allowed = NULL;
	s->stats = *stats;
	s->params = *params;
	s->key =
		(struct k_draw_key){ params->seed, (uint32_t)key.pos, (uint32_t)key.sample, key.purpose };
	for (int32_t i = 0; i < s->n_touched; i++) {
		s->count[s->touched[i]] = 0;
		s->bias[s->touched[i]] = 0;
	}
	s->n_touched = 0;
}

void sampler_pick(struct sampler *s, const float *logits, const struct k_logit_stats *stats,
	const struct sample_params *params, const int32_t *history, int64_t n_history,
	struct sample_key key, struct sample_result *out)
{
	sampler_begin(s, logits, stats, params, key);
	take_bias(s);
	count_history(s, history, n_history);
	weigh_row(s);
	sampler_draw(s, out);
}

void sampler_draw(struct sampler *s, struct sample_result *out)
{
	sampler_cut(s);
	sampler_race(s);
	sampler_finish(s, s->winner, s->winner_arrival, out);
	if (!s->greedy)
		fill_arrivals(s, out);
}

void sampler_draft(const struct sampler *s, int32_t id, float *p, float *arrival)
{
	assert(id >= 0 && id < s->vocab);
	if (s->reply ? !sampler_listed_survives(s, id) : !sampler_survives(s, id)) {
		*p = 0;
		*arrival = INFINITY;
		return;
	}
	*p = sampler_p_draw(s, id);
	*arrival = NAN;
	if (!s->greedy)
		s->pass->arrive_ids(s->y, &id, 1, s->max, &s->key, arrival);
}
