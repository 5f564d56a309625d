/* Attention whose units are spans: merges the records of a tile's spans, and writes the
 * observations of its rows. Part of attend.cuh. */
#pragma once

#include "kernels/cuda/attend.cuh"

/* What 32 spans, one for each lane, do to M and L. Lanes after the last span are undefined. */
struct attend_chain {
	/* maximum up to the lane's span, factors of the old and of the span, its sum */
	float n, c, e, l;
};

CU_FN struct attend_chain attend_load_chain(
	const struct attend *c, const float *record, int32_t first, int32_t n_spans, float max)
{
	const int32_t lane = cu_thread() % CU_WARP, span = first + lane;
	const bool there = span < n_spans;
	const float *at = record + (there ? span : first) * attend_record_step(c);
	struct attend_chain w;
	float m = at[0], below;

	w.l = at[1];
	w.n = lane == 0 && first && max > m ? max : m;
	for (int32_t h = 1; h < CU_WARP; h *= 2) { /* maxima have no order */
		below = cu_shuffle_float(w.n, lane >= h ? lane - h : lane);
		w.n = below > w.n ? below : w.n;
	}
	below = cu_shuffle_float(w.n, lane ? lane - 1 : 0);
	w.c = k_exp((lane ? below : max) - w.n);
	w.e = k_exp(m - w.n);
	return w;
}

/* The whole chain of query q for 32 dimensions from d on, a lane each; *max and *sum are M and L.
 * The loads of 32 spans are under way together. */
CU_FN float attend_run_chain(const struct attend *c, int32_t q, int32_t d, float *max, float *sum)
{
	const int32_t n_spans = attend_row_spans(c, attend_row_index(c, q));
	const int32_t dim = d + cu_thread() % CU_WARP;
	const int32_t step = attend_record_step(c);
	const float *record = attend_first_record(c, q);
	const float *value = record + CU_RECORD_HEAD + (dim < c->a->head_dim ? dim : 0);
	float o = 0, x[CU_WARP];

	*max = *sum = 0;
	for (int32_t first = 0; first < n_spans; first += CU_WARP) {
		const int32_t n = k_min(n_spans - first, CU_WARP);
		struct attend_chain w;

		CU_UNROLL
		for (int32_t i = 0; i < CU_WARP; i++)
			x[i] = 0; /* for ptxas: else they would have registers in all the kernel */
		CU_UNROLL
		for (int32_t i = 0; i < CU_WARP; i++) {
			if (i >= n)
				break;
			x[i] = *value;
			value += step;
		}
		w = attend_load_chain(c, record, first, n_spans, *max);
		CU_UNROLL
		for (int32_t i = 0; i < CU_WARP; i++) {
			float old, e, l;

			if (i >= n)
				break;
			old = cu_shuffle_float(w.c, i);
			e = cu_shuffle_float(w.e, i);
			l = cu_shuffle_float(w.l, i);
			*sum = i || first ? k_fma(old, *sum, e * l) : l;
			o = i || first ? k_fma(old, o, e * x[i]) : x[i];
		}
		*max = cu_shuffle_float(w.n, n - 1);
	}
	return o;
}

/* Results of the batch (at most ATTEND_FEW queries): 32 dimensions of one to a warp. */
CU_FN void attend_merge_batch(const struct attend *c)
{
	const int32_t head_dim = c->a->head_dim, log = c->a->log_slices;
	const int32_t lane = cu_thread() % CU_WARP;
	const struct k_acts *out = &c->a->out;

	for (int32_t i = cu_thread() / CU_WARP; i < c->n_queries << log; i += CU_WARPS) {
		const int32_t q = i >> log, d = (i - (q << log)) * CU_WARP;
		float max, sum, o, inv_l, *at = attend_out(c, q) + d;

		if (d >= head_dim)
			continue;
		o = attend_run_chain(c, q, d, &max, &sum);
		inv_l = attend_inverse(c, q, max, sum);
		o = o * inv_l + 0.0f;
		if (d + lane < head_dim)
			at[lane] = o;
		if (out->q && !c->a->all_heads)
			cu_round_block(out, (size_t)(at - out->x), lane, o);
		if (d == 0 && lane == 0) {
			c->shared->max[q] = max;
			c->shared->inverse[q] = inv_l;
		}
	}
}

/* What a row sees of a lane's four positions of a span. */
CU_FN uint32_t attend_bits_at(const struct k_range *list, int32_t n, int32_t span)
{
	const int32_t at = span * K_SPAN + attend_lane();
	uint32_t bits = 0;

	CU_NO_UNROLL
	for (int32_t i = 0; i < n; i++) {
		const int32_t first = list[i].first - at, end = list[i].end - at;
		const uint32_t below = first < 0 ? 0 : first > 4 ? 15 : (1u << first) - 1;

		bits |= (end < 0 ? 0 : end > 4 ? 15 : (1u << end) - 1) & ~below;
	}
	return bits;
}

/* Shares of query q and how many values are near zero, in its spans number first, first + n, … :
 * four spans' records are under way together. */
CU_FN int32_t attend_observe_spans(
	const struct attend *c, int32_t q, int32_t n_spans, int32_t first, int32_t n)
{
	const struct k_range *list = attend_list(c, attend_row_index(c, q));
	const float max = c->shared->max[q], inv_l = c->shared->inverse[q];
	int32_t count = 0;

	CU_NO_UNROLL
	for (int32_t i = first; i < n_spans; i += 4 * n) {
		struct attend_lanes w[4];

		CU_UNROLL
		for (int32_t j = 0; j < 4; j++) {
			const int32_t at = i + j * n < n_spans ? i + j * n : i;
			const float *record = attend_first_record(c, q) + at * attend_record_step(c);
			const float *sums = record + CU_RECORD_HEAD + c->a->head_dim;

			w[j].m = record[0];
			w[j].group = sums[cu_thread() % CU_WARP / 4];
			attend_get(sums + K_SPAN_GROUPS + attend_lane(), w[j].p, 4);
		}
		CU_UNROLL
		for (int32_t j = 0; j < 4; j++) {
			const int32_t span = k_span_at(list, c->a->n_ranges, i + j * n);

			if (i + j * n < n_spans)
				count += attend_observe_lanes(c, &w[j], q, span,
					attend_bits_at(list, c->a->n_ranges, span), k_exp(w[j].m - max), inv_l);
		}
	}
	return count;
}

/* Shares and counts of the batch's observed queries, from the records: a few warps for each query,
 * which take turns at its spans. */
CU_FN void attend_observe_batch(const struct attend *c)
{
	const int32_t lane = cu_thread() % CU_WARP, n_queries = c->n_queries;
	const int32_t log = n_queries > 4 ? 0 : n_queries > 2 ? 1 : n_queries > 1 ? 2 : 3, n = 1 << log;
	const int32_t warp = cu_thread() / CU_WARP & (n - 1);

	for (int32_t q = cu_thread() / CU_WARP >> log; q < n_queries; q += CU_WARPS >> log) {
		const struct k_row row = attend_row(c, q);
		const int32_t n_spans = attend_row_spans(c, attend_row_index(c, q));
		int32_t count;

		if (row.observe < 0)
			continue;
		if (n_spans <= row.pos / K_SPAN) /* else it sees something of each */
			attend_blank(c, q, warp, n);
		count = attend_observe_spans(c, q, n_spans, warp, n);
		if (lane == 0)
			c->shared->counted[warp][q] = count;
	}
	CU_SYNC();
	if (cu_thread() < n_queries && c->a->near_zero) {
		int32_t observe = attend_row(c, cu_thread()).observe, count = 0;

		for (int32_t w = 0; w < n; w++)
			count += observe >= 0 ? c->shared->counted[w][cu_thread()] : 0;
		if (observe >= 0)
			c->a->near_zero[attend_seen(c, cu_thread(), observe)] = count;
	}
}

/* True in the block that is the last of n to call it for this ticket, which is then zero again. It
 * sees what the others wrote before. */
CU_FN bool attend_is_last(const struct attend *c, int32_t ticket, int32_t n)
{
	uint32_t *at = c->a->ticket + ticket;

	CU_SYNC();
	if (cu_thread() == 0) {
		c->shared->last = n == 1 || cu_arrive(at, 1) == (uint32_t)n - 1;
		if (c->shared->last && n > 1)
			*at = 0;
	}
	CU_SYNC();
	return c->shared->last;
}

CU_FN void attend_merge_records(struct attend *c)
{
	const int32_t n_queries = c->unit->n_rows * c->a->n_rep;
	const bool observed = attend_is_observed(c, c->row);

	for (c->query = 0; c->query < n_queries; c->query += c->n_queries) {
		c->n_queries = k_min(n_queries - c->query, ATTEND_FEW);
		attend_merge_batch(c);
		if (!observed)
			continue;
		CU_SYNC();
		attend_observe_batch(c);
	}
}
