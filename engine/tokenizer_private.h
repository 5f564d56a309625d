/* What tokenizer.c (the vocabulary) and tokenizer_bpe.c (encoding) share. Nobody else includes this.
 *
 * Invariants: every id in a merge, a slot or a list is in [0, n_vocab); slots tables are never full. */
#ifndef CUTAWAY_ENGINE_TOKENIZER_PRIVATE_H
#define CUTAWAY_ENGINE_TOKENIZER_PRIVATE_H

#include "engine/tokenizer.h"
#include "engine/tokenizer_pre.h"

/* tokenizer.ggml.token_type */
enum token_kind {
	TOKEN_NORMAL = 1,
	TOKEN_UNKNOWN = 2,
	TOKEN_CONTROL = 3,
	TOKEN_USER = 4, /* added by the makers, looked for in every text */
	TOKEN_UNUSED = 5,
	TOKEN_BYTE = 6,
};

struct merge {
	int32_t left, right, out;
};

struct tokenizer {
	enum pre_kind pre;
	bool whole_words; /* a word that is a token is taken as it is, merges or not (llama-bpe) */
	bool adds_bos;
	int32_t bos, eos;

	int32_t n_vocab;
	char *bytes;       /* of all tokens, one after the other */
	uint32_t *start;   /* [n_vocab + 1] in bytes */
	uint8_t *kind;     /* [n_vocab] enum token_kind */
	bool *end;         /* [n_vocab] ends a turn */
	int32_t byte[256]; /* token of a single byte, or -1 */

	int32_t *word_slot; /* [word_mask + 1] id or -1: open addressing by bytes */
	uint32_t word_mask;
	struct merge *merge; /* [n_merges] by rank */
	int32_t n_merges;
	int32_t *merge_slot; /* [merge_mask + 1] rank or -1: open addressing by (left, right) */
	uint32_t merge_mask;

	/* Control and user tokens by first byte, then longest first. */
	int32_t *special; /* [n_special] */
	int32_t n_special;
	int32_t special_first[257]; /* special[special_first[b]] … begin with byte b */
};

/* The token with these bytes, or -1. */
int32_t tokenizer_find_word(const struct tokenizer *t, const char *bytes, size_t size);
/* The rank of the merge of two tokens, or -1. */
int32_t tokenizer_find_merge(const struct tokenizer *t, int32_t left, int32_t right);
uint32_t tokenizer_hash_pair(int32_t left, int32_t right);

#endif
