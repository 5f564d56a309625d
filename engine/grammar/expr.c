/* Expressions over bytes. See expr.h. */
#include "engine/grammar/expr.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

void grammar_free(struct grammar *g)
{
	for (int32_t i = 0; i < g->n_rules; i++)
		free(g->rule[i].name);
	free(g->rule);
	free(g->expr);
	free(g->set);
	*g = (struct grammar){ 0 };
}

int32_t grammar_fail(struct grammar *g, enum err_code code, const char *fmt, ...)
{
	char text[sizeof g->err.text];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	err_set(&g->err, code, "%s", text);
	return EXPR_FAILED;
}

int32_t grammar_no_memory(struct grammar *g)
{
	return grammar_fail(g, ERR_MEMORY, "no memory");
}

static int32_t add(struct grammar *g, struct expr x)
{
	if (g->n_exprs == GRAMMAR_MOST_EXPRS)
		return grammar_fail(g, ERR_USAGE, "it is too large: more than %d parts", g->n_exprs);
	if (!ARRAY_ROOM(g->expr, g->cap_exprs, g->n_exprs + 1))
		return grammar_no_memory(g);
	g->expr[g->n_exprs] = x;
	return g->n_exprs++;
}

int32_t expr_empty(struct grammar *g)
{
	return add(g, (struct expr){ .kind = EXPR_EMPTY });
}

int32_t expr_never(struct grammar *g)
{
	return add(g, (struct expr){ .kind = EXPR_NEVER });
}

/* Sets are few and looked for among the newest, so that texts do not fill the table. */
static int32_t set_number(struct grammar *g, const struct byte_set *s)
{
	const int32_t oldest = g->n_sets > 512 ? g->n_sets - 512 : 0;

	for (int32_t i = g->n_sets; i-- > oldest;)
		if (!memcmp(&g->set[i], s, sizeof *s))
			return i;
	if (!ARRAY_ROOM(g->set, g->cap_sets, g->n_sets + 1))
		return grammar_no_memory(g);
	g->set[g->n_sets] = *s;
	return g->n_sets++;
}

int32_t expr_set(struct grammar *g, const struct byte_set *s)
{
	static const struct byte_set none;
	int32_t number;

	if (!memcmp(s, &none, sizeof none))
		return expr_never(g);
	number = set_number(g, s);
	return number < 0 ? EXPR_FAILED : add(g, (struct expr){ .kind = EXPR_SET, .a = number });
}

int32_t expr_bytes(struct grammar *g, int from, int to)
{
	struct byte_set s = { { 0 } };

	byte_add(&s, from, to);
	return expr_set(g, &s);
}

int32_t expr_text(struct grammar *g, const void *bytes, size_t size)
{
	const unsigned char *at = bytes;
	int32_t all = expr_empty(g);

	for (size_t i = 0; i < size; i++)
		all = expr_then(g, all, expr_bytes(g, at[i], at[i]));
	return all;
}

int32_t expr_word(struct grammar *g, const char *word)
{
	return expr_text(g, word, strlen(word));
}

static bool is(const struct grammar *g, int32_t x, enum expr_kind kind)
{
	return g->expr[x].kind == kind;
}

int32_t expr_then(struct grammar *g, int32_t a, int32_t b)
{
	if (a < 0 || b < 0)
		return EXPR_FAILED;
	if (is(g, a, EXPR_EMPTY) || is(g, b, EXPR_NEVER))
		return b;
	if (is(g, b, EXPR_EMPTY) || is(g, a, EXPR_NEVER))
		return a;
	return add(g, (struct expr){ .kind = EXPR_THEN, .a = a, .b = b });
}

int32_t expr_or(struct grammar *g, int32_t a, int32_t b)
{
	if (a < 0 || b < 0)
		return EXPR_FAILED;
	if (is(g, a, EXPR_NEVER) || a == b)
		return b;
	return is(g, b, EXPR_NEVER) ? a : add(g, (struct expr){ .kind = EXPR_OR, .a = a, .b = b });
}

int32_t expr_fold(struct grammar *g, int32_t (*two)(struct grammar *g, int32_t a, int32_t b),
	const int32_t *x, size_t n)
{
	int32_t all = x[0];

	for (size_t i = 1; i < n; i++)
		all = two(g, all, x[i]);
	return all;
}

int32_t expr_repeat(struct grammar *g, int32_t a, int32_t least, int32_t most)
{
	if (a < 0)
		return EXPR_FAILED;
	if (most >= 0 && most < least)
		return expr_never(g);
	if (least > GRAMMAR_MOST_REPEAT || most > GRAMMAR_MOST_REPEAT)
		return grammar_fail(
			g, ERR_USAGE, "it repeats a part more than %d times", GRAMMAR_MOST_REPEAT);
	if (is(g, a, EXPR_EMPTY) || (is(g, a, EXPR_NEVER) && least > 0) || (least == 1 && most == 1))
		return a;
	if (is(g, a, EXPR_NEVER) || most == 0)
		return expr_empty(g);
	return add(g,
		(struct expr){ .kind = EXPR_REPEAT, .a = a, .least = least, .most = most < 0 ? -1 : most });
}

int32_t expr_maybe(struct grammar *g, int32_t a)
{
	return expr_or(g, expr_empty(g), a);
}

int32_t expr_rule(struct grammar *g, int32_t rule)
{
	return rule < 0 ? EXPR_FAILED : add(g, (struct expr){ .kind = EXPR_RULE, .a = rule });
}

int32_t expr_token(struct grammar *g, const void *name, size_t size)
{
	const int32_t text = expr_text(g, name, size);

	return expr_or(g, text, expr_then(g, expr_bytes(g, GRAMMAR_CONTROL, GRAMMAR_CONTROL), text));
}

static uint32_t name_hash(const char *name, size_t size)
{
	uint32_t h = 2166136261u; /* FNV-1a */

	for (size_t i = 0; i < size; i++)
		h = (h ^ (unsigned char)name[i]) * 16777619u;
	return h;
}

int32_t rule_new(struct grammar *g, const char *name, size_t size)
{
	if (g->n_rules == GRAMMAR_MOST_RULES)
		return grammar_fail(g, ERR_USAGE, "it has more than %d rules", GRAMMAR_MOST_RULES);
	if (!ARRAY_ROOM(g->rule, g->cap_rules, g->n_rules + 1))
		return grammar_no_memory(g);
	g->rule[g->n_rules] =
		(struct rule){ strndup(name, size), EXPR_FAILED, name_hash(name, size), false };
	if (!g->rule[g->n_rules].name)
		return grammar_no_memory(g);
	return g->n_rules++;
}

int32_t rule_find(const struct grammar *g, const char *name, size_t size)
{
	const uint32_t hash = name_hash(name, size);

	for (int32_t i = g->base; i < g->n_rules; i++)
		if (g->rule[i].hash == hash && strlen(g->rule[i].name) == size &&
			!memcmp(g->rule[i].name, name, size))
			return i;
	return -1;
}

/* ---- words ---- */

static int order(const void *a, const void *b)
{
	const struct word *x = a, *y = b;
	const size_t n = x->size < y->size ? x->size : y->size;
	const int first = memcmp(x->text, y->text, n);

	return first ? first : (x->size > y->size) - (x->size < y->size);
}

static size_t shared_beginning(const struct word *a, const struct word *b)
{
	size_t n = 0;

	while (n < a->size && n < b->size && a->text[n] == b->text[n])
		n++;
	return n;
}

/* Sorted words that share their first `at` bytes: what follows these. Recursion is as deep as words
 * branch; the caller's words are of bounded number, and every branch leaves fewer. */
static int32_t words_from(struct grammar *g, const struct word *w, int32_t n, size_t at, int depth)
{
	int32_t all = expr_never(g);

	if (depth > GRAMMAR_NESTING)
		return grammar_fail(g, ERR_USAGE, "its words branch more than %d times", GRAMMAR_NESTING);
	for (int32_t i = 0, end; i < n; i = end) {
		size_t same = w[i].size;

		for (end = i + 1; end < n && at < w[i].size && w[end].text[at] == w[i].text[at]; end++)
			;
		if (at == w[i].size) { /* the word ends here; equal ones were thinned out */
			all = expr_or(g, all, expr_empty(g));
			end = i + 1;
			continue;
		}
		if (end - i > 1)
			same = shared_beginning(&w[i], &w[end - 1]);
		all = expr_or(g, all,
			expr_then(g, expr_text(g, w[i].text + at, same - at),
				end - i > 1 ? words_from(g, w + i, end - i, same, depth + 1) : expr_empty(g)));
	}
	return all;
}

int32_t expr_words(struct grammar *g, struct word *w, int32_t n)
{
	int32_t kept = 0;

	qsort(w, (size_t)n, sizeof *w, order);
	for (int32_t i = 0; i < n; i++)
		if (!kept || order(&w[kept - 1], &w[i]))
			w[kept++] = w[i];
	return words_from(g, w, kept, 0, 0);
}
