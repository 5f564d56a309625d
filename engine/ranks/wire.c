/* A step's inputs as bytes, and back: one function for both directions. See ranks.h. */
#include <string.h>

#include "base/array.h"
#include "engine/ranks/ranks.h"

void wire_bytes(struct wire *w, void *p, size_t n)
{
	if (w->failed || (w->reads ? n > w->n - w->at : !ARRAY_ROOM(w->data, w->cap, w->n + n))) {
		w->failed = true;
		return;
	}
	if (w->reads)
		memcpy(p, w->data + w->at, n);
	else
		memcpy(w->data + w->n, p, n);
	w->at += w->reads ? n : 0;
	w->n += w->reads ? 0 : n;
}

static void wire_count(struct wire *w, int32_t *n, int32_t most)
{
	wire_bytes(w, n, sizeof *n);
	if (w->failed || *n < 0 || *n > most) {
		*n = 0;
		w->failed = true;
	}
}

#define WIRE_ARRAY(w, p, n) wire_bytes(w, p, (size_t)(n) * sizeof *(p))

/* Blocks of each sequence that the step's rows may read or write; returns how many there are, -1: a
 * row is of none. */
static int32_t count_blocks(const struct forward *f, int32_t *blocks)
{
	const int32_t page_size = f->store[0].kv.page_size;
	int32_t n_seqs = 0;

	for (int32_t r = 0; r < f->n_rows + f->n_also; r++) {
		const struct k_also *also = r < f->n_rows ? NULL : &f->also[r - f->n_rows];
		const int32_t own = also ? also->row : r;
		const int32_t seq = also ? also->seq : f->rows[r].seq;
		int32_t n;

		if (own < 0 || own >= f->n_rows || seq < 0 || seq >= f->max_rows)
			return -1;
		n = f->rows[own].pos / page_size + 1;
		for (; n_seqs <= seq; n_seqs++)
			blocks[n_seqs] = 0;
		blocks[seq] = n > blocks[seq] ? n : blocks[seq];
	}
	return n_seqs;
}

void wire_list(struct wire *w, const int32_t **list, int32_t n)
{
	const size_t bytes = (size_t)n * sizeof **list;

	if (!w->reads) {
		wire_bytes(w, (void *)(uintptr_t)*list, bytes);
	} else if (w->failed || n < 0 || bytes > w->n - w->at) {
		w->failed = true;
	} else {
		*list = (const int32_t *)(const void *)(w->data + w->at);
		w->at += bytes;
	}
}

static void wire_tables(struct wire *w, struct forward *f, int32_t n_groups)
{
	int32_t blocks[f->max_rows];
	const int32_t n_seqs = w->failed ? -1 : count_blocks(f, blocks);

	w->failed |= n_seqs < 0;
	for (int32_t g = 0; g < n_groups && !w->failed; g++)
		for (int32_t s = 0; s < n_seqs; s++)
			wire_list(w, &f->pages[g][s], blocks[s]);
}

void ranks_wire_step(struct wire *w, struct forward *f, int32_t n_groups)
{
	wire_count(w, &f->n_rows, f->max_rows);
	wire_count(w, &f->n_out, f->max_out);
	wire_count(w, &f->n_observed, f->max_observed);
	wire_count(w, &f->n_also, f->max_also);
	wire_count(w, &f->n_layers, f->model->config.n_layers);
	wire_count(w, &f->n_items, f->max_rows);
	WIRE_ARRAY(w, f->ids, f->n_rows);
	WIRE_ARRAY(w, f->rows, f->n_rows);
	WIRE_ARRAY(w, f->also, f->n_also);
	WIRE_ARRAY(w, f->out_row, f->n_out);
	WIRE_ARRAY(w, f->item_row, f->n_items);
	wire_tables(w, f, n_groups);
	for (int32_t g = 0; g < n_groups; g++)
		if (f->store[g].is_state)
			WIRE_ARRAY(w, f->state[g], f->n_rows);
}
