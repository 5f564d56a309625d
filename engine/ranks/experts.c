/* Expert parallelism (Lepikhin et al. 2020, "GShard", section 3.1): each rank has some experts of a
 * mixture whole. All ranks have all rows, and route them alike; what a slot's expert gives goes
 * from its rank to all others. See ranks.h. */
#include "engine/ranks/pack.h"
#include "engine/ranks/ranks.h"

static bool is_of(const struct ranks *k, const struct ranks_exchange *x, int32_t slot, int32_t part)
{
	const struct ranks_span own = ranks_span(x->n_experts, part, k->n);

	return x->ids[slot] >= own.first && x->ids[slot] < own.end;
}

/* Copies the slots of a rank; returns how many bytes they are. */
static size_t copy_slots(
	const struct ranks *k, const struct ranks_exchange *x, int32_t part, uint8_t *data, bool pack)
{
	const size_t row = (size_t)x->to.dim * sizeof *x->to.x;
	size_t n = 0;

	for (int32_t i = 0; i < x->n; i++) {
		float *slot = x->to.x + (size_t)i * (size_t)x->to.dim;

		if (!is_of(k, x, i, part))
			continue;
		n += pack_bytes(slot, data ? data + n : NULL, row, pack);
	}
	return n;
}

int ranks_gather_slots(struct ranks *k, const struct ranks_exchange *x, struct err *e)
{
	struct message out[TRANSPORT_RANKS], in[TRANSPORT_RANKS];
	const size_t own = copy_slots(k, x, k->rank, k->local, true);
	const int32_t base = k->stage * k->n;
	int32_t n_out = 0, n_in = 0;

	for (int32_t i = 1; i < k->n; i++) {
		const int32_t part = (k->rank + k->n - i) % k->n;
		const size_t bytes = copy_slots(k, x, part, NULL, false);

		if (own)
			out[n_out++] = (struct message){ base + (k->rank + i) % k->n, k->local, own };
		if (bytes)
			in[n_in++] =
				(struct message){ base + part, k->received + (size_t)part * k->local_bytes, bytes };
	}
	if (transport_exchange(k->transport, out, n_out, in, n_in, e))
		return -1;
	for (int32_t i = 0; i < k->n; i++)
		if (i != k->rank)
			copy_slots(k, x, i, k->received + (size_t)i * k->local_bytes, false);
	return 0;
}
