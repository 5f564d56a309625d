/* Which tokens a state allows: those all of whose bytes lead on. One walk over the trie of the
 * vocabulary, along the state; kept for the next time, within MASKS_BYTES.
 *
 * A grammar of a client is untrusted: a walk that takes more than MASK_WORK stacks fails the
 * automaton. Thread: one. */
#pragma once

#include "engine/grammar/automaton.h"
#include "engine/grammar/spell.h"

enum { MASKS_BYTES = 16 << 20, MASK_WORK = 4000000 };

struct mask {
	uint64_t *word; /* [(vocab + 63) / 64]: bit of each allowed token */
	int32_t n;      /* allowed */
	int32_t only;   /* the allowed one, if it is one; else -1 */
	int32_t state;  /* -1: free */
	int64_t used;   /* when it was last asked for */
};

/* What the walk knows of a state: all bytes of `kinds` lead to `next`, and with `wide` all
 * characters beyond ASCII, too. In the middle of a text the state is its own next; where characters
 * are counted each next is one further. */
struct stride {
	bool known, wide;
	int32_t next;
	uint64_t kinds;
};

struct known_state {
	struct stride stride;
	int32_t mask; /* from 1; 0: none */
};

struct masks {
	const struct spell *spell;
	const int32_t *end; /* [n_ends] tokens that end a text, allowed where it may end */
	int32_t n_ends;
	struct automaton *automaton;
	struct mask *mask;
	int32_t n, most;
	struct known_state *known; /* of each state, as far as one was asked for */
	int32_t n_known;
	int32_t *way; /* of a walk: the state before the byte at each depth */
	int64_t clock;
	int64_t made; /* walks so far */
};

/* s, a and the ends outlive it. */
int masks_open(struct masks *m, const struct spell *s, const int32_t *end, int32_t n_ends,
	struct automaton *a, struct err *e);
void masks_close(struct masks *m);
/* Valid until the next call. NULL: no memory, or the automaton failed. */
const struct mask *mask_of(struct masks *m, int32_t state);
/* The state after a token, or STATE_DEAD. */
int32_t masks_next(struct masks *m, int32_t state, int32_t id);
