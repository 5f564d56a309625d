/* See spell.h. */
#include "engine/grammar/spell.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"
#include "engine/model/gguf.h"

/* Letters and digits are rarely told apart by a grammar of texts; all marks are. */
int spell_kind(unsigned char b)
{
	if (b >= 0x80)
		return b < 0xc0 ? 60 : b < 0xe0 ? 61 : b < 0xf0 ? 62 : 63;
	if (b >= 'a' && b <= 'z')
		return 0;
	if (b >= 'A' && b <= 'Z')
		return 1;
	if (b >= '0' && b <= '9')
		return 2;
	if (b < 0x20)
		return b == '\n' ? 3 : b == '\r' ? 4 : b == '\t' ? 5 : 6;
	if (b == 0x7f)
		return 7;
	/* space and 32 marks: 0x20 to 0x2f, 0x3a to 0x40, 0x5b to 0x60, 0x7b to 0x7e */
	return 8 + (b < 0x30      ? b - 0x20
				   : b < 0x41 ? b - 0x3a + 16
				   : b < 0x61 ? b - 0x5b + 23
							  : b - 0x7b + 29);
}

static int by_bytes(const void *a, const void *b, void *arg)
{
	const struct spell *s = arg;
	const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
	const int32_t n = s->size[x] < s->size[y] ? s->size[x] : s->size[y];
	const int first = memcmp(s->bytes[x], s->bytes[y], (size_t)n);

	return first ? first : s->size[x] != s->size[y] ? s->size[x] - s->size[y] : x - y;
}

/* What is open while nodes are made: the nodes on the way from the root, [0] is none. */
struct making {
	int32_t *open, depth;
	int32_t cap_nodes;
};

/* Ends the nodes below depth. */
static void close_to(struct spell *s, struct making *m, int32_t depth)
{
	for (; m->depth > depth; m->depth--) {
		struct spell_node *n = &s->node[m->open[m->depth]];

		n->skip = s->n_nodes;
		n->end = s->n_tokens;
		n->reach++;
		if (m->depth > 1) {
			struct spell_node *above = &s->node[m->open[m->depth - 1]];

			above->kinds |= n->kinds;
			above->clean = above->clean && n->clean;
			above->reach = n->reach > above->reach ? n->reach : above->reach;
		}
	}
}

static int add(struct spell *s, struct making *m, int32_t id)
{
	const unsigned char *b = s->bytes[id];
	int32_t same = 0;

	while (same < m->depth && same < s->size[id] && s->node[m->open[same + 1]].byte == b[same])
		same++;
	close_to(s, m, same);
	for (; same < s->size[id]; same++) {
		const struct spell_node *above;
		int utf8;

		if (!ARRAY_ROOM(s->node, m->cap_nodes, s->n_nodes + 1))
			return -1;
		above = m->depth ? &s->node[m->open[m->depth]] : NULL;
		utf8 = text_utf8(above ? above->utf8 : 0, b[same]);
		s->node[s->n_nodes] = (struct spell_node){ .byte = b[same],
			.depth = same,
			.first = s->n_tokens,
			.utf8 = (signed char)utf8,
			.begins = !above || !above->utf8,
			.clean = utf8 >= 0,
			.kinds = UINT64_C(1) << spell_kind(b[same]) };
		m->open[++m->depth] = s->n_nodes++;
	}
	s->node[m->open[m->depth]].n++;
	s->token[s->n_tokens++] = id;
	return 0;
}

static int make(struct spell *s, const int32_t *sorted, int32_t n)
{
	struct making m = { .open = calloc((size_t)s->deepest + 2, sizeof *m.open) };
	int rc = m.open ? 0 : -1;

	for (int32_t i = 0; !rc && i < n; i++)
		rc = add(s, &m, sorted[i]);
	close_to(s, &m, 0);
	free(m.open);
	return rc;
}

int spell_open(struct spell *s, const struct gguf_text *tokens, int32_t vocab, struct err *e)
{
	int32_t *sorted = malloc((size_t)vocab * sizeof *sorted), n = 0;
	int rc = -1;

	*s = (struct spell){ .vocab = vocab,
		.token = malloc((size_t)vocab * sizeof *s->token),
		.size = calloc((size_t)vocab, sizeof *s->size),
		.bytes = calloc((size_t)vocab, sizeof *s->bytes) };
	if (sorted && s->token && s->size && s->bytes) {
		for (int32_t i = 0; i < vocab; i++) {
			s->size[i] = (int32_t)tokens[i].size;
			s->bytes[i] = (const unsigned char *)tokens[i].data;
			s->deepest = s->size[i] > s->deepest ? s->size[i] : s->deepest;
			if (s->size[i])
				sorted[n++] = i;
		}
		qsort_r(sorted, (size_t)n, sizeof *sorted, by_bytes, s);
		rc = make(s, sorted, n);
	}
	free(sorted);
	if (!rc)
		return 0;
	spell_close(s);
	return err_no_memory(e, "the spelling of %d tokens", vocab);
}

void spell_close(struct spell *s)
{
	free(s->node);
	free(s->token);
	free(s->size);
	free(s->bytes);
	*s = (struct spell){ 0 };
}
