/* A vocabulary by spelling: a trie of the bytes of all tokens that text is made of, in depth-first
 * order, so that the tokens below a node are neighbours. Thread: read-only once open. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct gguf_text;

/* Bytes by kind: a token's bytes as a set of kinds tells without a walk that a state which keeps
 * to itself under these takes all of it. */
enum { SPELL_KINDS = 64 };
int spell_kind(unsigned char byte);
#define SPELL_WIDE (UINT64_C(15) << 60) /* the kinds of bytes of characters beyond ASCII */

struct spell_node {
	unsigned char byte;
	int32_t depth;    /* of the byte in the token, from 0 */
	int32_t skip;     /* the node after those below */
	int32_t first, n; /* tokens that end here: spell.token[first …] */
	int32_t end;      /* those here and below: token[first … end - 1] */
	int32_t reach;    /* bytes of the longest token below, from this one on */
	signed char utf8; /* text_utf8() after the byte */
	bool begins;      /* it is the first byte of a character */
	bool clean;       /* neither it nor a node below has a byte that cannot come there */
	uint64_t kinds;   /* of the bytes of the nodes below, and of its own */
};

struct spell {
	struct spell_node *node; /* children after their parent */
	int32_t n_nodes;
	int32_t *token; /* ids, in the order of the nodes */
	int32_t n_tokens, vocab, deepest;
	int32_t *size;               /* [vocab] bytes of each token; 0: it is no text */
	const unsigned char **bytes; /* [vocab] */
};

/* tokens [vocab]: their bytes, which must outlive it; of size 0: none that text is made of. */
int spell_open(struct spell *s, const struct gguf_text *tokens, int32_t vocab, struct err *e);
void spell_close(struct spell *s);
