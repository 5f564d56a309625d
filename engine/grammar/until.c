/* Texts in which none of some words occurs: a rule for each beginning of a word that the text may
 * have come to, as in the automaton of Aho and Corasick 1975. See expr.h. */
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/text.h"
#include "engine/grammar/expr.h"
#include "engine/model/gguf.h"

enum { MOST_BYTES = 256 }; /* of the words together */

struct until {
	struct grammar *g;
	const struct gguf_text *word;
	int32_t n_words;
	struct gguf_text begin[MOST_BYTES + 1]; /* beginnings, each once; [0] is none */
	int32_t rule[MOST_BYTES + 1], n;
	uint32_t point[MOST_BYTES]; /* characters of the words, each once */
	int32_t n_points;
};

static bool same(struct gguf_text a, struct gguf_text b)
{
	return a.size == b.size && !memcmp(a.data, b.data, a.size);
}

static void add_begin(struct until *u, const char *text, size_t size)
{
	const struct gguf_text t = { text, size };

	for (int32_t i = 0; i < u->n; i++)
		if (same(u->begin[i], t))
			return;
	u->begin[u->n++] = t;
}

static void add_point(struct until *u, uint32_t c)
{
	for (int32_t i = 0; i < u->n_points; i++)
		if (u->point[i] == c)
			return;
	u->point[u->n_points++] = c;
}

static bool add_word(struct until *u, struct gguf_text w)
{
	int32_t c;

	for (size_t at = 0, n; at < w.size; at += n) {
		add_begin(u, w.data, at);
		n = text_point(w.data + at, w.size - at, &c);
		if (c < 0)
			return false;
		add_point(u, (uint32_t)c);
	}
	return w.size;
}

static bool ends_with(struct gguf_text text, struct gguf_text end)
{
	return text.size >= end.size && !memcmp(text.data + text.size - end.size, end.data, end.size);
}

/* Where a character leads from a beginning: the longest beginning that the text now ends with; -1:
 * a word is whole. */
static int32_t after(const struct until *u, int32_t i, uint32_t c)
{
	char text[MOST_BYTES + 4];
	struct gguf_text now = { text, u->begin[i].size };
	int32_t best = 0;

	memcpy(text, u->begin[i].data, now.size);
	now.size +=
		(size_t)utf8proc_encode_char((utf8proc_int32_t)c, (utf8proc_uint8_t *)text + now.size);
	for (int32_t k = 0; k < u->n_words; k++)
		if (ends_with(now, u->word[k]))
			return -1;
	for (int32_t k = 1; k < u->n; k++)
		if (u->begin[k].size > u->begin[best].size && ends_with(now, u->begin[k]))
			best = k;
	return best;
}

/* The text ends, or goes on with a character that leads somewhere; one that is in no word, to the
 * first rule. */
static int32_t body(struct until *u, int32_t i)
{
	struct grammar *g = u->g;
	struct points others = { 0 };
	int32_t all = expr_empty(g);

	for (int32_t k = 0; k < u->n_points; k++) {
		const int32_t to = after(u, i, u->point[k]);

		points_add(&others, u->point[k], u->point[k]);
		if (to >= 0)
			all = expr_or(g, all,
				expr_then(g, expr_points(g, u->point[k], u->point[k]), expr_rule(g, u->rule[to])));
	}
	points_invert(&others);
	return expr_or(g, all, expr_then(g, expr_of_points(g, &others), expr_rule(g, u->rule[0])));
}

int32_t expr_until(struct grammar *g, const struct gguf_text *not_in, int32_t n, bool limited)
{
	struct until u = { .g = g, .word = not_in, .n_words = n };
	size_t bytes = 0;

	for (int32_t i = 0; i < n; i++)
		bytes += not_in[i].size;
	if (bytes > MOST_BYTES)
		return grammar_fail(g, ERR_USAGE, "%%until: more than %d bytes", MOST_BYTES);
	add_begin(&u, "", 0);
	for (int32_t i = 0; i < n; i++)
		if (!add_word(&u, not_in[i]))
			return grammar_fail(g, ERR_USAGE, "%%until: an empty text, or no UTF-8");
	for (int32_t i = 0; i < u.n; i++) {
		u.rule[i] = rule_new(g, "free text", 9);
		if (u.rule[i] < 0)
			return EXPR_FAILED;
		g->rule[u.rule[i]].limited = limited;
	}
	for (int32_t i = 0; i < u.n; i++)
		rule_set(g, u.rule[i], body(&u, i));
	return expr_rule(g, u.rule[0]);
}
