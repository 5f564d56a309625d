/* The ops of heavy hitters (Zhang et al. 2023, "H2O"; rule 22): `h2o_lookup` gives the groups of 16
 * positions that each row's heads still have, in front of attention, and `attn_score` adds up after
 * it what attention each group got; where a row ends a span of 128 it chooses those that are kept.
 */
#pragma once

#include "kernels/op/pick.h"

/* What the kv heads of a layer keep, and where. All rows of a sequence in a step are of one span
 * (but for those of which only the time is wanted).
 * A head's state: how many groups it keeps; which, ascending; what attention they got; what the
 * groups of the span before and of its own got. */
struct k_heavy {
	const struct k_row *rows;         /* [n] */
	const struct k_state_row *states; /* [n] */
	const struct k_state *state;
	size_t at; /* offset in floats of this layer's [n_kv_heads, k_heavy_floats(most)] in a page */
	int32_t n_kv_heads, most, n; /* most: groups that a head ever keeps */
};

enum {
	K_HEAVY_SPAN = K_BYTE_GROUPS, /* groups of a span */
	K_HEAVY_NEWEST = 2 * K_HEAVY_SPAN,
};

/* Groups there is room for: those of the span that leaves the newest, too. */
K_INLINE int32_t k_heavy_room(int32_t most)
{
	return most + K_HEAVY_SPAN;
}

K_INLINE size_t k_heavy_floats(int32_t most)
{
	return k_align((size_t)(1 + 2 * k_heavy_room(most) + K_HEAVY_NEWEST), 16);
}

/* The groups that each row reads, by kv head: those of its span up to its own and of the span
 * before, and those that are kept. A unit is a kv head of a row. */
struct k_h2o_lookup {
	struct k_heavy of;
	const int32_t *begins; /* [n] the first row of the step that is of the same request */
	uint8_t *out; /* [n, n_kv_heads, stride] a byte for each span of 128, a bit for each group */
	int32_t stride;
};
#define K_INPUTS_heavy(PLAIN, a)                                                                   \
	PLAIN(a->of.rows, a->of.n) PLAIN(a->of.states, a->of.n) PLAIN(a->of.state, 1)
#define K_INPUTS_h2o_lookup(PLAIN, a) K_INPUTS_heavy(PLAIN, a) PLAIN(a->begins, a->of.n)

/* A unit is a kv head: the rows of a sequence come one after the other. */
struct k_attn_score {
	struct k_heavy of;
	const float *share;  /* [n, n_heads, share_stride] attention's, of the groups a row reads */
	const int32_t *keep; /* [n] groups that rows of the span after a row's keep */
	float *room;         /* [n_kv_heads, k_heavy_floats(most)] states between rows */
	int32_t share_stride, n_heads;
};
#define K_INPUTS_attn_score(PLAIN, a) K_INPUTS_heavy(PLAIN, a) PLAIN(a->keep, a->of.n)

/* A head's state. */
struct k_kept {
	int32_t *n, *id; /* [k_heavy_room(most)] groups, ascending */
	float *score;    /* [k_heavy_room(most)] what they got */
	float *newest;   /* [16] what those of the span before and of its own got */
};

K_INLINE struct k_kept k_kept_at(float *state, int32_t most)
{
	const size_t room = (size_t)k_heavy_room(most);
	const struct k_kept k = { (int32_t *)(void *)state, (int32_t *)(void *)(state + 1),
		state + 1 + room, state + 1 + 2 * room };

	return k;
}

K_INLINE float *k_heavy_state(const struct k_heavy *a, int32_t page, int32_t head)
{
	return k_state_at(a->state, page, a->at + (size_t)head * k_heavy_floats(a->most));
}

/* The first group of the span before a row's, or of its own where that is the first. */
K_INLINE int32_t k_first_newest(int32_t pos)
{
	return pos < K_SPAN ? 0 : (pos / K_SPAN - 1) * K_HEAVY_SPAN;
}

K_COUNT(h2o_lookup, a->of.n, a->of.n_kv_heads, 4 * (uint64_t)a->of.most, 0)

K_RESULT(h2o_lookup, K_NO_RESULT)
K_UNITS(h2o_lookup, (int64_t)a->of.n * a->of.n_kv_heads)

K_UNIT_FN void k_h2o_lookup_unit(const struct k_h2o_lookup *a, int64_t unit)
{
	const int32_t r = (int32_t)unit / a->of.n_kv_heads, head = (int32_t)unit % a->of.n_kv_heads;
	const int32_t pos = a->of.rows[r].pos, first = k_first_newest(pos);
	const int32_t page = a->of.states[a->begins[r]].from;
	uint8_t *out = a->out + (size_t)unit * (size_t)a->stride;

	K_THREADS(b, pos / K_SPAN + 1)
		out[b] = k_newest(b, first, pos / K_GROUP);
	K_MEET();
	if (page == K_STATE_ZERO)
		return;
	const struct k_kept k = k_kept_at(k_heavy_state(&a->of, page, head), a->of.most);

	K_THREADS(i, *k.n) { /* the first id of a byte has the others */
		const int32_t b = k.id[i] / K_HEAVY_SPAN;

		for (int32_t j = i;
			 (i == 0 || k.id[i - 1] / K_HEAVY_SPAN != b) && j < *k.n && k.id[j] / K_HEAVY_SPAN == b;
			 j++)
			out[b] |= (uint8_t)(1u << k.id[j] % K_HEAVY_SPAN);
	}
}

K_COUNT(attn_score, a->of.n, a->n_heads, 8 * (uint64_t)a->of.most, (uint64_t)a->of.most)

K_RESULT(attn_score, K_NO_RESULT)
K_UNITS(attn_score, a->of.n_kv_heads)

/* Adds what the query heads of a kv head gave to each group that they read. */
K_UNIT_FN void k_attn_score_add(
	const struct k_attn_score *a, int32_t r, int32_t head, const struct k_kept *k)
{
	const int32_t pos = a->of.rows[r].pos, first = k_first_newest(pos);
	const int32_t n_rep = a->n_heads / a->of.n_kv_heads;
	const float *share = a->share + k_index(r, a->n_heads, head * n_rep) * (size_t)a->share_stride;

	K_THREADS(i, *k->n)
		for (int32_t h = 0; h < n_rep; h++)
			k->score[i] += share[k_index(h, a->share_stride, k->id[i])];
	K_THREADS(g, pos / K_GROUP + 1 - first)
		for (int32_t h = 0; h < n_rep; h++)
			k->newest[g] += share[k_index(h, a->share_stride, first + g)];
	K_MEET();
}

/* What is chosen by, and groups that move together. */
enum { K_KEEP = 256 };
struct k_keep_room {
	struct k_best_room best;
	int32_t id[K_KEEP], slot[K_KEEP]; /* slot < 0: it is left out */
	float score[K_KEEP];
};

/* Moves the best of groups `first` to before `end` to where they belong, which is not behind. */
K_UNIT_FN void k_keep_move(
	const struct k_kept *k, int32_t first, int32_t end, uint64_t floor, struct k_keep_room *s)
{
	const uint32_t *key = s->best.key;

	K_THREADS(i, end - first) {
		const bool best = k_best_key(key[first + i], first + i) >= floor;
		int32_t slot = best ? 0 : -1;

		for (int32_t j = 0; best && j < first + i; j++)
			slot += k_best_key(key[j], j) >= floor;
		s->slot[i] = slot;
		s->id[i] = k->id[first + i];
		s->score[i] = k->score[first + i];
	}
	K_MEET();
	K_THREADS(i, end - first) {
		if (s->slot[i] < 0)
			continue;
		k->id[s->slot[i]] = s->id[i];
		k->score[s->slot[i]] = s->score[i];
	}
}

/* Of the n groups kept, those of greatest score, ties to the lowest, in the order of their ids. */
K_UNIT_FN void k_keep_best(const struct k_kept *k, int32_t n, int32_t best, struct k_keep_room *s)
{
	uint64_t floor;

	K_THREADS(i, n)
		s->best.key[i] = k_order_key(k->score[i]);
	K_MEET();
	floor = k_best_floor(&s->best, n, best);
	for (int32_t i = 0; i < n; i += K_KEEP)
		k_keep_move(k, i, k_min(i + K_KEEP, n), floor, s);
	K_THREADS(one, 1)
		*k->n = best;
	K_MEET();
}

/* After the last row of a span: the groups of the span before stop being new, and its own are those
 * of the span before the next one's. */
K_UNIT_FN void k_attn_score_end(
	const struct k_attn_score *a, int32_t r, const struct k_kept *k, struct k_keep_room *s)
{
	const int32_t pos = a->of.rows[r].pos, n = *k->n;

	if (pos < K_SPAN)
		return;
	K_MEET(); /* all have read n */
	K_THREADS(i, K_HEAVY_SPAN) {
		k->id[n + i] = k_first_newest(pos) + i;
		k->score[n + i] = k->newest[i];
		k->newest[i] = k->newest[K_HEAVY_SPAN + i];
		k->newest[K_HEAVY_SPAN + i] = 0;
		if (i == 0)
			*k->n = n + K_HEAVY_SPAN;
	}
	K_MEET();
	if (n + K_HEAVY_SPAN > a->keep[r])
		k_keep_best(k, n + K_HEAVY_SPAN, a->keep[r], s);
}

K_UNIT_FN void k_attn_score_unit(const struct k_attn_score *a, int64_t unit)
{
	const int32_t head = (int32_t)unit, floats = (int32_t)k_heavy_floats(a->of.most);
	float *state = a->room + unit * floats;
	const struct k_kept k = k_kept_at(state, a->of.most);
	K_LARGE_ROOM(struct k_keep_room, s);

	for (int32_t r = 0; r < a->of.n; r++) {
		const int32_t from = a->of.states[r].from, to = a->of.states[r].to;
		const float *before = from >= 0 ? k_heavy_state(&a->of, from, head) : state;

		K_THREADS(i, from == K_STATE_ROW ? 0 : floats)
			state[i] = from >= 0 ? before[i] : 0.0f;
		K_MEET();
		k_attn_score_add(a, r, head, &k);
		if (a->of.rows[r].pos % K_SPAN == K_SPAN - 1)
			k_attn_score_end(a, r, &k, s);
		K_THREADS(i, to >= 0 ? floats : 0)
			k_heavy_state(&a->of, to, head)[i] = state[i];
	}
}
