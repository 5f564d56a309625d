/* Statistics of a row of logits (rules 14 and 15; the entropy as in ref.c), vectors of 8.
 *
 * Few rows are split among the threads by blocks of K_STATS_BLOCK ids: the exponentials need the
 * maximum of all, so the threads wait for each other once inside the op; the last to end combines
 * the parts. Hash and mass are integer sums, and the entropy is summed by block, so the split does
 * not change the bits. Thread: called by all threads of a pool; op->ticket counts those that have
 * ended a phase. */
#include "kernels/cpu/vec8.h"

/* The results of one thread's blocks of one row. */
struct part {
	uint64_t hash, mass;
	float max;
	int32_t argmax;
};

struct block_sum {
	double s, w;
};

static __m256i lane_mask(int32_t left)
{
	return _mm256_cmpgt_epi32(_mm256_set1_epi32(left), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* Eight logits, those after the end as `fill`; reads nothing after the end. */
static inline __m256 load_lanes(const float *l, int32_t left, float fill)
{
	__m256i mask;

	if (left >= 8)
		return _mm256_loadu_ps(l);
	mask = lane_mask(left);
	return _mm256_blendv_ps(
		_mm256_set1_ps(fill), _mm256_maskload_ps(l, mask), _mm256_castsi256_ps(mask));
}

static uint64_t sum_epi64(__m256i v)
{
	uint64_t lane[4];

	_mm256_storeu_si256((__m256i *)(void *)lane, v);
	return lane[0] + lane[1] + lane[2] + lane[3];
}

/* k_hash_term of eight, added to four lanes. */
static inline __m256i add_hash(__m256i sum, __m256i b, __m256i ic1, __m256i ic2, __m256i valid)
{
	const __m256i low = _mm256_set1_epi64x(0xffffffff);
	__m256i rot = _mm256_or_si256(_mm256_slli_epi32(b, 16), _mm256_srli_epi32(b, 16));
	__m256i f = _mm256_or_si256(_mm256_add_epi32(rot, ic1), _mm256_set1_epi32(1));
	__m256i g = _mm256_and_si256(_mm256_xor_si256(b, ic2), valid);

	b = _mm256_and_si256(b, valid);
	sum = _mm256_add_epi64(sum, _mm256_mul_epu32(f, g));
	sum =
		_mm256_add_epi64(sum, _mm256_mul_epu32(_mm256_srli_epi64(f, 32), _mm256_srli_epi64(g, 32)));
	sum = _mm256_add_epi64(sum, _mm256_and_si256(b, low));
	return _mm256_add_epi64(sum, _mm256_srli_epi64(b, 32));
}

/* Hash, and the maximum, of ids first … end - 1 (at most a block). */
static float scan_block(const float *logits, int32_t first, int32_t end, uint64_t *hash)
{
	const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
	const __m256i c1 = _mm256_set1_epi32((int32_t)0x85EBCA77u);
	const __m256i c2 = _mm256_set1_epi32((int32_t)0x9E3779B1u);
	__m256i id = _mm256_add_epi32(_mm256_set1_epi32(first), lanes), sum = _mm256_setzero_si256();
	__m256i ic1 = _mm256_mullo_epi32(id, c1), ic2 = _mm256_mullo_epi32(id, c2);
	__m256 max = _mm256_set1_ps(-INFINITY);

	for (int32_t i = first; i < end; i += 8) {
		__m256 l = load_lanes(logits + i, end - i, -INFINITY);

		max = _mm256_max_ps(l, max);
		sum = add_hash(sum, _mm256_castps_si256(l), ic1, ic2, lane_mask(end - i));
		ic1 = _mm256_add_epi32(ic1, _mm256_slli_epi32(c1, 3));
		ic2 = _mm256_add_epi32(ic2, _mm256_slli_epi32(c2, 3));
	}
	*hash += sum_epi64(sum);
	return v_greatest(max);
}

static int32_t block_end(int32_t block, int32_t vocab)
{
	int32_t first = block * K_STATS_BLOCK;

	return vocab - first < K_STATS_BLOCK ? vocab : first + K_STATS_BLOCK;
}

/* The first phase of one row: blocks lo … hi - 1. */
static void scan(const float *logits, int32_t vocab, int32_t lo, int32_t hi, struct part *part)
{
	int32_t best_block = -1;

	*part = (struct part){ .max = -INFINITY };
	for (int32_t b = lo; b < hi; b++) {
		float max = scan_block(logits, b * K_STATS_BLOCK, block_end(b, vocab), &part->hash);

		if (max > part->max) {
			part->max = max;
			best_block = b;
		}
	}
	if (best_block < 0)
		return;
	part->argmax = best_block * K_STATS_BLOCK;
	while (!(logits[part->argmax] == part->max))
		part->argmax++;
	part->max = logits[part->argmax]; /* the first one's sign, if -0 and +0 tie */
}

/* Half of a vector of eight weights: four lanes of S and W, and the masses. */
struct sums {
	__m256d s, w;
	__m256i mass;
};

static inline void add_four(struct sums *a, __m128 p, __m128 depth)
{
	__m256d dp = _mm256_cvtps_pd(p);

	a->s = _mm256_add_pd(a->s, dp);
	/* Exact products: fusing changes nothing. */
	a->w = _mm256_fmadd_pd(dp, _mm256_cvtps_pd(depth), a->w);
	dp = _mm256_fmadd_pd(dp, _mm256_set1_pd(0x1p40), _mm256_set1_pd(0x1p52));
	a->mass = _mm256_add_epi64(
		a->mass, _mm256_and_si256(_mm256_castpd_si256(dp), _mm256_set1_epi64x(0xfffffffffffff)));
}

static double tree8(__m256d lo, __m256d hi)
{
	double a[4];

	_mm256_storeu_pd(a, _mm256_add_pd(lo, hi));
	return (a[0] + a[2]) + (a[1] + a[3]);
}

static struct block_sum weigh_block(
	const float *logits, int32_t first, int32_t end, float max, uint64_t *mass)
{
	const __m256d zero = _mm256_setzero_pd();
	struct sums lo = { zero, zero, _mm256_setzero_si256() }, hi = lo;

	for (int32_t i = first; i < end; i += 8) {
		__m256 t = _mm256_sub_ps(load_lanes(logits + i, end - i, max), _mm256_set1_ps(max));
		__m256 depth = _mm256_max_ps(t, _mm256_set1_ps(-87.0f)), p = v_exp(depth);

		if (end - i < 8) /* weights of +0 change no sum */
			p = _mm256_and_ps(p, _mm256_castsi256_ps(lane_mask(end - i)));
		add_four(&lo, _mm256_castps256_ps128(p), _mm256_castps256_ps128(depth));
		add_four(&hi, _mm256_extractf128_ps(p, 1), _mm256_extractf128_ps(depth, 1));
	}
	*mass += sum_epi64(_mm256_add_epi64(lo.mass, hi.mass));
	return (struct block_sum){ tree8(lo.s, hi.s), tree8(lo.w, hi.w) };
}

/* Layout of each thread's scratch: the parts of its rows, then the sums of its blocks. */
struct shape {
	const struct k_stats *a;
	int32_t n_blocks, n_parts; /* blocks of a row; threads that share a row */
	int64_t most;              /* the most blocks of one row in one thread */
};

static struct part *part_of(void *scratch, int32_t r)
{
	return (struct part *)scratch + r;
}

static struct block_sum *sums_of(const struct shape *g, void *scratch, int32_t r)
{
	struct part *end = part_of(scratch, g->a->n);

	return (struct block_sum *)(void *)end + r * g->most;
}

/* Hash, maximum and argmax of all parts. */
static struct k_logit_stats gather(const struct shape *g, int32_t r, int tid, void *scratch)
{
	struct k_logit_stats out = { .max = -INFINITY };

	for (int t = 0; t < g->n_parts; t++) {
		const struct part *p = part_of(k_scratch_of(scratch, tid, t), r);

		out.hash += p->hash;
		if (p->max > out.max) {
			out.max = p->max;
			out.argmax = p->argmax;
		}
	}
	return out;
}

/* The same with what was weighed. */
static struct k_logit_stats combine(const struct shape *g, int32_t r, int tid, void *scratch)
{
	struct k_logit_stats out = gather(g, r, tid, scratch);
	double s = 0, w = 0;

	for (int t = 0; t < g->n_parts; t++) {
		const struct block_sum *sum = sums_of(g, k_scratch_of(scratch, tid, t), r);
		int64_t lo, hi;

		k_split(g->n_blocks, t, g->n_parts, &lo, &hi);
		for (int64_t b = lo; b < hi; b++) {
			s += sum[b - lo].s;
			w += sum[b - lo].w;
		}
		out.mass += part_of(k_scratch_of(scratch, tid, t), r)->mass;
	}
	out.entropy = k_ref_entropy(s, w);
	return out;
}

static void weigh(const struct shape *g, int32_t r, int64_t lo, int64_t hi, int tid, void *scratch)
{
	const float *logits = g->a->logits + (size_t)r * (size_t)g->a->vocab;
	struct part *part = part_of(scratch, r);
	struct block_sum *sum = sums_of(g, scratch, r);
	float max = gather(g, r, tid, scratch).max;

	for (int64_t b = lo; b < hi; b++)
		sum[b - lo] = weigh_block(logits, (int32_t)b * K_STATS_BLOCK,
			block_end((int32_t)b, g->a->vocab), max, &part->mass);
}

static void split_rows(const struct shape *g, struct k_op *op, int tid, void *scratch)
{
	const struct k_stats *a = g->a;
	int64_t lo, hi;

	k_split(g->n_blocks, tid, g->n_parts, &lo, &hi);
	for (int32_t r = 0; r < a->n; r++)
		scan(a->logits + (size_t)r * (size_t)a->vocab, a->vocab, (int32_t)lo, (int32_t)hi,
			part_of(scratch, r));
	atomic_fetch_add(&op->ticket, 1);
	k_await(&op->ticket, g->n_parts);
	for (int32_t r = 0; r < a->n; r++)
		weigh(g, r, lo, hi, tid, scratch);
	if (atomic_fetch_add(&op->ticket, 1) != 2 * g->n_parts - 1)
		return;
	for (int32_t r = 0; r < a->n; r++)
		a->out[r] = combine(g, r, tid, scratch);
}

/* One thread computes each row. */
static void whole_rows(const struct k_stats *a, int tid, int n_threads, void *scratch)
{
	int64_t lo, hi;

	k_split(a->n, tid, n_threads, &lo, &hi);
	for (int64_t r = lo; r < hi; r++) {
		const struct k_stats row = {
			.logits = a->logits + k_index(r, a->vocab, 0), .vocab = a->vocab, .n = 1
		};
		const int32_t n_blocks = k_pieces(a->vocab, K_STATS_BLOCK);
		const struct shape g = { &row, n_blocks, 1, n_blocks };

		scan(row.logits, row.vocab, 0, n_blocks, part_of(scratch, 0));
		weigh(&g, 0, 0, n_blocks, 0, scratch);
		a->out[r] = combine(&g, 0, 0, scratch);
	}
}

void k_vec8_stats(struct k_op *op, int tid, int n_threads, void *scratch)
{
	const struct k_stats *a = &op->u.stats;
	struct shape g = { .a = a, .n_parts = n_threads };

	g.n_blocks = k_pieces(a->vocab, K_STATS_BLOCK);
	g.most = g.n_blocks / n_threads + 1;
	if (n_threads == 1 || a->n % n_threads == 0 || a->n > 4 * n_threads ||
		(size_t)a->n * (sizeof(struct part) + (size_t)g.most * sizeof(struct block_sum)) >
			K_SCRATCH_BYTES)
		whole_rows(a, tid, n_threads, scratch);
	else
		split_rows(&g, op, tid, scratch);
}
