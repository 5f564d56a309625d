/* Pre-tokenizers: where text is cut into words before byte pairs are merged. Private to the
 * tokenizer.
 *
 * A rule is what the model's authors published: regular expressions, of which the first cuts the
 * text and each next one the pieces that the one before has left. A match is a piece, and so is
 * what lies between two matches. The table of rules is in tokenizer_rules.c, tokenizer_regex.c
 * compiles them, tokenizer_pre.c matches. Unicode categories come from utf8proc. A byte that is not
 * part of valid UTF-8 counts as a character of no category. Thread: a compiled rule is read-only.
 */
#ifndef CUTAWAY_ENGINE_TOKENIZER_PRE_H
#define CUTAWAY_ENGINE_TOKENIZER_PRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PRE_STEPS 6 /* expressions of a rule */

struct pre_rule {
	const char *names; /* in tokenizer.ggml.pre, separated by spaces */
	bool whole_words;  /* a word that is a token becomes that token, whatever the merges */
	bool adds_bos;     /* where the file does not say */
	const char *regex[PRE_STEPS];
};

extern const struct pre_rule pre_rules[];
extern const size_t n_pre_rules;
/* Lines, as SentencePiece-like BPE has them (gemma4). */
extern const struct pre_rule pre_lines;

/* The rule of this name; NULL if there is none. */
const struct pre_rule *pre_by_name(const char *name, size_t size);

/* A name of each rule, for an error message; returns out. */
const char *pre_known(char *out, size_t cap);

struct pre; /* a compiled rule */

/* To be freed with free(). NULL: no memory, or an expression that is not in the language. */
struct pre *pre_compile(const struct pre_rule *rule);

/* A text on its way through a rule. */
struct pre_words {
	const struct pre *pre;
	const char *text;
	size_t size, at;
	/* The character that was looked at last: alternatives and expressions ask for the same one. */
	size_t seen, seen_size; /* seen_size 0: none */
	int32_t point;
	uint32_t sorts;
	struct {
		size_t end;   /* of the piece that holds `at` */
		size_t match; /* end of the match that this piece is, or that follows it */
	} step[PRE_STEPS];
};

/* Bytes of the next word of w, which begins at w->at; at least 1, 0 at the end. */
size_t pre_next(struct pre_words *w);

/* White_Space of Unicode. */
bool pre_is_space(int32_t point);

#endif
