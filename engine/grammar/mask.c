/* See mask.h. */
#include "engine/grammar/mask.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"

enum { WORTH_ASKING = 64 }; /* tokens below a node, from which it pays to ask whether all pass */

static size_t mask_words(const struct masks *m)
{
	return ((size_t)m->spell->vocab + 63) / 64;
}

int masks_open(struct masks *m, const struct spell *s, const int32_t *end, int32_t n_ends,
	struct automaton *a, struct err *e)
{
	*m = (struct masks){ .spell = s, .end = end, .n_ends = n_ends, .automaton = a };
	m->most = (int32_t)(MASKS_BYTES / (mask_words(m) * sizeof(uint64_t)));
	m->most = m->most < 16 ? 16 : m->most > 4096 ? 4096 : m->most;
	m->mask = calloc((size_t)m->most, sizeof *m->mask);
	m->way = calloc((size_t)s->deepest + 2, sizeof *m->way);
	if (m->mask && m->way)
		return 0;
	masks_close(m);
	return err_no_memory(e, "the grammar's tokens");
}

void masks_close(struct masks *m)
{
	for (int32_t i = 0; i < m->n; i++)
		free(m->mask[i].word);
	free(m->mask);
	free(m->known);
	free(m->way);
	*m = (struct masks){ 0 };
}

/* ---- the walk ---- */

/* By what is missing of a character: a state from which all its ends were found to lead there. */
struct wide_known {
	int32_t from[8];
};

/* The state to which all bytes of a kind lead, or STATE_DEAD. */
static void by_kind(struct automaton *a, int32_t state, int32_t to[SPELL_KINDS])
{
	bool met[SPELL_KINDS] = { false };

	for (int b = 0; b < 256; b++) {
		const int kind = spell_kind((unsigned char)b);
		const int32_t next = automaton_next(a, state, (unsigned char)b);

		to[kind] = !met[kind] || to[kind] == next ? next : STATE_DEAD;
		met[kind] = true;
	}
	for (int kind = 0; kind < SPELL_KINDS; kind++)
		to[kind] = met[kind] ? to[kind] : STATE_DEAD;
}

/* Whether every character beyond ASCII leads from one state to the other; `missing` of it, as
 * text_utf8() says. All bytes that may come next are tried, and where they meet again once. */
static bool wide_leads(
	struct automaton *a, int32_t state, int32_t to, int missing, struct wide_known *known)
{
	int32_t last = STATE_DEAD;

	if (missing && known->from[missing] == state)
		return true;
	for (int b = 0x80; b < 256; b++) {
		const int left = text_utf8(missing, (unsigned char)b);
		int32_t next;

		if (left < 0)
			continue;
		next = automaton_next(a, state, (unsigned char)b);
		if (next == STATE_DEAD || (!left && next != to))
			return false;
		if (left && next != last && !wide_leads(a, next, to, left, known))
			return false;
		last = next;
	}
	known->from[missing] = state;
	return true;
}

/* Room for the states that there are by now: as many as their own table. NULL: no memory. */
static struct known_state *known_of(struct masks *m, int32_t state)
{
	const int32_t had = m->n_known;

	if (state >= had) {
		if (!ARRAY_ROOM(m->known, m->n_known, m->automaton->n_states))
			return NULL;
		memset(m->known + had, 0, (size_t)(m->n_known - had) * sizeof *m->known);
	}
	return &m->known[state];
}

/* NULL: no memory. */
static const struct stride *stride_of(struct masks *m, int32_t state)
{
	struct known_state *k = known_of(m, state);
	struct stride *s = k ? &k->stride : NULL;
	struct wide_known known;
	int32_t to[SPELL_KINDS];

	if (!s || s->known)
		return s;
	memset(&known, -1, sizeof known);
	by_kind(m->automaton, state, to);
	*s = (struct stride){ .known = true, .next = STATE_DEAD };
	for (int kind = 0; kind < SPELL_KINDS; kind++) /* letters come first */
		s->next = s->next == STATE_DEAD ? to[kind] : s->next;
	for (int kind = 0; s->next != STATE_DEAD && kind < SPELL_KINDS; kind++)
		s->kinds |= (uint64_t)(to[kind] == s->next) << kind;
	s->wide = s->next != STATE_DEAD && wide_leads(m->automaton, state, s->next, 0, &known);
	return s;
}

static void allow(const struct spell *s, int32_t first, int32_t end, struct mask *out)
{
	for (int32_t i = first; i < end; i++)
		out->word[s->token[i] / 64] |= UINT64_C(1) << (s->token[i] % 64);
	out->n += end - first;
}

/* Whether all tokens below a node pass: stride by stride, as far as the longest reaches. */
static bool all_pass(struct masks *m, const struct spell_node *n, int32_t state)
{
	const bool wide = n->kinds & SPELL_WIDE;

	if (n->end - n->first < WORTH_ASKING || (wide && !(n->clean && n->begins)))
		return false;
	for (int32_t i = 0; i < n->reach; i++) {
		const struct stride *s = stride_of(m, state);

		if (!s || (n->kinds & ~SPELL_WIDE & ~s->kinds) || (wide && !s->wide))
			return false;
		if (s->next == state)
			return true;
		state = s->next;
	}
	return true;
}

static void walk(struct masks *m, int32_t state, struct mask *out)
{
	const struct spell *s = m->spell;
	struct automaton *a = m->automaton;

	a->most = a->work + MASK_WORK;
	m->way[0] = state;
	for (int32_t i = 0; i < s->n_nodes && !a->failed;) {
		const struct spell_node *n = &s->node[i];
		const int32_t before = m->way[n->depth];
		int32_t after;

		if (all_pass(m, n, before)) {
			allow(s, n->first, n->end, out);
			i = n->skip;
			continue;
		}
		after = automaton_next(a, before, n->byte);
		if (after == STATE_DEAD) {
			i = n->skip;
			continue;
		}
		allow(s, n->first, n->first + n->n, out);
		m->way[n->depth + 1] = after;
		i++;
	}
	a->most = 0;
}

/* ---- what is kept ---- */

/* A free mask, or that which was not asked for the longest. */
static struct mask *place(struct masks *m)
{
	struct mask *oldest = &m->mask[0];

	if (m->n < m->most) {
		struct mask *new = &m->mask[m->n];

		new->word = malloc(mask_words(m) * sizeof *new->word);
		new->state = -1;
		m->n += new->word != NULL;
		return new->word ? new : NULL;
	}
	for (int32_t i = 1; i < m->n; i++)
		if (m->mask[i].used < oldest->used)
			oldest = &m->mask[i];
	m->known[oldest->state].mask = 0;
	return oldest;
}

static int32_t only_of(const struct masks *m, const struct mask *k)
{
	if (k->n == 1)
		for (size_t i = 0; i < mask_words(m); i++)
			if (k->word[i])
				return (int32_t)(i * 64) + __builtin_ctzll(k->word[i]);
	return -1;
}

const struct mask *mask_of(struct masks *m, int32_t state)
{
	struct automaton *a = m->automaton;
	struct mask *k;

	if (state < 0 || a->failed || !known_of(m, state))
		return NULL;
	if (m->known[state].mask) {
		k = &m->mask[m->known[state].mask - 1];
		k->used = ++m->clock;
		return k;
	}
	k = place(m);
	if (!k)
		return NULL;
	memset(k->word, 0, mask_words(m) * sizeof *k->word);
	*k = (struct mask){ .word = k->word, .state = state, .used = ++m->clock };
	m->known[state].mask = (int32_t)(k - m->mask) + 1;
	m->made++;
	walk(m, state, k);
	for (int32_t i = 0; i < m->n_ends && a->state[state].ends; i++, k->n++)
		k->word[m->end[i] / 64] |= UINT64_C(1) << (m->end[i] % 64);
	k->only = only_of(m, k);
	return a->failed ? NULL : k;
}

int32_t masks_next(struct masks *m, int32_t state, int32_t id)
{
	const struct spell *s = m->spell;

	if (id < 0 || id >= s->vocab || !s->size[id])
		return STATE_DEAD;
	for (int32_t i = 0; i < s->size[id] && state >= 0; i++)
		state = automaton_next(m->automaton, state, s->bytes[id][i]);
	return state;
}
