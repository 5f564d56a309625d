/* A step's inputs: what ops read of the host's own memory, ids, rows, block tables, the cache's
 * shape, how attention is split; gathered into one piece before each run, at fixed offsets. Thread:
 * the engine's. */
#include <string.h>

#include "kernels/cuda/cuda.h"

enum { ALIGN = 64, TABLE_ALIGN = 16, INPUT = 1 << 20 };

static bool same_masks(const struct cu_masks *a, const struct cu_masks *b)
{
	return a->rows == b->rows && a->pages == b->pages && a->kv == b->kv && a->n == b->n &&
		   a->n_ranges == b->n_ranges && a->n_heads == b->n_heads && a->all_heads == b->all_heads &&
		   a->observed == b->observed && a->whole == b->whole;
}

static const struct cu_input *find_input(const struct cu_program *g, const struct cu_input *like)
{
	for (int32_t i = 0; i < g->n_inputs; i++)
		if (g->input[i].kind == like->kind && g->input[i].from == like->from &&
			g->input[i].bytes == like->bytes && same_masks(&g->input[i].masks, &like->masks))
			return &g->input[i];
	return NULL;
}

const void *cu_add_input(
	const struct cu_device *c, struct cu_program *g, struct cu_input *in, struct err *e)
{
	const struct cu_input *have = find_input(g, in);

	if (!have) {
		if (g->n_inputs == CU_MAX_INPUTS) {
			err_set(e, ERR_DEVICE, "a program with more than %d inputs", CU_MAX_INPUTS);
			return NULL;
		}
		in->at = g->input_bytes;
		g->input_bytes = k_align(in->at + in->bytes, ALIGN);
		g->input[g->n_inputs] = *in;
		have = &g->input[g->n_inputs++];
	}
	return (const void *)(uintptr_t)(c->input.at + have->at);
}

static int32_t n_sequences(const struct cu_input *in)
{
	int32_t most = -1;

	for (int32_t r = 0; r < in->n; r++)
		most = k_max(in->rows[r].seq, most);
	return most + 1;
}

/* Pages that the rows of a sequence see. */
static int32_t n_pages(const struct cu_input *in, int32_t seq)
{
	int32_t last = -1;

	for (int32_t r = 0; r < in->n; r++)
		if (in->rows[r].seq == seq && in->rows[r].pos > last)
			last = in->rows[r].pos;
	return last < 0 ? 0 : last / in->kv->page_size + 1;
}

/* Copies the block tables after `at`, and their addresses to where kernels read them; with host
 * NULL it only counts. */
static size_t gather_tables(
	const struct cu_device *c, const struct cu_input *in, size_t at, unsigned char *host)
{
	const int32_t *const *pages = in->from;

	for (int32_t s = 0, n = n_sequences(in); s < n; s++) {
		const size_t bytes = (size_t)n_pages(in, s) * sizeof **pages;

		if (host) {
			((uint64_t *)(void *)(host + in->at))[s] = c->input.at + at;
			memcpy(host + at, pages[s], bytes);
		}
		at = k_align(at + bytes, TABLE_ALIGN);
	}
	return at;
}

struct cu_work cu_work_of(const struct cu_device *c)
{
	return (struct cu_work){
		.ticket = (uint32_t *)(uintptr_t)c->tickets.at,
		.n_tickets = (int32_t)(c->tickets.bytes / sizeof(uint32_t)),
		.scratch = (unsigned char *)(uintptr_t)c->scratch.at,
		.scratch_bytes = c->scratch.bytes,
	};
}

/* Likewise of tiles, of which it counts as many as there may be. */
static size_t gather_tiles(
	const struct cu_device *c, const struct cu_input *in, size_t at, unsigned char *host)
{
	const struct cu_masks *s = &in->masks;
	const struct cu_work work = cu_work_of(c);
	const size_t tile = k_align(at + (size_t)s->n * sizeof(int32_t), ALIGN);
	struct cu_tiles head = { .tile = (const struct cu_tile *)(uintptr_t)(c->input.at + tile),
		.record = (const int32_t *)(uintptr_t)(c->input.at + at) };

	head.split = cu_tiles_split(s, &work, &head.n);
	if (host) {
		cu_tiles_make(
			s, &head, (struct cu_tile *)(void *)(host + tile), (int32_t *)(void *)(host + at));
		memcpy(host + in->at, &head, sizeof head);
	}
	return k_align(tile + (size_t)head.n * sizeof(struct cu_tile), ALIGN);
}

static size_t gather_rest(
	const struct cu_device *c, const struct cu_input *in, size_t at, unsigned char *host)
{
	return in->kind == CU_TABLES ? gather_tables(c, in, at, host)
								 : gather_tiles(c, in, k_align(at, ALIGN), host);
}

int cu_grow_input(struct cu_device *c, size_t bytes, struct err *e)
{
	void *host;

	bytes = k_align(bytes + bytes / 2, INPUT);
	host = cu_alloc_pinned(c, bytes, "the inputs of a step", e);
	if (!host)
		return -1;
	if (cu_grow(c, &c->input, bytes, "the inputs of a step", e)) {
		c->d->host_free(host);
		return -1;
	}
	if (c->input_host)
		c->d->host_free(c->input_host);
	c->input_host = host;
	return 0;
}

/* Grows the scratch where attention needs it: 1, and programs were dropped. */
static int grow_scratch(struct cu_device *c, const struct cu_masks *s, struct err *e)
{
	const uint64_t bytes = cu_tiles_bytes(s);

	if (cu_attend_kernels(s) != CU_ATTEND_FEW || bytes <= c->scratch.bytes)
		return 0;
	return cu_grow(c, &c->scratch, bytes + bytes / 2,
			   "partial results of attention; try a smaller --ctx", e)
			   ? -1
			   : 1;
}

int cu_gather(struct cu_device *c, const struct cu_program *g, size_t *bytes, struct err *e)
{
	size_t end = g->input_bytes;

	for (int32_t i = 0; i < g->n_inputs; i++) {
		if (g->input[i].kind == CU_PLAIN)
			continue;
		if (g->input[i].kind == CU_TABLES && n_sequences(&g->input[i]) > g->input[i].n)
			return err_set(e, ERR_DEVICE, "a step whose rows name more sequences than it has rows");
		if (g->input[i].kind == CU_TILES) {
			const int grown = grow_scratch(c, &g->input[i].masks, e);

			if (grown)
				return grown;
		}
		end = gather_rest(c, &g->input[i], end, NULL);
	}
	if (end > c->input.bytes)
		return cu_grow_input(c, end, e) ? -1 : 1;
	end = g->input_bytes;
	for (int32_t i = 0; i < g->n_inputs; i++) {
		const struct cu_input *in = &g->input[i];

		if (in->kind == CU_PLAIN)
			memcpy(c->input_host + in->at, in->from, in->bytes);
		else
			end = gather_rest(c, in, end, c->input_host);
	}
	*bytes = end;
	return 0;
}
