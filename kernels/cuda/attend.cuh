/* Attention: rule 11. This file has what both its shapes share, from scores to the merged result.
 * attention_few.cuh has scores and sums for a few queries, where the length of a chain limits the
 * speed; attention_prefill.cuh for many, in register tiles; tiles.h splits the work.
 *
 * Each span of a unit gives maximum m, sum l and values o. If units are spans of tiles with more
 * than one, these go to the scratch as records, and the block that takes the tile's last ticket
 * merges them, ascending. Else the block merges as it goes, in out.x. An observed row's shares need
 * the last M and L: they are at hand where a tile has one span; else records are read back, or
 * without records the scores are computed again, as ref does. */
#ifndef CUTAWAY_KERNELS_CUDA_ATTEND_CUH
#define CUTAWAY_KERNELS_CUDA_ATTEND_CUH

#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/rope.cuh"
#include "kernels/cuda/tiles.h"

enum {
	ATTEND_P = K_SPAN + 4, /* stride of a query's scores: elements of one column are in different
							  banks */
	ATTEND_FEW = CU_FEW_QUERIES,
};

/* What the tile's rows see of a span: the bits of each row and of all together, and the span's
 * number among a row's spans. */
struct attend_sight {
	struct k_bits row[CU_TILE_QUERIES], any;
	int32_t number[CU_TILE_QUERIES];
};

/* In the body's shared memory; attention_few.cuh and attention_prefill.cuh define the rest. */
struct attend_shared {
	struct k_row row[CU_TILE_QUERIES]; /* the tile's rows */
	/* of the current span, and of the one before, which some threads may still read */
	struct attend_sight sight[2];
	float max[CU_TILE_QUERIES], sum[CU_TILE_QUERIES];   /* by query of the batch: M and L so far */
	float old[CU_TILE_QUERIES], fresh[CU_TILE_QUERIES]; /* factors of the merged part, and of the
														   span */
	float inverse[CU_TILE_QUERIES];                     /* once all spans are merged */
	int32_t near_zero[CU_TILE_QUERIES];
	int32_t counted[CU_WARPS][ATTEND_FEW];
	int32_t last; /* whether this block took the last ticket */
};
enum { ATTEND_SHARED = (sizeof(struct attend_shared) + 127) / 128 * 128 };

struct attend {
	const struct cu_attention *a;
	struct attend_shared *shared;
	unsigned char *memory; /* shared memory after that */
	const struct cu_tile *tile;
	struct cu_tile_head unit;   /* the tile's */
	int32_t kv_head, kv_end;    /* the unit's kv heads; and the current one */
	const struct k_row *row;    /* of the unit's tile, in shared memory */
	struct attend_sight *sight; /* of the current span, likewise */
	/* the batch: queries of the tile, numbered row by row, head by head */
	int32_t query, n_queries;
};

/* What row r sees. */
CU_FN const struct k_range *attend_list(const struct attend *c, int32_t r)
{
	return c->a->ranges + (size_t)r * (size_t)c->a->n_ranges;
}
CU_FN int32_t attend_row_spans(const struct attend *c, int32_t r)
{
	return k_spans(attend_list(c, r), c->a->n_ranges);
}

/* Span number i of a unit's tile. */
CU_FN int32_t attend_span(const struct cu_tile_head *u, int32_t i)
{
	return k_span_at(u->seen.run, K_HULL, i);
}

/* Record of the first span that row r sees, and head; the next span that it sees is
 * attend_record_step() floats later. */
CU_FN size_t attend_record_step(const struct attend *c)
{
	return (size_t)c->a->n_heads * (size_t)cu_record_floats(c->a->head_dim, c->a->observed);
}
CU_FN float *attend_record(const struct attend *c, int32_t r, int32_t head)
{
	return (float *)(void *)c->a->scratch + (size_t)c->a->tiles->record[r] * attend_record_step(c) +
		   (size_t)head * (size_t)cu_record_floats(c->a->head_dim, c->a->observed);
}

/* Row of the tile that has query q. */
CU_FN int32_t attend_tile_row(const struct attend *c, int32_t q)
{
	return cu_over(c->query + q, c->a->over_rep);
}
CU_FN struct k_row attend_row(const struct attend *c, int32_t q)
{
	return c->row[attend_tile_row(c, q)];
}
CU_FN int32_t attend_row_index(const struct attend *c, int32_t q)
{
	return c->unit.row + attend_tile_row(c, q);
}
CU_FN int32_t attend_head(const struct attend *c, int32_t q)
{
	return (c->kv_head - attend_tile_row(c, q)) * c->a->n_rep + c->query + q;
}
/* The record of the row's `number`-th span. */
CU_FN float *attend_span_record(const struct attend *c, int32_t q, int32_t number)
{
	return attend_record(c, attend_row_index(c, q), attend_head(c, q)) +
		   (size_t)number * attend_record_step(c);
}
CU_FN float *attend_out(const struct attend *c, int32_t q)
{
	const int32_t head = attend_row_index(c, q) * c->a->n_heads + attend_head(c, q);

	return c->a->out.x + (int64_t)head * c->a->head_dim;
}

/* What the query's row sees of the current span, and the span's number among those of the row. */
CU_FN const struct k_bits *attend_seen_bits(const struct attend *c, int32_t q)
{
	return &c->sight->row[attend_tile_row(c, q)];
}
CU_FN int32_t attend_number(const struct attend *c, int32_t q)
{
	return c->sight->number[attend_tile_row(c, q)];
}

/* A warp fills c->sight for the unit's rows, and the others may read it after the next CU_SYNC; the
 * one for the span before stays as it is until then. */
CU_FN void attend_see(struct attend *c, int32_t span, const int32_t warp)
{
	const int32_t lane = cu_thread() % CU_WARP;
	struct k_bits any = { { 0, 0, 0, 0 } };

	c->sight = &c->shared->sight[c->sight == &c->shared->sight[0]];
	if (cu_thread() / CU_WARP != warp)
		return;
	for (int32_t r = lane; r < c->unit.n_rows; r += CU_WARP) {
		const struct k_range *list = attend_list(c, c->unit.row + r);
		const struct k_bits bits = k_bits_of(list, c->a->n_ranges, span);

		c->sight->row[r] = bits;
		c->sight->number[r] = k_spans_before(list, c->a->n_ranges, span);
		for (int32_t i = 0; i < K_BITS; i++)
			any.word[i] |= bits.word[i];
	}
	for (int32_t h = CU_WARP / 2; h > 0; h /= 2)
		for (int32_t i = 0; i < K_BITS; i++)
			any.word[i] |= (uint32_t)cu_shuffle_xor((int32_t)any.word[i], h);
	if (lane == 0)
		c->sight->any = any;
}

/* Where an observed query's values go; `observe` is its row's. */
CU_FN size_t attend_seen(const struct attend *c, int32_t q, int32_t observe)
{
	return (size_t)observe * (size_t)c->a->n_heads + (size_t)attend_head(c, q);
}

/* Whether any row of the tile is observed. */
CU_FN bool attend_is_observed(const struct attend *c)
{
	bool observed = false;

	for (int32_t r = 0; c->a->observed && r < c->unit.n_rows; r++)
		observed = observed || c->a->rows[c->unit.row + r].observe >= 0;
	return observed;
}

/* Copies pair i of the batch's query q, a row's at `pos`, to shared memory, zeros after the last;
 * with a fold, rotated and scaled on the way. */
CU_FN void attend_take_pair(const struct attend *c, int32_t pos, float *to, int32_t q, int32_t i)
{
	float y[2] = { 0, 0 };
	struct rope_pair at = { 2 * i, 2 * i + 1 };

	if (q < c->n_queries) {
		const int32_t from = attend_row_index(c, q) * c->a->n_heads + attend_head(c, q);
		const float *in = c->a->q + (int64_t)from * c->a->head_dim;

		if (c->a->folds) {
			at = rope_pair_at(&c->a->rope, i);
			cu_rotate(&c->a->rope, pos, in, i, y);
			y[0] *= c->a->rope.scale;
			y[1] *= c->a->rope.scale;
		} else {
			y[0] = in[at.d0];
			y[1] = in[at.d1];
		}
	}
	to[at.d0] = y[0];
	to[at.d1] = y[1];
}

/* The greatest of the lanes' values, none a NaN: as integers, the negative ones turned around. */
CU_FN float attend_warp_max(float v)
{
	const uint32_t u = k_bits(v) ^ ((uint32_t)((int32_t)k_bits(v) >> 31) | 0x80000000u);
	const uint32_t most = cu_warp_max(u);

	return k_float(most ^ (~(uint32_t)((int32_t)most >> 31) | 0x80000000u));
}

/* A warp's span of one query: lane i has keys 4 i … 4 i + 3. */
struct attend_lanes {
	float p[4];  /* probabilities, +0 where invisible */
	float m, l;  /* of the span */
	float group; /* the sum of the group that the lane's keys are in */
};

/* The lane's four bits. */
CU_FN uint32_t attend_lane_bits(const struct k_bits *seen)
{
	const int32_t lane = cu_thread() % CU_WARP;
	const uint32_t low = lane < 8 ? seen->word[0] : seen->word[1];
	const uint32_t high = lane < 24 ? seen->word[2] : seen->word[3];

	return (lane < 16 ? low : high) >> lane % 8 * 4 & 15;
}

/* Turns scores s[128], of which those in `seen` are visible, into probabilities. */
CU_FN struct attend_lanes attend_softmax_lanes(
	const float *s, const struct k_bits *seen, float softcap)
{
	const uint32_t bits = attend_lane_bits(seen);
	struct attend_lanes w = { 0 };
	float sum[4];

	w.m = -INFINITY;
	if (bits) {
		const uint4 x = *(const uint4 *)(const void *)(s + 4 * (cu_thread() % CU_WARP));

		w.p[0] = k_float(x.x), w.p[1] = k_float(x.y), w.p[2] = k_float(x.z), w.p[3] = k_float(x.w);
	}
	CU_UNROLL
	for (int32_t j = 0; j < 4; j++) {
		if (softcap > 0)
			w.p[j] = k_softcap(w.p[j], softcap);
		w.m = bits >> j & 1 && w.p[j] > w.m ? w.p[j] : w.m;
	}
	w.m = attend_warp_max(w.m);
	CU_UNROLL
	for (int32_t j = 0; j < 4; j++) /* tree(16): four lanes have a group */
		sum[j] = w.p[j] = bits >> j & 1 ? k_exp(w.p[j] - w.m) : 0.0f;
	CU_UNROLL
	for (int32_t h = 2; h > 0; h /= 2)
		CU_UNROLL
	for (int32_t j = 0; j < 4; j++)
		sum[j] += cu_shuffle_xor_float(sum[j], h);
	w.group = (sum[0] + sum[2]) + (sum[1] + sum[3]);
	CU_UNROLL
	for (int32_t g = 0; g < K_SPAN_GROUPS; g++)
		w.l += cu_shuffle_float(w.group, 4 * g);
	return w;
}

/* The span's part of an observed query, after the merge: shares, and how many are near zero. e:
 * exp(m - M). */
CU_FN int32_t attend_observe_lanes(const struct attend *c, const struct attend_lanes *w, int32_t q,
	int32_t span, const struct k_bits *seen, float e, float inv_l)
{
	const struct k_row row = attend_row(c, q);
	const int32_t lane = cu_thread() % CU_WARP, group = span * K_SPAN_GROUPS + lane / 4;
	const size_t at = attend_seen(c, q, row.observe) * (size_t)c->a->share_stride;
	const uint32_t bits = attend_lane_bits(seen);
	int32_t count = 0;

	CU_UNROLL
	for (int32_t j = 0; j < 4; j++)
		count += (bits >> j & 1) && (w->p[j] * e) * inv_l < c->a->threshold;
	if (c->a->share && lane % 4 == 0 && group <= row.pos / K_GROUP)
		c->a->share[at + (size_t)group] = (w->group * e) * inv_l;
	return cu_warp_sum(count);
}

/* Writes 0 as the shares of an observed query where its row sees nothing of a span. A warp of n. */
CU_FN void attend_blank(const struct attend *c, int32_t q, int32_t warp, int32_t n)
{
	const struct k_row row = attend_row(c, q);
	const int32_t lane = cu_thread() % CU_WARP;
	const size_t at = attend_seen(c, q, row.observe) * (size_t)c->a->share_stride;

	for (int32_t span = warp; c->a->share && span < row.pos / K_SPAN; span += n)
		if (lane < K_SPAN_GROUPS &&
			!k_sees_span(attend_list(c, attend_row_index(c, q)), c->a->n_ranges, span))
			c->a->share[at + (size_t)(span * K_SPAN_GROUPS + lane)] = 0;
}

/* k_attention_inverse() of kernels.h, for the device. */
CU_FN float attend_inverse(const struct attend *c, int32_t q, float max, float sum)
{
	return c->a->sinks ? k_sink_inverse(max, sum, c->a->sinks[attend_head(c, q)]) : 1.0f / sum;
}

/* Merges a span's m and l into M and L of query q; the factors are for its values. One lane. */
CU_FN void attend_merge(const struct attend *c, int32_t q, int32_t span, float m, float l)
{
	struct attend_shared *s = c->shared;
	float n = m;

	if (attend_number(c, q)) {
		n = s->max[q] > m ? s->max[q] : m;
		s->old[q] = k_exp(s->max[q] - n);
		s->fresh[q] = k_exp(m - n);
		l = k_fma(s->old[q], s->sum[q], s->fresh[q] * l);
	}
	s->sum[q] = l;
	s->max[q] = n;
	s->near_zero[q] = 0;
	if (span == attend_row(c, q).pos / K_SPAN)
		s->inverse[q] = attend_inverse(c, q, n, l);
}

CU_FN void attend_put_lanes(float *to, const struct attend_lanes *w)
{
	*(uint4 *)(void *)(to + 4 * (cu_thread() % CU_WARP)) =
		make_uint4(k_bits(w->p[0]), k_bits(w->p[1]), k_bits(w->p[2]), k_bits(w->p[3]));
}

CU_FN void attend_write_record(
	float *record, const struct attend_lanes *w, int32_t head_dim, bool observed)
{
	const int32_t lane = cu_thread() % CU_WARP;
	float *sums = record + CU_RECORD_HEAD + head_dim;

	if (lane == 0) {
		record[0] = w->m;
		record[1] = w->l;
	}
	if (observed) {
		attend_put_lanes(sums + K_SPAN_GROUPS, w);
		if (lane % 4 == 0)
			sums[lane / 4] = w->group;
	}
}

/* The shares of a query that has been merged, and how many are near zero; the warp that has the
 * query in every span. */
CU_FN void attend_observe_span(const struct attend *c, const struct attend_lanes *w, int32_t q,
	int32_t span, float e, float inv_l)
{
	const struct k_row row = attend_row(c, q);
	int32_t count;

	if (!attend_number(c, q))
		attend_blank(c, q, 0, 1);
	count = attend_observe_lanes(c, w, q, span, attend_seen_bits(c, q), e, inv_l);
	if (cu_thread() % CU_WARP == 0 && c->a->near_zero)
		c->a->near_zero[attend_seen(c, q, row.observe)] = c->shared->near_zero[q] += count;
}

/* Turns scores of the batch with a span, p [n_queries][ATTEND_P], into probabilities, in place; one
 * warp for each query. `again`: all is merged, and scores were computed again for the observations
 * alone. */
CU_FN void attend_softmax(const struct attend *c, float *p, int32_t span, bool again)
{
	const int32_t lane = cu_thread() % CU_WARP;

	for (int32_t q = cu_thread() / CU_WARP; q < c->n_queries; q += CU_WARPS) {
		const struct k_row row = attend_row(c, q);
		const struct k_bits *seen = attend_seen_bits(c, q);
		const bool observed = c->a->observed && row.observe >= 0;
		struct attend_lanes w;

		if (!k_bits_any(seen) || (again && !observed))
			continue;
		w = attend_softmax_lanes(p + q * ATTEND_P, seen, c->a->softcap);
		if (again) {
			attend_observe_span(
				c, &w, q, span, k_exp(w.m - c->shared->max[q]), c->shared->inverse[q]);
			continue;
		}
		attend_put_lanes(p + q * ATTEND_P, &w);
		if (c->unit.split) {
			attend_write_record(
				attend_span_record(c, q, attend_number(c, q)), &w, c->a->head_dim, observed);
			continue;
		}
		if (c->unit.direct) {
			const float inv_l = attend_inverse(c, q, w.m, w.l);

			if (lane == 0) {
				c->shared->inverse[q] = inv_l;
				c->shared->near_zero[q] = 0;
			}
			if (observed)
				attend_observe_span(c, &w, q, span, 1.0f, inv_l);
		} else if (lane == 0) {
			attend_merge(c, q, span, w.m, w.l);
		}
	}
}

/* Puts the span's weighted sum of values of query q, dimension d, into its record, or merges it in
 * out.x, where the row's last span also divides by L. */
CU_FN void attend_put(const struct attend *c, int32_t q, int32_t span, int32_t d, float o)
{
	const int32_t number = attend_number(c, q);
	float *out;

	if (!k_bits_any(attend_seen_bits(c, q)))
		return;
	if (c->unit.split) {
		attend_span_record(c, q, number)[CU_RECORD_HEAD + d] = o;
		return;
	}
	out = attend_out(c, q) + d;
	o = number ? k_fma(c->shared->old[q], *out, c->shared->fresh[q] * o) : o;
	*out = span == attend_row(c, q).pos / K_SPAN ? o * c->shared->inverse[q] + 0.0f : o;
}

/* Quantises `count` finished values from column `at` of the tile's rows. */
CU_FN void attend_quantise_rows(const struct attend *c, int32_t at, int32_t count)
{
	const struct k_acts *out = &c->a->out;
	const int32_t per_row = count / K_QBLOCK, lane = cu_thread() % CU_WARP;

	for (int32_t i = cu_thread() / CU_WARP; i < c->unit.n_rows * per_row; i += CU_WARPS) {
		size_t row = (size_t)(c->unit.row + i / per_row) * (size_t)out->dim;
		size_t first = row + (size_t)(at + i % per_row * K_QBLOCK);

		cu_round_block(out, first, lane, out->x[first + (size_t)lane]);
	}
}

#endif
