/* See grams.h. */
#include "engine/draft/grams.h"

#include <stdlib.h>
#include <string.h>

struct bucket {
	int32_t id, n;
};

struct grams {
	int32_t tail, each, count;
	struct bucket bucket[GRAMS_BUCKETS];
	int32_t tails[]; /* [GRAMS_BUCKETS][each][tail] */
};

int grams_open(struct grams **out, int32_t n, int32_t each, struct err *e)
{
	size_t size = sizeof(int32_t) * GRAMS_BUCKETS * (size_t)each * (size_t)(n - 1);
	struct grams *g = calloc(1, sizeof *g + size);

	if (!g)
		return err_set(e, ERR_MEMORY, "no memory for the pool of n-grams");
	g->tail = n - 1;
	g->each = each;
	*out = g;
	return 0;
}

void grams_close(struct grams *g)
{
	free(g);
}

static size_t place_of(int32_t id)
{
	return ((uint32_t)id * 0x9e3779b1u) >> 19;
}

bool grams_add(struct grams *g, const int32_t *gram)
{
	size_t place = place_of(gram[0]), size = (size_t)g->tail * sizeof *gram;
	struct bucket *b = &g->bucket[place];
	int32_t *tails = g->tails + place * (size_t)(g->each * g->tail), at;
	bool is_new;

	if (b->id != gram[0]) { /* another token's */
		g->count -= b->n;
		b->n = 0;
		b->id = gram[0];
	}
	for (at = 0; at < b->n && memcmp(tails + at * g->tail, gram + 1, size); at++)
		;
	is_new = at == b->n;
	if (is_new && b->n < g->each) {
		b->n++;
		g->count++;
	}
	at = at == g->each ? at - 1 : at;
	memmove(tails + g->tail, tails, (size_t)at * size);
	memcpy(tails, gram + 1, size);
	return is_new;
}

int32_t grams_find(const struct grams *g, int32_t id, const int32_t **tails)
{
	size_t place = place_of(id);

	*tails = g->tails + place * (size_t)(g->each * g->tail);
	return g->bucket[place].id == id ? g->bucket[place].n : 0;
}

int32_t grams_count(const struct grams *g)
{
	return g->count;
}
