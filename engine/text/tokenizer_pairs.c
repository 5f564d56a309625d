/* Joining pairs of neighbouring symbols until none can be joined: BPE by the rank of a merge,
 * SentencePiece by the score of the token that both make. See tokenizer.h.
 *
 * The pairs wait in a binary heap of keys, urgency << 32 | position, so that of equally urgent ones
 * the leftmost comes first; the symbols are a linked list: n log n also for a megabyte without a
 * space. */
#include "engine/text/tokenizer_private.h"

int encoder_make_room(struct encoder *c, size_t n, size_t item)
{
	size_t room = n < 64 ? 64 : n;

	if (n <= c->room)
		return 0;
	free(c->symbol);
	free(c->heap);
	c->room = 0;
	c->symbol = malloc(room * item);
	/* n - 1 pairs at first, and at most two more for each of at most n - 1 merges. */
	c->heap = malloc(3 * room * sizeof *c->heap);
	if (!c->symbol || !c->heap)
		return err_set(c->e, ERR_MEMORY, "no memory to tokenise a word of %zu symbols", n);
	c->room = room;
	return 0;
}

static void heap_push(struct encoder *c, uint64_t v)
{
	size_t i = c->n_heap++;

	for (size_t up; i && c->heap[up = (i - 1) / 2] > v; i = up)
		c->heap[i] = c->heap[up];
	c->heap[i] = v;
}

static uint64_t heap_pop(struct encoder *c)
{
	uint64_t top = c->heap[0], v = c->heap[--c->n_heap];
	size_t i = 0, down;

	while ((down = 2 * i + 1) < c->n_heap) {
		down += down + 1 < c->n_heap && c->heap[down + 1] < c->heap[down];
		if (c->heap[down] >= v)
			break;
		c->heap[i] = c->heap[down];
		i = down;
	}
	c->heap[i] = v;
	return top;
}

/* The rank of a merge is its urgency. */
static uint64_t urgency(const struct tokenizer *t, int32_t pair)
{
	return t->order ? t->order[pair] : (uint32_t)pair;
}

static void find_pair(struct encoder *c, int32_t i)
{
	struct symbol *s = (struct symbol *)c->symbol + i, *next;
	size_t size;

	s->pair = -1;
	if (s->next < 0)
		return;
	next = (struct symbol *)c->symbol + s->next;
	size = (size_t)s->size + (size_t)next->size;
	if (!c->t->order)
		s->pair = tokenizer_find_merge(c->t, s->id, next->id);
	else if (size <= c->t->longest)
		s->pair = tokenizer_find_word(c->t, c->text + s->at, size);
	if (s->pair >= 0)
		heap_push(c, urgency(c->t, s->pair) << 32 | (uint32_t)i);
}

/* A key taken from the heap may belong to a pair that was joined. If another pair of the same
 * urgency is at that position now, its key is equal, so joining it is right. */
void encoder_join(struct encoder *c, int32_t n)
{
	struct symbol *symbol = c->symbol;

	for (int32_t i = 0; i < n; i++)
		find_pair(c, i);
	while (c->n_heap) {
		uint64_t top = heap_pop(c);
		int32_t i = (int32_t)(uint32_t)top;
		struct symbol *s = &symbol[i], *next;

		if (s->pair < 0 || urgency(c->t, s->pair) != top >> 32)
			continue;
		next = &symbol[s->next];
		s->id = c->t->order ? s->pair : c->t->merge[s->pair].out;
		s->size += next->size;
		s->next = next->next;
		next->pair = -1;
		if (s->next >= 0)
			symbol[s->next].prev = i;
		if (s->prev >= 0)
			find_pair(c, s->prev);
		find_pair(c, i);
	}
}
