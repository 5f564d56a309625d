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

/* Puts eight codes, of word i. */
static void put_word(void *at, size_t i, int32_t bits, const uint8_t *code, size_t stride)
{
	uint32_t word = 0;

	for (int32_t j = 0; j < 8; j++)
		word |= (uint32_t)code[(size_t)j * stride] << j * bits;
	if (bits == 4)
		((uint32_t *)at)[i] = word;
	else
		((uint16_t *)at)[i] = (uint16_t)word;
}

static void encode_keys(const struct coded *g)
{
	const struct k_code_scales s = k_key_scales(g->k_out, g->head_dim, g->bits);

	for (int32_t first = 0; first < g->head_dim; first += 8) {
		uint8_t code[8][K_GROUP] = { { 0 } };

		for (int32_t c = first; c < first + 8 && c < g->head_dim; c++) {
			float x[K_GROUP];

			for (int32_t t = 0; t < K_GROUP; t++)
				x[t] = k_f16_to_f32(g->k[c * K_GROUP + t]);
			k_codes_round(x, K_GROUP, g->bits, code[c - first], &s.scale[c], &s.min[c]);
		}
		for (int32_t t = 0; t < K_GROUP; t++)
			put_word(g->k_out, (size_t)(first / 8 * K_GROUP + t), g->bits, &code[0][t], K_GROUP);
	}
}

static void encode_values(const struct coded *g)
{
	const int32_t pieces = k_up(g->head_dim, K_CODED_DIMS) / K_CODED_DIMS;

	for (int32_t i = 0; i < pieces; i++) {
		const struct k_code_scales s = k_value_scales(g->v_out, g->head_dim, g->bits, i);
		const int32_t first = i * K_CODED_DIMS, left = g->head_dim - first;
		const int32_t n = left < K_CODED_DIMS ? left : K_CODED_DIMS;

		for (int32_t t = 0; t < K_GROUP; t++) {
			uint8_t code[K_CODED_DIMS] = { 0 };
			float x[K_CODED_DIMS] = { 0 };

			for (int32_t d = 0; d < n; d++)
				x[d] = k_f16_to_f32(g->v[t * g->head_dim + first + d]);
			k_codes_round(x, n, g->bits, code, &s.scale[t], &s.min[t]);
			for (int32_t w = 0; w < 8; w++)
				put_word(g->v_out, (size_t)((t * pieces + i) * 8 + w), g->bits, code + w, 8);
		}
	}
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

	encode_keys(&g);
	encode_values(&g);
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
