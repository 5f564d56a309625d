/* What reads a grammar's text. Each makes rules of *g, of which [0] is the root; what is wrong is
 * in g->err (ERR_USAGE: what, where, what is supported). Nothing is taken in silence: what a reader
 * does not know, it refuses, so that an answer is never bound less than was asked.
 * Texts are untrusted: GRAMMAR_MOST_* bound time and memory. Thread: any one. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "engine/grammar/expr.h"

/* How code points, which it takes, are written in the answer: in UTF-8 (expr_of_points), or inside
 * a JSON string. */
typedef int32_t points_writer(struct grammar *g, struct points *p);

/* A text's root is the first rule that its reader makes. */
typedef void grammar_reader(struct grammar *g, const char *text, size_t size);
/* Any of them, by its name (constraint.h). */
void spec_read(struct grammar *g, const char *spec);

/* GBNF, as llama.cpp has it (grammars/README.md there): NAME ::= alternatives of literals, [sets],
 * (groups), names, with ? * + {n,m}; # comments. The root is the rule "root". And what answers of
 * several parts need:
 *   %until "A", "B"  any text in which neither occurs
 *   %until(N) "A"    the same, left N tokens after the answer's beginning
 *   %token "A"       the control token of this name, or the name as text
 *   %json {…}        a value of this JSON schema
 *   %spec "…"        what another spec allows */
void gbnf_read(struct grammar *g, const char *text, size_t size);

/* A regular expression of ECMA-262 (as JSON Schema has it), over code points: alternatives,
 * (groups), (?:groups), [sets], . \d \w \s \b-less escapes, ^ and $ at the ends of alternatives of
 * the whole, ? * + {n,m} (lazy ones alike). No look-around, back-references or word boundaries.
 * search: it may match anywhere between ^ and $, as a JSON schema's pattern does; else it is the
 * whole text, as guided_regex is. Returns an expression. */
int32_t regex_expr(
	struct grammar *g, const char *text, size_t size, bool search, points_writer *write);
/* The whole answer. */
void regex_read(struct grammar *g, const char *text, size_t size);

/* A JSON array of texts, or an object of texts: the answer is one of them. */
void choice_read(struct grammar *g, const char *text, size_t size);

/* A JSON schema (draft 2020-12): see docs/constraints.md for what is supported. {} or true: any
 * JSON value. */
void schema_read(struct grammar *g, const char *text, size_t size);
/* Any JSON object (OpenAI's json_object). */
void json_read(struct grammar *g, const char *none, size_t size);
