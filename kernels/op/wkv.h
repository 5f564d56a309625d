/* The state matrices of RWKV-7 (Peng et al. 2025, section 4): each key's row decays by a rate of
 * its own, and what is erased has keys of its own. Of each head, over the rows of the step in order
 * (rule 16):   e = S'away;   S = diag(decay) S - back e' + k v';   o = S'q
 * Columns, units and places are those of linear.h. */
#pragma once

#include "kernels/op/linear.h"

struct k_wkv {
	const float *q, *k, *v, *decay, *away, *back; /* [n, heads, size] */
	float *out;                                   /* [n, heads, size] */
	float *room;                                  /* [heads, size, size]: see linear.h */
	int32_t heads, size, n;
	const struct k_state_row *rows; /* [n] */
	const struct k_state *state;
	size_t at; /* offset in floats of this layer's [heads, size, size] in a page */
};
#define K_INPUTS_wkv(PLAIN, a) PLAIN(a->rows, a->n) PLAIN(a->state, 1)
K_COUNT(wkv, a->n, a->heads * a->size, 8 * (uint64_t)a->size + 28, 9 * (uint64_t)a->size)
K_RESULT(wkv, k_floats(a->out, a->heads * a->size))

/* Its shape as linear.h has it. */
K_INLINE struct k_linear k_wkv_shape(const struct k_wkv *a)
{
	struct k_linear l = { 0 };

	l.room = a->room;
	l.heads = a->heads;
	l.keys = l.values = a->size;
	l.n = a->n;
	l.rows = a->rows;
	l.state = a->state;
	l.at = a->at;
	return l;
}

K_INLINE int64_t k_wkv_units(const struct k_wkv *a)
{
	const struct k_linear shape = k_wkv_shape(a);

	return k_linear_units(&shape);
}

/* Of `some` keys from i on, which are all read first; of: where the head of this row begins in q,
 * k … */
K_INLINE void k_wkv_keys(const struct k_wkv *a, const struct k_linear_step *s, size_t of, int32_t i,
	const int32_t some, const int32_t count, const float *e, float *o)
{
	const size_t size = (size_t)a->size, at = (size_t)i * size;
	float t[K_AHEAD][K_OWN], q[K_AHEAD];

	for (int32_t j = 0; j < some; j++) {
		const size_t key = of + (size_t)(i + j);
		const float *from = s->from + at + (size_t)j * size;
		const float decay = a->decay[key], back = -a->back[key], k = a->k[key];

		q[j] = a->q[key];
		for (int32_t c = 0; c < count; c++)
			t[j][c] = k_fma(k, s->v[c], k_fma(back, e[c], decay * from[c]));
	}
	for (int32_t j = 0; j < some; j++)
		for (int32_t c = 0; c < count; c++) {
			o[c] = k_fma(t[j][c], q[j], o[c]);
			s->to[at + (size_t)j * size + (size_t)c] = t[j][c];
		}
}

K_INLINE void k_wkv_columns(
	const struct k_wkv *a, const struct k_linear_step *s, size_t of, const int32_t count)
{
	float e[K_OWN] = { 0 }, o[K_OWN] = { 0 };
	int32_t i = 0;

	K_UNROLL
	for (int32_t k = 0; k < a->size; k++) {
		const float *from = s->from + (size_t)k * (size_t)a->size;
		const float away = a->away[of + (size_t)k];

		for (int32_t c = 0; c < count; c++)
			e[c] = k_fma(from[c], away, e[c]);
	}
	for (; i + K_AHEAD <= a->size; i += K_AHEAD)
		k_wkv_keys(a, s, of, i, K_AHEAD, count, e, o);
	for (; K_AHEAD > 1 && i < a->size; i++)
		k_wkv_keys(a, s, of, i, 1, count, e, o);
	for (int32_t c = 0; c < count; c++)
		s->out[c] = o[c];
}

K_UNIT_FN void k_wkv_unit(const struct k_wkv *a, int64_t unit)
{
	const struct k_linear shape = k_wkv_shape(a);
	const int32_t head = (int32_t)(unit / k_linear_pieces(&shape));
	const int32_t first = (int32_t)(unit % k_linear_pieces(&shape)) * K_LINEAR_UNIT + k_lane();
	const int32_t left = a->size - first, count = k_min(left, K_OWN);
	const size_t size = (size_t)a->size, at = (size_t)head * size * size + (size_t)first;
	struct k_linear_step s = { 0 };

	for (int32_t r = 0; r < a->n && count > 0; r++) {
		const size_t of = k_index(r, a->heads, head) * size;

		k_linear_places(&shape, r, at, count, &s);
		s.v = a->v + of + first;
		s.out = a->out + of + first;
		if (count == K_OWN) /* a number that compilers know */
			k_wkv_columns(a, &s, of, K_OWN);
		else
			k_wkv_columns(a, &s, of, count);
	}
}
