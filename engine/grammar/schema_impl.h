/* Inside of the reader of JSON schemas (schema*.c, json_text.c).
 *
 * What a value must satisfy is a *demand*: schemas that all apply to it, since $ref, allOf and one
 * branch of anyOf or oneOf add schemas, and properties of two schemas may be of one name. Keywords
 * are merged where they are used: bounds are taken from all schemas of a demand, a property's
 * demand has what each of them says of it. Equal demands are one rule, so schemas that refer to
 * themselves end. Rules are defined by turns and not by recursion, so nesting costs no stack.
 *
 * The rules are sound: each text that they allow is JSON that satisfies the schema. They may allow
 * fewer: properties come in the schema's order, numbers have 15 digits.
 * Thread: the grammar's owner. */
#pragma once

#include <math.h>
#include <stdio.h>
#include <cjson/cJSON.h>

#include "engine/grammar/automaton.h"
#include "engine/grammar/readers.h"

/* The types of JSON; a number is an integer or a fraction. */
enum {
	TYPE_NULL = 1,
	TYPE_BOOLEAN = 2,
	TYPE_OBJECT = 4,
	TYPE_ARRAY = 8,
	TYPE_STRING = 16,
	TYPE_INTEGER = 32,
	TYPE_FRACTION = 64,
	TYPE_NUMBER = TYPE_INTEGER | TYPE_FRACTION,
	TYPE_ANY = 127,
};

enum { /* what of a schema was used up already */
	USED_ENUM = 1,
	USED_TYPE = 2,
	USED_ANY_OF = 4,
	USED_ONE_OF = 8,
};

struct part {
	const cJSON *schema;
	int32_t from; /* the part that brought it in by $ref, allOf or as a branch, or -1 */
	unsigned used;
};

struct demand {
	struct part *part;
	int32_t n, cap;
	bool never; /* nothing satisfies it */
};

/* A demand that has a rule. */
struct made {
	struct demand demand;
	uint64_t *key; /* [n_key] its parts that ask for something, ascending */
	int32_t n_key, rule, next;
	uint32_t hash;
};

enum {
	SCHEMA_BUCKETS = 1024,
	SCHEMA_WORK = 10000000, /* members looked at, bytes compared */
	SCHEMA_TRIALS = 3,      /* grammars inside of grammars (schema_enum) */
	SCHEMA_DIGITS = 15,     /* of a number: a double has them all */
};

struct schema {
	struct grammar *g;
	const cJSON *doc, *keys; /* keys: a schema of strings */
	struct made *made;
	int32_t n_made, cap_made;
	int32_t bucket[SCHEMA_BUCKETS]; /* made by hash, or -1 */
	const cJSON *pattern;           /* that of the automaton, or NULL */
	struct automaton keys_of_pattern;
	const char *rule; /* name of the one that is being defined */
	int64_t work;
	int trials;
	/* Expressions that are used again and again. */
	int32_t space, character, plain, key_rest, string;
	int32_t others; /* characters written canonically that are not ASCII, or escaped */
};

/* ---- schema.c: errors ---- */

/* Fails with the place of the schema in the document. */
int32_t schema_fail(struct schema *s, const cJSON *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Counts work; false: too much of it, or it failed already. */
bool schema_works(struct schema *s, int64_t n);
/* What it takes to compare a value with another, or to write it. */
int64_t schema_effort(const cJSON *v);

/* ---- schema_keyword.c ---- */

/* The member of this name, or NULL. */
const cJSON *schema_member(struct schema *s, const cJSON *of, const char *name);
/* The same, which must be of these types. */
const cJSON *schema_typed(struct schema *s, const cJSON *of, const char *name, int types);
/* The number of this name; false: there is none. */
bool schema_number(struct schema *s, const cJSON *of, const char *name, double *x);
/* The greatest (sign 1) or least (-1) value of a keyword that counts, or `none`. */
int64_t schema_count(
	struct schema *s, const struct demand *d, const char *name, int sign, int64_t none);
/* true, {} and what only has annotations. */
bool schema_is_open(struct schema *s, const cJSON *schema);
/* Whether a part asks for something, beside what is used up. */
bool schema_asks(struct schema *s, const struct part *p);
/* Fails if the part asks for something in these types that no grammar is made of. */
void schema_refuse(struct schema *s, const struct part *p, int types);

/* ---- schema.c: rules ---- */

/* An expression for what satisfies the demand, which it takes. name: of its rule; NULL: its
 * type. */
int32_t schema_value(struct schema *s, struct demand *d, const char *name);
/* The root and all rules that it needs; takes the demand. */
void schema_rules(struct schema *s, struct demand *d);

/* ---- schema_demand.c ---- */

/* Adds a schema, then what it refers to. */
void demand_add(struct schema *s, struct demand *d, const cJSON *schema, int32_t from);
void demand_copy(struct schema *s, struct demand *to, const struct demand *d, unsigned used);
void demand_free(struct demand *d);
/* What is asked of the property of that name, of others (name NULL), of an array's element. */
void demand_of_property(
	struct schema *s, const struct demand *d, const char *name, struct demand *out);
void demand_of_item(struct schema *s, const struct demand *d, int32_t i, struct demand *out);
/* Types that may satisfy it. */
int demand_types(struct schema *s, const struct demand *d);
int type_of_value(const cJSON *v);
/* Whether no value satisfies both, as far as it can be told. */
bool demands_differ(struct schema *s, const struct demand *a, const struct demand *b, int depth);
/* The const of a schema, then *one is set, or its enum; NULL: neither. */
const cJSON *schema_enum_of(struct schema *s, const struct part *p, bool *one);
/* Whether the automaton takes the text. */
bool schema_takes(struct schema *s, struct automaton *a, const char *text);
/* Whether a pattern, the name of a member of patternProperties, has that key; all keys. */
bool schema_key_matches(struct schema *s, const cJSON *pattern, const char *name);
bool schema_pattern_is_open(const char *pattern);

/* ---- one file a type: the expression of a demand's values of it ---- */

int32_t schema_object(struct schema *s, const struct demand *d);
int32_t schema_array(struct schema *s, const struct demand *d);
int32_t schema_string(struct schema *s, const struct demand *d);
int32_t schema_numbers(struct schema *s, const struct demand *d, bool integers);
/* The values of the demand's enum that satisfy the rest of it. */
int32_t schema_enum(struct schema *s, const struct demand *d);

/* ---- json_text.c: how JSON is written ---- */

/* Expressions of struct schema. */
void json_exprs(struct schema *s);
/* points_writer: each character in one way, escaped where it must be. */
int32_t json_points(struct grammar *g, struct points *p);
/* Any key but these, written canonically; sorts the words. */
int32_t json_other_keys(struct schema *s, struct word *w, int32_t n);
/* The string in quotes. */
int32_t json_string_expr(struct grammar *g, const char *text);
/* Canonical, without blanks; malloc'd. NULL: no memory, or a number that a double does not have. */
char *json_canonical(const cJSON *v);
