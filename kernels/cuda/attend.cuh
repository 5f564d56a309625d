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
	int32_t near_zero[CU_TILE_QUERIES];
	int32_t counted[CU_WARPS][ATTEND_FEW];
	int32_t last; /* whether this block took the last ticket */
};
enum { ATTEND_SHARED = (sizeof(struct attend_shared) + 127) / 128 * 128 };

struct attend_unit {
	int32_t row, n_rows, n_spans; /* the tile */
	struct k_hull seen;           /* by its rows */
	int32_t kv_head, kv_end;      /* the kv heads */
	int32_t lo, hi;               /* the tile's spans, by number */
};

struct attend {
	const struct k_attention *a;
	const struct k_rope *rope; /* folded in front, or NULL */
	const struct cu_work *work;
	const int32_t *records; /* struct cu_tiles */
	struct attend_shared *shared;
	unsigned char *memory; /* shared memory after that */
	struct k_kv kv;
	int32_t n_rep, n_ranges;
	bool observed, all_heads;
	const struct cu_tile *tile; /* of the unit */
	struct attend_unit unit;
	bool split;                 /* its results go to records */
	bool direct;                /* its tile has one span, and its block finishes it */
	const struct k_row *row;    /* of the unit's tile, in shared memory */
	struct attend_sight *sight; /* of the current span, likewise */
	int32_t kv_head;
	/* the batch: queries of the tile, numbered row by row, head by head */
	int32_t query, n_queries;
};

/* What row r sees. */
CU_FN const struct k_range *attend_list(const struct attend *c, int32_t r)
{
	return c->a->ranges + (size_t)r * (size_t)c->n_ranges;
}
CU_FN int32_t attend_row_spans(const struct attend *c, int32_t r)
{
	return k_spans(attend_list(c, r), c->n_ranges);
}

/* Span number i of a unit's tile. */
CU_FN int32_t attend_span(const struct attend_unit *u, int32_t i)
{
	return k_span_at(u->seen.run, K_HULL, i);
}

/* Record of the first span that row r sees, and head; the next span that it sees is
 * attend_record_step() floats later. */
CU_FN size_t attend_record_step(const struct attend *c)
{
	return (size_t)c->a->n_heads * (size_t)cu_record_floats(c->kv.head_dim, c->observed);
}
CU_FN float *attend_record(const struct attend *c, int32_t r, int32_t head)
{
	return (float *)(void *)c->work->scratch + (size_t)c->records[r] * attend_record_step(c) +
		   (size_t)head * (size_t)cu_record_floats(c->kv.head_dim, c->observed);
}

CU_FN struct k_row attend_row(const struct attend *c, int32_t q)
{
	return c->row[(c->query + q) / c->n_rep];
}
CU_FN int32_t attend_row_index(const struct attend *c, int32_t q)
{
	return c->unit.row + (c->query + q) / c->n_rep;
}
CU_FN int32_t attend_head(const struct attend *c, int32_t q)
{
	return c->kv_head * c->n_rep + (c->query + q) % c->n_rep;
}
/* The record of the row's `number`-th span. */
CU_FN float *attend_span_record(const struct attend *c, int32_t q, int32_t number)
{
	return attend_record(c, attend_row_index(c, q), attend_head(c, q)) +
		   (size_t)number * attend_record_step(c);
}
CU_FN float *attend_out(const struct attend *c, int32_t q)
{
	return c->a->out.x + (size_t)attend_row_index(c, q) * (size_t)c->a->out.dim +
		   (size_t)(attend_head(c, q) * c->kv.head_dim);
}

/* What the query's row sees of the current span, and the span's number among those of the row. */
CU_FN const struct k_bits *attend_seen_bits(const struct attend *c, int32_t q)
{
	return &c->sight->row[(c->query + q) / c->n_rep];
}
CU_FN int32_t attend_number(const struct attend *c, int32_t q)
{
	return c->sight->number[(c->query + q) / c->n_rep];
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
		const struct k_bits bits = k_bits_of(list, c->n_ranges, span);

		c->sight->row[r] = bits;
		c->sight->number[r] = k_spans_before(list, c->n_ranges, span);
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

	for (int32_t r = 0; c->observed && r < c->unit.n_rows; r++)
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
		const size_t from =
			(size_t)attend_row_index(c, q) * (size_t)c->a->n_heads + (size_t)attend_head(c, q);
		const float *in = c->a->q + from * (size_t)c->kv.head_dim;

		if (c->rope) {
			at = rope_pair_at(c->rope, i);
			cu_rotate(c->rope, pos, in, i, y);
			y[0] *= c->rope->scale;
			y[1] *= c->rope->scale;
		} else {
			y[0] = in[at.d0];
			y[1] = in[at.d1];
		}
	}
	to[at.d0] = y[0];
	to[at.d1] = y[1];
}

CU_FN float attend_warp_max(float v)
{
	for (int32_t h = CU_WARP / 2; h > 0; h /= 2) {
		float other = cu_shuffle_xor_float(v, h);

		v = other > v ? other : v;
	}
	return v;
}

/* A warp's span of one query: lane i has keys i, i + 32, i + 64, i + 96. */
struct attend_lanes {
	float p[4];  /* probabilities, +0 where invisible */
	float m, l;  /* of the span */
	float group; /* lane g < 8: the sum of group g */
};

/* Turns scores s[128], of which those in `seen` are visible, into probabilities. */
CU_FN struct attend_lanes attend_softmax_lanes(
	const float *s, const struct k_bits *seen, float softcap)
{
	const int32_t lane = cu_thread() % CU_WARP;
	struct attend_lanes w = { 0 };
	float pair[4];

	w.m = -INFINITY;
	for (int32_t j = 0; j < 4; j++) {
		if (seen->word[j] >> lane & 1) {
			w.p[j] = softcap > 0 ? k_softcap(s[lane + 32 * j], softcap) : s[lane + 32 * j];
			w.m = w.p[j] > w.m ? w.p[j] : w.m;
		}
	}
	w.m = attend_warp_max(w.m);
	for (int32_t j = 0; j < 4; j++) { /* tree(16) in both halves of the warp at once */
		w.p[j] = seen->word[j] >> lane & 1 ? k_exp(w.p[j] - w.m) : 0.0f;
		pair[j] = w.p[j];
		for (int32_t h = K_GROUP / 2; h > 0; h /= 2)
			pair[j] += cu_shuffle_xor_float(pair[j], h);
	}
	for (int32_t g = 0; g < K_SPAN_GROUPS; g++) {
		float sum = cu_shuffle_float(pair[g / 2], g % 2 * K_GROUP);

		w.l += sum;
		w.group = lane == g ? sum : w.group;
	}
	return w;
}

/* The span's part of an observed query, after the merge: shares, and how many are near zero. */
CU_FN int32_t attend_observe_lanes(const struct attend *c, const struct attend_lanes *w, int32_t q,
	int32_t span, const struct k_bits *seen, float max, float inv_l)
{
	const struct k_row row = attend_row(c, q);
	const int32_t lane = cu_thread() % CU_WARP;
	const size_t at = attend_seen(c, q, row.observe) * (size_t)c->a->share_stride;
	const float e = k_exp(w->m - max);
	int32_t count = 0;

	for (int32_t j = 0; j < 4; j++)
		count += (seen->word[j] >> lane & 1) && (w->p[j] * e) * inv_l < c->a->threshold;
	if (c->a->share && lane < K_SPAN_GROUPS && span * K_SPAN_GROUPS + lane <= row.pos / K_GROUP)
		c->a->share[at + (size_t)(span * K_SPAN_GROUPS + lane)] = (w->group * e) * inv_l;
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
			!k_sees_span(attend_list(c, attend_row_index(c, q)), c->n_ranges, span))
			c->a->share[at + (size_t)(span * K_SPAN_GROUPS + lane)] = 0;
}

/* Merges a span's m and l, the row's `number`-th, into M and L of query q; the factors are for its
 * values. One lane. */
CU_FN void attend_merge(struct attend_shared *s, int32_t q, int32_t number, float m, float l)
{
	float n = number && s->max[q] > m ? s->max[q] : m;
	float c = number ? k_exp(s->max[q] - n) : 0.0f, e = k_exp(m - n);

	s->sum[q] = number ? k_fma(c, s->sum[q], e * l) : l;
	s->max[q] = n;
	s->old[q] = c;
	s->fresh[q] = e;
}

/* Once all spans are merged. */
CU_FN float attend_inverse(const struct attend *c, int32_t q)
{
	return k_attention_inverse(c->a, attend_head(c, q), c->shared->max[q], c->shared->sum[q]);
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
	for (int32_t j = 0; observed && j < 4; j++)
		sums[K_SPAN_GROUPS + lane + 32 * j] = w->p[j];
	if (observed && lane < K_SPAN_GROUPS)
		sums[lane] = w->group;
}

/* The shares of a query that has been merged, and how many are near zero; the warp that has the
 * query in every span. */
CU_FN void attend_observe_span(
	const struct attend *c, const struct attend_lanes *w, int32_t q, int32_t span)
{
	const struct k_row row = attend_row(c, q);
	int32_t count;

	CU_SYNC_WARP(); /* the first lane merged it */
	if (!attend_number(c, q))
		attend_blank(c, q, 0, 1);
	count = attend_observe_lanes(
		c, w, q, span, attend_seen_bits(c, q), c->shared->max[q], attend_inverse(c, q));
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
		const bool observed = c->observed && row.observe >= 0;
		struct attend_lanes w;

		if (!k_bits_any(seen) || (again && !observed))
			continue;
		w = attend_softmax_lanes(p + q * ATTEND_P, seen, c->a->softcap);
		if (again) {
			attend_observe_span(c, &w, q, span);
			continue;
		}
		for (int32_t j = 0; j < 4; j++)
			p[q * ATTEND_P + lane + 32 * j] = w.p[j];
		if (c->split) {
			attend_write_record(
				attend_span_record(c, q, attend_number(c, q)), &w, c->kv.head_dim, observed);
			continue;
		}
		if (lane == 0) {
			attend_merge(c->shared, q, attend_number(c, q), w.m, w.l);
			c->shared->near_zero[q] = 0;
		}
		if (c->direct && observed)
			attend_observe_span(c, &w, q, span);
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
	if (c->split) {
		attend_span_record(c, q, number)[CU_RECORD_HEAD + d] = o;
		return;
	}
	out = attend_out(c, q) + d;
	o = number ? k_fma(c->shared->old[q], *out, c->shared->fresh[q] * o) : o;
	*out = span == attend_row(c, q).pos / K_SPAN ? o * attend_inverse(c, q) + 0.0f : o;
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
