/* Codes of keys by channel and of values by token (rule 10; format/codes.h): made when a row ends a
 * group of 16 positions, from what is stored of it in f16. It runs once in 16 tokens. A unit is a
 * head of a row, then of a further page. */
#pragma once

#include "kernels/format/codes.h"
#include "kernels/op/pick.h"

#define K_MAX_HEAD_DIM 512

/* Of a format by channel alone. */
struct k_encode {
	int32_t layer, n;
	const struct k_row *rows;  /* [n] */
	const struct k_also *also; /* [n_also] */
	int32_t n_also;
	const int32_t *const *recent_pages, *const *pages; /* [n_seqs] block tables */
	const struct k_kv *recent, *kv;
};
#define K_TABLES_encode(TABLE, a) TABLE(a->pages, a->kv) TABLE(a->recent_pages, a->recent)
#define K_INPUTS_encode(PLAIN, a)                                                                  \
	PLAIN(a->rows, a->n) PLAIN(a->also, a->n_also) PLAIN(a->kv, 1) PLAIN(a->recent, 1)

/* Groups of 16 positions that rows of the step end are read and written. */
K_INLINE struct k_count k_encode_count(const struct k_encode *a)
{
	const uint64_t n = k_ended(a->rows, a->n) * (uint64_t)a->kv->n_kv_heads;
	const uint64_t bytes = k_kv_group_bytes(a->recent, 0) + k_kv_group_bytes(a->recent, 1) +
						   k_kv_group_bytes(a->kv, 0) + k_kv_group_bytes(a->kv, 1);
	const struct k_count c = { n * bytes, n * K_GROUP * 8 * (uint64_t)a->kv->head_dim };

	return c;
}

K_RESULT(encode, K_NO_RESULT)
K_UNITS(encode, (int64_t)(a->n + a->n_also) * a->kv->n_kv_heads)

/* The codes of a group of one head, of keys [channel][token], of values [token][channel]. */
struct k_encode_room {
	uint8_t code[K_MAX_HEAD_DIM * K_GROUP];
};

/* A group of one head: what is read and what is written. */
struct k_encoded {
	const uint16_t *from; /* f16: keys [head_dim][16], or values [16][head_dim] */
	void *to;
	int32_t dim, bits;
};

/* A word of codes, its i-th code at `code + i * step`; those from `n` on are 0. */
K_INLINE void k_encode_word(
	void *group, int32_t word, const uint8_t *code, int32_t step, int32_t n, int32_t bits)
{
	uint8_t byte[4] = { 0, 0, 0, 0 };

	for (int32_t i = 0; i < n && i < 32 / bits; i++)
		byte[i % 4] |= (uint8_t)(code[i * step] << i / 4 * bits);
	memcpy((uint8_t *)group + 4 * (size_t)word, byte, sizeof byte);
}

K_UNIT_FN void k_encode_keys(const struct k_encoded *g, struct k_encode_room *s)
{
	const int32_t many = 32 / g->bits, dim = k_coded_dim(g->dim);
	const struct k_code_scales to = k_key_scales(g->to, g->dim, g->bits);

	K_THREADS(c, dim) {
		float x[K_GROUP] = { 0 };

		for (int32_t t = 0; c < g->dim && t < K_GROUP; t++)
			x[t] = k_f16_to_f32(g->from[c * K_GROUP + t]);
		k_codes_round(x, K_GROUP, g->bits, s->code + c * K_GROUP, &to.scale[c], &to.min[c]);
	}
	K_MEET();
	K_THREADS(w, dim / many * K_GROUP)
		k_encode_word(
			g->to, w, s->code + w / K_GROUP * many * K_GROUP + w % K_GROUP, K_GROUP, many, g->bits);
}

/* 64 channels of a token share a scale. */
K_UNIT_FN void k_encode_values(const struct k_encoded *g, struct k_encode_room *s)
{
	const int32_t many = 32 / g->bits, dim = k_coded_dim(g->dim);
	const int32_t shared = k_pieces(g->dim, K_CODED_DIMS);

	K_THREADS(i, shared * K_GROUP) {
		const int32_t first = i / K_GROUP * K_CODED_DIMS, t = i % K_GROUP, left = g->dim - first;
		const struct k_code_scales to = k_value_scales(g->to, g->dim, g->bits, i / K_GROUP);
		const int32_t n = k_min(left, K_CODED_DIMS);
		float x[K_CODED_DIMS] = { 0 };

		for (int32_t c = 0; c < n; c++)
			x[c] = k_f16_to_f32(g->from[t * g->dim + first + c]);
		k_codes_round(x, n, g->bits, s->code + t * dim + first, &to.scale[t], &to.min[t]);
	}
	K_MEET();
	K_THREADS(w, K_GROUP / many * dim)
		k_encode_word(g->to, w, s->code + w / dim * many * dim + w % dim, dim,
			w % dim < g->dim ? many : 0, g->bits);
}

K_UNIT_FN void k_encode_unit(const struct k_encode *a, int64_t unit)
{
	const struct k_place_in at = k_place_in(a->rows, a->n, a->also, a->kv, unit);
	const int32_t block = at.pos / a->kv->page_size, in = at.pos % a->kv->page_size / K_GROUP;
	const int32_t bits = k_cache_bits(a->kv->format);
	K_ROOM(struct k_encode_room, s);

	if (at.pos % K_GROUP != K_GROUP - 1)
		return;
	for (int v = 0; v < 2; v++) {
		const struct k_encoded g = { (const uint16_t *)k_kv_group(a->recent,
										 a->recent_pages[at.seq][block], a->layer, v, at.head, in),
			k_kv_group(a->kv, a->pages[at.seq][block], a->layer, v, at.head, in), a->kv->head_dim,
			bits };

		K_MEET();
		if (v)
			k_encode_values(&g, s);
		else
			k_encode_keys(&g, s);
	}
}
