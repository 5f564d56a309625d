/* What readers of GBNF, regular expressions and JSON schemas build: rules, each an expression over
 * bytes. grammar_compile() (program.c) makes of it what the automaton runs.
 *
 * An expression is a number; EXPR_FAILED stands for one that could not be built, and whatever is
 * built of it is EXPR_FAILED, too: readers check once, at their end, and the error is in the
 * grammar. Nothing here recurses deeper than what readers allow (GRAMMAR_NESTING).
 * Thread: the grammar's owner. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct gguf_text;

/* The byte before the name of a control token, which no text has. */
enum { GRAMMAR_CONTROL = 0xff };

enum {
	GRAMMAR_NESTING = 200,       /* parentheses, schemas inside schemas */
	GRAMMAR_MOST_EXPRS = 400000, /* what a text of an allowed size may grow to */
	GRAMMAR_MOST_RULES = 20000,
	GRAMMAR_MOST_REPEAT = 1000000,
	GRAMMAR_MOST_TEXT = 1 << 20, /* bytes of a grammar's text */
};

struct byte_set {
	uint64_t word[4];
};

enum expr_kind {
	EXPR_EMPTY,  /* the empty text */
	EXPR_NEVER,  /* nothing, not even the empty text */
	EXPR_SET,    /* one byte of set a */
	EXPR_THEN,   /* a, then b */
	EXPR_OR,     /* a or b */
	EXPR_REPEAT, /* a, `least` to `most` times; most -1: without end */
	EXPR_RULE,   /* rule a */
};
enum { EXPR_FAILED = -1 };

struct expr {
	enum expr_kind kind;
	int32_t a, b, least, most;
};

struct rule {
	char *name;    /* for people: of the grammar's text, or what it stands for ("string") */
	int32_t expr;  /* EXPR_FAILED: not defined yet */
	uint32_t hash; /* of the name */
	bool limited;  /* it is left after grammar.limit tokens */
};

struct grammar {
	struct expr *expr;
	int32_t n_exprs, cap_exprs;
	struct byte_set *set;
	int32_t n_sets, cap_sets;
	struct rule *rule; /* [0] is the root */
	int32_t n_rules, cap_rules;
	int32_t base;   /* rules before it are of another text, and cannot be named */
	int32_t depth;  /* of texts inside one another */
	int32_t limit;  /* tokens after which the rules that are `limited` are left; 0: never */
	struct err err; /* the first error */
};

static inline void byte_add(struct byte_set *s, int from, int to)
{
	for (int b = from; b <= to; b++)
		s->word[b / 64] |= UINT64_C(1) << (b % 64);
}

static inline bool byte_has(const struct byte_set *s, int b)
{
	return s->word[b / 64] >> (b % 64) & 1;
}

void grammar_free(struct grammar *g);
/* Notes the first error; returns EXPR_FAILED. */
int32_t grammar_fail(struct grammar *g, enum err_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int32_t grammar_no_memory(struct grammar *g);

int32_t expr_empty(struct grammar *g);
int32_t expr_never(struct grammar *g);
int32_t expr_set(struct grammar *g, const struct byte_set *s);
/* One byte of a range; from above to: EXPR_NEVER. */
int32_t expr_bytes(struct grammar *g, int from, int to);
/* The bytes, one after the other; those of a word. */
int32_t expr_text(struct grammar *g, const void *bytes, size_t size);
int32_t expr_word(struct grammar *g, const char *word);
/* Chains are cheapest where a is what was built so far. Nothing of EXPR_NEVER is left in them. */
int32_t expr_then(struct grammar *g, int32_t a, int32_t b);
int32_t expr_or(struct grammar *g, int32_t a, int32_t b);
/* The same of several: one after the other; one of them. */
int32_t expr_fold(struct grammar *g, int32_t (*two)(struct grammar *g, int32_t a, int32_t b),
	const int32_t *x, size_t n);
#define EXPR_LIST(...)                                                                             \
	(const int32_t[]){ __VA_ARGS__ }, sizeof((const int32_t[]){ __VA_ARGS__ }) / sizeof(int32_t)
#define EXPR_SEQ(g, ...) expr_fold((g), expr_then, EXPR_LIST(__VA_ARGS__))
#define EXPR_ANY(g, ...) expr_fold((g), expr_or, EXPR_LIST(__VA_ARGS__))
int32_t expr_repeat(struct grammar *g, int32_t a, int32_t least, int32_t most);
int32_t expr_maybe(struct grammar *g, int32_t a);
int32_t expr_rule(struct grammar *g, int32_t rule);
/* The code points from … to in UTF-8, without surrogates. */
int32_t expr_points(struct grammar *g, uint32_t from, uint32_t to);
/* Any text of UTF-8 in which none of the n texts (valid UTF-8) occurs. limited: as rule.limited. */
int32_t expr_until(struct grammar *g, const struct gguf_text *not_in, int32_t n, bool limited);
/* A control token by its name, or the name in text. */
int32_t expr_token(struct grammar *g, const void *name, size_t size);

/* A new rule, not defined yet; name is copied. EXPR_FAILED: too many, or no memory. */
int32_t rule_new(struct grammar *g, const char *name, size_t size);
/* Defines it; x was made before, and may have moved the rules. */
static inline void rule_set(struct grammar *g, int32_t rule, int32_t x)
{
	if (rule >= 0)
		g->rule[rule].expr = x;
}
/* The rule of this name among those from g->base on, or -1. */
int32_t rule_find(const struct grammar *g, const char *name, size_t size);

/* Texts of which an answer is one, or (but) none: then any text of `others`, one expression for a
 * character that begins or goes on it. Shared beginnings are shared. */
struct word {
	const char *text;
	size_t size;
};
/* Sorts and thins out the words. */
int32_t expr_words(struct grammar *g, struct word *w, int32_t n);

/* A set of code points: ranges that neither overlap nor touch, ascending. */
struct point_range {
	uint32_t from, to;
};
struct points {
	struct point_range *range;
	int32_t n, cap;
	bool failed; /* no memory: the rest is ignored, and no expression is made of it */
};
enum { POINTS_LAST = 0x10ffff };
void points_add(struct points *p, uint32_t from, uint32_t to);
void points_add_all(struct points *p, const struct points *other);
void points_invert(struct points *p);
void points_without(struct points *p, uint32_t from, uint32_t to);
bool points_have(const struct points *p, uint32_t c);
void points_free(struct points *p);
/* One of them in UTF-8. Takes them. */
int32_t expr_of_points(struct grammar *g, struct points *p);
