/* What a draw needs of a row of logits (struct k_draw_reply), besides its statistics: computed in
 * phase 1 of the stats op, together with its blocks of 1,024 ids. Each block of ids gives the mass
 * by the draw's own temperature, the least arrival of the race, and the greatest value of each 64
 * ids. The block that takes the row's last ticket then finds, bit by bit, the value that the
 * requested number of these maxima reaches, and lists the ids that reach it, ascending. All of it
 * is integers, minima and maxima, independent of order, or per id: it must equal
 * k_ref_draw_row(). */
#ifndef CUTAWAY_KERNELS_CUDA_DRAW_CUH
#define CUTAWAY_KERNELS_CUDA_DRAW_CUH

#include "kernels/cuda/bodies.cuh"

enum {
	DRAW_IDS = K_DRAW_IDS,
	DRAW_PER = CU_STATS_IDS / DRAW_IDS,
	DRAW_EACH = CU_STATS_IDS / CU_THREADS
};

/* Of one block of ids, in the scratch after the statistics' own. */
struct draw_block {
	uint64_t mass;
	float arrival;
	int32_t winner;
	uint32_t key[DRAW_PER];
};
static_assert(sizeof(struct draw_block) == CU_DRAW_BYTES, "stage.h counts these");
static_assert(DRAW_IDS / DRAW_EACH == CU_WARP / 2, "64 ids are half a warp's");

struct draw_best {
	float arrival;
	int32_t winner; /* -1: none */
};

struct draw_shared {
	struct draw_block warp[CU_WARPS]; /* of a unit; keys are not used */
	int32_t last;
	/* [turn][warp], used in turns, so that one barrier for each count is enough; apart, since
	 * racecheck takes neighbouring words for one */
	int32_t count[2][32];
};

/* The lowest id among the earliest. */
CU_FN struct draw_best draw_better(struct draw_best a, struct draw_best b)
{
	const bool other = b.winner >= 0 && (a.winner < 0 || b.arrival < a.arrival ||
											(b.arrival == a.arrival && b.winner < a.winner));

	return other ? b : a;
}

/* Four ids, of which `left` exist: mass, race, and the greatest key of all. */
CU_FN uint32_t draw_ids(const struct k_draw_ask *ask, const float *logits, int32_t first,
	int32_t left, float max, uint64_t *mass, struct draw_best *best)
{
	uint32_t word[4] = { 0, 0, 0, 0 }, top = k_order_key(-INFINITY);

	if (ask->race)
		k_draw_words(ask->seed, (uint32_t)first / 4, ask->pos, ask->sample, K_DRAW_TARGET, word);
	CU_UNROLL
	for (int32_t i = 0; i < DRAW_EACH; i++) {
		float y;
		uint32_t key;

		if (i >= left)
			continue;
		y = logits[first + i] * ask->factor;
		key = k_order_key(y);
		top = key > top ? key : top;
		*mass += k_mass(k_exp(k_logit_depth(y, max)));
		if (ask->race) {
			const struct draw_best own = { k_arrival(k_uniform(word[i]), y, max), first + i };

			if (own.arrival <= INFINITY) /* no NaN wins */
				*best = draw_better(*best, own);
		}
	}
	return top;
}

/* A block of ids: thread 0 writes *out except the keys; visible after a barrier. */
CU_FN void draw_unit(const struct k_stats *a, struct draw_shared *m, int32_t row, int32_t block,
	float max, struct draw_block *out)
{
	const struct k_draw_ask *ask = &a->ask[row];
	const float *logits = a->logits + (size_t)row * (size_t)a->vocab;
	const int32_t first = block * CU_STATS_IDS + cu_thread() * DRAW_EACH,
				  warp = cu_thread() / CU_WARP;
	struct draw_best best = { INFINITY, -1 };
	uint64_t mass = 0;
	uint32_t key = draw_ids(ask, logits, first, a->vocab - first, max * ask->factor, &mass, &best);

	for (int32_t h = CU_WARP / 2; h > 0; h /= 2) {
		const uint32_t low = (uint32_t)cu_shuffle_xor((int32_t)(uint32_t)mass, h);
		const uint32_t high = (uint32_t)cu_shuffle_xor((int32_t)(uint32_t)(mass >> 32), h);
		struct draw_best other;

		other.arrival = cu_shuffle_xor_float(best.arrival, h);
		other.winner = cu_shuffle_xor(best.winner, h);
		mass += (uint64_t)high << 32 | low;
		best = draw_better(best, other);
	}
	for (int32_t h = CU_WARP / 4; h > 0; h /= 2) { /* within half a warp */
		const uint32_t other = (uint32_t)cu_shuffle_xor((int32_t)key, h);

		key = other > key ? other : key;
	}
	if (cu_thread() % (CU_WARP / 2) == 0)
		out->key[cu_thread() / (CU_WARP / 2)] = key;
	if (cu_thread() % CU_WARP == 0) {
		m->warp[warp].mass = mass;
		m->warp[warp].arrival = best.arrival;
		m->warp[warp].winner = best.winner;
	}
	CU_SYNC();
	if (cu_thread() != 0)
		return;
	for (int32_t w = 1; w < CU_WARPS; w++) {
		const struct draw_best other = { m->warp[w].arrival, m->warp[w].winner };

		mass += m->warp[w].mass;
		best = draw_better(best, other);
	}
	out->mass = mass;
	out->arrival = best.arrival;
	out->winner = best.winner;
}

/* ---- a row, by the block that weighed the last of it ---- */

/* Sum of all threads' n, in all of them. `turn` goes from one count to the next. */
CU_FN int32_t draw_sum(struct draw_shared *m, int32_t n, int32_t turn)
{
	int32_t all = 0;

	n = cu_warp_sum(n);
	if (cu_thread() % CU_WARP == 0)
		m->count[turn & 1][cu_thread() / CU_WARP] = n;
	CU_SYNC();
	for (int32_t w = 0; w < CU_WARPS; w++)
		all += m->count[turn & 1][w];
	return all;
}

CU_FN uint32_t draw_key(const struct draw_block *blocks, int32_t i)
{
	return blocks[i / DRAW_PER].key[i % DRAW_PER];
}

/* The greatest key that `best` of the n maxima reach. */
CU_FN uint32_t draw_floor(
	struct draw_shared *m, const struct draw_block *blocks, int32_t n, int32_t best)
{
	uint32_t floor = 0;

	if (n < best)
		return k_order_key(-INFINITY);
	CU_NO_UNROLL
	for (int32_t bit = 31; bit >= 0; bit--) {
		const uint32_t tried = floor | 1u << bit;
		int32_t reach = 0;

		for (int32_t i = cu_thread(); i < n; i += CU_THREADS)
			reach += draw_key(blocks, i) >= tried;
		if (draw_sum(m, reach, bit) >= best)
			floor = tried;
	}
	return floor;
}

/* The thread's own 64s: how many ids reach the floor; with `to`, writes them there. */
CU_FN int32_t draw_list(const struct k_stats *a, const struct draw_block *blocks, int32_t row,
	int32_t first, int32_t end, uint32_t floor, struct k_draw_entry *to)
{
	const struct k_draw_ask *ask = &a->ask[row];
	const float *logits = a->logits + (size_t)row * (size_t)a->vocab;
	int32_t n = 0;

	for (int32_t b = first; b < end; b++) {
		const int32_t begin = b * DRAW_IDS, left = a->vocab - begin;

		if (draw_key(blocks, b) < floor)
			continue;
		CU_UNROLL_8
		for (int32_t i = 0; i < (left < DRAW_IDS ? left : DRAW_IDS); i++) {
			const float l = logits[begin + i];

			if (k_order_key(l * ask->factor) < floor)
				continue;
			if (to) {
				to[n].id = begin + i;
				to[n].logit = l;
			}
			n++;
		}
	}
	return n;
}

/* Sum of the values of the threads before; like draw_sum. */
CU_FN int32_t draw_before(struct draw_shared *m, int32_t n, int32_t turn)
{
	const int32_t lane = cu_thread() % CU_WARP, warp = cu_thread() / CU_WARP;
	int32_t before = n;

	for (int32_t h = 1; h < CU_WARP; h *= 2) {
		const int32_t other = cu_shuffle(before, lane < h ? lane : lane - h);

		before += lane < h ? 0 : other;
	}
	if (lane == CU_WARP - 1)
		m->count[turn & 1][warp] = before;
	CU_SYNC();
	before -= n;
	for (int32_t w = 0; w < warp; w++)
		before += m->count[turn & 1][w];
	return before;
}

CU_FN struct draw_best draw_best_of(const struct draw_block *blocks, int32_t n_blocks)
{
	struct draw_best best = { INFINITY, -1 };

	for (int32_t b = 0; b < n_blocks; b++) {
		const struct draw_best other = { blocks[b].arrival, blocks[b].winner };

		best = draw_better(best, other);
	}
	return best;
}

/* The thread's share of the ids that go before the winner. */
CU_FN int32_t draw_ahead(const struct k_stats *a, int32_t row, int32_t winner)
{
	const float *logits = a->logits + (size_t)row * (size_t)a->vocab;
	const float factor = a->ask[row].factor;
	int32_t n = 0;

	for (int32_t i = cu_thread(); winner >= 0 && i < a->vocab; i += CU_THREADS)
		n += k_goes_before(logits[i] * factor, i, logits[winner] * factor, winner);
	return n;
}

CU_FN void draw_tell(const struct k_stats *a, const struct draw_block *blocks, int32_t n_blocks,
	int32_t row, uint32_t floor, int32_t n, struct draw_best best)
{
	const struct k_draw_ask *ask = &a->ask[row];
	const float *logits = a->logits + (size_t)row * (size_t)a->vocab;
	struct k_draw_reply *reply = &a->reply[row];
	uint64_t mass = 0;

	for (int32_t b = 0; b < n_blocks; b++)
		mass += blocks[b].mass;
	reply->mass = mass;
	reply->floor = k_order_float(floor);
	reply->n = n;
	reply->arrival = best.arrival;
	reply->winner = best.winner;
	reply->winner_logit = best.winner < 0 ? 0.0f : logits[best.winner];
	reply->logit = ask->id < 0 ? 0.0f : logits[ask->id];
}

/* Called by all threads of the block, after a barrier. */
CU_LARGE_FN void draw_finish(const struct k_stats *a, struct draw_shared *m,
	const struct draw_block *blocks, int32_t n_blocks, int32_t row)
{
	const int32_t n = (a->vocab + DRAW_IDS - 1) / DRAW_IDS,
				  each = (n + CU_THREADS - 1) / CU_THREADS;
	const int32_t first = cu_thread() * each, end = first + each < n ? first + each : n;
	const uint32_t floor = draw_floor(m, blocks, n, a->ask[row].best);
	const int32_t own = draw_list(a, blocks, row, first, end, floor, NULL);
	const struct draw_best best = draw_best_of(blocks, n_blocks);
	int32_t all = draw_sum(m, own, 1), before, nan = 0, ahead;

	for (int32_t i = cu_thread(); i < n; i += CU_THREADS)
		nan |= draw_key(blocks, i) == UINT32_MAX;
	if (draw_sum(m, nan, 0))
		all = INT32_MAX;
	before = draw_before(m, own, 1);
	ahead = draw_sum(m, draw_ahead(a, row, best.winner), 0);
	if (all <= K_DRAW_LIST)
		draw_list(a, blocks, row, first, end, floor, a->list + (size_t)row * K_DRAW_LIST + before);
	if (cu_thread() == 0) {
		draw_tell(a, blocks, n_blocks, row, floor, all, best);
		a->reply[row].ahead = ahead;
	}
}

#endif
