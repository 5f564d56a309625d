/* The one writer of JSON: values in the order of the calls, kept in memory until json_print() or
 * json_take(). Keys are plain words and go out as they are; in arrays, and for the outermost
 * value, the key is NULL.
 *
 * Once memory ran out everything is ignored, and json_print() says so. Thread: any one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct json {
	char *text; /* [size], then a NUL; NULL: nothing was written yet */
	size_t size, cap;
	int depth;
	char close[12]; /* what ends the value at each depth */
	bool follows;   /* the next value needs a comma before it */
	bool failed;
};

void json_object(struct json *j, const char *key);
void json_array(struct json *j, const char *key);
void json_end(struct json *j); /* ends the innermost object or array */
void json_text(struct json *j, const char *key, const char *text);
/* invalid UTF-8 becomes U+FFFD (text_json) */
void json_bytes(struct json *j, const char *key, const char *text, size_t size);
void json_int(struct json *j, const char *key, int64_t value);
/* digits: significant digits; null if not finite */
void json_real(struct json *j, const char *key, double value, int digits);
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);
/* A value that is JSON already. */
void json_raw(struct json *j, const char *key, const char *value, size_t size);
/* The key of the next value, which is given NULL as its key: any text. */
void json_named(struct json *j, const char *key, size_t size);
/* 16 hexadecimal digits, as text */
void json_hash(struct json *j, const char *key, uint64_t value);
void json_ids(struct json *j, const char *key, const int32_t *ids, size_t n);
/* Several values as one text: JSON with ' for ", in which %s is a text (NULL: null), %d, %ld
 * (int64_t) and %zu a whole number, %.9g a real one of so many digits, %lx a hash, %hhd true or
 * false. Commas and blanks are for people; what it leaves open the next values are in. */
void json_put(struct json *j, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Ends all open objects and arrays and writes everything as one line to standard output; *j is then
 * all zero. */
int json_print(struct json *j, struct err *e);
/* The same as text of *size bytes, malloc'd, in place of printing it. NULL: no memory. */
char *json_take(struct json *j, size_t *size);
/* Frees everything without writing it. */
void json_drop(struct json *j);
