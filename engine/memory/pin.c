/* See pin.h. */
#include "engine/memory/pin.h"

#include <stdlib.h>
#include <string.h>

/* Does a pin of so many blocks keep block b's page of group g? Who goes on from its end reads it,
 * or who computes its last token again. */
static bool keeps(const struct memory *m, int32_t g, int32_t n_blocks, int32_t b)
{
	const int32_t end = n_blocks * m->page_size;

	return b == n_blocks - 1 || memory_reads_block(m, g, end, b) ||
		   memory_reads_block(m, g, end - 1, b);
}

/* Whole blocks from the first on that are equal, of at most n. */
static int32_t common_blocks(const int32_t *a, const int32_t *b, int32_t n, int32_t size)
{
	const size_t bytes = (size_t)size * sizeof *a;
	int32_t i = 0;

	while (i < n && !memcmp(a + (size_t)i * (size_t)size, b + (size_t)i * (size_t)size, bytes))
		i++;
	return i;
}

struct pin *pin_find(const struct prefix *p, int64_t number)
{
	for (int32_t i = 0; i < p->n_pins; i++)
		if (p->pin[i].number == number)
			return &p->pin[i];
	return NULL;
}

/* Of the first n blocks of a pin those that a sequence with this adapter and these tokens begins
 * with. */
static int32_t alike_blocks(
	const struct prefix *p, const struct pin *pin, int32_t adapter, const int32_t *ids, int32_t n)
{
	return pin->adapter == adapter ? common_blocks(pin->ids, ids, n, p->memory->page_size) : 0;
}

struct pin *pin_same(const struct prefix *p, int32_t adapter, const int32_t *ids, int32_t n_blocks)
{
	for (int32_t i = 0; i < p->n_pins; i++)
		if (p->pin[i].n_blocks == n_blocks &&
			alike_blocks(p, &p->pin[i], adapter, ids, n_blocks) == n_blocks)
			return &p->pin[i];
	return NULL;
}

struct pin *pin_add(struct prefix *p, const struct pin *like, struct err *e)
{
	const size_t bytes = (size_t)like->n_blocks * (size_t)p->memory->page_size * sizeof *like->ids;
	struct pin *pin = &p->pin[p->n_pins];
	int32_t *ids;

	if (p->n_pins == PINS_MOST) {
		err_set(e, ERR_USAGE, "there are %d pins already, which is the most", PINS_MOST);
		return NULL;
	}
	ids = malloc(bytes);
	if (!ids) {
		err_no_memory(e, "a pin of %d blocks", like->n_blocks);
		return NULL;
	}
	memcpy(ids, like->ids, bytes);
	*pin = *like;
	pin->ids = ids;
	pin->reached = 0;
	pin->node = -1 - like->adapter;
	pin->key = (uint64_t)like->adapter;
	p->n_pins++;
	return pin;
}

void pin_extend(struct prefix *p, struct pin *pin)
{
	const struct memory *m = p->memory;

	while (pin->reached < pin->n_blocks) {
		const int32_t b = pin->reached;
		const int32_t node =
			prefix_next(p, pin->node, pin->ids + (size_t)b * (size_t)m->page_size, &pin->key);
		bool lacks = false;

		for (int32_t g = 0; node >= 0 && g < m->spec.n; g++)
			lacks |= p->node[node].page[g] < 0 && keeps(m, g, pin->n_blocks, b);
		if (node < 0 || lacks)
			return;
		p->node[node].pins++;
		for (int32_t g = 0; g < m->spec.n; g++)
			if (keeps(m, g, pin->n_blocks, b))
				pages_pin(&p->memory->pages[g], p->node[node].page[g], pin->number, b);
		pin->node = node;
		pin->reached++;
	}
}

/* From the last block back to the first. */
static void let_go(struct prefix *p, const struct pin *pin)
{
	const struct memory *m = p->memory;
	int32_t node = pin->node;

	for (int32_t b = pin->reached - 1; b >= 0; b--, node = p->node[node].parent) {
		for (int32_t g = 0; g < m->spec.n; g++)
			if (keeps(m, g, pin->n_blocks, b))
				pages_unpin(&p->memory->pages[g], p->node[node].page[g], pin->number, b);
		p->node[node].pins--;
	}
	prefix_tidy(p, pin->node);
}

void pin_drop(struct prefix *p, struct pin *pin)
{
	const size_t after = (size_t)(p->pin + p->n_pins - (pin + 1));

	let_go(p, pin);
	free(pin->ids);
	memmove(pin, pin + 1, after * sizeof *pin);
	p->n_pins--;
}

int32_t pin_pages(const struct prefix *p, int32_t g, const struct pin *pin)
{
	int32_t n = 0;

	for (int32_t b = 0; b < pin->n_blocks; b++)
		n += keeps(p->memory, g, pin->n_blocks, b);
	return n;
}

/* The i-th pin; after the last comes `more`. */
static const struct pin *nth(const struct prefix *p, const struct pin *more, int32_t i)
{
	return i < p->n_pins ? &p->pin[i] : more;
}

static int32_t fewer(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

/* Is block b's page of group g, of a path that is alike with the first `n` pins in so many blocks,
 * kept by one of them? */
static bool kept_by_any(const struct prefix *p, const struct pin *more, const int32_t *alike,
	int32_t n, int32_t g, int32_t b)
{
	for (int32_t i = 0; i < n; i++)
		if (alike[i] > b && keeps(p->memory, g, nth(p, more, i)->n_blocks, b))
			return true;
	return false;
}

/* With each of the first n pins. */
static void compare_paths(const struct prefix *p, const struct pin *more, int32_t n,
	int32_t adapter, const int32_t *ids, int32_t n_blocks, int32_t alike[PINS_MOST + 1])
{
	for (int32_t i = 0; i < n; i++)
		alike[i] = alike_blocks(
			p, nth(p, more, i), adapter, ids, fewer(nth(p, more, i)->n_blocks, n_blocks));
}

int32_t pins_pages(const struct prefix *p, int32_t g, const struct pin *more)
{
	const int32_t n_pins = p->n_pins + (more != NULL);
	int32_t alike[PINS_MOST + 1], n = 0;

	for (int32_t i = 0; i < n_pins; i++) {
		const struct pin *pin = nth(p, more, i);

		compare_paths(p, more, i, pin->adapter, pin->ids, pin->n_blocks, alike);
		for (int32_t b = 0; b < pin->n_blocks; b++)
			n += keeps(p->memory, g, pin->n_blocks, b) && !kept_by_any(p, more, alike, i, g, b);
	}
	return n;
}

int32_t pins_shared(const struct prefix *p, int32_t g, const struct pin *more, int32_t adapter,
	const int32_t *ids, int32_t n)
{
	const int32_t n_pins = p->n_pins + (more != NULL), n_blocks = n / p->memory->page_size;
	int32_t alike[PINS_MOST + 1], shared = 0;

	compare_paths(p, more, n_pins, adapter, ids, n_blocks, alike);
	for (int32_t b = 0; b < n_blocks; b++)
		shared += kept_by_any(p, more, alike, n_pins, g, b);
	return shared;
}

struct pin *pins_giving(
	const struct prefix *p, int32_t adapter, const int32_t *ids, int32_t n_blocks, int32_t *blocks)
{
	struct pin *best = NULL;

	*blocks = 0;
	for (int32_t i = 0; i < p->n_pins; i++) {
		const int32_t n =
			alike_blocks(p, &p->pin[i], adapter, ids, fewer(p->pin[i].reached, n_blocks));

		if (n > *blocks) {
			*blocks = n;
			best = &p->pin[i];
		}
	}
	return best;
}
