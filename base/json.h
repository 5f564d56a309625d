/* The one writer of JSON for what verbs print: values in the order in which they are told, kept in
 * memory until json_print(). Keys are plain words and go out as they are; in arrays, and for the
 * outermost value, the key is NULL.
 *
 * Once memory ran out everything is ignored, and json_print() says so. Thread: any one. */
#ifndef CUTAWAY_BASE_JSON_H
#define CUTAWAY_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

struct json {
	FILE *out; /* of memory; NULL: there is none, or nothing was told yet */
	char *text;
	size_t size;
	int depth;
	char close[12]; /* what ends the value at each depth */
	bool follows;   /* a value stands before, so that a comma is due */
	bool failed;
};

void json_object(struct json *j, const char *key);
void json_array(struct json *j, const char *key);
void json_end(struct json *j); /* of the innermost object or array */
void json_text(struct json *j, const char *key, const char *text);
/* made UTF-8 (text_json) */
void json_bytes(struct json *j, const char *key, const char *text, size_t size);
void json_int(struct json *j, const char *key, int64_t value);
/* significant ones; null if not finite */
void json_real(struct json *j, const char *key, double value, int digits);
void json_bool(struct json *j, const char *key, bool value);
/* 16 hexadecimal digits, as text */
void json_hash(struct json *j, const char *key, uint64_t value);
void json_ids(struct json *j, const char *key, const int32_t *ids, size_t n);

/* Ends what is open and writes all of it as a line to standard output; *j is then as new (all
 * zero). */
int json_print(struct json *j, struct err *e);
/* The same without writing it. */
void json_drop(struct json *j);

#endif
