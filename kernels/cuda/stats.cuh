/* Statistics of a row of logits: rules 14 and 15. Phase 0 computes, for blocks of 1,024 ids, hash,
 * maximum, and the lowest id that has it. Phase 1, with the row's maximum, computes mass and the
 * sums of the entropy, and what draws ask for (draw.cuh); the block that takes a row's last ticket
 * adds up the row's blocks, ascending.
 *
 * Order (k_ref_stats_row): it does not matter for hash and mass; the entropy's chains run over ids
 * equal mod 8 within a block, then tree(8), then over the blocks. Everything that a unit needs from
 * memory is under way at once, before the first barrier. */
#pragma once

#include "kernels/cuda/draw.cuh"
#include "kernels/cuda/norm.cuh"

enum {
	STATS_LANES = 8,
	STATS_ROW = 256, /* blocks of a row that shared memory has room for: 262,144 ids */
};

struct stats_shared {
	double p[CU_STATS_IDS], w[CU_STATS_IDS]; /* of each id: probability; times its depth */
	struct stats_block warp[2][CU_WARPS];    /* what the warp have of a unit; used in turns */
	int32_t last;
	struct draw_shared draw;
	__align__(64) unsigned char row[STATS_ROW * CU_STATS_BYTES];
};
static_assert(sizeof(struct stats_shared) <= CU_STATS_SHARED, "they fit");

/* A block of ids, and what its threads have of it. */
struct stats_unit {
	int32_t row, first, n_blocks; /* the first id; blocks of the row */
	struct stats_block *of_row, *out;
	uint32_t *key;      /* of the 64s of this block */
	float x[DRAW_EACH]; /* of ids first + thread, + CU_THREADS … */
	float y[DRAW_EACH]; /* of ids first + DRAW_EACH * thread … */
	struct k_draw_request ask;
};

CU_FN struct stats_unit stats_open(const struct cu_part *p, int32_t unit, int32_t n)
{
	const struct k_stats *a = &p->stage->op.u.stats;
	struct stats_unit u = { unit / n, unit % n * CU_STATS_IDS, n };
	const float *logits = a->logits + (size_t)u.row * (size_t)a->vocab;
	const bool draws = p->stage->phase == 1 && a->ask;

	u.of_row = stats_row(p->work, u.row, n);
	u.out = u.of_row + unit % n;
	u.key = stats_keys(u.of_row, n) + unit % n * DRAW_PER;
	CU_UNROLL
	for (int32_t j = 0; j < DRAW_EACH; j++) {
		const int32_t i = u.first + j * CU_THREADS + cu_thread(),
					  k = u.first + cu_thread() * DRAW_EACH + j;

		u.x[j] = i < a->vocab ? logits[i] : -INFINITY;
		u.y[j] = draws && k < a->vocab ? logits[k] : -INFINITY;
	}
	if (draws)
		u.ask = a->ask[u.row];
	return u;
}

/* The best of all threads, to all of them. */
CU_FN struct draw_best stats_all_best(struct stats_block warp[CU_WARPS], struct draw_best best)
{
	best = draw_best_of(best);
	if (cu_thread() % CU_WARP == 0)
		warp[cu_thread() / CU_WARP].max = best;
	CU_SYNC();
	return draw_best_of(warp[cu_thread() % CU_WARPS].max);
}

CU_FN void stats_scan(const struct k_stats *a, struct stats_unit *u, struct stats_block *warp)
{
	struct draw_best best;
	float max = -INFINITY;
	int32_t id = 0;
	uint64_t hash = 0;

	CU_UNROLL
	for (int32_t j = 0; j < DRAW_EACH; j++) {
		const int32_t i = u->first + j * CU_THREADS + cu_thread();

		if (i < a->vocab)
			hash += k_hash_term(k_bits(u->x[j]), (uint32_t)i);
		if (u->x[j] > max) {
			max = u->x[j];
			id = i;
		}
	}
	hash = draw_total(hash);
	if (cu_thread() % CU_WARP == 0)
		warp[cu_thread() / CU_WARP].hash = hash;
	best.key = k_order_key(max);
	best.id = id;
	best = stats_all_best(warp, best);
	if (cu_thread() >= CU_WARP)
		return;
	hash = draw_total(cu_thread() < CU_WARPS ? warp[cu_thread()].hash : 0);
	if (cu_thread() == 0) {
		u->out->hash = hash;
		u->out->max = best;
	}
}

/* The sums s and w of a block of ids: 16 chains, a thread each. Run by a warp. */
CU_FN void stats_chains(const struct stats_shared *m, int32_t count, struct stats_block *out)
{
	const int32_t t = cu_thread() % CU_WARP;
	const double *x = t & STATS_LANES ? m->w : m->p;
	double sum = 0;

	CU_UNROLL_8
	for (int32_t i = t % STATS_LANES; i < count; i += STATS_LANES)
		sum += x[i];
	CU_UNROLL
	for (int32_t h = STATS_LANES / 2; h > 0; h /= 2)
		sum += k_double(draw_xor(k_bits64(sum), h));
	if (t == 0)
		out->s = sum;
	if (t == STATS_LANES)
		out->w = sum;
}

/* Mass and entropy of the threads' ids. */
CU_FN void stats_weigh(const struct stats_unit *u, struct stats_shared *m, struct stats_block *warp,
	int32_t left, float max)
{
	uint64_t mass = 0;

	CU_UNROLL
	for (int32_t j = 0; j < DRAW_EACH; j++) {
		const int32_t i = j * CU_THREADS + cu_thread();
		const float depth = k_logit_depth(u->x[j], max), p = k_exp(depth);

		mass += i < left ? k_mass(p) : 0;
		m->p[i] = (double)p;
		m->w[i] = (double)p * (double)depth;
	}
	mass = draw_total(mass);
	if (cu_thread() % CU_WARP == 0)
		warp->mass = mass;
}

/* What the warp weighed, together. Run by a warp. */
CU_FN void stats_add(const struct stats_block warp[CU_WARPS], bool draws, struct stats_block *out)
{
	const int32_t lane = cu_thread() % CU_WARP;
	const bool in = lane < CU_WARPS;
	const uint64_t mass = draw_total(in ? warp[lane].mass : 0);

	if (lane == 0)
		out->mass = mass;
	if (draws) {
		const uint64_t drawn = draw_total(in ? warp[lane].drawn : 0);
		const struct draw_best race = draw_best_of(warp[lane % CU_WARPS].race);

		if (lane == 0) {
			out->drawn = drawn;
			out->race = race;
		}
	}
}

/* Phase 1 of a unit. Returns the row's best. */
CU_FN struct draw_best stats_pass(
	const struct k_stats *a, struct stats_unit *u, struct stats_shared *m, struct stats_block *warp)
{
	const int32_t left = a->vocab - u->first, at = cu_thread() * DRAW_EACH;
	struct draw_best best = { 0, 0 };
	float max;

	CU_NO_UNROLL
	for (int32_t b = cu_thread(); b < u->n_blocks; b += CU_THREADS)
		if (u->of_row[b].max.key > best.key)
			best = u->of_row[b].max;
	best = stats_all_best(warp, best);
	max = k_order_float(best.key);
	stats_weigh(u, m, warp + cu_thread() / CU_WARP, left, max);
	if (a->ask)
		draw_weigh(&u->ask, u->y, u->first + at, left - at, max * u->ask.factor,
			warp + cu_thread() / CU_WARP, u->key);
	CU_SYNC();
	if (cu_thread() / CU_WARP == 0)
		stats_chains(m, k_min(left, CU_STATS_IDS), u->out);
	if (cu_thread() / CU_WARP == 1)
		stats_add(warp, a->ask, u->out);
	return best;
}

/* Whether this block took the row's last ticket: then all of the row is done. */
CU_FN bool stats_last(const struct cu_part *p, struct stats_shared *m, int32_t row, int32_t n)
{
	CU_SYNC();
	if (cu_thread() == 0)
		m->last = cu_arrive(p->work->ticket + row, 1) == (uint32_t)n - 1;
	CU_SYNC();
	return m->last;
}

/* The row's statistics, from its blocks. Run by a warp. */
CU_FN void stats_tell(const struct stats_block *blocks, int32_t n, struct draw_best best,
	const float *logits, struct k_logit_stats *out)
{
	const int32_t lane = cu_thread() % CU_WARP;
	const double *x = lane ? &blocks->w : &blocks->s;
	uint64_t hash = 0, mass = 0;
	double sum = 0, w, entropy;

	CU_NO_UNROLL
	for (int32_t b = lane; b < n; b += CU_WARP) {
		hash += blocks[b].hash;
		mass += blocks[b].mass;
	}
	hash = draw_total(hash);
	mass = draw_total(mass);
	CU_UNROLL_8
	for (int32_t b = 0; b < n; b++) /* s in lane 0, w in lane 1 */
		sum += x[(size_t)b * (sizeof *blocks / sizeof *x)];
	w = k_double(draw_xor(k_bits64(sum), 1));
	if (lane != 0)
		return;
	entropy = (k_log64(sum) - w / sum) * 0x1.71547652b82fep0; /* k_ref_entropy() */
	out->hash = hash;
	out->mass = mass;
	out->entropy = entropy > 0 ? entropy : 0;
	/* keys do not tell zeros apart */
	out->max = best.key == k_order_key(0) ? logits[best.id] : k_order_float(best.key);
	out->argmax = best.id;
}

/* Called by all threads of the block that took the last ticket. */
CU_FN void stats_finish(const struct cu_part *p, struct stats_shared *m, const struct stats_unit *u,
	struct draw_best best)
{
	const struct k_stats *a = &p->stage->op.u.stats;
	const struct stats_block *row = u->of_row;
	const int32_t n = u->n_blocks;

	if (n <= STATS_ROW) {
		row = (const struct stats_block *)(const void *)m->row;
		/* what is for draws alone, where none asks, and the gap at the end */
		cu_anything(u->of_row, (size_t)n * sizeof *row);
		cu_fetch_floats((float *)(void *)m->row, (const float *)(const void *)u->of_row,
			n * (a->ask ? CU_STATS_BYTES : (int32_t)sizeof *row) / 4);
		cu_copy_commit();
		cu_copy_wait(0);
	}
	draw_clear(&m->draw);
	CU_SYNC();
	if (a->ask)
		draw_finish(a, &u->ask, &m->draw, row, n, u->row);
	if (cu_thread() == 0)
		p->work->ticket[u->row] = 0;
	if (cu_thread() / CU_WARP == 0)
		stats_tell(row, n, best, a->logits + (size_t)u->row * (size_t)a->vocab, a->out + u->row);
}

static __device__ void cu_stats(const struct cu_part *p)
{
	const struct k_stats *a = &p->stage->op.u.stats;
	struct stats_shared *m = (struct stats_shared *)p->shared;
	const int32_t n = k_pieces(a->vocab, CU_STATS_IDS);
	int32_t turn = 0;

	/* no barrier between units: each word of m is written a barrier after its last readers */
	for (int32_t unit = p->block; unit < a->n * n; unit += p->n_blocks, turn ^= 1) {
		struct stats_unit u = stats_open(p, unit, n);
		struct draw_best best;

		if (p->stage->phase == 0) {
			stats_scan(a, &u, m->warp[turn]);
			continue;
		}
		best = stats_pass(a, &u, m, m->warp[turn]);
		if (stats_last(p, m, u.row, n))
			stats_finish(p, m, &u, best);
	}
}
