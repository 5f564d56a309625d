/* See pool.h. Texts are stored in linked blocks, since requests grow in turns; the blocks form a
 * ring, and the oldest is taken when all are full. Each place is linked to the one before it with
 * the same hash. A link may point into a block that was reused: pool_match detects that, and the
 * caller bounds the walk. */
#include "engine/draft/pool.h"

#include <stdlib.h>

#include "engine/draft/owners.h"

enum { BLOCK = 128, BLOCKS = POOL_TOKENS / BLOCK, HEADS = 1 << 15, WRITERS = 64, NONE = -1 };

struct block {
	int32_t id[BLOCK];
	int32_t older[BLOCK];     /* the place before with the same hash */
	int32_t n, before, after; /* blocks of the same text */
};

struct writer { /* a text that grows */
	int32_t n, last, block;
};

struct pool {
	struct block block[BLOCKS];
	int32_t head[HEADS];
	struct owners owners;
	struct writer writer[WRITERS]; /* by owner */
	int32_t min, next;             /* block to take */
};

int pool_open(struct pool **out, int32_t min, struct err *e)
{
	struct pool *p = calloc(1, sizeof *p);

	if (!p || !owners_open(&p->owners, WRITERS, 0)) {
		free(p);
		return err_no_memory(e, "the session's texts");
	}
	p->min = min;
	for (int i = 0; i < HEADS; i++)
		p->head[i] = NONE;
	for (int i = 0; i < BLOCKS; i++)
		p->block[i].before = p->block[i].after = NONE;
	for (int i = 0; i < WRITERS; i++)
		p->writer[i].block = NONE;
	*out = p;
	return 0;
}

void pool_close(struct pool *p)
{
	if (p)
		owners_close(&p->owners);
	free(p);
}

/* Hash of the min tokens before end. */
static uint32_t hash(const struct pool *p, const int32_t *end)
{
	uint32_t h = 0x811c9dc5u;

	for (int32_t i = 1; i <= p->min; i++)
		h = (h ^ (uint32_t)end[-i]) * 0x9e3779b1u;
	return (h ^ h >> 15) % HEADS;
}

/* The oldest block, which no request reads or writes any more. */
static int32_t take_block(struct pool *p)
{
	int32_t b = p->next;
	struct block *taken = &p->block[b];

	if (taken->before >= 0)
		p->block[taken->before].after = NONE;
	if (taken->after >= 0)
		p->block[taken->after].before = NONE;
	for (int i = 0; i < WRITERS; i++)
		if (p->writer[i].block == b)
			p->writer[i].block = NONE;
	taken->n = 0;
	taken->before = taken->after = NONE;
	p->next = (b + 1) % BLOCKS;
	return b;
}

static void append(struct pool *p, struct writer *w, const int32_t *ids, int32_t at)
{
	struct block *b = w->block < 0 ? NULL : &p->block[w->block];
	int32_t place;

	if (!b || b->n == BLOCK) {
		int32_t full = w->block, taken = take_block(p);

		full = w->block == NONE ? NONE : full; /* w's own block was the oldest */
		w->block = taken;
		b = &p->block[taken];
		b->before = full;
		if (full >= 0)
			p->block[full].after = taken;
	}
	place = w->block * BLOCK + b->n;
	b->id[b->n] = ids[at];
	b->older[b->n] = NONE;
	if (at + 1 >= p->min) {
		int32_t *head = &p->head[hash(p, ids + at + 1)];

		b->older[b->n] = *head;
		*head = place;
	}
	b->n++;
}

static struct writer *writer_of(struct pool *p, int64_t request)
{
	bool is_new;
	int32_t at = owners_take(&p->owners, request, &is_new);

	if (is_new)
		p->writer[at] = (struct writer){ .block = NONE };
	return &p->writer[at];
}

void pool_add(struct pool *p, int64_t request, const int32_t *ids, int32_t n)
{
	struct writer *w = writer_of(p, request);

	if (w->n > n || (w->n && ids[w->n - 1] != w->last)) /* it was rewound */
		w->n = n > BLOCK ? n - BLOCK : 0;
	for (; w->n < n; w->n++)
		append(p, w, ids, w->n);
	w->last = n ? ids[n - 1] : 0;
}

int32_t pool_find(const struct pool *p, const int32_t *ids, int32_t n, int32_t place)
{
	if (place >= 0)
		return p->block[place / BLOCK].older[place % BLOCK];
	return n < p->min ? NONE : p->head[hash(p, ids + n)];
}

int32_t pool_match(const struct pool *p, int32_t place, const int32_t *ids, int32_t n, int32_t max)
{
	const struct block *b = &p->block[place / BLOCK];
	int32_t at = place % BLOCK, length = 0;

	if (at >= b->n) /* of a text that was overwritten */
		return 0;
	for (; length < max && length < n && b->id[at] == ids[n - 1 - length]; length++)
		if (--at < 0) {
			if (b->before < 0)
				return length + 1;
			b = &p->block[b->before];
			at = BLOCK - 1;
		}
	return length;
}

int32_t pool_read(const struct pool *p, int32_t place, int32_t k, int32_t *out)
{
	const struct block *b = &p->block[place / BLOCK];
	int32_t at = place % BLOCK + 1, n = 0;

	while (n < k) {
		if (at == BLOCK && b->after >= 0) {
			b = &p->block[b->after];
			at = 0;
		}
		if (at >= b->n)
			break;
		out[n++] = b->id[at++];
	}
	return n;
}
