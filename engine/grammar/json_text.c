/* How JSON is written. See schema_impl.h. */
#include "base/text.h"
#include "engine/grammar/schema_impl.h"

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
	return expr_then(g, expr_word(g, sixteen ? "\\u001" : "\\u000"), expr_set(g, &last));
}

int32_t json_points(struct grammar *g, struct points *p)
{
	struct points plain = { 0 };
	struct byte_set after = { { 0 } };
	int32_t low, high;

	points_add_all(&plain, p);
	points_without(&plain, 0, 0x1f);
	points_without(&plain, '"', '"');
	points_without(&plain, '\\', '\\');
	for (size_t i = 0; i + 1 < sizeof escaped; i++)
		if (points_have(p, (unsigned char)escaped[i]))
			byte_add(&after, letter[i], letter[i]);
	low = hex_escapes(g, p, 0);
	high = hex_escapes(g, p, 16);
	points_free(p);
	return EXPR_ANY(g, expr_of_points(g, &plain),
		expr_then(g, expr_word(g, "\\"), expr_set(g, &after)), low, high);
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
	struct points p = { 0 };

	points_add(&p, 0, 0x1f);
	points_add(&p, '"', '"');
	points_add(&p, '\\', '\\');
	points_add(&p, 0x80, POINTS_LAST);
	return json_points(g, &p);
}

static int32_t of_regex(struct grammar *g, const char *regex)
{
	return regex_expr(g, regex, strlen(regex), false, expr_of_points);
}

#define HEX "[0-9a-fA-F]"
/* Above U+FFFF there are two escapes, and no half of such a pair alone. */
#define ESCAPE                                                                                     \
	"\\\\([\"\\\\/bfnrt]|u([0-9a-ce-fA-CE-F]" HEX "{3}|[dD][0-7]" HEX "{2}|[dD][89abAB]" HEX       \
	"{2}\\\\u[dD][c-fC-F]" HEX "{2}))"

void json_exprs(struct schema *s)
{
	struct grammar *g = s->g;
	const int32_t string = rule_new(g, "string", 6), key = rule_new(g, "key", 3);

	s->space = of_regex(g, "( |\\n[ \\t]{0,20})?");
	s->plain = plain_ascii(g, NULL);
	s->others = others(g);
	s->character = of_regex(g, "[^\\x00-\\x1f\"\\\\]|" ESCAPE);
	rule_set(g, string, expr_repeat(g, s->character, 0, -1));
	rule_set(g, key, expr_repeat(g, expr_or(g, s->plain, s->others), 0, -1));
	s->string = expr_rule(g, string);
	s->key_rest = expr_rule(g, key);
}

/* ---- keys ---- */

/* A character that begins none of the words, then anything. */
static int32_t other_character(struct schema *s, struct points *begins)
{
	bool plain = true;
	int32_t x = plain_ascii(s->g, begins);

	for (int32_t i = 0; i < begins->n; i++)
		plain = plain && is_plain(begins->range[i].from) && is_plain(begins->range[i].to) &&
				begins->range[i].to < 0x80 &&
				(begins->range[i].from > '"' || begins->range[i].to < '"') &&
				(begins->range[i].from > '\\' || begins->range[i].to < '\\');
	if (plain)
		return expr_then(s->g, expr_or(s->g, x, s->others), s->key_rest);
	for (uint32_t c = 0x20; c < 0x80; c++) /* which x has */
		if (is_plain(c))
			points_add(begins, c, c);
	points_invert(begins);
	return expr_then(s->g, expr_or(s->g, x, json_points(s->g, begins)), s->key_rest);
}

enum { KEY_DEPTH = 32 }; /* keys that go along with a word for longer are left out */

/* Sorted words that share their first `at` bytes: what may follow these in a key that is none of
 * them. */
static int32_t other_keys(struct schema *s, const struct word *w, int32_t n, size_t at, int depth)
{
	struct points begins = { 0 };
	const bool is_word = n && w[0].size == at;
	int32_t all = is_word ? expr_never(s->g) : expr_empty(s->g), end;

	for (int32_t i = is_word; i < n && depth < KEY_DEPTH && schema_works(s, n); i = end) {
		struct points one = { 0 };
		int32_t point;
		const size_t size = text_point(w[i].text + at, w[i].size - at, &point);

		points_add(&begins, (uint32_t)point, (uint32_t)point);
		points_add(&one, (uint32_t)point, (uint32_t)point);
		for (end = i + 1; end < n && !strncmp(w[end].text + at, w[i].text + at, size); end++)
			;
		all = expr_or(s->g, all,
			expr_then(s->g, json_points(s->g, &one),
				other_keys(s, w + i, end - i, at + size, depth + 1)));
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

/* Whether all numbers have as many digits as cJSON writes. */
static bool is_exact(const cJSON *v)
{
	const cJSON *one;
	bool exact = true;
	char t[32];

	if (cJSON_IsNumber(v)) {
		snprintf(t, sizeof t, "%.15g", v->valuedouble);
		exact = isfinite(v->valuedouble) && fabs(v->valuedouble) < 9007199254740992.0 &&
				strtod(t, NULL) == v->valuedouble;
	}
	cJSON_ArrayForEach(one, v)
	{
		exact = exact && is_exact(one);
	}
	return exact;
}

char *json_canonical(const cJSON *v)
{
	return is_exact(v) ? cJSON_PrintUnformatted(v) : NULL;
}

int32_t json_string_expr(struct grammar *g, const char *t)
{
	cJSON *v = cJSON_CreateString(t);
	char *text = v ? cJSON_PrintUnformatted(v) : NULL;
	const int32_t x = text ? expr_word(g, text) : grammar_no_memory(g);

	free(text);
	cJSON_Delete(v);
	return x;
}
