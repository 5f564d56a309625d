/* The table by which SentencePiece normalises a text (precompiled_charsmap): rules, each a few
 * bytes and what they become, such as NFKC.
 *
 * The file is not trusted: no index leaves the table, and a rule or a replacement of more than
 * CHARSMAP_LONGEST bytes is none (NFKC needs 33), so a match takes bounded time whatever the table
 * says. Ownership: who opens closes. Thread: read-only after open. */
#pragma once

#include "engine/model/gguf.h"

enum { CHARSMAP_LONGEST = 256 };

struct charsmap;

/* Copies the bytes of the file: the size of a trie, its units, then texts that each end with a
 * NUL. */
int charsmap_open(struct charsmap **m, const uint8_t *data, size_t size, struct err *e);
void charsmap_close(struct charsmap *m);

/* The longest rule that text begins with: how many bytes it is for, and in *out what they become,
 * which lives as long as m. 0: there is none. */
size_t charsmap_match(
	const struct charsmap *m, const char *text, size_t size, struct gguf_text *out);
