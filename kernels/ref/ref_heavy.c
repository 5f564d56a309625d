/* Heavy hitters, rule 22: the definition, which all instruction sets run. Thread: called by all
 * threads of a pool; no state. */
#include "kernels/cpu/pick_walk.h"

_Static_assert((int)K_HEAVY_SPAN == (int)K_SPAN_GROUPS, "groups of a span");

/* A head's state. */
struct kept {
	int32_t *n, *id; /* [most + 8] groups, ascending */
	float *score;    /* [most + 8] what they got */
	float *newest;   /* [16] what those of the span before and of its own got */
};

static struct kept kept_at(float *state, int32_t most)
{
	int32_t *count = (int32_t *)(void *)state;

	return (struct kept){ .n = count,
		.id = count + 1,
		.score = state + 1 + k_heavy_room(most),
		.newest = state + 1 + 2 * k_heavy_room(most) };
}

static float *state_of(const struct k_heavy *a, int32_t page, int32_t head)
{
	return k_state_at(a->state, page, a->at + (size_t)head * k_heavy_floats(a->most));
}

/* The first group of the span before a row's, or of its own where that is the first. */
static int32_t first_newest(int32_t pos)
{
	return pos < K_SPAN ? 0 : (pos / K_SPAN - 1) * K_SPAN_GROUPS;
}

static void recall(const struct k_recall *a, int32_t r, int32_t head)
{
	const int32_t own = a->of.rows[r].pos / K_GROUP;
	const int32_t page = a->of.states[a->begins[r]].from;
	uint8_t *out =
		a->out + ((size_t)r * (size_t)a->of.n_kv_heads + (size_t)head) * (size_t)a->stride;
	struct kept k;

	k_pick_begin(own, first_newest(a->of.rows[r].pos), false, out);
	if (page == K_STATE_ZERO)
		return;
	k = kept_at(state_of(&a->of, page, head), a->of.most);
	for (int32_t i = 0; i < *k.n; i++)
		out[k.id[i] / K_SPAN_GROUPS] |= (uint8_t)(1u << k.id[i] % K_SPAN_GROUPS);
}

void k_ref_recall(struct k_op *op, int tid, int n_threads, void *scratch)
{
	const struct k_recall *a = &op->u.recall;
	int64_t lo, hi;

	(void)scratch;
	k_split((int64_t)a->of.n * a->of.n_kv_heads, tid, n_threads, &lo, &hi);
	for (int64_t unit = lo; unit < hi; unit++)
		recall(a, (int32_t)(unit / a->of.n_kv_heads), (int32_t)(unit % a->of.n_kv_heads));
}

/* Adds what the query heads of a kv head gave to each group that they read. */
static void add_shares(const struct k_account *a, int32_t r, int32_t head, const struct kept *k)
{
	const int32_t pos = a->of.rows[r].pos, first = first_newest(pos);
	const int32_t n_rep = a->n_heads / a->of.n_kv_heads;
	const float *share = a->share + ((size_t)r * (size_t)a->n_heads + (size_t)(head * n_rep)) *
										(size_t)a->share_stride;

	for (int32_t h = 0; h < n_rep; h++, share += a->share_stride) {
		for (int32_t i = 0; i < *k->n; i++)
			k->score[i] += share[k->id[i]];
		for (int32_t g = first; g <= pos / K_GROUP; g++)
			k->newest[g - first] += share[g];
	}
}

/* Of the groups kept, those of greatest score, ties to the lowest. bits: room for one each. */
static void keep_best(const struct kept *k, int32_t best, uint32_t *key, uint8_t *bits)
{
	int32_t n = 0;

	if (*k->n <= best)
		return;
	for (int32_t i = 0; i < *k->n; i++)
		key[i] = k_order_key(k->score[i]);
	memset(bits, 0, (size_t)(*k->n / K_SPAN_GROUPS + 1));
	k_pick_best(key, *k->n, best, bits);
	for (int32_t i = 0; i < *k->n; i++)
		if (bits[i / K_SPAN_GROUPS] >> i % K_SPAN_GROUPS & 1) {
			k->id[n] = k->id[i];
			k->score[n++] = k->score[i];
		}
	*k->n = n;
}

/* After the last row of a span: the groups of the span before stop being new, and its own are those
 * of the span before the next one's. */
static void end_span(const struct k_account *a, int32_t r, const struct kept *k, void *scratch)
{
	const int32_t pos = a->of.rows[r].pos, first = first_newest(pos);
	uint32_t *key = scratch;

	if (pos < K_SPAN)
		return;
	for (int32_t i = 0; i < K_SPAN_GROUPS; i++) {
		k->id[*k->n] = first + i;
		k->score[(*k->n)++] = k->newest[i];
		k->newest[i] = k->newest[K_SPAN_GROUPS + i];
		k->newest[K_SPAN_GROUPS + i] = 0;
	}
	keep_best(k, a->keep[r], key, (uint8_t *)(key + k_heavy_room(a->of.most)));
}

static void account(const struct k_account *a, int32_t head, float *state, void *scratch)
{
	const size_t bytes = k_heavy_floats(a->of.most) * sizeof *state;
	const struct kept k = kept_at(state, a->of.most);

	for (int32_t r = 0; r < a->of.n; r++) {
		const struct k_state_row *row = a->of.states + r;

		if (row->from == K_STATE_ZERO)
			memset(state, 0, bytes);
		else if (row->from >= 0)
			memcpy(state, state_of(&a->of, row->from, head), bytes);
		add_shares(a, r, head, &k);
		if (a->of.rows[r].pos % K_SPAN == K_SPAN - 1)
			end_span(a, r, &k, scratch);
		if (row->to >= 0)
			memcpy(state_of(&a->of, row->to, head), state, bytes);
	}
}

/* A unit is a kv head: the rows of a sequence come one after the other. */
void k_ref_account(struct k_op *op, int tid, int n_threads, void *scratch)
{
	const struct k_account *a = &op->u.account;
	float *state = scratch;
	int64_t lo, hi;

	k_split(a->of.n_kv_heads, tid, n_threads, &lo, &hi);
	for (int64_t head = lo; head < hi; head++)
		account(a, (int32_t)head, state, state + k_heavy_floats(a->of.most));
}
