/* What a row of attention sees: sorted lists of ranges of positions, and the spans of 128 that they
 * touch (rule 11). Plain C that CUDA files include too. Private to kernels/. Thread: any; no state.
 *
 * A tile is a set of rows of one sequence that a kernel works on together. Its hull is two ranges
 * that hold all positions its rows see, and perhaps some that none sees. The bits of each row give
 * the positions of a span that it sees. */
#pragma once

#include "kernels/arith.h"
#include "kernels/kernels.h"

/* Positions of a span, a bit each, from the lowest bit of the first word on. */
enum { K_BITS = K_SPAN / 32, K_SPAN_GROUPS = K_SPAN / K_GROUP };
struct k_bits {
	uint32_t word[K_BITS];
};

/* The bits of span `span` that a list of n ranges covers. */
K_INLINE struct k_bits k_bits_of(const struct k_range *list, int32_t n, int32_t span)
{
	struct k_bits b = { { 0, 0, 0, 0 } };

	if (n == 1 && list->first <= span * K_SPAN && list->end >= (span + 1) * K_SPAN) {
		b.word[0] = b.word[1] = b.word[2] = b.word[3] = ~0u;
		return b;
	}
	for (int32_t i = 0; i < n; i++)
		for (int32_t w = 0; w < K_BITS; w++) {
			const int32_t base = span * K_SPAN + w * 32;
			const int32_t lo = k_max(list[i].first - base, 0);
			const int32_t hi = k_min(list[i].end - base, 32);

			if (lo < hi)
				b.word[w] |= (0xffffffffu >> (32 - (hi - lo))) << lo;
		}
	return b;
}

K_INLINE bool k_bits_any(const struct k_bits *b)
{
	return b->word[0] | b->word[1] | b->word[2] | b->word[3];
}

K_INLINE bool k_bits_all(const struct k_bits *b)
{
	return (b->word[0] & b->word[1] & b->word[2] & b->word[3]) == 0xffffffffu;
}

K_INLINE bool k_bits_has(const struct k_bits *b, int32_t token)
{
	return b->word[token / 32] >> token % 32 & 1;
}

/* The 16 bits of a group. */
K_INLINE uint32_t k_bits_group(const struct k_bits *b, int32_t group)
{
	return b->word[group / 2] >> group % 2 * 16 & 0xffff;
}

K_INLINE bool k_sees_span(const struct k_range *list, int32_t n, int32_t span)
{
	bool sees = false;

	for (int32_t i = 0; i < n; i++)
		sees = sees || (list[i].first < (span + 1) * K_SPAN && span * K_SPAN < list[i].end &&
						   list[i].first < list[i].end);
	return sees;
}

/* Spans before `span` that a list touches; and all of them. */
K_INLINE int32_t k_spans_before(const struct k_range *list, int32_t n, int32_t span)
{
	int32_t count = 0, next = 0;

	for (int32_t i = 0; i < n; i++) {
		const int32_t lo = k_max(list[i].first / K_SPAN, next);
		const int32_t end = k_pieces(list[i].end, K_SPAN), hi = k_min(end, span);

		if (list[i].first < list[i].end && lo < hi) {
			count += hi - lo;
			next = hi;
		}
	}
	return count;
}

K_INLINE int32_t k_spans(const struct k_range *list, int32_t n)
{
	return k_spans_before(list, n, INT32_MAX);
}

/* The index-th of these spans, from 0; beyond the last: the span after it. */
K_INLINE int32_t k_span_at(const struct k_range *list, int32_t n, int32_t index)
{
	int32_t next = 0;

	for (int32_t i = 0; i < n; i++) {
		const int32_t lo = k_max(list[i].first / K_SPAN, next);
		const int32_t hi = k_pieces(list[i].end, K_SPAN);

		if (list[i].first >= list[i].end || lo >= hi)
			continue;
		if (index < hi - lo)
			return lo + index;
		index -= hi - lo;
		next = hi;
	}
	return next + index;
}

enum { K_HULL = 2 };
struct k_hull {
	struct k_range run[K_HULL]; /* sorted, apart; empty ones last */
};

K_INLINE void k_hull_add(struct k_hull *h, struct k_range r)
{
	struct k_range *a = &h->run[0], *b = &h->run[1];

	if (r.first >= r.end)
		return;
	if (a->first >= a->end) {
		*a = r;
	} else if (r.first <= a->end && r.end >= a->first) {
		a->first = k_min(r.first, a->first);
		a->end = k_max(r.end, a->end);
	} else {
		struct k_range high = r.first > a->end ? r : *a;

		if (r.first < a->first)
			*a = r;
		if (b->first >= b->end)
			*b = high;
		b->first = k_min(high.first, b->first);
		b->end = k_max(high.end, b->end);
	}
	if (b->first < b->end && b->first <= a->end) {
		a->end = k_max(b->end, a->end);
		b->first = b->end = a->end;
	}
}

/* Which groups of a span a row's kv head reads, of those that its ranges have: a bit each. */
K_INLINE uint32_t k_selected(const struct k_attention *a, int32_t r, int32_t kv_head, int32_t span)
{
	return a->selected
			   ? a->selected[k_index(r, a->kv->n_kv_heads, kv_head) * (size_t)a->selected_stride +
							 (size_t)span]
			   : 0xff;
}

K_INLINE const struct k_range *k_row_ranges(const struct k_attention *a, int32_t r)
{
	return a->ranges + (size_t)r * (size_t)a->n_ranges;
}

/* Of 32 positions from `base` on, those that a comb has. */
K_INLINE uint32_t k_stride_mask_word(const struct k_stride_mask *c, int32_t base)
{
	uint32_t word = 0;
	int32_t at = (base + c->phase) % c->period;

	if (base >= c->end)
		return ~0u;
	/* from tooth to tooth: the next one that ends after base */
	for (int32_t t = -at; t < 32; t += c->period) {
		const int32_t lo = k_max(t, 0), hi = k_min(t + c->width, 32);

		if (lo < hi)
			word |= (~0u >> (32 - (hi - lo))) << lo;
	}
	return c->end - base >= 32 ? word : word | ~0u << (c->end - base);
}

/* The bits of span `span` that a row's kv head reads. */
K_INLINE struct k_bits k_row_bits(
	const struct k_attention *a, int32_t r, int32_t kv_head, int32_t span)
{
	struct k_bits b = k_bits_of(k_row_ranges(a, r), a->n_ranges, span);
	const uint32_t selected = k_selected(a, r, kv_head, span);

	for (int32_t w = 0; w < K_BITS && selected != 0xff; w++)
		b.word[w] &=
			(selected >> 2 * w & 1) * 0xffffu | (selected >> (2 * w + 1) & 1) * 0xffff0000u;
	for (int32_t w = 0; w < K_BITS && a->stride_mask && a->stride_mask[r].period; w++)
		b.word[w] &= k_stride_mask_word(&a->stride_mask[r], span * K_SPAN + w * 32);
	return b;
}

/* Of a key so many positions after its row (rule 23). */
K_INLINE float k_distance_bias(const struct k_attention *a, int32_t head, int32_t d)
{
	d = k_max(-K_DISTANCE, k_min(d, K_DISTANCE));
	return a->bias[a->bucket[d + K_DISTANCE] * a->n_heads + head];
}

/* Adds what row r sees. */
K_INLINE void k_hull_row(struct k_hull *h, const struct k_attention *a, int32_t r)
{
	const struct k_range *list = k_row_ranges(a, r);

	for (int32_t i = 0; i < a->n_ranges; i++)
		k_hull_add(h, list[i]);
}

/* Positions of a span up to the last in the hull. */
K_INLINE int32_t k_hull_tokens(const struct k_hull *h, int32_t span)
{
	const int32_t end = h->run[1].first < h->run[1].end ? h->run[1].end : h->run[0].end;
	const int32_t n = end - span * K_SPAN;

	return k_min(n, K_SPAN);
}

/* Whether the hull has a position of first … end - 1. Without an index, so that a GPU has the runs
 * in registers. */
K_INLINE bool k_hull_meets(const struct k_hull *h, int32_t first, int32_t end)
{
	const struct k_range *a = &h->run[0], *b = &h->run[1];

	return (a->first < end && first < a->end) || (b->first < end && first < b->end);
}
