/* Where keys and values lie in the pages of a cache. Plain C that CUDA files include too. Part of
 * kernels.h. Thread: any; no state. */
#pragma once

#include <stddef.h>

#include "kernels/format/cache_table.h"

#define K_GROUP 16 /* attention: lanes of a group, tokens (rule 11) */
#define K_SPAN 128 /* attention: tokens of a span (rule 11) */
/* Of formats by channel: the last tokens that a row reads in f16, at least (rule 10), unless it is
 * set. Fewer would make codes of positions that a node of a tree of drafts has for itself. */
#define K_RECENT 128

/* The KV cache of a memory group of layers. A page holds page_size positions of all of them. Within
 * a page: [layer][kv head][K then V][page_size/16 groups], so that what a head reads of a page is
 * one piece: a processor fetches that by itself. A group's K is [head_dim][16 tokens], its V [16
 * tokens][head_dim]; of formats with codes see format/codes.h. All in one format; then, if it has
 * them, the extents of keys in f16: [layer][kv head][group][least, then greatest][head_dim]. Values
 * are finite (rule 10).
 *
 * With a value_dim there is no V: a value is the last value_dim dimensions of its key (rule 13). */
struct k_kv {
	uint8_t *base;
	size_t page_bytes;
	int32_t page_size; /* tokens, a multiple of 16 */
	int32_t n_layers, n_kv_heads, head_dim;
	int32_t value_dim; /* 0: values are stored, of head_dim; formats of codes have none */
	enum k_cache format;
	int32_t residual; /* of a format by channel: K_RECENT or more, a multiple of K_SPAN */
	bool key_ranges;
};

K_INLINE int32_t k_value_dim(const struct k_kv *kv)
{
	return kv->value_dim ? kv->value_dim : kv->head_dim;
}

enum {
	K_CODED_DIMS = 64, /* channels of a value by token that share a scale */
	K_Q8_DIMS = 32,    /* channels of a key or value in q8 that do */
};

/* Channels of a group by channel, of which the last ones may be unused. */
K_INLINE int32_t k_coded_dim(int32_t head_dim)
{
	return k_up(head_dim, 16);
}

/* Bytes of 16 tokens of one head: of K (v = 0) or V (v = 1). */
K_INLINE size_t k_kv_group_bytes(const struct k_kv *kv, int v)
{
	const int32_t bits = k_cache_bits(kv->format), dim = kv->head_dim;

	if (v && kv->value_dim)
		return 0;
	if (!bits)
		return (size_t)(K_GROUP * dim * k_cache_bytes(kv->format));
	if (!k_cache_by_channel(kv->format))
		return (size_t)(K_GROUP * (dim + 2 * k_pieces(dim, K_Q8_DIMS)));
	return (size_t)(2 * k_coded_dim(dim) * bits) +
		   4 * (size_t)(v ? k_pieces(dim, K_CODED_DIMS) * K_GROUP : k_coded_dim(dim));
}
K_INLINE size_t k_kv_head_bytes(const struct k_kv *kv, int v)
{
	return (size_t)(kv->page_size / K_GROUP) * k_kv_group_bytes(kv, v);
}
/* Of all layers, without extents. */
K_INLINE size_t k_kv_keys_bytes(const struct k_kv *kv)
{
	return (size_t)kv->n_layers * (size_t)kv->n_kv_heads *
		   (k_kv_head_bytes(kv, 0) + k_kv_head_bytes(kv, 1));
}
/* Of the extents of one group and head. */
K_INLINE size_t k_kv_key_range_bytes(const struct k_kv *kv)
{
	return kv->key_ranges ? (size_t)kv->head_dim * 2 * sizeof(uint16_t) : 0;
}
K_INLINE size_t k_kv_page_bytes(const struct k_kv *kv)
{
	const size_t groups =
		(size_t)kv->n_layers * (size_t)kv->n_kv_heads * (size_t)(kv->page_size / K_GROUP);

	return k_kv_keys_bytes(kv) + groups * k_kv_key_range_bytes(kv);
}
/* First group of K (v = 0) or V (v = 1) of one head in one page. */
K_INLINE void *k_kv_at(const struct k_kv *kv, int32_t page, int32_t layer, int v, int32_t head)
{
	const size_t k = k_kv_head_bytes(kv, 0), both = k + k_kv_head_bytes(kv, 1);
	const size_t index = k_index(layer, kv->n_kv_heads, head);

	return kv->base + (size_t)page * kv->page_bytes + index * both + (v ? k : 0);
}

/* Group `group` of that page. */
K_INLINE void *k_kv_group(
	const struct k_kv *kv, int32_t page, int32_t layer, int v, int32_t head, int32_t group)
{
	return (uint8_t *)k_kv_at(kv, page, layer, v, head) + (size_t)group * k_kv_group_bytes(kv, v);
}

/* The least and then the greatest keys of a group of one head, [2][head_dim] in f16. */
K_INLINE uint16_t *k_kv_key_range_at(
	const struct k_kv *kv, int32_t page, int32_t layer, int32_t head, int32_t group)
{
	const size_t heads = k_index(layer, kv->n_kv_heads, head);
	const size_t index = heads * (size_t)(kv->page_size / K_GROUP) + (size_t)group;

	return (uint16_t *)(void *)(kv->base + (size_t)page * kv->page_bytes + k_kv_keys_bytes(kv) +
								index * k_kv_key_range_bytes(kv));
}

/* Of a format by channel: positions before this one are read as codes by a row at pos, the others
 * in f16 (rule 10). */
K_INLINE int32_t k_coded_end(const struct k_kv *kv, int32_t pos)
{
	return pos + 1 < kv->residual ? 0 : (pos + 1 - kv->residual) / K_SPAN * K_SPAN;
}
