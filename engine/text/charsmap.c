/* See charsmap.h.
 *
 * The rules are a trie in a double array (Aoe 1989), as Darts-clone packs it: a node at index i has
 * its child by byte b at i ^ offset(i) ^ b, if the unit there is labelled b. A node that ends a
 * rule has one more child, by byte 0, whose unit is a value: where the replacement begins. Units,
 * of 32 bits: 0-7 the label, 8 whether there is a value, 10-30 the offset, in steps of 256 if bit 9
 * is set; bit 31 marks a value, so that no byte is its label. */
#include "engine/text/charsmap.h"

#include <stdlib.h>
#include <string.h>

#define IS_VALUE (UINT32_C(1) << 31)

struct charsmap {
	size_t n_units, n_text;
	const char *text; /* [n_text] the replacements, behind the units */
	uint32_t unit[];  /* [n_units] */
};

static uint32_t offset_of(uint32_t unit)
{
	return unit >> 10 << (unit >> 9 & 1 ? 8 : 0);
}

int charsmap_open(struct charsmap **out, const uint8_t *data, size_t size, struct err *e)
{
	uint32_t trie = 0;
	struct charsmap *m;

	*out = NULL;
	if (size >= 4)
		memcpy(&trie, data, 4);
	if (size < 4 || trie > size - 4 || trie % 4)
		return err_set(e, ERR_INPUT, "the trie of the table is not in its %zu bytes", size);
	m = calloc(1, sizeof *m + size);
	if (!m)
		return err_no_memory(e, "a table of %zu bytes", size);
	m->n_units = trie / 4;
	m->n_text = size - 4 - trie;
	m->text = (const char *)(m->unit + m->n_units);
	memcpy(m->unit, data + 4, size - 4);
	*out = m;
	return 0;
}

void charsmap_close(struct charsmap *m)
{
	free(m);
}

static bool read_replacement(const struct charsmap *m, uint32_t unit, struct gguf_text *out)
{
	size_t at = unit & ~IS_VALUE, most;
	const char *end;

	if (at >= m->n_text)
		return false;
	most = m->n_text - at < CHARSMAP_LONGEST + 1 ? m->n_text - at : CHARSMAP_LONGEST + 1;
	end = memchr(m->text + at, '\0', most);
	if (!end)
		return false;
	*out = (struct gguf_text){ m->text + at, (size_t)(end - m->text) - at };
	return true;
}

size_t charsmap_match(
	const struct charsmap *m, const char *text, size_t size, struct gguf_text *out)
{
	size_t most = size < CHARSMAP_LONGEST ? size : CHARSMAP_LONGEST, found = 0;
	uint32_t at = m->n_units ? offset_of(*m->unit) : 0;

	for (size_t i = 0; i < most; i++) {
		unsigned char byte = (unsigned char)text[i];
		uint32_t unit;

		at ^= byte;
		unit = at < m->n_units ? m->unit[at] : IS_VALUE;
		if ((unit & (IS_VALUE | 0xff)) != byte)
			break;
		at ^= offset_of(unit);
		if (unit >> 8 & 1 && at < m->n_units && read_replacement(m, m->unit[at], out))
			found = i + 1;
	}
	return found;
}
