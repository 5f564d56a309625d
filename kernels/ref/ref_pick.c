/* The reference of the choice of keys, rule 18, and of positions inside the cache, rule 19. Thread:
 * called by all threads of a pool; no state. */
#include "kernels/cpu/pick_walk.h"
#include "kernels/format/cache.h"

/* Of the range of a channel a quarter is left out on either side: the sum of all channels' extremes
 * is a bound that no key reaches, and it overrates groups whose keys differ most. Measured on 6,831
 * tokens of prose, a quarter read: a divergence of 0.070 nats a token instead of 0.090. */
#define PICK_IN 0.25f

static void extent(const struct k_kv *kv, const void *keys, uint16_t *out)
{
	for (int32_t i = 0; i < kv->head_dim; i++) {
		float least = INFINITY, greatest = -INFINITY;

		for (size_t t = 0; t < K_GROUP; t++) {
			const float k = k_cache_get(kv->format, keys, (size_t)i * K_GROUP + t);

			least = k < least ? k : least;
			greatest = k > greatest ? k : greatest;
		}
		out[i] = (uint16_t)k_to_f16(k_fma(greatest - least, PICK_IN, least));
		out[kv->head_dim + i] = (uint16_t)k_to_f16(k_fma(greatest - least, -PICK_IN, greatest));
	}
}

/* A unit is a head of a row, then of a further page. */
void k_ref_extent(struct k_op *op, int tid, int n_threads, void *scratch)
{
	const struct k_extent *a = &op->u.extent;
	const struct k_kv *kv = a->kv;
	const int32_t heads = kv->n_kv_heads;
	const size_t group_bytes = (size_t)(K_GROUP * kv->head_dim * k_cache_bytes(kv->format));
	int64_t lo, hi;

	(void)scratch;
	k_split((int64_t)(a->n + a->n_also) * heads, tid, n_threads, &lo, &hi);
	for (int64_t unit = lo; unit < hi; unit++) {
		const int32_t i = (int32_t)(unit / heads), head = (int32_t)(unit % heads);
		const struct k_row *row = a->rows + (i < a->n ? i : a->also[i - a->n].row);
		const int32_t seq = i < a->n ? row->seq : a->also[i - a->n].seq;
		const int32_t group = row->pos % kv->page_size / K_GROUP;
		const int32_t page = a->pages[seq][row->pos / kv->page_size];
		const uint8_t *keys = k_kv_at(kv, page, a->layer, 0, head);

		if (row->pos % K_GROUP == K_GROUP - 1)
			extent(kv, keys + (size_t)group * group_bytes,
				k_kv_extent_at(kv, page, a->layer, head, group));
	}
}

static float bound(const float *q, int32_t n_rep, int32_t head_dim, const uint16_t *extent)
{
	float lane[PICK_LANES] = { 0 };

	for (int32_t h = 0; h < n_rep; h++, q += head_dim)
		for (int32_t i = 0; i < head_dim; i++)
			lane[i % PICK_LANES] = k_fma(
				q[i], k_f16_to_f32(extent[q[i] > 0 ? head_dim + i : i]), lane[i % PICK_LANES]);
	return k_tree_sum(lane, PICK_LANES);
}

void k_ref_pick(struct k_op *op, int tid, int n_threads, void *scratch)
{
	k_pick_walk(&op->u.pick, tid, n_threads, scratch, bound);
}

void k_ref_turn(struct k_op *op, int tid, int n_threads, void *scratch)
{
	const struct k_turn *a = &op->u.turn;
	const struct k_kv kv = { .head_dim = a->head_dim };
	const struct k_rope rope = { .rope_dim = a->rope_dim, .neox = a->neox, .kv = &kv };
	int64_t lo, hi;

	(void)scratch;
	k_split((int64_t)a->n * a->n_heads, tid, n_threads, &lo, &hi);
	for (int64_t unit = lo; unit < hi; unit++) {
		const size_t at = (size_t)a->pos[unit / a->n_heads] * (size_t)(a->rope_dim / 2);
		float *out = a->out + unit * a->head_dim;

		k_ref_rotate(&rope, a->cos + at, a->sin + at, a->q + unit * a->head_dim, out);
		for (int32_t i = 0; i < a->head_dim; i++)
			out[i] *= a->scale;
	}
}
