/* Private to sampler*.c: the current row. Thread: the sampler's.
 *
 * Between two calls of sampler_pick:
 * 1. y [n_blocks * 64] are the row's logits after bias, penalties and temperature, -Inf after the
 * vocabulary and for ids that are not allowed; block_max their maximum by block; max the maximum of
 * all.
 * 2. e = exp(y - max), unless the row is greedy and has neither bias nor penalties: then e is not
 * filled.
 * 3. The survivors are the ids that survives() holds for; there are n_survivors of them, of mass
 * kept_mass, and they are list[0 … n_list - 1], ascending, unless n_list is -1.
 * 4. count[id] > 0 or bias[id] != 0 only for the ids of touched, some of which may be in it twice.
 */
#pragma once

#include "engine/sample/sampler.h"
#include "kernels/arith.h"
#include "kernels/draw.h"

enum { STAGE_PENALTIES, STAGE_TEMPERATURE, STAGE_TOP_K, STAGE_TOP_P, STAGE_MIN_P };
/* Bits of a digit: of few ids, whose buckets would cost more than they, and of many. */
enum { SAMPLER_SMALL_DIGIT = 7, SAMPLER_DIGIT = 11, SAMPLER_BUCKETS = 1 << SAMPLER_DIGIT };
enum { SAMPLER_GONE = 64 };

/* The last entry of a prefix. */
struct sampler_prefix {
	float y;
	int32_t id;
};

struct sampler {
	const struct k_draw_passes *pass;
	int32_t vocab, n_blocks;
	float *y, *e, *block_max;
	float *own;                 /* logits of the listed ids; untouched without a list */
	float *listed_y, *listed_e; /* [K_DRAW_LIST], of a device's list, in its order */
	float *bias;                /* by id; 0: none */
	int32_t *list, *scratch, *count, *touched;
	uint64_t *bucket;

	const float *logits;              /* the caller's */
	const struct k_draw_reply *reply; /* the row is on a device: y and e are filled for listed ids
										 only, block_max not at all (sampler_listed.c); NULL: it is
										 here */
	const uint64_t *allowed, *next_allowed; /* sampler_allow(); NULL: all */
	int32_t n_allowed;
	float allowed_mass; /* share of the row's own mass that they have */
	struct k_logit_stats stats;
	struct sample_params params;
	struct k_draw_key key;
	bool greedy, has_e;
	int32_t n_touched;
	float max;

	/* The cuts: a prefix of the order (value descending, id ascending) up to and including (cut_y,
	 * cut_id), and of it the ids of at least min_mass. */
	float cut_y;
	int32_t cut_id;
	struct sampler_prefix top_k; /* of top-k alone */
	uint64_t min_mass;
	int32_t n_survivors, n_list;
	uint64_t kept_mass;

	int32_t best[SAMPLE_CANDIDATES], n_best; /* the first by rank, before the cuts */
	uint64_t mass[EV_N_STAGES];              /* left after each stage */
	int32_t left[EV_N_STAGES];
	int32_t winner;
	float winner_arrival;

	/* Modified rejection: the residual of the target after the rejected candidates, [vocab], if
	 * there were any. Only the survivors' entries are filled. */
	float *rest;
	double rest_mass;
	int32_t gone[SAMPLER_GONE], n_gone;
	const float *gone_dense[SAMPLER_GONE];
	uint32_t reject_pos, reject_sample;
};

static inline bool sampler_is_allowed(const struct sampler *s, int32_t id)
{
	return !s->allowed || (s->allowed[id / 64] >> (id % 64) & 1);
}

/* exp(y - max) of one id. */
static inline float sampler_weight(const struct sampler *s, int32_t id)
{
	return s->has_e ? s->e[id] : k_exp(k_logit_depth(s->y[id], s->max));
}

/* A probability from a weight and a sum of masses. */
static inline float sampler_share(float weight, uint64_t mass)
{
	return k_mass(weight) ? (float)((double)weight / ((double)mass * 0x1p-40)) : 0.0f;
}

/* Of a survivor, in the draw. */
static inline float sampler_p_draw(const struct sampler *s, int32_t id)
{
	return s->greedy ? 1.0f : sampler_share(sampler_weight(s, id), s->kept_mass);
}

static inline bool sampler_in_prefix(const struct sampler *s, int32_t id, float y, int32_t last)
{
	return s->y[id] > y || (s->y[id] == y && id <= last);
}

static inline bool sampler_survives(const struct sampler *s, int32_t id)
{
	if (!sampler_in_prefix(s, id, s->cut_y, s->cut_id) || !sampler_is_allowed(s, id))
		return false;
	return !s->min_mass || k_mass(sampler_weight(s, id)) >= s->min_mass;
}

/* Writes places of value [n], ascending, to out [n]: all whose value is among the `first` greatest,
 * and all of the shortest prefix whose masses sum to `need`; few others. Returns how many. */
int32_t sampler_narrow(uint64_t *bucket, const float *value, const float *e, int32_t n,
	int32_t first, uint64_t need, int32_t *out);

/* part = nearest(p * 2^32), 0 to 2^32. */
static inline uint64_t sampler_to_fixed(float p)
{
	if (!(p > 0))
		return 0;
	return p < 1 ? (uint64_t)((double)p * 0x1p32 + 0.5) : (uint64_t)1 << 32;
}

/* Which cuts take part. */
struct sampler_cuts {
	bool greedy, by_k, by_p, by_min;
};

static inline struct sampler_cuts sampler_cuts_of(
	const struct sampler *s, const struct sample_params *p)
{
	return (struct sampler_cuts){ .greedy = !(p->temperature > 0),
		.by_k = p->top_k > 0 && p->top_k < s->vocab,
		.by_p = p->top_p<1, .by_min = sampler_to_fixed(p->min_p)> 0 };
}

/* The least integer m with m * 2^32 >= part * whole; at least 1. */
static inline uint64_t sampler_least_mass(uint64_t part, uint64_t whole)
{
	unsigned __int128 product = (unsigned __int128)part * whole;
	uint64_t m = (uint64_t)((product + 0xffffffffu) >> 32);

	return m ? m : 1;
}

/* Slack of a bound made with k_log and k_exp: thousands of times their error. */
#define SAMPLER_SLACK 0.01f

/* No token below this is as likely as min_p times the best. */
static inline float sampler_floor_of_min_p(float min_p, float max)
{
	const float weight = min_p < 1 ? min_p : 1;

	return max + (k_log(weight > 1e-30f ? weight : 1e-30f) - SAMPLER_SLACK);
}

/* sampler.c: drops the row before. The caller counts for the penalties. */
void sampler_begin(struct sampler *s, const float *logits, const struct k_logit_stats *stats,
	const struct sample_params *params, struct sample_key key);
/* Draws a token from the weighed row or list. */
void sampler_draw(struct sampler *s, struct sample_result *out);
/* What is logged of an id, whose arrival it leaves NaN. */
struct ev_candidate sampler_candidate(const struct sampler *s, int32_t id);
/* sampler_listed.c: fills what a row would have of an id, by its logit. */
void sampler_put(struct sampler *s, int32_t id, float logit);
/* Whether an id, listed or not, survives the cuts. */
bool sampler_listed_survives(const struct sampler *s, int32_t id);

/* Fills cuts, list, best, mass and left. */
void sampler_cut(struct sampler *s);

/* Fills *out for the token `id`; the candidates' arrivals are NaN. */
void sampler_finish(const struct sampler *s, int32_t id, float arrival, struct sample_result *out);
