/* The little of JSON that the golden files need: one object a line, strings that may hold NULs
 * (which cJSON would cut off), arrays of integers. The files are our own: what is malformed fails
 * the test. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

/* What follows `"key":` in line, without spaces; NULL if it is not there. */
static inline const char *jsonl_find(const char *line, const char *key)
{
	char needle[64];
	const char *at;

	snprintf(needle, sizeof needle, "\"%s\":", key);
	at = strstr(line, needle);
	return at ? at + strlen(needle) + strspn(at + strlen(needle), " ") : NULL;
}

static inline int32_t jsonl_hex4(const char *s)
{
	char digits[5] = { 0 };

	memcpy(digits, s, 4);
	return (int32_t)strtol(digits, NULL, 16);
}

/* The string at `at`, malloc'd; *size without the final NUL. */
static inline char *jsonl_string(const char *at, size_t *size)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	char *out = malloc(strlen(at) + 1);
	size_t n = 0;

	for (at++; *at != '"'; at++) {
		int32_t c;

		if (*at != '\\') {
			out[n++] = *at;
			continue;
		}
		if (*++at != 'u') {
			out[n++] = to[strchr(from, *at) - from];
			continue;
		}
		c = jsonl_hex4(at + 1);
		at += 4;
		if (c >= 0xd800 && c < 0xdc00) {
			c = 0x10000 + ((c & 0x3ff) << 10) + (jsonl_hex4(at + 3) & 0x3ff);
			at += 6;
		}
		n += (size_t)utf8proc_encode_char(c, (utf8proc_uint8_t *)out + n);
	}
	out[n] = '\0';
	*size = n;
	return out;
}

/* The integers of the array at `at`, malloc'd. */
static inline int32_t *jsonl_ints(const char *at, size_t *n)
{
	int32_t *out = malloc((strlen(at) + 1) * sizeof *out);

	*n = 0;
	for (at++; *at != ']'; at += *at == ',') {
		char *end;

		out[(*n)++] = (int32_t)strtol(at, &end, 10);
		at = end;
	}
	return out;
}
