/* The sampler's cuts: which tokens take part in the draw. docs/arithmetic.md rule 15.
 *
 * Nothing is sorted. First comes a lower bound of the value of any survivor (from the maxima of the
 * blocks, or from the mass); the few ids above it are listed, and the end of a cut is found in the
 * list by the leading bits of the values, 7 or 11 at a time: a radix select that opens one bucket
 * each pass. All sums are of integers, so the order in which they are made does not matter. */
#include "engine/sample/sampler_impl.h"

#include <float.h>
#include <string.h>

/* Unsigned integers in the order of floats, -0 = +0. */
static inline uint32_t order_key(float x)
{
	uint32_t b = k_bits(x + 0.0f);

	return b & 0x80000000u ? ~b : b | 0x80000000u;
}

static inline uint64_t weight_of(const float *e, int32_t id)
{
	return e ? k_mass(e[id]) : 1;
}

struct search {
	uint64_t *bucket;
	const float *value, *e;
	uint32_t top; /* the greatest key; distances d are measured from it */
	uint64_t need, sum;
};

/* One step: all of list have equal d >> hi. Finds the digit of d, from bit lo on, at which the sum
 * reaches `need`, or -1. */
static int32_t open_bucket(struct search *q, const int32_t *list, int32_t n, int hi, int lo)
{
	uint32_t n_digits = 1u << (hi - lo);

	memset(q->bucket, 0, n_digits * sizeof *q->bucket);
	for (int32_t i = 0; i < n; i++) {
		uint32_t d = q->top - order_key(q->value[list[i]]);

		q->bucket[(d >> lo) & (n_digits - 1)] += weight_of(q->e, list[i]);
	}
	for (uint32_t digit = 0; digit < n_digits; digit++) {
		if (q->sum + q->bucket[digit] >= q->need)
			return (int32_t)digit;
		q->sum += q->bucket[digit];
	}
	return -1;
}

/* Copies the ids whose distance begins with `path`, in order, to `out`, which may be `list`. */
static int32_t take_bucket(
	const struct search *q, const int32_t *list, int32_t n, int lo, uint32_t path, int32_t *out)
{
	int32_t kept = 0;

	for (int32_t i = 0; i < n; i++) {
		int32_t id = list[i];

		out[kept] = id;
		kept += (q->top - order_key(q->value[id])) >> lo == path;
	}
	return kept;
}

/* Returns the bits that the distances need. */
static int measure(struct search *q, const int32_t *list, int32_t n)
{
	uint32_t bottom = UINT32_MAX;
	int hi = 1;

	for (int32_t i = 0; i < n; i++) {
		uint32_t key = order_key(q->value[list[i]]);

		q->top = key > q->top ? key : q->top;
		bottom = key < bottom ? key : bottom;
	}
	while (n && (uint64_t)(q->top - bottom) >> hi)
		hi++;
	return hi;
}

/* The shortest prefix of the ids of `list` [n] (ascending) in the order of value, whose weights sum
 * to at least `need` >= 1: the masses of e, or 1 each if e is NULL. False if their sum is less. */
static bool sampler_select(uint64_t *bucket, int32_t *scratch, const float *value, const float *e,
	const int32_t *list, int32_t n, uint64_t need, struct sampler_prefix *out)
{
	struct search q = { .bucket = bucket, .value = value, .e = e, .need = need };
	int hi = measure(&q, list, n);
	uint32_t path = 0;

	while (hi > 0 && n > 1) {
		const int bits = n < SAMPLER_BUCKETS / 2 ? SAMPLER_SMALL_DIGIT : SAMPLER_DIGIT;
		int lo = hi > bits ? hi - bits : 0;
		int32_t digit = open_bucket(&q, list, n, hi, lo);

		if (digit < 0)
			return false;
		path = path << (hi - lo) | (uint32_t)digit;
		n = take_bucket(&q, list, n, lo, path, scratch);
		list = scratch;
		hi = lo;
	}
	for (int32_t i = 0; i < n; i++) { /* equal values: the lowest ids */
		q.sum += weight_of(e, list[i]);
		if (q.sum >= need) {
			*out = (struct sampler_prefix){ .y = value[list[i]], .id = list[i] };
			return true;
		}
	}
	return false;
}

int32_t sampler_narrow(uint64_t *bucket, const float *value, const float *e, int32_t n,
	int32_t first, uint64_t need, int32_t *out)
{
	struct search heavy = { .bucket = bucket, .value = value, .e = e, .need = need };
	struct search many = { .bucket = bucket, .value = value, .need = (uint64_t)first };
	int32_t kept = 0, a, b;
	int hi, lo;

	for (int32_t i = 0; i < n; i++)
		out[i] = i;
	hi = measure(&heavy, out, n);
	lo = hi > SAMPLER_SMALL_DIGIT ? hi - SAMPLER_SMALL_DIGIT : 0;
	many.top = heavy.top;
	a = need ? open_bucket(&heavy, out, n, hi, lo) : 0;
	b = open_bucket(&many, out, n, hi, lo);
	if (a < 0 || b < 0)
		return n;
	for (int32_t i = 0; i < n; i++) {
		const uint32_t digit = (heavy.top - order_key(value[i])) >> lo;

		out[kept] = i;
		kept += digit <= (uint32_t)(a > b ? a : b);
	}
	return kept;
}

/* Adds the ids first … end - 1 of value `floor` or more to the list. */
static void gather_ids(struct sampler *s, int32_t first, int32_t end, float floor)
{
	int32_t n = s->n_list;

	for (int32_t id = first; id < end; id++) {
		s->list[n] = id;
		n += s->y[id] >= floor;
	}
	s->n_list = n;
}

/* Lists the ids of value `floor` or more, ascending. */
static void gather(struct sampler *s, float floor)
{
	enum { STEP = 16 };

	if (s->allowed && floor == -INFINITY)
		floor = -FLT_MAX; /* those that are not allowed stay out */
	s->n_list = 0;
	for (int32_t b = 0; b < s->n_blocks; b++) {
		if (s->block_max[b] < floor)
			continue;
		for (int32_t at = b * K_DRAW_BLOCK; at < (b + 1) * K_DRAW_BLOCK; at += STEP) {
			int32_t any = 0;

			for (int i = 0; i < STEP; i++)
				any |= s->y[at + i] >= floor;
			if (any)
				gather_ids(s, at, at + STEP < s->vocab ? at + STEP : s->vocab, floor);
		}
	}
}

/* A value that at least k tokens reach: the k-th greatest of the blocks' maxima, the best bound
 * that one pass over the row gives. */
static float floor_of_k(struct sampler *s, int32_t k)
{
	struct sampler_prefix end;

	if (k > s->n_blocks)
		return -INFINITY;
	for (int32_t b = 0; b < s->n_blocks; b++)
		s->list[b] = b;
	if (!sampler_select(
			s->bucket, s->scratch, s->block_max, NULL, s->list, s->n_blocks, (uint64_t)k, &end))
		return -INFINITY;
	return end.y;
}

/* The value of a token that weighs `of_all` / n. */
static float floor_of_share(const struct sampler *s, double of_all, double n)
{
	float weight = (float)(of_all * (double)s->mass[STAGE_TEMPERATURE] * 0x1p-40 / n);

	return s->max + (k_log(weight > 1e-30f ? weight : 1e-30f) - SAMPLER_SLACK);
}

/* Finds the first of the list by rank. */
static void find_best(struct sampler *s)
{
	s->n_best = 0;
	for (int32_t i = 0; i < s->n_list; i++) {
		int32_t id = s->list[i], at = s->n_best;

		if (at == SAMPLE_CANDIDATES && !(s->y[id] > s->y[s->best[at - 1]]))
			continue;
		at = at < SAMPLE_CANDIDATES ? at : at - 1;
		for (; at > 0 && s->y[id] > s->y[s->best[at - 1]]; at--)
			s->best[at] = s->best[at - 1];
		s->best[at] = id;
		s->n_best += s->n_best < SAMPLE_CANDIDATES;
	}
}

/* Drops ids that are not in the prefix, or too light. Returns the mass of the rest. */
static uint64_t filter(struct sampler *s)
{
	uint64_t mass = 0;
	int32_t n = 0;

	for (int32_t i = 0; i < s->n_list; i++) {
		int32_t id = s->list[i];
		uint64_t m = k_mass(s->e[id]);

		if (!sampler_in_prefix(s, id, s->cut_y, s->cut_id) || m < s->min_mass)
			continue;
		s->list[n++] = id;
		mass += m;
	}
	s->n_list = n;
	return mass;
}

/* Cuts after the prefix that weighs `need`, if it is shorter than the list. */
static void cut_prefix(struct sampler *s, const float *e, uint64_t need)
{
	struct sampler_prefix end;

	if (!sampler_select(s->bucket, s->scratch, s->y, e, s->list, s->n_list, need, &end))
		return;
	s->cut_y = end.y;
	s->cut_id = end.id;
}

static void close_stage(struct sampler *s, int stage, int32_t left, uint64_t mass)
{
	s->left[stage] = left;
	s->mass[stage] = mass;
}

static uint64_t list_mass(const struct sampler *s)
{
	uint64_t mass = 0;

	for (int32_t i = 0; i < s->n_list; i++)
		mass += k_mass(s->e[s->list[i]]);
	return mass;
}

/* Lists enough ids for top-p. If at most n tokens lie below the bound, and each weighs at most (1 -
 * p) / n, they can all be cut; their number is not known, so the list is weighed, and extended
 * until it is enough. */
static void gather_top_p(struct sampler *s, uint64_t part, float floor)
{
	uint64_t need = sampler_least_mass(part, s->mass[STAGE_TEMPERATURE]);
	double rest = (double)(((uint64_t)1 << 32) - part) * 0x1p-32;

	for (double n = 256; n < 64.0 * s->vocab; n *= 4) {
		float bound = floor_of_share(s, rest, n);

		gather(s, bound < floor ? bound : floor);
		if (s->n_list == s->vocab || list_mass(s) >= need)
			return;
	}
	gather(s, -INFINITY);
}

static void cut_greedy(struct sampler *s)
{
	if (!s->reply)
		gather(s, floor_of_k(s, SAMPLE_CANDIDATES));
	if (!s->n_list) /* a row of NaN: the engine fails the request; the code here must only be safe
					 */
		s->list[s->n_list++] = 0;
	find_best(s);
	s->cut_y = s->y[s->best[0]];
	s->cut_id = s->best[0];
	s->list[0] = s->best[0];
	s->n_list = s->n_survivors = 1;
	s->kept_mass = k_mass(sampler_weight(s, s->best[0]));
	for (int i = STAGE_TEMPERATURE; i < EV_N_STAGES; i++)
		close_stage(s, i, 1, s->kept_mass);
}

/* Lists enough ids for the cuts and the candidates. */
static void gather_for(struct sampler *s, const struct sampler_cuts *c)
{
	const struct sample_params *p = &s->params;
	float floor =
		floor_of_k(s, c->by_k && p->top_k > SAMPLE_CANDIDATES ? p->top_k : SAMPLE_CANDIDATES);

	if (!c->by_k && !c->by_p && c->by_min && sampler_floor_of_min_p(p->min_p, s->max) < floor)
		floor = sampler_floor_of_min_p(p->min_p, s->max);
	if (!c->by_k && c->by_p)
		gather_top_p(s, sampler_to_fixed(p->top_p), floor);
	else
		gather(s, floor);
}

/* A stage that leaves what filter() does, or without the cut what the stage before it left. */
static void cut_stage(struct sampler *s, int stage, bool cuts)
{
	const uint64_t mass = cuts ? filter(s) : s->mass[stage - 1];

	close_stage(s, stage, cuts ? s->n_list : s->left[stage - 1], mass);
}

static void cut_nothing(struct sampler *s)
{
	s->cut_y = -INFINITY;
	s->cut_id = INT32_MAX;
	s->top_k = (struct sampler_prefix){ s->cut_y, s->cut_id };
	s->min_mass = 0;
}

void sampler_cut(struct sampler *s)
{
	const struct sample_params *p = &s->params;
	const struct sampler_cuts c = sampler_cuts_of(s, p);

	cut_nothing(s);
	if (s->greedy) {
		cut_greedy(s);
		return;
	}
	cut_stage(s, STAGE_TEMPERATURE, false);
	if (!s->reply)
		gather_for(s, &c);
	find_best(s);
	if (c.by_k) {
		cut_prefix(s, NULL, (uint64_t)p->top_k);
		s->top_k = (struct sampler_prefix){ s->cut_y, s->cut_id };
	}
	cut_stage(s, STAGE_TOP_K, c.by_k);
	if (c.by_p)
		cut_prefix(s, s->e, sampler_least_mass(sampler_to_fixed(p->top_p), s->mass[STAGE_TOP_K]));
	cut_stage(s, STAGE_TOP_P, c.by_p);
	if (c.by_min)
		s->min_mass = sampler_least_mass(sampler_to_fixed(p->min_p), (uint64_t)1 << 40);
	cut_stage(s, STAGE_MIN_P, c.by_min);
	if (!c.by_k && !c.by_p && !c.by_min)
		s->n_list = -1;
	s->n_survivors = s->left[STAGE_MIN_P];
	s->kept_mass = s->mass[STAGE_MIN_P];
}
