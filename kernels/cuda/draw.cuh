/* What a draw needs of a row of logits (struct k_draw_reply), besides its statistics: computed in
 * phase 1 of the stats op, together with its blocks of 1,024 ids. Each block of ids gives the mass
 * by the draw's own temperature, the least arrival of the race, and a key for the greatest value of
 * each 64 ids. The block that takes the row's last ticket then finds, by digits, the key that the
 * requested number of these reaches, and looks only into the 64s whose key reaches it: lists their
 * ids, ascending; and likewise counts those before the race's winner. All of it is integers, minima
 * and maxima, independent of order, or per id: it must equal k_ref_draw_row(). */
#pragma once

#include "kernels/cuda/bodies.cuh"

enum {
	DRAW_IDS = K_DRAW_IDS,
	DRAW_PER = CU_STATS_IDS / DRAW_IDS,
	DRAW_EACH = CU_STATS_IDS / CU_THREADS, /* ids of a thread */
	DRAW_BINS = 256,                       /* of a digit of 8 bits, of four */
	DRAW_KEYS = 8,                         /* keys that a thread chooses among at once */
	DRAW_MOST = DRAW_KEYS * CU_THREADS,
	DRAW_LOADS = 8, /* 64s that a warp has under way */
};

/* The greatest key, and the lowest id that has it; -1: none. */
struct draw_best {
	uint32_t key;
	int32_t id;
};

/* Of one block of ids, in the scratch: a row has its blocks, then DRAW_PER keys for each. */
struct __align__(64) stats_block
{
	uint64_t hash, mass, drawn; /* mass by the row's own temperature, and by the draw's */
	double s, w;
	struct draw_best max, race; /* race: keys in the opposite order of arrivals */
};
static_assert(sizeof(struct stats_block) + DRAW_PER * 4 == CU_STATS_BYTES, "stage.h counts these");
static_assert(DRAW_IDS / DRAW_EACH == CU_WARP / 2, "64 ids are half a warp's");

/* A row's blocks and keys. */
CU_FN struct stats_block *stats_row(const struct cu_work *work, int32_t row, int32_t n_blocks)
{
	return (struct stats_block *)(void *)(work->scratch +
										  (size_t)row * (size_t)n_blocks * CU_STATS_BYTES);
}
CU_FN uint32_t *stats_keys(const struct stats_block *row, int32_t n_blocks)
{
	return (uint32_t *)(uintptr_t)(row + n_blocks);
}

/* Of a row whose list is made. */
struct draw_shared {
	int32_t bin[4][DRAW_BINS + 4]; /* of each digit; the last four: of keys that do not count */
	int32_t nans, chosen[DRAW_MOST];
	/* [turn][warp], used in turns, so that one barrier for each count is enough; apart, since
	 * racecheck takes neighbouring words for one */
	int32_t count[3][32];
};

/* ---- by warps ---- */

CU_FN uint64_t draw_xor(uint64_t v, int32_t mask)
{
	const uint32_t low = (uint32_t)cu_shuffle_xor((int32_t)(uint32_t)v, mask);

	return (uint64_t)(uint32_t)cu_shuffle_xor((int32_t)(uint32_t)(v >> 32), mask) << 32 | low;
}

CU_FN uint64_t draw_total(uint64_t v)
{
	CU_UNROLL
	for (int32_t h = CU_WARP / 2; h > 0; h /= 2)
		v += draw_xor(v, h);
	return v;
}

CU_FN struct draw_best draw_best_of(struct draw_best own)
{
	struct draw_best best;

	best.key = cu_warp_max(own.key);
	best.id = (int32_t)~cu_warp_max(own.key == best.key ? ~(uint32_t)own.id : 0);
	return best;
}

/* Sum of the values of the lanes before. */
CU_FN int32_t draw_lanes_before(int32_t n)
{
	const int32_t lane = cu_thread() % CU_WARP;
	int32_t before = n;

	CU_UNROLL
	for (int32_t h = 1; h < CU_WARP; h *= 2) {
		const int32_t other = cu_shuffle(before, lane < h ? lane : lane - h);

		before += lane < h ? 0 : other;
	}
	return before - n;
}

/* ---- a block of ids ---- */

/* The thread's ids from `first` on, of which `left` exist: the warp's mass and race, and the keys
 * of its two 64s. */
CU_FN void draw_weigh(const struct k_draw_request *ask, const float logits[DRAW_EACH],
	int32_t first, int32_t left, float max, struct stats_block *warp, uint32_t *key)
{
	uint32_t word[4] = { 0, 0, 0, 0 }, top = k_order_key(-INFINITY);
	struct draw_best best = { ~k_order_key(INFINITY), -1 };
	uint64_t mass = 0;

	if (ask->race)
		k_draw_words(ask->seed, (uint32_t)first / 4, ask->pos, ask->sample, K_DRAW_TARGET, word);
	CU_UNROLL
	for (int32_t i = 0; i < DRAW_EACH; i++) {
		const float y = logits[i] * ask->factor;
		const uint32_t own = k_order_key(y);

		if (i >= left)
			continue;
		top = own > top ? own : top;
		mass += k_mass(k_exp(k_logit_depth(y, max)));
		if (ask->race) {
			const float arrival = k_arrival(k_uniform(word[i]), y, max);
			const uint32_t early = ~k_order_key(arrival);

			/* no NaN wins; one that arrives at +Inf does, if it is the first */
			if (arrival <= INFINITY && (early > best.key || best.id < 0)) {
				best.key = early;
				best.id = first + i;
			}
		}
	}
	mass = draw_total(mass);
	best = draw_best_of(best);
	CU_UNROLL
	for (int32_t h = CU_WARP / 4; h > 0; h /= 2) { /* within half a warp */
		const uint32_t other = (uint32_t)cu_shuffle_xor((int32_t)top, h);

		top = other > top ? other : top;
	}
	if (cu_thread() % (CU_WARP / 2) == 0)
		key[cu_thread() / (CU_WARP / 2)] = top;
	if (cu_thread() % CU_WARP == 0) {
		warp->drawn = mass;
		warp->race = best;
	}
}

/* ---- a row, by the block that weighed the last of it ---- */

/* Nothing is counted yet; visible after a barrier. */
CU_FN void draw_clear(struct draw_shared *m)
{
	for (int32_t i = cu_thread(); i < 4 * (DRAW_BINS + 4); i += CU_THREADS)
		(&m->bin[0][0])[i] = 0;
	if (cu_thread() == 0)
		m->nans = 0;
}

/* The greatest digit that `best` of those counted reach; *best is then how many of the digit's own
 * are among these. By each warp on its own. */
CU_FN uint32_t draw_digit(const int32_t bin[DRAW_BINS], int32_t *best)
{
	const int32_t *own = bin + (CU_WARP - 1 - cu_thread() % CU_WARP) * (DRAW_BINS / CU_WARP);
	int32_t n[DRAW_BINS / CU_WARP], sum = 0, reach = 0, above = 0;

	CU_UNROLL
	for (int32_t i = 0; i < DRAW_BINS / CU_WARP; i++)
		sum += n[i] = own[i];
	sum = draw_lanes_before(sum); /* of greater digits */
	CU_UNROLL
	for (int32_t i = DRAW_BINS / CU_WARP - 1; i >= 0; i--) {
		sum += n[i];
		reach += sum >= *best;
		above = sum < *best ? sum : above;
	}
	*best -= (int32_t)cu_warp_max((uint32_t)above);
	return (uint32_t)cu_warp_sum(reach) - 1;
}

CU_FN void draw_four(const uint32_t *keys, uint32_t key[4])
{
	const uint4 four = *(const uint4 *)(const void *)keys;

	key[0] = four.x;
	key[1] = four.y;
	key[2] = four.z;
	key[3] = four.w;
}

/* The greatest key that `best` of the n reach, n a multiple of four. */
CU_FN uint32_t draw_floor(struct draw_shared *m, const uint32_t *keys, int32_t n, int32_t best)
{
	uint32_t floor = 0;

	CU_NO_UNROLL
	for (int32_t digit = 3; digit >= 0; digit--) {
		int32_t *bin = m->bin[digit];

		CU_NO_UNROLL
		for (int32_t i = 4 * cu_thread(); i < n; i += 4 * CU_THREADS) {
			uint32_t key[4];

			draw_four(keys + i, key);
			CU_UNROLL
			for (int32_t k = 0; k < 4; k++) { /* with the floor's digits above, the digit */
				const uint32_t at = (key[k] ^ floor) >> 8 * digit;

				cu_count(bin + (at < DRAW_BINS ? (int32_t)at : DRAW_BINS));
			}
		}
		CU_SYNC();
		floor |= draw_digit(bin, &best) << 8 * digit;
	}
	return floor;
}

/* Sum of the values of the threads before, and of *all. */
CU_FN int32_t draw_before(int32_t count[32], int32_t n, int32_t *all)
{
	const int32_t lane = cu_thread() % CU_WARP, warp = cu_thread() / CU_WARP;
	int32_t before = draw_lanes_before(n);

	if (lane == CU_WARP - 1)
		count[warp] = before + n;
	CU_SYNC();
	*all = 0;
	CU_UNROLL
	for (int32_t w = 0; w < CU_WARPS; w++) {
		before += w < warp ? count[w] : 0;
		*all += count[w];
	}
	return before;
}

/* What is looked for in a row: ids that go before (y, id). */
struct draw_search {
	const float *logits;
	const uint32_t *keys;
	int32_t vocab, n_keys;
	float factor, y;
	int32_t id;
	struct k_draw_entry *to; /* NULL: they are only counted */
};

/* Of the keys from `from` on, DRAW_MOST at most, those that reach y: the first ids of their 64s, in
 * m->chosen, ascending. Returns how many. */
CU_FN int32_t draw_choose(struct draw_shared *m, const struct draw_search *s, int32_t from)
{
	const uint32_t least = k_order_key(s->y);
	const int32_t first = from + DRAW_KEYS * cu_thread();
	uint32_t key[DRAW_KEYS] = { 0 }; /* less than any */
	int32_t n = 0, all, at;
	bool nan = false;

	if (first < s->n_keys)
		for (int32_t i = 0; i < DRAW_KEYS; i += 4)
			draw_four(s->keys + first + i, key + i);
	CU_UNROLL
	for (int32_t i = 0; i < DRAW_KEYS; i++) {
		n += key[i] >= least;
		nan |= key[i] == UINT32_MAX;
	}
	if (nan)
		cu_count(&m->nans);
	at = draw_before(m->count[0], n, &all);
	CU_UNROLL
	for (int32_t i = 0; i < DRAW_KEYS; i++)
		if (key[i] >= least)
			m->chosen[at++] = (first + i) * DRAW_IDS;
	CU_SYNC();
	return all;
}
static_assert(DRAW_PER % DRAW_KEYS == 0, "a thread's keys are all there, or none");

/* The CU_THREADS chosen 64s from `from` on, as many for each warp, 32 at most; n ids were listed
 * before. A warp looks at one after the other; then each lane has what was found in one of them. */
CU_FN int32_t draw_look(
	struct draw_shared *m, const struct draw_search *s, int32_t from, int32_t chosen, int32_t n)
{
	const int32_t lane = cu_thread() % CU_WARP, warp = cu_thread() / CU_WARP;
	const int32_t share = k_pieces(chosen - from, CU_WARPS),
				  each = share < CU_WARP ? share : CU_WARP, first = from + warp * each;
	const int32_t end = first + each < chosen ? first + each : chosen;
	uint32_t found[2] = { 0, 0 };
	int32_t begin = 0, all, at;

	CU_NO_UNROLL
	for (int32_t i = first; i < end; i += DRAW_LOADS) {
		float y[DRAW_LOADS][2];
		int32_t id[DRAW_LOADS];

		CU_UNROLL
		for (int32_t k = 0; k < DRAW_LOADS && i + k < end; k++) {
			id[k] = m->chosen[i + k] + lane;
			y[k][0] = id[k] < s->vocab ? s->logits[id[k]] : NAN; /* which goes before none */
			y[k][1] = id[k] + CU_WARP < s->vocab ? s->logits[id[k] + CU_WARP] : NAN;
		}
		CU_UNROLL
		for (int32_t k = 0; k < DRAW_LOADS && i + k < end; k++) {
			const bool own = i + k == first + lane;

			CU_UNROLL
			for (int32_t half = 0; half < 2; half++) {
				const uint32_t hits = cu_ballot(
					k_goes_before(y[k][half] * s->factor, id[k] + half * CU_WARP, s->y, s->id));

				found[half] = own ? hits : found[half];
			}
			begin = own ? id[k] - lane : begin;
		}
	}
	at = n + draw_before(m->count[1 + (from / CU_THREADS & 1)],
				 cu_ones(found[0]) + cu_ones(found[1]), &all);
	for (int32_t half = 0; s->to && half < 2; half++)
		for (uint32_t left = found[half]; left && at < K_DRAW_LIST; left &= left - 1) {
			const int32_t id = begin + half * CU_WARP + cu_ones((left & -left) - 1);

			s->to[at].id = id;
			s->to[at++].logit = s->logits[id];
		}
	return n + all;
}

/* How many ids there are. */
CU_FN int32_t draw_find(struct draw_shared *m, const struct draw_search *s)
{
	int32_t n = 0;

	for (int32_t key = 0; key < s->n_keys; key += DRAW_MOST) {
		const int32_t chosen = draw_choose(m, s, key);

		for (int32_t from = 0; from < chosen; from += CU_THREADS)
			n = draw_look(m, s, from, chosen, n);
	}
	return n;
}

/* The mass of all blocks and the first of the race, to each warp. */
CU_FN struct draw_best draw_add(const struct stats_block *blocks, int32_t n, uint64_t *mass)
{
	struct draw_best best = { 0, -1 };

	*mass = 0;
	CU_NO_UNROLL
	for (int32_t b = cu_thread() % CU_WARP; b < n; b += CU_WARP) {
		*mass += blocks[b].drawn;
		if (blocks[b].race.key > best.key || best.id < 0)
			best = blocks[b].race;
	}
	*mass = draw_total(*mass);
	return draw_best_of(best);
}

/* Called by all threads of the block, after a barrier. */
CU_FN void draw_finish(const struct k_stats *a, const struct k_draw_request *ask,
	struct draw_shared *m, const struct stats_block *blocks, int32_t n_blocks, int32_t row)
{
	struct k_draw_reply *reply = &a->reply[row];
	struct draw_search s = { a->logits + (size_t)row * (size_t)a->vocab,
		stats_keys(blocks, n_blocks), a->vocab, n_blocks * DRAW_PER, ask->factor, -INFINITY,
		INT32_MAX, a->list + (size_t)row * K_DRAW_LIST };
	uint64_t mass;
	const struct draw_best best = draw_add(blocks, n_blocks, &mass);
	int32_t n = 0, ahead = 0; /* ids from the floor up; before the winner */
	float floor = -INFINITY;

	if (k_pieces(a->vocab, DRAW_IDS) >= ask->best)
		floor = k_order_float(draw_floor(m, s.keys, s.n_keys, ask->best));
	s.y = floor;
	CU_NO_UNROLL
	for (int32_t turn = 0; turn < 2; turn++) {
		const int32_t found = draw_find(m, &s);

		n = turn ? n : found;
		ahead = turn ? found : 0;
		if (best.id < 0)
			break;
		s.y = s.logits[best.id] * s.factor;
		s.id = best.id;
		s.to = NULL;
	}
	if (cu_thread() != CU_WARP)
		return;
	reply->mass = mass;
	reply->floor = floor;
	reply->n = m->nans ? INT32_MAX : n;
	reply->winner = best.id;
	reply->arrival = k_order_float(~best.key);
	reply->winner_logit = best.id < 0 ? 0.0f : s.logits[best.id];
	reply->logit = ask->id < 0 ? 0.0f : s.logits[ask->id];
	reply->ahead = ahead;
}
