/* The reference of attention (kernels/attend.h), and what it says of a row. Thread: called by all
 * threads of a pool; no state. */
#include "kernels/attend.h"
#include "kernels/cpu/isa.h"

int32_t k_attention_reads(const struct k_attention *a, int32_t r, int32_t kv_head, uint16_t *bits)
{
	const int32_t n = a->rows[r].pos / K_GROUP + 1;
	int32_t all = 0;

	for (int32_t first = 0; first < n; first += K_SPAN_GROUPS) {
		const struct k_bits b = k_row_bits(a, r, kv_head, first / K_SPAN_GROUPS);

		for (int32_t g = 0; g < K_SPAN_GROUPS && first + g < n; g++) {
			bits[first + g] |= (uint16_t)k_bits_group(&b, g);
			all += __builtin_popcount(k_bits_group(&b, g));
		}
	}
	return all;
}

void k_attention_row(const struct k_attention *a, int32_t r, int32_t head, float *out)
{
	struct k_attend_room s;
	struct k_view v = k_view_of(a, r, head, &s);
	const struct k_merged all = k_view_row(&v, -1, NULL);
	const float inv_l = k_attention_inverse(a, head, all.max, all.l);

	for (int32_t first = 0; first <= v.pos; first += K_SPAN) {
		const int32_t n = k_min(v.pos + 1 - first, K_SPAN);
		const bool sees = k_view_span(&v, first);
		const float e = sees ? k_exp(v.m - all.max) : 0;

		for (int32_t t = 0; t < n; t++)
			out[first + t] = sees ? (s.p[t] * e) * inv_l : 0;
	}
}

void k_ref_attention(struct k_op *op, int tid, int n_threads, void *scratch)
{
	const struct k_attention *a = &op->u.attention;
	int64_t lo, hi;

	(void)scratch;
	k_split(k_attend_units(a), tid, n_threads, &lo, &hi);
	for (int64_t unit = lo; unit < hi; unit++)
		for (int32_t pass = 0, n = k_attend_passes(a); pass < n; pass++)
			k_attend_unit(a, unit, n > 1 ? pass : -1);
}
