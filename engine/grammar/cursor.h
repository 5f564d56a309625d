/* Reading a text of UTF-8 character by character. Thread: any one. */
#pragma once

#include "engine/grammar/expr.h"

enum { CURSOR_END = UINT32_MAX };

struct cursor {
	struct grammar *g;
	const char *text, *at, *end;
	int depth; /* of groups */
	struct gbnf_inner *inner;
	int32_t n_inner, cap_inner;
};

/* A text of another kind inside a grammar, read when all names of the grammar are known. */
struct gbnf_inner {
	int32_t rule; /* that stands for it */
	char *spec;
};

static inline uint32_t cursor_byte(const struct cursor *c)
{
	return c->at < c->end ? (unsigned char)*c->at : CURSOR_END;
}

static inline bool cursor_take(struct cursor *c, char byte)
{
	const bool is = cursor_byte(c) == (unsigned char)byte;

	c->at += is;
	return is;
}

/* cursor.c. The next code point; CURSOR_END at the end, and, with the error, where there is no
 * valid UTF-8. */
uint32_t cursor_point(struct cursor *c);
/* n hexadecimal digits as a number; CURSOR_END with the error: they are not there. */
uint32_t cursor_hex(struct cursor *c, int n);
/* Digits, at most a million and one; -1: there are none. */
int32_t cursor_number(struct cursor *c);
/* ? * + {n} {n,} {,m} {n,m}: false: none of them is next. */
bool cursor_repeat(struct cursor *c, int32_t *least, int32_t *most);
/* The error of what is next, with the line and the characters there. Returns EXPR_FAILED. */
int32_t cursor_fail(struct cursor *c, const char *what);
