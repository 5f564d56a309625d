/* Encoding: special tokens, words, byte pairs (Sennrich et al. 2016). See tokenizer.h.
 *
 * A word's pairs wait in a heap ordered by (rank, position), its symbols in a linked list: n log n
 * also for a megabyte without a space. A pair in the heap may be out of date; that shows when it
 * comes up. */
#include <stdlib.h>
#include <string.h>

#include "engine/tokenizer_private.h"

struct symbol {
	int32_t id; /* -1: it is part of its neighbour now */
	int32_t prev, next;
};

struct encoder {
	const struct tokenizer *t;
	int32_t **ids;
	size_t *n, *cap;
	struct err *e;

	struct symbol *symbol; /* [room] */
	uint64_t *heap;		   /* [3 * room] rank << 32 | position, the least first */
	size_t room, n_heap;
};

static int push_id(struct encoder *c, int32_t id)
{
	if (*c->n == *c->cap) {
		size_t cap = *c->cap ? 2 * *c->cap : 64;
		int32_t *p = realloc(*c->ids, cap * sizeof *p);

		if (!p)
			return err_set(c->e, ERR_MEMORY, "no memory for %zu token ids", cap);
		*c->ids = p;
		*c->cap = cap;
	}
	(*c->ids)[(*c->n)++] = id;
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

static void push_pair(struct encoder *c, int32_t i)
{
	int32_t next = i < 0 ? -1 : c->symbol[i].next, rank;

	if (next < 0)
		return;
	rank = tokenizer_find_merge(c->t, c->symbol[i].id, c->symbol[next].id);
	if (rank >= 0)
		heap_push(c, (uint64_t)rank << 32 | (uint32_t)i);
}

static int make_room(struct encoder *c, size_t n)
{
	size_t room = n < 64 ? 64 : n;

	if (n <= c->room)
		return 0;
	free(c->symbol);
	free(c->heap);
	c->room = 0;
	c->symbol = malloc(room * sizeof *c->symbol);
	/* n - 1 pairs at first, and at most two more for each of at most n - 1 merges. */
	c->heap = malloc(3 * room * sizeof *c->heap);
	if (!c->symbol || !c->heap)
		return err_set(c->e, ERR_MEMORY, "no memory to tokenise a word of %zu bytes", n);
	c->room = room;
	return 0;
}

/* One symbol a byte; bytes without a token are left out. */
static int32_t split_word(struct encoder *c, const char *word, size_t size)
{
	int32_t n = 0;

	for (size_t i = 0; i < size; i++) {
		int32_t id = c->t->byte[(unsigned char)word[i]];

		if (id < 0)
			continue;
		c->symbol[n] = (struct symbol){id, n - 1, n + 1};
		n++;
	}
	if (n)
		c->symbol[n - 1].next = -1;
	return n;
}

static void merge_pairs(struct encoder *c)
{
	while (c->n_heap) {
		uint64_t top = heap_pop(c);
		int32_t i = (int32_t)(uint32_t)top, next = c->symbol[i].next;
		const struct merge *m = &c->t->merge[top >> 32];

		if (c->symbol[i].id != m->left || next < 0 || c->symbol[next].id != m->right)
			continue;
		c->symbol[i].id = m->out;
		c->symbol[i].next = c->symbol[next].next;
		c->symbol[next].id = -1;
		if (c->symbol[i].next >= 0)
			c->symbol[c->symbol[i].next].prev = i;
		push_pair(c, c->symbol[i].prev);
		push_pair(c, i);
	}
}

static int encode_word(struct encoder *c, const char *word, size_t size)
{
	int32_t n, id = -1;

	if (c->t->whole_words)
		id = tokenizer_find_word(c->t, word, size);
	if (id >= 0)
		return push_id(c, id);
	if (make_room(c, size))
		return -1;
	n = split_word(c, word, size);
	for (int32_t i = 0; i < n; i++)
		push_pair(c, i);
	merge_pairs(c);
	for (int32_t i = n ? 0 : -1; i >= 0; i = c->symbol[i].next)
		if (push_id(c, c->symbol[i].id))
			return -1;
	return 0;
}

static int encode_plain(struct encoder *c, const char *text, size_t size)
{
	for (size_t at = 0, n; at < size; at += n) {
		n = pre_next(c->t->pre, text + at, size - at);
		if (encode_word(c, text + at, n))
			return -1;
	}
	return 0;
}

/* The first special token in text. Control tokens only if asked for; user tokens always. */
static int32_t find_special(const struct tokenizer *t, const char *text, size_t size, bool control,
							size_t *at, size_t *used)
{
	for (size_t i = 0; i < size; i++) {
		unsigned char first = (unsigned char)text[i];

		for (int32_t k = t->special_first[first]; k < t->special_first[first + 1]; k++) {
			int32_t id = t->special[k];
			size_t n = t->start[id + 1] - t->start[id];

			if (n > size - i || memcmp(t->bytes + t->start[id], text + i, n) ||
				(t->kind[id] == TOKEN_CONTROL && !control))
				continue;
			*at = i;
			*used = n;
			return id;
		}
	}
	return -1;
}

int32_t tokenizer_find_special(const struct tokenizer *t, const char *text, size_t size, size_t *at,
							   size_t *used)
{
	return find_special(t, text, size, true, at, used);
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t size, bool special,
					 int32_t **ids, size_t *n, size_t *cap, struct err *e)
{
	struct encoder c = {.t = t, .ids = ids, .n = n, .cap = cap, .e = e};
	size_t at, used;
	int32_t id;
	int rc = 0;

	if (size > INT32_MAX)
		return err_set(e, ERR_USAGE, "a text of %zu bytes is too long to tokenise", size);
	while (!rc && size) {
		id = find_special(t, text, size, special, &at, &used);
		if (id < 0) {
			rc = encode_plain(&c, text, size);
			break;
		}
		rc = encode_plain(&c, text, at) || push_id(&c, id) ? -1 : 0;
		text += at + used;
		size -= at + used;
	}
	free(c.symbol);
	free(c.heap);
	return rc;
}
