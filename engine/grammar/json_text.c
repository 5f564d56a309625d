/* How JSON is written. See schema_impl.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/array.h"
#include "engine/grammar/schema_impl.h"

static int32_t text(struct grammar *g, const char *t)
{
	return expr_text(g, t, strlen(t));
}

/* A byte of a range, of two, or of three; ranges that are not needed are empty ("10"). */
static int32_t byte_of(struct grammar *g, const char *ranges)
{
	struct byte_set set = { { 0 } };

	for (; *ranges; ranges += 2)
		byte_add(&set, (unsigned char)ranges[0], (unsigned char)ranges[1]);
	return expr_set(g, &set);
}

/* ---- characters ---- */

/* The number of a character that has a short escape is at the place of its letter. */
static const char escaped[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";

static bool is_plain(uint32_t c)
{
	return c >= 0x20 && c != '"' && c != '\\';
}

/* \u000. or \u001., where the last digit is one of the set's. */
static int32_t hex_escapes(struct grammar *g, const struct points *p, uint32_t sixteen)
{
	static const char digit[] = "0123456789abcdef";
	struct byte_set last = { { 0 } };

	for (uint32_t c = sixteen; c < sixteen + 16; c++)
		if (points_have(p, c) && (!c || !strchr(escaped, (int)c)))
			byte_add(&last, digit[c % 16], digit[c % 16]);
	return expr_then(g, text(g, sixteen ? "\\u001" : "\\u000"), expr_set(g, &last));
}

int32_t json_points(struct grammar *g, const struct points *p)
{
	struct points plain = { 0 };
	struct byte_set after = { { 0 } };
	bool ok = true;
	int32_t all;

	for (int32_t i = 0; i < p->n; i++)
		ok = ok && points_add(&plain, p->range[i].from, p->range[i].to);
	ok = ok && points_without(&plain, 0, 0x1f) && points_without(&plain, '"', '"') &&
		 points_without(&plain, '\\', '\\');
	for (size_t i = 0; i + 1 < sizeof escaped; i++)
		if (points_have(p, (unsigned char)escaped[i]))
			byte_add(&after, letter[i], letter[i]);
	all = ok ? expr_of_points(g, &plain) : grammar_fail(g, ERR_MEMORY, "no memory");
	points_free(&plain);
	all = expr_or(g, all, expr_then(g, text(g, "\\"), expr_set(g, &after)));
	return expr_or(g, expr_or(g, all, hex_escapes(g, p, 0)), hex_escapes(g, p, 16));
}

/* \uXXXX; above U+FFFF two of them, and no half of such a pair alone. */
static int32_t any_hex_escape(struct grammar *g)
{
	const int32_t hex = byte_of(g, "09afAF"), two = expr_repeat(g, hex, 2, 2);
	const int32_t one =
		expr_or(g, expr_then(g, byte_of(g, "09acefACEF"), expr_repeat(g, hex, 3, 3)),
			expr_then(g, expr_then(g, byte_of(g, "ddDD"), byte_of(g, "07")), two));
	const int32_t high = expr_then(g, expr_then(g, byte_of(g, "ddDD"), byte_of(g, "89abAB")), two);
	const int32_t low = expr_then(g, expr_then(g, byte_of(g, "ddDD"), byte_of(g, "cfCF")), two);

	return expr_or(g, one, expr_then(g, expr_then(g, high, text(g, "\\u")), low));
}

static int32_t plain_ascii(struct grammar *g, const struct points *but)
{
	struct byte_set set = { { 0 } };

	for (uint32_t c = 0x20; c < 0x80; c++)
		if (is_plain(c) && !(but && points_have(but, c)))
			byte_add(&set, (int)c, (int)c);
	return expr_set(g, &set);
}

static int32_t others(struct grammar *g)
{
	static const struct {
		uint32_t from, to;
	} range[] = { { 0, 0x1f }, { '"', '"' }, { '\\', '\\' }, { 0x80, POINTS_LAST } };
	struct points p = { 0 };
	bool ok = true;
	int32_t x;

	for (size_t i = 0; i < sizeof range / sizeof *range; i++)
		ok = ok && points_add(&p, range[i].from, range[i].to);
	x = ok ? json_points(g, &p) : grammar_fail(g, ERR_MEMORY, "no memory");
	points_free(&p);
	return x;
}

void json_exprs(struct schema *s)
{
	struct grammar *g = s->g;
	const int32_t blank = byte_of(g, "  \t\t");
	const int32_t line = expr_then(g, text(g, "\n"), expr_repeat(g, blank, 0, 20));
	const int32_t escape = expr_or(
		g, byte_of(g, "\"\"\\\\//bbffnnrrtt"), expr_then(g, text(g, "u"), any_hex_escape(g)));
	const int32_t string = rule_new(g, "string", 6), key = rule_new(g, "key", 3);

	s->space = expr_maybe(g, expr_or(g, text(g, " "), line));
	s->plain = plain_ascii(g, NULL);
	s->others = others(g);
	s->character = expr_or(g, expr_or(g, s->plain, expr_points(g, 0x80, POINTS_LAST)),
		expr_then(g, text(g, "\\"), escape));
	if (string < 0 || key < 0)
		return;
	g->rule[string].expr = expr_repeat(g, s->character, 0, -1);
	g->rule[key].expr = expr_repeat(g, expr_or(g, s->plain, s->others), 0, -1);
	s->string = expr_rule(g, string);
	s->key_rest = expr_rule(g, key);
}

/* ---- keys ---- */

/* A character that begins none of the words, then anything. */
static int32_t other_character(struct schema *s, struct points *begins)
{
	bool plain = true, ok = true;
	int32_t x = plain_ascii(s->g, begins);

	for (int32_t i = 0; i < begins->n; i++)
		plain = plain && is_plain(begins->range[i].from) && is_plain(begins->range[i].to) &&
				begins->range[i].to < 0x80 &&
				(begins->range[i].from > '"' || begins->range[i].to < '"') &&
				(begins->range[i].from > '\\' || begins->range[i].to < '\\');
	if (plain)
		return expr_then(s->g, expr_or(s->g, x, s->others), s->key_rest);
	for (uint32_t c = 0x20; ok && c < 0x80; c++) /* which x has */
		ok = !is_plain(c) || points_add(begins, c, c);
	ok = ok && points_invert(begins);
	x = ok ? expr_or(s->g, x, json_points(s->g, begins))
		   : grammar_fail(s->g, ERR_MEMORY, "no memory");
	return expr_then(s->g, x, s->key_rest);
}

enum { KEY_DEPTH = 32 }; /* keys that go along with a word for longer are left out */

/* Sorted words that share their first `at` bytes: what may follow these in a key that is none of
 * them. */
static int32_t other_keys(struct schema *s, const struct word *w, int32_t n, size_t at, int depth)
{
	struct points begins = { 0 };
	const bool is_word = n && w[0].size == at;
	int32_t all = is_word ? expr_never(s->g) : expr_empty(s->g), end;

	for (int32_t i = is_word; i < n && depth < KEY_DEPTH; i = end) {
		struct points one = { 0 };
		utf8proc_int32_t point = 0;
		const utf8proc_ssize_t size =
			utf8proc_iterate((const utf8proc_uint8_t *)w[i].text + at, -1, &point);
		const uint32_t c = (uint32_t)point;
		bool ok = points_add(&begins, c, c) && points_add(&one, c, c);

		for (end = i + 1; end < n && !strncmp(w[end].text + at, w[i].text + at, (size_t)size);
			 end++)
			;
		if (!ok || !schema_works(s, n))
			all = grammar_fail(s->g, ERR_MEMORY, "no memory");
		else
			all = expr_or(s->g, all,
				expr_then(s->g, json_points(s->g, &one),
					other_keys(s, w + i, end - i, at + (size_t)size, depth + 1)));
		points_free(&one);
	}
	if (depth < KEY_DEPTH)
		all = expr_or(s->g, all, other_character(s, &begins));
	points_free(&begins);
	return all;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(((const struct word *)a)->text, ((const struct word *)b)->text);
}

int32_t json_other_keys(struct schema *s, struct word *w, int32_t n)
{
	if (n)
		qsort(w, (size_t)n, sizeof *w, by_text);
	return other_keys(s, w, n, 0, 0);
}

/* ---- canonical text ---- */

struct out {
	char *text;
	size_t n, cap;
	bool failed;
};

static void put(struct out *o, const char *t, size_t n)
{
	if (o->failed || !ARRAY_ROOM(o->text, o->cap, o->n + n + 1)) {
		o->failed = true;
		return;
	}
	memcpy(o->text + o->n, t, n);
	o->text[o->n += n] = 0;
}

static void put_string(struct out *o, const char *t)
{
	char hex[8];

	put(o, "\"", 1);
	for (; *t; t++) {
		const char *at = strchr(escaped, *t);

		if (at) {
			put(o, (const char[]){ '\\', letter[at - escaped] }, 2);
		} else if ((unsigned char)*t < 0x20) {
			snprintf(hex, sizeof hex, "\\u%04x", *t);
			put(o, hex, 6);
		} else {
			put(o, t, 1);
		}
	}
	put(o, "\"", 1);
}

static void put_number(struct out *o, double x)
{
	char t[32];

	snprintf(t, sizeof t, "%.15g", x == 0 ? 0 : x);
	if (!isfinite(x) || fabs(x) >= 9007199254740992.0 || strtod(t, NULL) != x)
		o->failed = true;
	put(o, t, strlen(t));
}

/* As deep as cJSON reads: CJSON_NESTING_LIMIT. */
static void put_value(struct out *o, const cJSON *v)
{
	const cJSON *one;

	if (cJSON_IsString(v)) {
		put_string(o, v->valuestring);
	} else if (cJSON_IsNumber(v)) {
		put_number(o, v->valuedouble);
	} else if (cJSON_IsArray(v) || cJSON_IsObject(v)) {
		put(o, cJSON_IsArray(v) ? "[" : "{", 1);
		cJSON_ArrayForEach(one, v)
		{
			if (one != v->child)
				put(o, ",", 1);
			if (cJSON_IsObject(v)) {
				put_string(o, one->string);
				put(o, ":", 1);
			}
			put_value(o, one);
		}
		put(o, cJSON_IsArray(v) ? "]" : "}", 1);
	} else {
		const char *t = cJSON_IsNull(v) ? "null" : cJSON_IsTrue(v) ? "true" : "false";

		put(o, t, strlen(t));
	}
}

char *json_canonical(const cJSON *v)
{
	struct out o = { 0 };

	put_value(&o, v);
	if (o.failed) {
		free(o.text);
		return NULL;
	}
	return o.text;
}

int32_t json_string_expr(struct grammar *g, const char *t)
{
	struct out o = { 0 };
	int32_t x;

	put_string(&o, t);
	x = o.failed ? grammar_fail(g, ERR_MEMORY, "no memory") : expr_text(g, o.text, o.n);
	free(o.text);
	return x;
}
