/* Linear attention: a state for each head, a matrix [keys, values] that decays and gets the outer
 * product of a key and a value (Katharopoulos et al. 2020; Mamba-2: Dao and Gu 2024; lightning
 * attention: Qin et al. 2024), or of a key and what the state does not yet say of it (the gated
 * delta rule: Yang et al. 2024). Of each head, over the rows of the step in order (rule 16):
 *   S = decay S;   e = amount v, or, corrected, amount (v - S'k);   S = S + k e';   o = S'q (+ skip
 * v) A value's column is a chain of its own. A unit is some columns of a head, of all rows. */
#pragma once

#include "kernels/op/op.h"

/* Columns of a unit: lanes of vectors, or of a warp. */
enum { K_LINEAR_UNIT = 32 };

struct k_linear_part { /* heads of a wider row */
	const float *x;
	int32_t stride, pitch; /* values from row to row, from head to head */
};

struct k_linear {
	struct k_linear_part q, k; /* [n, key_heads, keys] */
	struct k_linear_part v;    /* [n, heads, values] */
	const float *rate;         /* [n, heads, 2]: decay, amount */
	const float *fixed;        /* [heads, 2] in place of rate, of the host's memory; or NULL */
	const float *skip;         /* [heads] or NULL */
	float *out;                /* [n, heads, values] */
	float *room;               /* [heads, keys, values] for states between two pages */
	int32_t heads, key_heads, keys, values, n;
	bool corrects;
	bool in_turn; /* head h reads key head h mod key_heads; else neighbours share one */
	const struct k_state_row *rows; /* [n] */
	const struct k_state *state;
	size_t at; /* offset in floats of this layer's [heads, keys, values] in a page */
};
#define K_INPUTS_linear(PLAIN, a)                                                                  \
	PLAIN(a->rows, a->n) PLAIN(a->state, 1) PLAIN(a->fixed, 2 * a->heads)

K_COUNT(linear, a->n, a->heads * a->values, 8 * (uint64_t)a->keys + 16,
	(a->corrects ? 7 : 5) * (uint64_t)a->keys + 4)
K_RESULT(linear, k_floats(a->out, a->heads * a->values))

K_INLINE int32_t k_linear_pieces(const struct k_linear *a)
{
	return k_pieces(a->values, K_LINEAR_UNIT);
}

K_UNITS(linear, (int64_t)a->heads *k_linear_pieces(a))

K_INLINE const float *k_linear_head(const struct k_linear_part *p, int32_t r, int32_t head)
{
	return p->x + k_index(r, p->stride, head * p->pitch);
}

/* Some columns of a head's state, before and after a row; they may be one. */
struct k_linear_step {
	const float *q, *k, *v;
	const float *from;
	float *to, *out;
	float decay, amount;
};

/* e = amount (v - S'k) of `count` columns. */
K_INLINE void k_linear_correct(
	const struct k_linear *a, const struct k_linear_step *s, const int32_t count, float *e)
{
	const int32_t keys = a->corrects ? a->keys : 0;

	K_UNROLL
	for (int32_t i = 0; i < keys; i++) {
		const float *from = s->from + (size_t)i * (size_t)a->values;
		const float k = s->k[i], decay = s->decay;

		for (int32_t c = 0; c < count; c++)
			e[c] = k_fma(decay * from[c], k, e[c]);
	}
	for (int32_t c = 0; c < count; c++)
		e[c] = s->amount * (s->v[c] - e[c]);
}

/* Of `some` keys from i on, which are all read first: `to` may be `from`. */
K_INLINE void k_linear_keys(const struct k_linear *a, const struct k_linear_step *s, int32_t i,
	const int32_t some, const int32_t count, const float *e, float *o)
{
	const size_t values = (size_t)a->values, at = (size_t)i * values;
	float t[K_AHEAD][K_OWN], k[K_AHEAD], q[K_AHEAD];

	for (int32_t j = 0; j < some; j++) {
		k[j] = s->k[i + j];
		q[j] = s->q[i + j];
		for (int32_t c = 0; c < count; c++)
			t[j][c] = s->decay * s->from[at + (size_t)j * values + (size_t)c];
	}
	for (int32_t j = 0; j < some; j++)
		for (int32_t c = 0; c < count; c++) {
			const float x = k_fma(k[j], e[c], t[j][c]);

			o[c] = k_fma(x, q[j], o[c]);
			s->to[at + (size_t)j * values + (size_t)c] = x;
		}
}

K_INLINE void k_linear_columns(
	const struct k_linear *a, const struct k_linear_step *s, float skip, const int32_t count)
{
	float e[K_OWN] = { 0 }, o[K_OWN] = { 0 };
	int32_t i = 0;

	k_linear_correct(a, s, count, e);
	for (; i + K_AHEAD <= a->keys; i += K_AHEAD)
		k_linear_keys(a, s, i, K_AHEAD, count, e, o);
	for (; K_AHEAD > 1 && i < a->keys; i++)
		k_linear_keys(a, s, i, 1, count, e, o);
	for (int32_t c = 0; c < count; c++)
		s->out[c] = a->skip ? k_fma(skip, s->v[c], o[c]) : o[c];
}

K_INLINE void k_linear_clear(const struct k_linear *a, float *s, int32_t count)
{
	for (int32_t i = 0; i < a->keys; i++)
		for (int32_t c = 0; c < count; c++)
			s[k_index(i, a->values, c)] = 0;
}

/* Where the state is that row r reads, and where it goes. at: of these columns in a layer's. */
K_INLINE void k_linear_places(
	const struct k_linear *a, int32_t r, size_t at, int32_t count, struct k_linear_step *s)
{
	const struct k_state_row *row = a->rows + r;
	const float *before = s->to;

	s->to = row->to >= 0 ? k_state_at(a->state, row->to, a->at) + at : a->room + at;
	if (row->from == K_STATE_ZERO)
		k_linear_clear(a, s->to, count);
	s->from = row->from >= 0              ? k_state_at(a->state, row->from, a->at) + at
			  : row->from == K_STATE_ZERO ? s->to
										  : before;
}

K_UNIT_FN void k_linear_unit(const struct k_linear *a, int64_t unit)
{
	const int32_t head = (int32_t)(unit / k_linear_pieces(a));
	const int32_t first = (int32_t)(unit % k_linear_pieces(a)) * K_LINEAR_UNIT + k_lane();
	const int32_t left = a->values - first, count = k_min(left, K_OWN);
	const int32_t key =
		a->in_turn ? head % a->key_heads : (int32_t)((int64_t)head * a->key_heads / a->heads);
	const size_t at = (size_t)head * (size_t)a->keys * (size_t)a->values + (size_t)first;
	struct k_linear_step s = { 0 };

	for (int32_t r = 0; r < a->n && count > 0; r++) {
		const size_t of = k_index(r, a->heads, head);
		const float *rate = a->fixed ? a->fixed + 2 * head : a->rate + 2 * of;

		k_linear_places(a, r, at, count, &s);
		s.q = k_linear_head(&a->q, r, key);
		s.k = k_linear_head(&a->k, r, key);
		s.v = k_linear_head(&a->v, r, head) + first;
		s.out = a->out + of * (size_t)a->values + first;
		s.decay = rate[0];
		s.amount = rate[1];
		if (count == K_OWN) /* a number that compilers know */
			k_linear_columns(a, &s, a->skip ? a->skip[head] : 0, K_OWN);
		else
			k_linear_columns(a, &s, a->skip ? a->skip[head] : 0, count);
	}
}
