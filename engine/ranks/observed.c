/* What attention's observed rows were found to be, of the heads of all ranks, so that rank 0 tells
 * what one rank would. See ranks.h. */
#include "base/array.h"
#include "engine/ranks/pack.h"
#include "engine/ranks/ranks.h"

/* Whether a rank tells what an observed row was found to be: of ranks that share rows the one that
 * computed it. */
static bool tells(const struct ranks *k, const struct forward *f, int32_t rank, int32_t observe)
{
	if (k->n_sequence < 2)
		return true;
	for (int32_t r = k->row[rank]; r < k->row[rank + 1]; r++)
		if (f->rows[r].observe == observe)
			return true;
	return false;
}

static size_t n_told(const struct ranks *k, const struct forward *f, int32_t rank)
{
	size_t n = 0;

	for (int32_t o = 0; o < f->n_observed; o++)
		n += tells(k, f, rank, o);
	return n;
}

/* The ranks of a sequence are no stages. */
static int32_t stage_of(const struct ranks *k, int32_t rank)
{
	return k->n_sequence > 1 ? 0 : rank / k->n;
}

/* Of what is not split, the first part of a stage tells all. */
static int32_t own_heads(const struct ranks *k, const struct ranks_heads *h, int32_t rank)
{
	const int32_t stage = stage_of(k, rank), part = rank % k->n;
	const struct ranks_span kv = ranks_span(h->whole_kv, part, k->n);

	if (h->layer < k->layer[stage] || h->layer >= k->layer[stage + 1])
		return 0;
	return h->whole_kv ? h->whole / h->whole_kv * (kv.end - kv.first) : part ? 0 : h->whole;
}

static int32_t first_head(const struct ranks *k, const struct ranks_heads *h, int32_t rank)
{
	return h->whole_kv ? h->whole / h->whole_kv * ranks_span(h->whole_kv, rank % k->n, k->n).first
					   : 0;
}

/* Layers whose near zeros rank 0 does not know: of other stages and other rows. */
static size_t near_layers(const struct ranks *k, int32_t rank)
{
	const int32_t stage = stage_of(k, rank);

	if (rank % k->n || (k->n_stages < 2 && k->n_sequence < 2))
		return 0;
	return (size_t)(k->layer[stage + 1] - k->layer[stage]);
}

enum { NEAR_BYTES = K_NEAR * sizeof(int32_t) };

/* Bytes that a rank sends of all layers. */
static size_t rank_bytes(const struct ranks *k, const struct forward *f, int32_t rank)
{
	size_t n = 2 * near_layers(k, rank) * NEAR_BYTES;

	for (int32_t i = 0; i < k->n_heads; i++) {
		const struct k_attention *a = &f->program.op[k->heads[i].op].u.attention;

		n += (size_t)own_heads(k, &k->heads[i], rank) *
			 ((size_t)a->share_stride * sizeof *a->share + sizeof *a->near_zero);
	}
	return n * n_told(k, f, rank);
}

/* Near zeros of activations, for one observed row. */
static uint8_t *copy_near(const struct ranks *k, const struct forward *f, uint8_t *data,
	int32_t rank, int32_t observe, bool pack)
{
	const size_t first = (size_t)k->layer[stage_of(k, rank)];

	for (size_t l = first; l < first + near_layers(k, rank); l++) {
		const size_t at = (l * (size_t)f->n_observed + (size_t)observe) * K_NEAR;

		data += pack_bytes(f->observed.mixed_near + at, data, NEAR_BYTES, pack);
		data += pack_bytes(f->observed.inner_near + at, data, NEAR_BYTES, pack);
	}
	return data;
}

/* What a rank has of the observed rows that it tells of. */
static void copy_rank(
	const struct ranks *k, const struct forward *f, uint8_t *data, int32_t rank, bool pack)
{
	for (int32_t o = 0; o < f->n_observed; o++) {
		if (!tells(k, f, rank, o))
			continue;
		data = copy_near(k, f, data, rank, o, pack);
		for (int32_t i = 0; i < k->n_heads; i++) {
			const struct k_attention *a = &f->program.op[k->heads[i].op].u.attention;
			const size_t n = (size_t)own_heads(k, &k->heads[i], rank);
			const size_t at = (size_t)o * (size_t)a->n_heads +
							  (size_t)(pack ? 0 : first_head(k, &k->heads[i], rank));

			if (!n)
				continue;
			data += pack_bytes(a->share + at * (size_t)a->share_stride, data,
				n * (size_t)a->share_stride * sizeof *a->share, pack);
			data += pack_bytes(a->near_zero + at, data, n * sizeof *a->near_zero, pack);
		}
	}
}

/* Where rows chose, each rank's heads chose for themselves: only rank 0's are told. */
static bool is_whole(const struct ranks *k, const struct forward *f)
{
	for (int32_t i = 0; i < k->n_heads; i++)
		if (f->program.op[k->heads[i].op].u.attention.selected)
			return false;
	return true;
}

/* Ops then say how many heads there are, until ranks_run() sets them back. */
static void tell_whole(const struct ranks *k, const struct forward *f)
{
	for (int32_t i = 0; i < k->n_heads; i++) {
		struct k_attention *a = &f->program.op[k->heads[i].op].u.attention;

		if (k->heads[i].group < 0)
			continue;
		a->n_heads = k->heads[i].whole;
		a->kv = &k->whole_store[k->heads[i].group];
	}
}

void ranks_own_heads(const struct ranks *k, struct forward *f)
{
	for (int32_t i = 0; i < k->n_heads; i++) {
		const struct ranks_heads *h = &k->heads[i];
		struct k_attention *a = &f->program.op[h->op].u.attention;
		const struct ranks_span kv = ranks_span(h->whole_kv, k->rank, k->n);

		if (h->group < 0)
			continue;
		a->n_heads = h->whole / h->whole_kv * (kv.end - kv.first);
		a->kv = &f->store[h->group].kv;
	}
}

int ranks_gather_observed(struct ranks *k, struct forward *f, struct err *e)
{
	const int32_t n = k->transport->n;
	struct message in[TRANSPORT_RANKS];
	size_t all = 0;
	uint8_t *at;

	if (!f->n_observed || !is_whole(k, f))
		return 0;
	for (int32_t r = 0; r < n; r++)
		all += rank_bytes(k, f, r);
	if (!ARRAY_ROOM(k->observed, k->cap_observed, all + 1))
		return err_no_memory(e, "what ranks observed");
	copy_rank(k, f, k->observed, k->transport->rank, true);
	if (k->transport->rank)
		return transport_control(k->transport,
			&(struct message){ 0, k->observed, rank_bytes(k, f, k->transport->rank) }, 1, NULL, 0,
			false, e);
	at = k->observed + rank_bytes(k, f, 0);
	for (int32_t r = 1; r < n; r++) {
		in[r - 1] = (struct message){ r, at, rank_bytes(k, f, r) };
		at += in[r - 1].bytes;
	}
	if (transport_control(k->transport, NULL, 0, in, n - 1, false, e))
		return -1;
	tell_whole(k, f);
	copy_rank(k, f, k->observed, 0, false);
	for (int32_t r = 1; r < n; r++)
		copy_rank(k, f, in[r - 1].data, r, false);
	return 0;
}
