/* Statistics of a row of logits: rules 14 and 15. Phase 0 computes, for blocks of 1,024 ids, hash,
 * maximum, and the lowest id that has it. Phase 1, with the row's maximum, computes mass and the
 * sums of the entropy; the block that takes a row's last ticket adds up the row's blocks,
 * ascending.
 *
 * Order (k_ref_stats_row): it does not matter for hash and mass; the entropy's chains run over ids
 * equal mod 8 within a block, then tree(8), then over the blocks. */
#ifndef CUTAWAY_KERNELS_CUDA_STATS_CUH
#define CUTAWAY_KERNELS_CUDA_STATS_CUH

#include "kernels/cuda/draw.cuh"

enum { STATS_LANES = 8, STATS_EACH = CU_STATS_IDS / CU_THREADS };

/* Of one block of ids, in the scratch. */
struct stats_block {
	uint64_t hash, mass;
	double s, w;
	float max;
	int32_t argmax;
};
static_assert(sizeof(struct stats_block) == CU_STATS_BYTES, "stage.h counts these");

struct stats_shared {
	double p[CU_STATS_IDS], w[CU_STATS_IDS]; /* of each id: probability; times its depth */
	double sum[2 * STATS_LANES];
	uint64_t total[CU_WARPS];
	float max[CU_WARPS];
	int32_t argmax[CU_WARPS];
};

struct stats_best {
	float max;
	int32_t argmax;
};

/* The lowest id among the greatest; nothing is greater than a NaN, and no NaN is greater. */
CU_FN struct stats_best stats_better(struct stats_best a, struct stats_best b)
{
	return b.max > a.max || (b.max == a.max && b.argmax < a.argmax) ? b : a;
}

CU_FN struct stats_best stats_warp_best(struct stats_best best)
{
	for (int32_t h = CU_WARP / 2; h > 0; h /= 2) {
		struct stats_best other;

		other.max = cu_shuffle_xor_float(best.max, h);
		other.argmax = cu_shuffle_xor(best.argmax, h);
		best = stats_better(best, other);
	}
	return best;
}

/* The best of all threads, to all of them. */
CU_FN struct stats_best stats_all_best(struct stats_shared *m, struct stats_best best)
{
	best = stats_warp_best(best);
	if (cu_thread() % CU_WARP == 0) {
		m->max[cu_thread() / CU_WARP] = best.max;
		m->argmax[cu_thread() / CU_WARP] = best.argmax;
	}
	CU_SYNC();
	for (int32_t w = 0; w < CU_WARPS; w++) {
		struct stats_best other = { m->max[w], m->argmax[w] };

		best = stats_better(best, other);
	}
	return best;
}

/* Sum of all threads' v, in thread 0. */
CU_FN uint64_t stats_total(struct stats_shared *m, uint64_t v)
{
	for (int32_t h = CU_WARP / 2; h > 0; h /= 2) {
		uint32_t low = (uint32_t)cu_shuffle_xor((int32_t)(uint32_t)v, h);
		uint32_t high = (uint32_t)cu_shuffle_xor((int32_t)(uint32_t)(v >> 32), h);

		v += (uint64_t)high << 32 | low;
	}
	if (cu_thread() % CU_WARP == 0)
		m->total[cu_thread() / CU_WARP] = v;
	CU_SYNC();
	for (int32_t w = 1; cu_thread() == 0 && w < CU_WARPS; w++)
		v += m->total[w];
	return v;
}

CU_FN void stats_scan(const struct k_stats *a, struct stats_shared *m, int32_t row, int32_t block,
	struct stats_block *out)
{
	const float *logits = a->logits + (size_t)row * (size_t)a->vocab;
	struct stats_best best = { -INFINITY, 0 };
	uint64_t hash = 0;

	for (int32_t j = 0; j < STATS_EACH; j++) {
		int32_t i = block * CU_STATS_IDS + j * CU_THREADS + cu_thread();

		if (i < a->vocab) {
			hash += k_hash_term(k_bits(logits[i]), (uint32_t)i);
			if (logits[i] > best.max) {
				best.max = logits[i];
				best.argmax = i;
			}
		}
	}
	hash = stats_total(m, hash);
	best = stats_all_best(m, best);
	if (cu_thread() == 0) {
		out->hash = hash;
		out->max = best.max;
		out->argmax = best.argmax;
	}
}

CU_FN struct stats_best stats_row_best(
	struct stats_shared *m, const struct stats_block *blocks, int32_t n)
{
	struct stats_best best = { -INFINITY, 0 };

	for (int32_t b = cu_thread(); b < n; b += CU_THREADS) {
		struct stats_best other = { blocks[b].max, blocks[b].argmax };

		best = stats_better(best, other);
	}
	return stats_all_best(m, best);
}

/* The block's sums s and w: 16 chains, a thread each. */
CU_FN void stats_chains(struct stats_shared *m, int32_t count, struct stats_block *out)
{
	const int32_t t = cu_thread();
	const double *x = t < STATS_LANES ? m->p : m->w;
	double sum = 0;

	if (t < 2 * STATS_LANES) {
		CU_UNROLL_8
		for (int32_t i = t % STATS_LANES; i < count; i += STATS_LANES)
			sum += x[i];
		m->sum[t] = sum;
	}
	CU_SYNC_WARP();
	if (t == 0 || t == STATS_LANES) {
		double *lane = m->sum + t;

		for (int32_t h = STATS_LANES / 2; h > 0; h /= 2)
			for (int32_t i = 0; i < h; i++)
				lane[i] += lane[i + h];
		*(t ? &out->w : &out->s) = lane[0];
	}
}

CU_FN void stats_weigh(const struct k_stats *a, struct stats_shared *m, int32_t row, int32_t block,
	float max, struct stats_block *out)
{
	const float *logits = a->logits + (size_t)row * (size_t)a->vocab;
	const int32_t first = block * CU_STATS_IDS;
	const int32_t count = a->vocab - first < CU_STATS_IDS ? a->vocab - first : CU_STATS_IDS;
	uint64_t mass = 0;

	for (int32_t i = cu_thread(); i < count; i += CU_THREADS) {
		float depth = k_logit_depth(logits[first + i], max), p = k_exp(depth);

		mass += k_mass(p);
		m->p[i] = (double)p;
		m->w[i] = (double)p * (double)depth;
	}
	mass = stats_total(m, mass);
	if (cu_thread() == 0)
		out->mass = mass;
	stats_chains(m, count, out);
}

/* Run by one thread, when all blocks of the row are done. */
CU_FN void stats_finish(
	const struct stats_block *blocks, int32_t n, struct stats_best best, struct k_logit_stats *out)
{
	uint64_t hash = 0, mass = 0;
	double s = 0, w = 0, entropy;

	for (int32_t b = 0; b < n; b++) {
		hash += blocks[b].hash;
		mass += blocks[b].mass;
		s += blocks[b].s;
		w += blocks[b].w;
	}
	entropy = (k_log64(s) - w / s) * 0x1.71547652b82fep0; /* k_ref_entropy() */
	out->hash = hash;
	out->mass = mass;
	out->entropy = entropy > 0 ? entropy : 0;
	out->max = best.max;
	out->argmax = best.argmax;
}

/* Whether this block took the row's last ticket: then all of the row is done. */
CU_FN bool stats_last(const struct cu_part *p, struct draw_shared *d, int32_t row, int32_t n)
{
	CU_SYNC();
	if (cu_thread() == 0)
		d->last = cu_arrive(p->work->ticket + row, 1) == (uint32_t)n - 1;
	if (!p->stage->op.u.stats.ask) /* then only thread 0 has work to do */
		return cu_thread() == 0 && d->last;
	CU_SYNC();
	return d->last;
}

static __device__ void cu_stats(const struct cu_part *p)
{
	const struct k_stats *a = &p->stage->op.u.stats;
	struct stats_shared *m = (struct stats_shared *)p->shared;
	struct draw_shared *d = (struct draw_shared *)(m + 1);
	const int32_t n = (a->vocab + CU_STATS_IDS - 1) / CU_STATS_IDS;
	struct draw_block *draws =
		(struct draw_block *)(p->work->scratch + (size_t)a->n * (size_t)n * CU_STATS_BYTES);

	for (int64_t unit = p->block; unit < (int64_t)a->n * n; unit += p->n_blocks) {
		const int32_t row = (int32_t)(unit / n), block = (int32_t)(unit % n);
		struct stats_block *of_row =
			(struct stats_block *)p->work->scratch + (size_t)row * (size_t)n;
		struct draw_block *draw = draws + (size_t)row * (size_t)n;
		struct stats_best best;

		/* no barrier: each word of m is written a barrier after its last readers */
		if (p->stage->phase == 0) {
			stats_scan(a, m, row, block, of_row + block);
			continue;
		}
		best = stats_row_best(m, of_row, n);
		stats_weigh(a, m, row, block, best.max, of_row + block);
		if (a->ask)
			draw_unit(a, d, row, block, best.max, draw + block);
		if (!stats_last(p, d, row, n))
			continue;
		if (cu_thread() == 0) {
			p->work->ticket[row] = 0;
			stats_finish(of_row, n, best, a->out + row);
		}
		if (a->ask)
			draw_finish(a, d, draw, n, row);
	}
}

#endif
