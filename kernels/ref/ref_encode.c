/* Codes of keys by channel and of values by token (rule 10; format/codes.h): made when a row ends a
 * group of 16 positions, from what is stored of it in f16. The one definition; it runs once in 16
 * tokens. Thread: called by all threads of a pool; no state. */
#include "kernels/cpu/isa.h"
#include "kernels/format/codes.h"

/* A group of one head: what is read and what is written. */
struct coded {
	const uint16_t *k, *v; /* [head_dim][16], [16][head_dim] f16 */
	void *k_out, *v_out;
	int32_t head_dim, bits;
};

static void put_code(void *group, struct k_code_at at, uint8_t code)
{
	((uint8_t *)group)[at.byte] |= (uint8_t)(code << at.bit);
}

static void encode_keys(const struct coded *g)
{
	const struct k_code_scales s = k_key_scales(g->k_out, g->head_dim, g->bits);

	for (int32_t c = 0; c < g->head_dim; c++) {
		uint8_t code[K_GROUP];
		float x[K_GROUP];

		for (int32_t t = 0; t < K_GROUP; t++)
			x[t] = k_f16_to_f32(g->k[c * K_GROUP + t]);
		k_codes_round(x, K_GROUP, g->bits, code, &s.scale[c], &s.min[c]);
		for (int32_t t = 0; t < K_GROUP; t++)
			put_code(g->k_out, k_key_at(t, c, g->bits), code[t]);
	}
}

/* Channels `first` … of a token, which share a scale. */
static void encode_values(const struct coded *g, int32_t t, int32_t first)
{
	const int32_t left = g->head_dim - first, n = left < K_CODED_DIMS ? left : K_CODED_DIMS;
	const struct k_code_scales s =
		k_value_scales(g->v_out, g->head_dim, g->bits, first / K_CODED_DIMS);
	uint8_t code[K_CODED_DIMS];
	float x[K_CODED_DIMS] = { 0 };

	for (int32_t i = 0; i < n; i++)
		x[i] = k_f16_to_f32(g->v[t * g->head_dim + first + i]);
	k_codes_round(x, n, g->bits, code, &s.scale[t], &s.min[t]);
	for (int32_t i = 0; i < n; i++)
		put_code(g->v_out, k_value_at(g->head_dim, t, first + i, g->bits), code[i]);
}

static void encode(const struct k_encode *a, int32_t pos, int32_t seq, int32_t head)
{
	const int32_t block = pos / a->kv->page_size, in = pos % a->kv->page_size / K_GROUP;
	const int32_t from = a->recent_pages[seq][block], to = a->pages[seq][block];
	const struct coded g = {
		.k = k_kv_group(a->recent, from, a->layer, 0, head, in),
		.v = k_kv_group(a->recent, from, a->layer, 1, head, in),
		.k_out = k_kv_group(a->kv, to, a->layer, 0, head, in),
		.v_out = k_kv_group(a->kv, to, a->layer, 1, head, in),
		.head_dim = a->kv->head_dim,
		.bits = k_cache_bits(a->kv->format),
	};

	memset(g.k_out, 0, k_kv_group_bytes(a->kv, 0));
	memset(g.v_out, 0, k_kv_group_bytes(a->kv, 1));
	encode_keys(&g);
	for (int32_t t = 0; t < K_GROUP; t++)
		for (int32_t first = 0; first < g.head_dim; first += K_CODED_DIMS)
			encode_values(&g, t, first);
}

void k_ref_encode(struct k_op *op, int tid, int n_threads, void *scratch)
{
	const struct k_encode *a = &op->u.encode;
	const int32_t heads = a->kv->n_kv_heads;
	int64_t lo, hi;

	(void)scratch;
	k_split((int64_t)(a->n + a->n_also) * heads, tid, n_threads, &lo, &hi);
	for (int64_t unit = lo; unit < hi; unit++) {
		const int32_t i = (int32_t)(unit / heads), also = i - a->n;
		const struct k_row *row = a->rows + (also < 0 ? i : a->also[also].row);

		if (row->pos % K_GROUP == K_GROUP - 1)
			encode(a, row->pos, also < 0 ? row->seq : a->also[also].seq, (int32_t)(unit % heads));
	}
}
