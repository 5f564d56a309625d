/* See foreign_json.h. The text is walked once before cJSON reads it, and its keys once after. */
#include "base/foreign_json.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <utf8proc.h>

#include "base/text.h"

static const char number_chars[] = "+-.0123456789eE";

/* ---- the text ---- */

static int hex_of(const char *text, size_t size)
{
	int n = 0;

	for (size_t i = 0; i < 4 && n >= 0; i++) {
		const int digit = i < size ? text_hex(text[i]) : -1;

		n = digit < 0 ? -1 : n * 16 + digit;
	}
	return n;
}

/* The escape at text[at], of *n bytes: what is wrong with it, or NULL. What cJSON refuses itself is
 * left to it. */
static const char *flaw_of_escape(const char *text, size_t size, size_t at, size_t *n)
{
	int high, low = -1;

	*n = 2;
	if (at + 1 >= size || text[at + 1] != 'u')
		return NULL;
	*n = 6;
	high = hex_of(text + at + 2, size - at - 2);
	if (!high)
		return "\\u0000, and no text here can have a NUL";
	if (high < 0xd800 || high > 0xdfff)
		return NULL;
	if (size - at > 8 && text[at + 6] == '\\' && text[at + 7] == 'u')
		low = hex_of(text + at + 8, size - at - 8);
	*n = 12;
	return high < 0xdc00 && low >= 0xdc00 && low <= 0xdfff ? NULL : "half of a surrogate pair";
}

static size_t digits_end(const char *text, size_t size, size_t at)
{
	while (at < size && isdigit((unsigned char)text[at]))
		at++;
	return at;
}

/* Bytes of the number that the text begins with; 0: it is none of JSON's (01, 1., 1.e2). */
static size_t number_size(const char *text, size_t size)
{
	size_t from = size && *text == '-', at = digits_end(text, size, from);
	bool good = at > from && (text[from] != '0' || at == from + 1);

	if (at < size && text[at] == '.') {
		from = at + 1;
		at = digits_end(text, size, from);
		good &= at > from;
	}
	if (at < size && (text[at] == 'e' || text[at] == 'E')) {
		from = at + 1 + (at + 1 < size && (text[at + 1] == '+' || text[at + 1] == '-'));
		at = digits_end(text, size, from);
		good &= at > from;
	}
	return good && !(at < size && text[at] && strchr(number_chars, text[at])) ? at : 0;
}

/* What is wrong with an ASCII character, outside of texts or, quoted, in one. */
static const char *flaw_of_ascii(const char *text, size_t size, bool quoted, size_t *n)
{
	if (!*text)
		return "a NUL byte";
	if ((unsigned char)*text < ' ' && (quoted || !strchr("\t\r\n", *text)))
		return "a control character";
	if (quoted || !(*text == '-' || isdigit((unsigned char)*text)))
		return NULL;
	*n = number_size(text, size);
	return *n ? NULL : "what is no number of JSON";
}

static const char *flaw_at(const char *text, size_t size, size_t at, bool quoted, size_t *n)
{
	utf8proc_int32_t point;
	const utf8proc_ssize_t rest = (utf8proc_ssize_t)(size - at);

	*n = 1;
	if (text[at] == '\\')
		return flaw_of_escape(text, size, at, n);
	if ((unsigned char)text[at] < 0x80)
		return flaw_of_ascii(text + at, size - at, quoted, n);
	*n = (size_t)utf8proc_iterate((const utf8proc_uint8_t *)text + at, rest, &point);
	return *n > 0 && *n <= 4 ? NULL : "a byte that is no UTF-8";
}

static int check_text(const char *text, size_t size, struct err *e)
{
	bool quoted = false;
	int depth = 0;
	size_t n;

	for (size_t at = 0; at < size; at += n) {
		const char c = text[at], *flaw = flaw_at(text, size, at, quoted, &n);

		if (flaw)
			return err_set(e, ERR_USAGE, "the body has %s at byte %zu", flaw, at);
		quoted ^= c == '"';
		depth += quoted ? 0 : (c == '{' || c == '[') - (c == '}' || c == ']');
		if (depth == CJSON_NESTING_LIMIT)
			return err_set(e, ERR_USAGE,
				"the body is no JSON that can be read: more than %d levels", depth - 1);
	}
	return 0;
}

/* ---- keys ---- */

static int by_key(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *foreign_json_twice(const cJSON *o, struct err *e)
{
	const int n = cJSON_GetArraySize(o);
	const char **key = n > 1 ? malloc((size_t)n * sizeof *key) : NULL, *found = NULL;
	const cJSON *v;
	int i = 0;

	if (n > 1 && !key)
		err_set(e, ERR_MEMORY, "out of memory for the body");
	if (key) {
		cJSON_ArrayForEach(v, o) key[i++] = v->string;
		qsort(key, (size_t)n, sizeof *key, by_key);
	}
	for (i = 1; key && i < n && !found; i++)
		found = strcmp(key[i - 1], key[i]) ? NULL : key[i];
	free(key);
	return found;
}

static int check_keys(const cJSON *o, struct err *e)
{
	const char *key = cJSON_IsObject(o) ? foreign_json_twice(o, e) : NULL;
	const cJSON *v;

	if (key)
		return err_set(e, ERR_USAGE, "%.60s: it comes twice", key);
	cJSON_ArrayForEach(v, o)
	{
		if (v->child && check_keys(v, e))
			return -1;
	}
	return e && e->code ? -1 : 0;
}

/* ---- numbers ---- */

/* After the text that begins at `at` with a quote. */
static size_t after_text(const char *text, size_t size, size_t at)
{
	for (at++; at < size && text[at] != '"'; at++)
		at += text[at] == '\\';
	return at + 1;
}

/* Gives each number its text, from text[at] on, where they come in the order of the tree; but not
 * integers that a double prints as they came, of which there may be very many. Returns the place
 * after the last. */
static size_t keep_digits(cJSON *v, const char *text, size_t size, size_t at)
{
	bool plain = true;
	size_t n = 0;

	if (cJSON_IsNumber(v)) {
		while (at < size && !strchr("-0123456789", text[at]))
			at = text[at] == '"' ? after_text(text, size, at) : at + 1;
		while (at + n < size && strchr(number_chars, text[at + n]))
			plain &= isdigit((unsigned char)text[at + n++]) != 0;
		if (!plain || n > 15)
			v->valuestring = cJSON_malloc(n + 1);
		if (v->valuestring)
			snprintf(v->valuestring, n + 1, "%.*s", (int)n, text + at);
		at += n;
	}
	for (cJSON *one = v->child; one; one = one->next)
		at = keep_digits(one, text, size, at);
	return at;
}

/* Not what cJSON alone reads, and no integer beyond 64 bits, which no reader of the printed text
 * has. */
static bool is_printed_as_sent(const char *t)
{
	errno = 0;
	strtoll(t, NULL, 10);
	return (!errno || strpbrk(t, ".eE")) && number_size(t, strlen(t)) == strlen(t);
}

static void print_as_sent(cJSON *v)
{
	if (cJSON_IsNumber(v) && v->valuestring && is_printed_as_sent(v->valuestring))
		v->type = cJSON_Raw;
	for (cJSON *one = v->child; one; one = one->next)
		print_as_sent(one);
}

char *foreign_json_print(const cJSON *v)
{
	cJSON *copy = cJSON_Duplicate(v, true);
	char *text;

	if (copy)
		print_as_sent(copy);
	text = copy ? cJSON_PrintUnformatted(copy) : NULL;
	cJSON_Delete(copy);
	return text;
}

/* ---- reading ---- */

/* Where an escape lacks its four digits, which cJSON takes for a NUL; `size`: nowhere. */
static size_t bare_escape(const char *text, size_t size)
{
	size_t at = 0;

	for (; at + 1 < size; at += 1 + (text[at] == '\\'))
		if (text[at] == '\\' && text[at + 1] == 'u' && hex_of(text + at + 2, size - at - 2) < 0)
			return at;
	return size;
}

cJSON *foreign_json_whole(const char *text, size_t size, size_t *end)
{
	const size_t bare = bare_escape(text, size);
	const char *stop = text + bare;
	cJSON *o = bare < size ? NULL : cJSON_ParseWithLengthOpts(text, size, &stop, false);

	*end = stop ? (size_t)(stop - text) : 0;
	while (o && *end < size && text[*end] && strchr(" \t\r\n", text[*end]))
		++*end;
	if (o && *end == size) {
		keep_digits(o, text, size, 0);
		return o;
	}
	cJSON_Delete(o);
	return NULL;
}

cJSON *foreign_json_read(const char *text, size_t size, struct err *e)
{
	size_t end = 0;
	cJSON *o = NULL;

	if (!text)
		text = "";
	if (check_text(text, size, e))
		return NULL;
	o = foreign_json_whole(text, size, &end);
	if (!o)
		err_set(e, ERR_USAGE, "the body is no JSON: what is wrong begins at byte %zu", end);
	else if (!check_keys(o, e))
		return o;
	cJSON_Delete(o);
	return NULL;
}

cJSON *foreign_json_parse(char *text, size_t size)
{
	size_t end;

	for (size_t at = 0; at + 1 < size; at++) {
		if (text[at] != '\\')
			continue;
		if (text[at + 1] == 'u' && !hex_of(text + at + 2, size - at - 2))
			memcpy(text + at + 2, "fffd", 4);
		at++;
	}
	return memchr(text, 0, size) ? NULL : foreign_json_whole(text, size, &end);
}
