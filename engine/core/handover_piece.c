/* Messages of a handed-over prompt. See handover_impl.h. Hashes are XXH64. */
#include <xxhash.h>

#include "base/array.h"
#include "engine/core/handover_impl.h"

enum { MOST_BYTES = 1 << 30 };

int piece_send(struct transport *t, struct piece *p, void *data, struct err *err)
{
	p->hash = p->bytes ? XXH64(data, p->bytes, 0) : 0;
	if (transport_control(t, &(struct message){ !t->rank, p, sizeof *p }, 1, NULL, 0, false, err))
		return -1;
	return p->bytes ? transport_exchange(
						  t, &(struct message){ !t->rank, data, p->bytes }, 1, NULL, 0, err)
					: 0;
}

int piece_receive(
	struct transport *t, struct piece *p, uint8_t **data, size_t *cap, struct err *err)
{
	if (transport_control(t, NULL, 0, &(struct message){ !t->rank, p, sizeof *p }, 1, true, err))
		return -1;
	if (p->bytes > MOST_BYTES || !ARRAY_ROOM(*data, *cap, p->bytes + 1))
		return err_no_memory(err, "a message of %llu bytes", (unsigned long long)p->bytes);
	(*data)[p->bytes] = '\0';
	return p->bytes ? transport_exchange(
						  t, NULL, 0, &(struct message){ !t->rank, *data, p->bytes }, 1, err)
					: 0;
}

bool piece_is_whole(const struct piece *p, const uint8_t *data)
{
	return !p->bytes || XXH64(data, p->bytes, 0) == p->hash;
}

void job_wire(struct wire *w, struct job_wire *j, int32_t n_groups)
{
	wire_bytes(w, &j->first, sizeof j->first);
	wire_bytes(w, &j->n, sizeof j->n);
	wire_bytes(w, &j->n_blocks, sizeof j->n_blocks);
	wire_bytes(w, &j->n_give, sizeof j->n_give);
	wire_bytes(w, &j->chunk, sizeof j->chunk);
	wire_list(w, &j->ids, j->n);
	for (int32_t g = 0; g < n_groups; g++)
		wire_list(w, &j->page[g], j->n_blocks);
}
