/* Pre-tokenizers: where text is cut into words before byte pairs are merged. Private to the
 * tokenizer.
 *
 * A rule is what the model's authors published: regular expressions, of which the first cuts the
 * text and each next one the pieces that the one before has left. A match is a piece, and so is
 * what lies between two matches. The table of rules is in tokenizer_rules.c, tokenizer_regex.c
 * compiles them, tokenizer_pre.c matches. Unicode categories come from utf8proc. A byte that is not
 * part of valid UTF-8 counts as a character of no category. Thread: a compiled rule is read-only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <utf8proc.h>

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

/* ---- the compiled form ---- */

enum pre_op {
	PRE_DONE,
	PRE_RUN,  /* `least` to `most` of the class, as many as there are, or fewer if the rest asks */
	PRE_NOT,  /* no character of the class follows */
	PRE_LAST, /* the end of the piece */
	PRE_TRY,  /* what follows; if that fails, what stands at `other` (-1: nothing) */
	PRE_GOTO, /* `other` */
};

struct pre_code {
	enum pre_op op;
	int32_t class, other;
	uint32_t least, most;
};

/* A set of characters: these sorts and ranges, or all others; and of `also`, if it is not -1. */
struct pre_class {
	uint64_t ascii[2];   /* the answer for each ASCII character */
	uint32_t categories; /* beyond ASCII only these can be in it */
	uint32_t sorts;
	bool negated;
	int16_t range, n_ranges, also;
};

#define PRE_CODE 256
#define PRE_CLASSES 96
#define PRE_RANGES 512
#define PRE_BRANCHES 16
#define PRE_CATEGORIES 32
#define PRE_NO_CHARACTER 31 /* the category of bytes that are not UTF-8 */

struct pre {
	struct pre_code code[PRE_CODE];
	struct pre_class class[PRE_CLASSES];
	struct {
		int32_t first, last;
	} range[PRE_RANGES];
	int n_code, n_classes, n_ranges, n_steps;
	struct pre_step {
		int32_t branch[PRE_BRANCHES]; /* where each alternative begins in code */
		int n_branches;
		int32_t skips; /* class: where one of them fails, so does each that follows it; or -1 */
		/* Bit b: branch b can begin with this ASCII, or beyond it, [128 + category], with this
		 * sort. */
		uint16_t first[128 + PRE_CATEGORIES];
	} step[PRE_STEPS];
};

#define PRE_SPACE (1u << 31)
#define PRE_SEPARATORS                                                                             \
	(1u << UTF8PROC_CATEGORY_ZS | 1u << UTF8PROC_CATEGORY_ZL | 1u << UTF8PROC_CATEGORY_ZP)

/* What sort of character: the bit of its utf8proc_category_t, and PRE_SPACE; 0 for point -1. */
uint32_t pre_sorts(int32_t point);
bool pre_class_has(const struct pre *p, const struct pre_class *c, int32_t point, uint32_t sorts);

/* ---- use ---- */

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
