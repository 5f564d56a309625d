/* The ops of what a row reads of the positions that it sees. A choice of keys (Tang et al. 2024,
 * "Quest"; rule 18): `key_range` keeps the least and the greatest of each key channel for groups of
 * 16 positions, `pick` chooses the groups that a row reads by the bound that follows from them. And
 * positions inside the cache (Xiao et al. 2023; rule 19): `turn` makes a second query, as far from
 * the attention sinks as it would be if nothing lay between them and the window. */
#pragma once

#include "kernels/format/cache.h"
#include "kernels/format/kv.h"
#include "kernels/op/op.h"
#include "kernels/op/rotary.h"

enum {
	K_PICK_GROUPS = 20 << 10, /* that a row may see, at most */
	K_PICK_LANES = 16,        /* of a bound's chains */
	/* read in any case: a row's own group, the one before, and the first, which has the sinks */
	K_PICK_NEWEST = 2,
	K_COUNTERS = 8,                   /* warps that count together */
	K_BYTE_GROUPS = K_SPAN / K_GROUP, /* of a choice: a byte for each span, a bit for each group */
};

/* Writes the extents of the groups that rows of the step fill: after rope has stored the keys. A
 * unit is a head of a row, then of a further page. */
struct k_key_range {
	int32_t layer, n;
	const struct k_row *rows;  /* [n] */
	const struct k_also *also; /* [n_also] as rope's */
	int32_t n_also;
	const int32_t *const *pages; /* block tables */
	const struct k_kv *kv;       /* with extents */
};
#define K_TABLES_key_range(TABLE, a) TABLE(a->pages, a->kv)
#define K_INPUTS_key_range(PLAIN, a) PLAIN(a->rows, a->n) PLAIN(a->also, a->n_also) PLAIN(a->kv, 1)

/* The groups that each row reads, by kv head: its own, the one before, the first, and of the others
 * before it those of greatest bound, ties to the lowest. A unit is a kv head of a row. */
struct k_pick {
	const float *q; /* [n, n_heads, head_dim] rotated and scaled */
	uint8_t *out;   /* [n, n_kv_heads, stride] a byte for each span of 128, a bit for each group */
	int32_t stride, n_heads, layer, n;
	const struct k_row *rows;
	const int32_t *budget;       /* [n] groups, at least 3 */
	const int32_t *const *pages; /* block tables */
	const struct k_kv *kv;       /* with extents */
};
#define K_TABLES_pick(TABLE, a) TABLE(a->pages, a->kv)
#define K_INPUTS_pick(PLAIN, a) PLAIN(a->rows, a->n) PLAIN(a->budget, a->n) PLAIN(a->kv, 1)

/* Rotates q as rope does, but by other positions: before rope, which rotates in place. A unit is a
 * head of a row. */
struct k_turn {
	const float *q;         /* [n, n_heads, head_dim] */
	float *out;             /* likewise, rotated and scaled */
	const float *cos, *sin; /* [.., rope_dim / 2] rows of the table, by position */
	const int32_t *pos;     /* [n] */
	int32_t rope_dim, n_heads, head_dim, n;
	bool neox;
	float scale;
};
#define K_INPUTS_turn(PLAIN, a) PLAIN(a->pos, a->n)

/* ---- extents ---- */

/* Unit `unit` of an op over heads of rows and of further pages: a row's position, whose sequence's
 * table, which head. */
struct k_place_in {
	int32_t pos, seq, head;
};
K_INLINE struct k_place_in k_place_in(const struct k_row *rows, int32_t n,
	const struct k_also *also, const struct k_kv *kv, int64_t unit)
{
	const int32_t i = (int32_t)(unit / kv->n_kv_heads);
	const struct k_place_in at = { rows[i < n ? i : also[i - n].row].pos,
		i < n ? rows[i].seq : also[i - n].seq, (int32_t)(unit % kv->n_kv_heads) };

	return at;
}

/* Rows of a step that end a group. */
K_INLINE uint64_t k_ended(const struct k_row *rows, int32_t n)
{
	uint64_t ended = 0;

	for (int32_t r = 0; r < n; r++)
		ended += rows[r].pos % K_GROUP == K_GROUP - 1;
	return ended;
}

K_INLINE struct k_count k_key_range_count(const struct k_key_range *a)
{
	const uint64_t values = (uint64_t)(a->kv->n_kv_heads * a->kv->head_dim);
	const uint64_t n = values * k_ended(a->rows, a->n);
	const struct k_count c = { n * (uint64_t)(K_GROUP * k_cache_bytes(a->kv->format) + 4),
		n * 2 * K_GROUP };

	return c;
}

K_RESULT(key_range, K_NO_RESULT)
K_UNITS(key_range, (int64_t)(a->n + a->n_also) * a->kv->n_kv_heads)

/* Of the range of a channel a quarter is left out on either side: the sum of all channels' extremes
 * is a bound that no key reaches, and it overrates groups whose keys differ most. Measured on 6,831
 * tokens of prose, a quarter read: a divergence of 0.070 nats a token instead of 0.090. */
K_UNIT_FN void k_key_range_unit(const struct k_key_range *a, int64_t unit)
{
	const float in = 0.25f;
	const struct k_kv *kv = a->kv;
	const struct k_place_in at = k_place_in(a->rows, a->n, a->also, kv, unit);
	const int32_t group = at.pos % kv->page_size / K_GROUP;
	const int32_t page = a->pages[at.seq][at.pos / kv->page_size];
	const void *keys = k_kv_group(kv, page, a->layer, 0, at.head, group);
	uint16_t *out = k_kv_key_range_at(kv, page, a->layer, at.head, group);

	K_LANES(i, at.pos % K_GROUP == K_GROUP - 1 ? kv->head_dim : 0) {
		float least = INFINITY, greatest = -INFINITY;

		for (size_t t = 0; t < K_GROUP; t++) {
			const float k = k_cache_get(kv->format, keys, (size_t)i * K_GROUP + t);

			least = k < least ? k : least;
			greatest = k > greatest ? k : greatest;
		}
		out[i] = (uint16_t)k_to_f16(k_fma(greatest - least, in, least));
		out[kv->head_dim + i] = (uint16_t)k_to_f16(k_fma(greatest - least, -in, greatest));
	}
}

/* ---- the greatest of some keys ---- */

/* Keys, and what threads count of them, by turns. */
struct k_best_room {
	uint32_t key[K_PICK_GROUPS];
	int32_t count[2][K_COUNTERS];
};

/* Of equal keys the one of lower index is greater. */
K_INLINE uint64_t k_best_key(uint32_t key, int32_t i)
{
	return (uint64_t)key << 32 | (uint32_t)~i;
}

/* How many of n keys reach `least`; turn: another one than that of the call before. */
K_UNIT_FN int32_t k_best_count(struct k_best_room *s, int32_t n, uint64_t least, int32_t turn)
{
	const int32_t each = k_pieces(n, K_COUNTERS);
	int32_t all = 0;

	K_WARPS(w, K_COUNTERS) {
		const int32_t first = w * each, left = n - first;
		int32_t own = 0;

		if (!(uint32_t)least) /* by keys alone */
			K_LANES(i, k_min(left, each))
				own += s->key[first + i] >= (uint32_t)(least >> 32);
		else
			K_LANES(i, k_min(left, each))
				own += k_best_key(s->key[first + i], first + i) >= least;
		own = k_lanes_total(own);
		if (k_lane() == 0)
			s->count[turn & 1][w] = own;
	}
	K_MEET();
	for (int32_t w = 0; w < K_COUNTERS; w++)
		all += s->count[turn & 1][w];
	return all;
}

/* The best-th greatest of n keys, found bit by bit; 1 <= best <= n. The keys are there. */
K_UNIT_FN uint64_t k_best_floor(struct k_best_room *s, int32_t n, int32_t best)
{
	uint64_t floor = 0;
	int32_t reach = n;

	for (int32_t bit = 63; bit >= 0; bit--) {
		const uint64_t tried = floor | (uint64_t)1 << bit;
		const int32_t count = reach == best ? 0 : k_best_count(s, n, tried, bit);

		if (count < best)
			continue;
		floor = tried;
		reach = count;
	}
	return floor;
}

/* ---- the choice ---- */

/* The groups of span b that a row reads in any case: those from `first` to `own`. */
K_INLINE uint8_t k_newest(int32_t b, int32_t first, int32_t own)
{
	uint8_t bits = 0;

	for (int32_t i = 0; i < K_BYTE_GROUPS; i++) {
		const int32_t g = b * K_BYTE_GROUPS + i;

		bits |= (uint8_t)((g >= first && g <= own) << i);
	}
	return bits;
}

K_INLINE struct k_count k_pick_count(const struct k_pick *a)
{
	const uint64_t dims = (uint64_t)a->kv->head_dim;
	struct k_count c = { 0, 0 };

	for (int32_t r = 0; r < a->n; r++) {
		const int32_t groups = a->rows[r].pos / K_GROUP;

		if (a->budget[r] > groups)
			continue;
		c.bytes += (uint64_t)a->kv->n_kv_heads * dims * 4 * (uint64_t)groups;
		c.ops += (uint64_t)a->n_heads * dims * 2 * (uint64_t)groups;
	}
	return c;
}

K_RESULT(pick, K_NO_RESULT)
K_UNITS(pick, (int64_t)a->n * a->kv->n_kv_heads)

/* The bound of one group (rule 18): n_rep queries [n_rep, head_dim], its extents [2][head_dim]. */
K_UNIT_FN float k_pick_bound(
	const float *q, int32_t n_rep, int32_t head_dim, const uint16_t *key_range)
{
	float lane[K_OWN] = { 0 };

	K_LANES(l, K_PICK_LANES)
		for (int32_t h = 0; h < n_rep; h++) {
			const float *x = q + (size_t)h * (size_t)head_dim;

			for (int32_t i = l; i < head_dim; i += K_PICK_LANES)
				lane[K_AT(l)] = k_fma(
					x[i], k_f16_to_f32(key_range[x[i] > 0 ? head_dim + i : i]), lane[K_AT(l)]);
		}
	return k_half_sum(lane);
}

/* The query heads of a kv head. */
K_INLINE const float *k_pick_query(const struct k_pick *a, int32_t r, int32_t head)
{
	const int32_t n_rep = a->n_heads / a->kv->n_kv_heads;

	return a->q + k_index(r, a->n_heads, head * n_rep) * (size_t)a->kv->head_dim;
}

K_INLINE const uint16_t *k_pick_key_range(
	const struct k_pick *a, int32_t r, int32_t head, int32_t group)
{
	const int32_t token = group * K_GROUP;
	const int32_t page = a->pages[a->rows[r].seq][token / a->kv->page_size];

	return k_kv_key_range_at(a->kv, page, a->layer, head, token % a->kv->page_size / K_GROUP);
}

/* Groups that row r chooses among: all but the newest; 0: it reads them all. */
K_INLINE int32_t k_pick_among(const struct k_pick *a, int32_t r)
{
	const int32_t n = a->rows[r].pos / K_GROUP + 1 - K_PICK_NEWEST;

	return n <= a->budget[r] - K_PICK_NEWEST ? 0 : n;
}

/* The bounds of groups 1 to before n as keys; the first group's is the greatest. */
K_UNIT_FN void k_pick_keys(
	const struct k_pick *a, int32_t r, int32_t head, int32_t n, uint32_t *key)
{
	const int32_t n_rep = a->n_heads / a->kv->n_kv_heads, dim = a->kv->head_dim;
	const float *q = k_pick_query(a, r, head);

	K_WARPS(g, n) {
		const uint16_t *key_range = k_pick_key_range(a, r, head, g);
		const uint32_t bound = g ? k_order_key(k_pick_bound(q, n_rep, dim, key_range)) : UINT32_MAX;

		if (k_lane() == 0)
			key[g] = bound;
	}
}

/* Writes the choice of a unit, among n groups whose keys are there. */
K_UNIT_FN void k_pick_choose(const struct k_pick *a, int64_t unit, int32_t n, struct k_best_room *s)
{
	const int32_t r = (int32_t)unit / a->kv->n_kv_heads, own = a->rows[r].pos / K_GROUP;
	const uint64_t floor = n ? k_best_floor(s, n, a->budget[r] - K_PICK_NEWEST) : 0;
	uint8_t *out = a->out + (size_t)unit * (size_t)a->stride;

	K_THREADS(b, own / K_BYTE_GROUPS + 1) {
		uint8_t bits = k_newest(b, n, own);

		for (int32_t i = 0; i < K_BYTE_GROUPS; i++) {
			const int32_t g = b * K_BYTE_GROUPS + i;

			bits |= (uint8_t)((g < n && k_best_key(s->key[g], g) >= floor) << i);
		}
		out[b] = bits;
	}
}

K_UNIT_FN void k_pick_unit(const struct k_pick *a, int64_t unit)
{
	const int32_t r = (int32_t)unit / a->kv->n_kv_heads, n = k_pick_among(a, r);
	K_LARGE_ROOM(struct k_best_room, s);

	K_MEET();
	k_pick_keys(a, r, (int32_t)unit % a->kv->n_kv_heads, n, s->key);
	K_MEET();
	k_pick_choose(a, unit, n, s);
}

/* ---- a second query ---- */

K_COUNT(turn, a->n, a->n_heads * a->head_dim, 8, 4)

K_RESULT(turn, K_NO_RESULT)
K_UNITS(turn, (int64_t)a->n * a->n_heads)

K_UNIT_FN void k_turn_unit(const struct k_turn *a, int64_t unit)
{
	const int32_t half = a->rope_dim / 2;
	const size_t at = (size_t)a->pos[unit / a->n_heads] * (size_t)half;
	const float *q = a->q + (size_t)unit * (size_t)a->head_dim;
	float *out = a->out + (size_t)unit * (size_t)a->head_dim;

	K_LANES(i, half)
		k_rotate(a->cos + at, a->sin + at, i, half, a->neox, a->scale, q, out);
	K_LANES(i, a->head_dim - a->rope_dim)
		out[a->rope_dim + i] = q[a->rope_dim + i] * a->scale;
}
