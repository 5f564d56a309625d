/* See json.h. */
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"

static void put(struct json *j, const char *text, size_t size)
{
	j->failed = j->failed || !array_text(&j->text, &j->size, &j->cap, text, size);
}

static void put_word(struct json *j, const char *word)
{
	put(j, word, strlen(word));
}

/* The comma and the key before a value. */
static void json_begin(struct json *j, const char *key)
{
	if (j->follows)
		put(j, ",", 1);
	if (key) {
		put(j, "\"", 1);
		put_word(j, key);
		put(j, "\":", 2);
	}
	j->follows = true;
}

static void json_open(struct json *j, const char *key, const char *brackets)
{
	json_begin(j, key);
	put(j, brackets, 1);
	j->close[j->depth++] = brackets[1];
	j->follows = false;
}

/* A value whose text needs no escape. */
static void json_word(struct json *j, const char *key, const char *word)
{
	json_begin(j, key);
	put_word(j, word);
}

void json_object(struct json *j, const char *key)
{
	json_open(j, key, "{}");
}

void json_array(struct json *j, const char *key)
{
	json_open(j, key, "[]");
}

void json_end(struct json *j)
{
	put(j, &j->close[--j->depth], 1);
	j->follows = true;
}

void json_bytes(struct json *j, const char *key, const char *text, size_t size)
{
	char *escaped = text_json(text, size);

	json_begin(j, key);
	if (escaped)
		put_word(j, escaped);
	j->failed |= !escaped;
	free(escaped);
}

void json_text(struct json *j, const char *key, const char *text)
{
	json_bytes(j, key, text, strlen(text));
}

void json_int(struct json *j, const char *key, int64_t value)
{
	char text[24];

	snprintf(text, sizeof text, "%" PRId64, value);
	json_word(j, key, text);
}

void json_real(struct json *j, const char *key, double value, int digits)
{
	char text[64] = "null";

	if (isfinite(value))
		snprintf(text, sizeof text, "%.*g", digits, value);
	json_word(j, key, text);
}

void json_bool(struct json *j, const char *key, bool value)
{
	json_word(j, key, value ? "true" : "false");
}

void json_hash(struct json *j, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof text, "\"%016" PRIx64 "\"", value);
	json_word(j, key, text);
}

void json_null(struct json *j, const char *key)
{
	json_word(j, key, "null");
}

void json_raw(struct json *j, const char *key, const char *value, size_t size)
{
	json_begin(j, key);
	put(j, value, size);
}

void json_named(struct json *j, const char *key, size_t size)
{
	json_bytes(j, NULL, key, size);
	put(j, ":", 1);
	j->follows = false;
}

void json_ids(struct json *j, const char *key, const int32_t *ids, size_t n)
{
	json_array(j, key);
	for (size_t i = 0; i < n; i++)
		json_int(j, NULL, ids[i]);
	json_end(j);
}

/* What stands behind a %; returns its end. */
static const char *put_argument(struct json *j, const char *at, va_list *args)
{
	int digits = 0;

	for (; *at == '.' || (*at >= '0' && *at <= '9'); at++)
		digits = *at == '.' ? 0 : digits * 10 + *at - '0';
	if (*at == 's') {
		const char *text = va_arg(*args, const char *);

		if (text)
			json_text(j, NULL, text);
		else
			json_null(j, NULL);
	} else if (*at == 'h') { /* %hhd */
		at += 2;
		json_bool(j, NULL, va_arg(*args, int));
	} else if (*at == 'd') {
		json_int(j, NULL, va_arg(*args, int));
	} else if (*at == 'g') {
		json_real(j, NULL, va_arg(*args, double), digits);
	} else if (*++at == 'x') { /* %lx, %ld, %zu */
		json_hash(j, NULL, va_arg(*args, uint64_t));
	} else {
		json_int(j, NULL, va_arg(*args, int64_t));
	}
	return at + 1;
}

/* Words between quotes, behind the first of them: a key or a text; returns their end. */
static const char *put_quoted(struct json *j, const char *at)
{
	const size_t n = strcspn(at, "'");
	const bool is_key = at[n + 1] == ':';

	if (j->follows)
		put(j, ",", 1);
	put(j, "\"", 1);
	put(j, at, n);
	put(j, is_key ? "\":" : "\"", is_key ? 2 : 1);
	j->follows = !is_key;
	return at + n + 1 + is_key;
}

void json_put(struct json *j, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	for (const char *at = format; *at;) {
		const size_t word = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789");

		if (*at == '%') {
			at = put_argument(j, at + 1, &args);
		} else if (*at == '\'') {
			at = put_quoted(j, at + 1);
		} else if (word) {
			json_raw(j, NULL, at, word);
			at += word;
		} else {
			if (*at == '{' || *at == '[')
				json_open(j, NULL, *at == '{' ? "{}" : "[]");
			else if (*at == '}' || *at == ']')
				json_end(j);
			at++;
		}
	}
	va_end(args);
}

/* True: all of it is in j->text. */
static bool json_finish(struct json *j)
{
	while (j->depth)
		json_end(j);
	return !j->failed && j->text;
}

int json_print(struct json *j, struct err *e)
{
	const bool whole = json_finish(j);

	if (whole)
		puts(j->text);
	json_drop(j);
	return whole ? 0 : err_no_memory(e, "the JSON");
}

char *json_take(struct json *j, size_t *size)
{
	char *text = json_finish(j) ? j->text : NULL;

	*size = text ? j->size : 0;
	if (!text)
		free(j->text);
	*j = (struct json){ 0 };
	return text;
}

void json_drop(struct json *j)
{
	free(j->text);
	*j = (struct json){ 0 };
}
