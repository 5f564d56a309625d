/* What the parts of the tokenizer share. No other file includes this.
 *
 *   tokenizer.c         the vocabulary: opening, look-ups
 *   tokenizer_encode.c  special tokens, and what lies between them
 *   tokenizer_pairs.c   symbols joined pair by pair, for the next two
 *   tokenizer_bpe.c     BPE: encoding; tokenizer_merges.c reads it; tokenizer_pre.h cuts words
 *   tokenizer_spm.c     SentencePiece by pairs: reading and encoding
 *   tokenizer_unigram.c SentencePiece by whole cuts; charsmap.h normalises for it
 *
 * Invariants: every id in a merge, a slot or a list is in [0, n_vocab); slots tables are never
 * full. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_pre.h"

#define TOKENIZER_ALPHABET 324 /* code points of the byte alphabet are below this */

/* tokenizer.ggml.token_type */
enum token_kind {
	TOKEN_NORMAL = 1,
	TOKEN_UNKNOWN = 2,
	TOKEN_CONTROL = 3,
	TOKEN_USER = 4, /* added by the model's authors, searched for in every text */
	TOKEN_UNUSED = 5,
	TOKEN_BYTE = 6,
	TOKEN_MUTE = 7, /* ours: no text becomes it */
};

struct merge {
	int32_t left, right, out;
};

struct encoder;

/* A kind of vocabulary (tokenizer.ggml.model). */
struct tokenizer_ops {
	const char *model;
	uint32_t word_kinds; /* bits of enum token_kind: found by their bytes */
	uint32_t byte_kinds; /* tokens of one byte that stand for that byte */
	/* BPE over characters: where it cuts the text; NULL: over bytes, cut as the file says. */
	const struct pre_rule *rule;
	/* Called before the tokens are read. */
	int (*read_settings)(struct tokenizer *t, const struct gguf *g, struct err *e);
	/* Writes the bytes a token stands for, at most text.size of them; -1: its text is used as it
	 * is. */
	int64_t (*spell)(const struct tokenizer *t, int32_t id, struct gguf_text text, char *out);
	/* Called after the tokens: reads how they merge. */
	int (*read_rules)(struct tokenizer *t, const struct gguf *g, struct err *e);
	/* Appends the ids of a text without special tokens. */
	int (*encode)(struct encoder *c, const char *text, size_t size);
};

/* tokenizer_fim.c: after the special tokens are known. */
void tokenizer_read_fim(struct tokenizer *t, const struct gguf *g);

extern const struct tokenizer_ops tokenizer_bpe, tokenizer_gemma4, tokenizer_spm, tokenizer_unigram;

struct tokenizer {
	const struct tokenizer_ops *ops;
	uint64_t seed;  /* of the hashes: a file's maker does not know it, and can make no collisions */
	char note[128]; /* "": none */
	bool adds_bos, adds_eos;
	int32_t bos, eos, fim[TOKENIZER_N_FIM];

	int32_t n_vocab;
	char *bytes;       /* of all tokens, one after the other */
	uint32_t *start;   /* [n_vocab + 1] in bytes */
	uint8_t *kind;     /* [n_vocab] enum token_kind */
	bool *end;         /* [n_vocab] ends a turn */
	int32_t byte[256]; /* token of a single byte, or -1 */

	int32_t *word_slot; /* [word_mask + 1] id or -1: open addressing by bytes */
	uint32_t word_mask;

	/* Control and user tokens in the order of their bytes, so that those which begin alike are
	 * neighbours. */
	int32_t *special; /* [n_special] no two of the same bytes and kind */
	int32_t n_special;
	int32_t special_first[257]; /* special[special_first[b]] … begin with byte b */

	/* BPE. */
	struct pre *pre;
	bool whole_words; /* see struct pre_rule */
	int16_t back[TOKENIZER_ALPHABET];
	struct merge *merge; /* [n_merges] by rank */
	int32_t n_merges;
	int32_t *merge_slot; /* [merge_mask + 1] rank or -1: open addressing by (left, right) */
	uint32_t merge_mask;

	/* SentencePiece. */
	uint32_t *order; /* [n_vocab] scores as integers: the least is merged first */
	size_t longest;  /* bytes of the longest word */
	int32_t unknown; /* stands for text that has no token, or -1 */
	bool adds_space; /* before a text, and after each special token */
	bool eats_space; /* special tokens take the white space that follows them (Phi-3) */

	/* Unigram; and longest, unknown and adds_space of the above. */
	struct charsmap *charsmap; /* or NULL */
	double *score;             /* [n_vocab] */
	float unknown_score;       /* of a character that is no word */
	bool trims;                /* spaces in a row are one, and none are at the ends of a text */
};

/* Bytes of a token. */
static inline size_t tokenizer_size(const struct tokenizer *t, int32_t id)
{
	return t->start[id + 1] - t->start[id];
}

/* One call of tokenizer_encode. */
struct encoder {
	const struct tokenizer *t;
	int32_t **ids;
	size_t *n, *cap;
	struct err *e;

	void *symbol;   /* [room] struct symbol, or of the kind's own */
	uint64_t *heap; /* [3 * room] the pairs that wait */
	size_t room, n_heap;
	char *text; /* with U+2581: [text_room] the text being encoded, in the form of the tokens */
	size_t text_room;
};

int encoder_push(struct encoder *c, int32_t id);
/* Room for n symbols of `item` bytes each and for their pairs. */
int encoder_make_room(struct encoder *c, size_t n, size_t item);

/* Part of a text, on its way to a token. */
struct symbol {
	int32_t at, size; /* SentencePiece: bytes of the encoder's text */
	int32_t prev, next;
	int32_t id;   /* -1: none, or not looked up yet: a single character */
	int32_t pair; /* the merge of this and the next, or their token; -1: none, or joined already */
};
/* Joins what can be joined of n symbols; those that are left are linked from the first on. */
void encoder_join(struct encoder *c, int32_t n);

/* Whether a text begins here: after nothing, or after a special token. */
bool encoder_begins_text(const struct encoder *c);
/* Appends what stands for the bytes [at, at + size) of c->text: id, or if that is -1 those bytes,
 * or if there are no tokens for them the unknown token, once for a run of them (*unknown). */
int encoder_push_piece(struct encoder *c, int32_t id, int32_t at, int32_t size, bool *unknown);

/* The token with these bytes, or -1. */
int32_t tokenizer_find_word(const struct tokenizer *t, const char *bytes, size_t size);
/* The same for a word that grows: its hash so far (FNV-1a), that of no bytes being the seed. */
static inline uint32_t tokenizer_hash(uint32_t hash, char byte)
{
	return (hash ^ (unsigned char)byte) * 16777619u;
}
int32_t tokenizer_find_hashed(
	const struct tokenizer *t, const char *bytes, size_t size, uint32_t hash);
/* The rank of the merge of two tokens, or -1. */
int32_t tokenizer_find_merge(const struct tokenizer *t, int32_t left, int32_t right);
/* At least twice n slots, all empty. */
int32_t *tokenizer_new_slots(int32_t n, uint32_t *mask);
/* Text of the file made printable for a message. */
const char *tokenizer_quoted(struct gguf_text text, char out[48]);

/* Of byte-level BPE, see struct tokenizer_ops. */
int tokenizer_read_pre(struct tokenizer *t, const struct gguf *g, struct err *e);
int tokenizer_read_merges(struct tokenizer *t, const struct gguf *g, struct err *e);
int64_t tokenizer_spell_bpe(
	const struct tokenizer *t, int32_t id, struct gguf_text text, char *out);
/* Of tokens that write a space as U+2581: "<0x0A>" and marks become what they stand for. */
int64_t tokenizer_spell_marked(
	const struct tokenizer *t, int32_t id, struct gguf_text text, char *out);
/* The scores of the file, malloc'd, or NULL; sets longest and unknown. */
float *tokenizer_read_scores(struct tokenizer *t, const struct gguf *g, struct err *e);
/* Copies text with spaces for U+2581; returns the size of the copy. */
int64_t tokenizer_unmark(const char *text, size_t size, char *out);
/* The same into c->text, with the space that stands before a text; -1 on error. */
int64_t encoder_copy_text(struct encoder *c, const char *text, size_t size);
