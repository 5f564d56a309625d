/* Attention whose units are spans: merges the records of a tile's spans, and writes the
 * observations of its rows. Part of attend.cuh. */
#ifndef CUTAWAY_KERNELS_CUDA_ATTENTION_MERGE_CUH
#define CUTAWAY_KERNELS_CUDA_ATTENTION_MERGE_CUH

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
	const float *at = record + (size_t)(there ? span : first) * attend_record_step(c);
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

/* The whole chain of query q for 32 dimensions from d on, a lane each; *max and *sum are M and L. d
 * < 0: computes only these. The loads of 32 spans are under way together. */
CU_FN float attend_run_chain(const struct attend *c, int32_t q, int32_t d, float *max, float *sum)
{
	const int32_t n_spans = attend_row_spans(c, attend_row_index(c, q));
	const float *record = attend_span_record(c, q, 0);
	const int32_t dim = d + cu_thread() % CU_WARP;
	const bool there = d >= 0 && dim < c->kv.head_dim;
	float o = 0, x[CU_WARP];

	*max = *sum = 0;
	for (int32_t first = 0; first < n_spans; first += CU_WARP) {
		const int32_t n = n_spans - first < CU_WARP ? n_spans - first : CU_WARP;
		const float *value = record + (size_t)first * attend_record_step(c) + CU_RECORD_HEAD + dim;
		struct attend_chain w;

		CU_UNROLL
		for (int32_t i = 0; i < CU_WARP; i++)
			x[i] = there && i < n ? value[(size_t)i * attend_record_step(c)] : 0.0f;
		w = attend_load_chain(c, record, first, n_spans, *max);
		CU_UNROLL
		for (int32_t i = 0; i < CU_WARP; i++) {
			float old = cu_shuffle_float(w.c, i), e = cu_shuffle_float(w.e, i);
			float l = cu_shuffle_float(w.l, i);

			if (i < n) {
				*sum = first + i ? k_fma(old, *sum, e * l) : l;
				o = first + i ? k_fma(old, o, e * x[i]) : x[i];
			}
		}
		*max = cu_shuffle_float(w.n, n - 1);
	}
	return o;
}

/* Shares and counts of the observed queries of the batch (at most ATTEND_FEW), from the records: a
 * few warps for each query, which take turns at its spans. */
CU_FN void attend_observe_batch(const struct attend *c)
{
	const int32_t lane = cu_thread() % CU_WARP;
	const int32_t n = c->n_queries < CU_WARPS ? CU_WARPS / c->n_queries : 1, at_once = CU_WARPS / n;
	const int32_t first = cu_thread() / CU_WARP / n, warp = cu_thread() / CU_WARP % n;

	for (int32_t q = first; first < at_once && q < c->n_queries; q += at_once) {
		const struct k_row row = attend_row(c, q);
		const struct k_range *list = attend_list(c, attend_row_index(c, q));
		int32_t count = 0;
		float max, sum;

		if (row.observe < 0)
			continue;
		attend_run_chain(c, q, -CU_WARP, &max, &sum);
		attend_blank(c, q, warp, n);
		for (int32_t i = warp; i < attend_row_spans(c, attend_row_index(c, q)); i += n) {
			const int32_t span = k_span_at(list, c->n_ranges, i);
			const struct k_bits seen = k_bits_of(list, c->n_ranges, span);
			const float *record = attend_span_record(c, q, i);
			const float *sums = record + CU_RECORD_HEAD + c->kv.head_dim;
			struct attend_lanes w;

			w.m = record[0];
			w.group = sums[lane % K_SPAN_GROUPS];
			for (int32_t j = 0; j < 4; j++)
				w.p[j] = sums[K_SPAN_GROUPS + lane + 32 * j];
			count += attend_observe_lanes(
				c, &w, q, span, &seen, max, k_attention_inverse(c->a, attend_head(c, q), max, sum));
		}
		if (lane == 0)
			c->shared->counted[warp][q] = count;
	}
	CU_SYNC();
	if (cu_thread() < c->n_queries && c->a->near_zero) {
		int32_t observe = attend_row(c, cu_thread()).observe, count = 0;

		for (int32_t w = 0; w < n; w++)
			count += observe >= 0 ? c->shared->counted[w][cu_thread()] : 0;
		if (observe >= 0)
			c->a->near_zero[attend_seen(c, cu_thread(), observe)] = count;
	}
}

CU_FN void attend_observe_records(struct attend *c)
{
	const int32_t n_queries = c->unit.n_rows * c->n_rep;

	for (c->query = 0; c->query < n_queries; c->query += c->n_queries) {
		c->n_queries = n_queries - c->query < ATTEND_FEW ? n_queries - c->query : ATTEND_FEW;
		if (c->query)
			CU_SYNC(); /* the counts of the batch before are read */
		attend_observe_batch(c);
	}
}

/* True in the block that is the last of n to call it for this ticket, which is then zero again. It
 * sees what the others wrote before. */
CU_FN bool attend_is_last(const struct attend *c, int32_t ticket, int32_t n)
{
	uint32_t *at = c->work->ticket + ticket;

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
	const int32_t head_dim = c->kv.head_dim, n_queries = c->unit.n_rows * c->n_rep;
	const int32_t slices = (head_dim + CU_WARP - 1) / CU_WARP, lane = cu_thread() % CU_WARP;
	const struct k_acts *out = &c->a->out;

	c->query = 0;
	for (int32_t i = cu_thread() / CU_WARP; i < n_queries * slices; i += CU_WARPS) {
		int32_t q = i / slices, d = i % slices * CU_WARP;
		float max, sum, o = attend_run_chain(c, q, d, &max, &sum);
		float *at = attend_out(c, q) + d;

		o = o * k_attention_inverse(c->a, attend_head(c, q), max, sum) + 0.0f;
		if (d + lane < head_dim)
			at[lane] = o;
		if (out->q && !c->all_heads)
			cu_round_block(out, (size_t)(at - out->x), lane, o);
	}
}

#endif
