/* Attention: rule 11. This file has what both its shapes share, from scores to the merged result.
 * attention_few.cuh has scores and sums for a few queries, where the length of a chain limits the
 * speed; attention_prefill.cuh for many, in register tiles; tiles.h splits the work.
 *
 * Each span of a unit gives maximum m, sum l and values o. If units are spans of tiles with more
 * than one, these go to the scratch as records, and the block that takes the tile's last ticket
 * merges them, ascending. Else the block merges as it goes, in out.x. An observed row's shares need
 * the last M and L: they are at hand where a tile has one span; else records are read back, or
 * without records the scores are computed again, as ref does. */
#pragma once

#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/rope.cuh"
#include "kernels/cuda/tiles.h"

enum {
	ATTEND_P = K_SPAN + 4, /* stride of a query's scores: elements of one column are in different
							  banks */
	ATTEND_FEW = CU_FEW_QUERIES,
};

/* What the tile's rows see of a span: the bits of each row and of all together, the span's number
 * among a row's spans, and that among all rows' (its record). */
struct attend_mask {
	struct k_bits row[CU_TILE_QUERIES], any;
	int32_t number[CU_TILE_QUERIES], record[CU_TILE_QUERIES];
};

/* attention_prefill.cuh's part of shared memory. */
struct many_memory {
	int32_t kv_first, kv_end;  /* the unit's heads */
	int32_t n_queries, passes; /* of the tile: a second pass is for observations */
	int32_t queries;           /* of a batch */
	int32_t q_stride;
	int32_t tokens;          /* of a piece of values, a multiple of 16 */
	int32_t keys, values;    /* pieces of a span */
	float *q;                /* [queries][q_stride] */
	float *p;                /* [queries][ATTEND_P] */
	unsigned char *piece[2]; /* keys: [8 groups][MANY_GROUP]; values: [tokens][head_dim] */
};

/* In the body's shared memory; attention_few.cuh and attention_prefill.cuh define the rest. */
struct attend_shared {
	struct many_memory many;           /* here, not in registers, of which its loops need all */
	struct k_row row[CU_TILE_QUERIES]; /* the tile's rows */
	/* of the current span, and of the one before, which some threads may still read */
	struct attend_mask mask[2];
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
	const struct cu_tile_head *unit; /* the tile's: in memory, or a copy in registers */
	int32_t kv_head;                 /* the unit's, or the current one of them */
	const struct k_row *row;         /* of the unit's tile, in shared memory */
	struct attend_mask *mask;        /* of the current span, likewise */
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

/* Floats from the record of a span that a row sees to that of the next, and a head's record. */
CU_FN int32_t attend_record_step(const struct attend *c)
{
	return c->a->n_heads * cu_record_floats(c->a->head_dim, c->a->observed);
}
CU_FN float *attend_record(const struct attend *c, int32_t record, int32_t head)
{
	return (float *)(void *)c->a->scratch + (int64_t)record * attend_record_step(c) +
		   head * cu_record_floats(c->a->head_dim, c->a->observed);
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
	return c->unit->row + attend_tile_row(c, q);
}
CU_FN int32_t attend_head(const struct attend *c, int32_t q)
{
	return (c->kv_head - attend_tile_row(c, q)) * c->a->n_rep + c->query + q;
}
/* Of query q, of the first span that its row sees. */
CU_FN float *attend_first_record(const struct attend *c, int32_t q)
{
	return attend_record(c, c->a->tiles->record[attend_row_index(c, q)], attend_head(c, q));
}
/* And of the current one. */
CU_FN float *attend_span_record(const struct attend *c, int32_t q)
{
	return attend_record(c, c->mask->record[attend_tile_row(c, q)], attend_head(c, q));
}
CU_FN float *attend_out(const struct attend *c, int32_t q)
{
	const int32_t head = attend_row_index(c, q) * c->a->n_heads + attend_head(c, q);

	return c->a->out.x + head * c->a->head_dim;
}

/* What the query's row sees of the current span, and the span's number among those of the row. */
CU_FN const struct k_bits *attend_seen_bits(const struct attend *c, int32_t q)
{
	return &c->mask->row[attend_tile_row(c, q)];
}
CU_FN int32_t attend_number(const struct attend *c, int32_t q)
{
	return c->mask->number[attend_tile_row(c, q)];
}

/* A warp fills c->mask for the unit's rows, and the others may read it after the next CU_SYNC; the
 * one for the span before stays as it is until then. */
CU_FN void attend_see(struct attend *c, int32_t span, const int32_t warp)
{
	const int32_t lane = cu_thread() % CU_WARP;
	struct k_bits any = { { 0, 0, 0, 0 } };

	c->mask = &c->shared->mask[c->mask == &c->shared->mask[0]];
	if (cu_thread() / CU_WARP != warp)
		return;
	for (int32_t r = lane; r < c->unit->n_rows; r += CU_WARP) {
		const struct k_range *list = attend_list(c, c->unit->row + r);
		const struct k_bits bits = k_bits_of(list, c->a->n_ranges, span);

		c->mask->row[r] = bits;
		c->mask->number[r] = k_spans_before(list, c->a->n_ranges, span);
		c->mask->record[r] = c->a->tiles->record[c->unit->row + r] + c->mask->number[r];
		for (int32_t i = 0; i < K_BITS; i++)
			any.word[i] |= bits.word[i];
	}
	for (int32_t h = CU_WARP / 2; h > 0; h /= 2)
		for (int32_t i = 0; i < K_BITS; i++)
			any.word[i] |= (uint32_t)cu_shuffle_xor((int32_t)any.word[i], h);
	if (lane == 0)
		c->mask->any = any;
}

/* Where an observed query's values go; `observe` is its row's. */
CU_FN int32_t attend_seen(const struct attend *c, int32_t q, int32_t observe)
{
	return observe * c->a->n_heads + attend_head(c, q);
}
CU_FN float *attend_share(const struct attend *c, int32_t q, int32_t observe)
{
	return c->a->share + (int64_t)attend_seen(c, q, observe) * c->a->share_stride;
}

/* Whether any row of the tile is observed: `rows`, its first, in memory or already shared. */
CU_FN bool attend_is_observed(const struct attend *c, const struct k_row *rows)
{
	bool observed = false;

	for (int32_t r = 0; c->a->observed && r < c->unit->n_rows; r++)
		observed = observed || rows[r].observe >= 0;
	return observed;
}

/* Copies pair i of the batch's query q, a row's at `pos`, to shared memory, zeros after the last;
 * with a fold, rotated and scaled on the way. */
CU_FN void attend_take_pair(const struct attend *c, int32_t pos, float *to, int32_t q, int32_t i)
{
	float y[2] = { 0, 0 };
	struct rope_pair at = { 2 * i, 2 * i + 1 };

	if (c->a->folds)
		at = rope_pair_at(&c->a->rope, i);
	if (q < c->n_queries) {
		const int32_t head = attend_row_index(c, q) * c->a->n_heads + attend_head(c, q);

		y[0] = c->a->q[head * c->a->head_dim + at.d0];
		y[1] = c->a->q[head * c->a->head_dim + at.d1];
		if (c->a->folds) {
			cu_rotate(&c->a->rope, pos, i, y);
			y[0] *= c->a->rope.scale;
			y[1] *= c->a->rope.scale;
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

/* The lane's four bits, in memory that all lanes see. */
CU_FN uint32_t attend_lane_bits(const struct k_bits *seen)
{
	const int32_t lane = cu_thread() % CU_WARP;

	return seen->word[lane / 8] >> lane % 8 * 4 & 15;
}

/* n floats that lie together, 1 or 4. */
CU_FN void attend_get(const float *from, float *x, const int32_t n)
{
	if (n == 1)
		x[0] = *from;
	else
		cu_four(from, x);
}
CU_FN void attend_set(float *to, const float *x, const int32_t n)
{
	if (n == 1)
		*to = x[0];
	else
		*(uint4 *)(void *)to = make_uint4(k_bits(x[0]), k_bits(x[1]), k_bits(x[2]), k_bits(x[3]));
}

/* The lane's first of 128. */
CU_FN int32_t attend_lane(void)
{
	return 4 * (cu_thread() % CU_WARP);
}

/* tree(16) of the p of four lanes. */
CU_FN void attend_sum_group(struct attend_lanes *w)
{
	float sum[4];

	CU_UNROLL
	for (int32_t j = 0; j < 4; j++)
		sum[j] = w->p[j];
	CU_UNROLL
	for (int32_t h = 2; h > 0; h /= 2)
		CU_UNROLL
	for (int32_t j = 0; j < 4; j++)
		sum[j] += cu_shuffle_xor_float(sum[j], h);
	w->group = (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

/* Turns scores s[128], of which those in `seen` are visible, into probabilities. */
CU_FN struct attend_lanes attend_softmax_lanes(
	const float *s, const struct k_bits *seen, float softcap)
{
	const uint32_t bits = attend_lane_bits(seen);
	struct attend_lanes w = { 0 };

	if (bits)
		attend_get(s + attend_lane(), w.p, 4);
	if (softcap > 0) {
		CU_UNROLL
		for (int32_t j = 0; j < 4; j++)
			w.p[j] = k_softcap(w.p[j], softcap);
	}
	w.m = -INFINITY;
	CU_UNROLL
	for (int32_t j = 0; j < 4; j++) {
		const float v = bits >> j & 1 ? w.p[j] : -INFINITY;

		w.m = v > w.m ? v : w.m;
	}
	w.m = attend_warp_max(w.m);
	CU_UNROLL
	for (int32_t j = 0; j < 4; j++) /* without branches: all four at once */
		w.p[j] = k_exp(w.p[j] - w.m);
	CU_UNROLL
	for (int32_t j = 0; j < 4; j++)
		w.p[j] = bits >> j & 1 ? w.p[j] : 0.0f;
	attend_sum_group(&w);
	CU_UNROLL
	for (int32_t g = 0; g < K_SPAN_GROUPS; g++)
		w.l += cu_shuffle_float(w.group, 4 * g);
	return w;
}

/* The span's part of an observed query, after the merge: shares, and how many are near zero. bits:
 * the lane's; e: exp(m - M). */
CU_FN int32_t attend_observe_lanes(const struct attend *c, const struct attend_lanes *w, int32_t q,
	int32_t span, uint32_t bits, float e, float inv_l)
{
	const struct k_row row = attend_row(c, q);
	const int32_t lane = cu_thread() % CU_WARP, group = span * K_SPAN_GROUPS + lane / 4;
	int32_t count = 0;

	CU_UNROLL
	for (int32_t j = 0; j < 4; j++)
		count += (bits >> j & 1) && (w->p[j] * e) * inv_l < c->a->threshold;
	if (c->a->share && lane % 4 == 0 && group <= row.pos / K_GROUP)
		attend_share(c, q, row.observe)[group] = (w->group * e) * inv_l;
	return cu_warp_sum(count);
}

/* Writes 0 as the shares of an observed query where its row sees nothing of a span. A warp of n. */
CU_FN void attend_blank(const struct attend *c, int32_t q, int32_t warp, int32_t n)
{
	const struct k_row row = attend_row(c, q);
	const int32_t lane = cu_thread() % CU_WARP;

	for (int32_t span = warp; c->a->share && span < row.pos / K_SPAN; span += n)
		if (lane < K_SPAN_GROUPS &&
			!k_sees_span(attend_list(c, attend_row_index(c, q)), c->a->n_ranges, span))
			attend_share(c, q, row.observe)[span * K_SPAN_GROUPS + lane] = 0;
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
		attend_set(sums + K_SPAN_GROUPS + attend_lane(), w->p, 4);
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
	count = attend_observe_lanes(c, w, q, span, attend_lane_bits(attend_seen_bits(c, q)), e, inv_l);
	if (cu_thread() % CU_WARP == 0 && c->a->near_zero)
		c->a->near_zero[attend_seen(c, q, row.observe)] = c->shared->near_zero[q] += count;
}

/* Turns scores of the batch with a span, p [n_queries][ATTEND_P], into probabilities, in place; one
 * warp for each query. `again`: all is merged, and scores were computed again for the observations
 * alone. A tile that is finished here is observed apart, by attend_observe_direct(). */
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
		attend_set(p + q * ATTEND_P + attend_lane(), w.p, 4);
		if (c->unit->split) {
			attend_write_record(attend_span_record(c, q), &w, c->a->head_dim, observed);
			continue;
		}
		if (lane == 0)
			attend_merge(c, q, span, w.m, w.l);
	}
}

/* The observations of a tile of one span, p as attend_softmax() gave it: warp `first` of n. */
CU_FN void attend_observe_direct(const struct attend *c, const float *p, int32_t first, int32_t n)
{
	CU_NO_UNROLL
	for (int32_t q = first; q < c->n_queries; q += n) {
		struct attend_lanes w = { 0 };

		if (attend_row(c, q).observe < 0)
			continue;
		attend_get(p + q * ATTEND_P + attend_lane(), w.p, 4);
		attend_sum_group(&w);
		attend_observe_span(c, &w, q, c->unit->span, 1.0f, c->shared->inverse[q]);
	}
}

/* Puts the span's weighted sums of values of query q, n dimensions from d on, into its record, or
 * merges them in out.x, where the row's last span also divides by L. */
CU_FN void attend_put(
	const struct attend *c, int32_t q, int32_t span, int32_t d, float *o, const int32_t n)
{
	float *to, old[4] = { 0, 0, 0, 0 };

	if (!k_bits_any(attend_seen_bits(c, q)))
		return;
	if (c->unit->split) {
		attend_set(attend_span_record(c, q) + CU_RECORD_HEAD + d, o, n);
		return;
	}
	to = attend_out(c, q) + d;
	if (attend_number(c, q)) {
		attend_get(to, old, n);
		CU_UNROLL
		for (int32_t j = 0; j < n; j++)
			o[j] = k_fma(c->shared->old[q], old[j], c->shared->fresh[q] * o[j]);
	}
	if (span == attend_row(c, q).pos / K_SPAN) {
		CU_UNROLL
		for (int32_t j = 0; j < n; j++)
			o[j] = o[j] * c->shared->inverse[q] + 0.0f;
	}
	attend_set(to, o, n);
}

/* Quantises `count` finished values from column `at` of the tile's rows. */
CU_FN void attend_quantise_rows(const struct attend *c, int32_t at, int32_t count)
{
	const struct k_acts *out = &c->a->out;
	const int32_t per_row = count / K_QBLOCK, lane = cu_thread() % CU_WARP;

	for (int32_t i = cu_thread() / CU_WARP; i < c->unit->n_rows * per_row; i += CU_WARPS) {
		size_t row = (size_t)(c->unit->row + i / per_row) * (size_t)out->dim;
		size_t first = row + (size_t)(at + i % per_row * K_QBLOCK);

		cu_round_block(out, first, lane, out->x[first + (size_t)lane]);
	}
}
