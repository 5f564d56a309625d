/* See tokenizer_pre.h. The expressions, each tried from left to right where the last one ended:
 *
 * gpt-2      's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *            (Radford et al. 2019, encoder.py)
 * smollm     every \p{N} alone, then gpt-2 in what lies between them
 * llama-bpe  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
 *            ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+     (with a space before that "?")
 * qwen2      the same with \p{N} in place of \p{N}{1,3} */
#include "engine/text/tokenizer_pre.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <utf8proc.h>

enum sort {
	END,
	LETTER,
	NUMBER,
	SPACE,
	OTHER,
};

struct look {
	enum sort sort;
	int32_t c; /* code point; -1: a byte that is not UTF-8 */
	size_t size;
};

static const struct {
	const char *name;
	enum pre_kind kind;
} names[] = {
	{ "gpt-2", PRE_GPT2 },
	{ "gpt2", PRE_GPT2 },
	{ "default", PRE_GPT2 },
	{ "phi-2", PRE_GPT2 },
	{ "olmo", PRE_GPT2 },
	{ "mpt", PRE_GPT2 },
	{ "smollm", PRE_SMOLLM },
	{ "starcoder", PRE_SMOLLM },
	{ "refact", PRE_SMOLLM },
	{ "llama-bpe", PRE_LLAMA3 },
	{ "llama3", PRE_LLAMA3 },
	{ "llama-v3", PRE_LLAMA3 },
	{ "falcon3", PRE_LLAMA3 },
	{ "qwen2", PRE_QWEN2 },
	{ "deepseek-r1-qwen", PRE_QWEN2 },
};

const char pre_names[] = "smollm, llama-bpe, qwen2, gpt-2";

int pre_by_name(const char *name, size_t size)
{
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strlen(names[i].name) == size && !memcmp(names[i].name, name, size))
			return (int)names[i].kind;
	return -1;
}

static enum sort sort_of(int32_t c)
{
	switch (utf8proc_category(c)) {
	case UTF8PROC_CATEGORY_LU:
	case UTF8PROC_CATEGORY_LL:
	case UTF8PROC_CATEGORY_LT:
	case UTF8PROC_CATEGORY_LM:
	case UTF8PROC_CATEGORY_LO: return LETTER;
	case UTF8PROC_CATEGORY_ND:
	case UTF8PROC_CATEGORY_NL:
	case UTF8PROC_CATEGORY_NO: return NUMBER;
	case UTF8PROC_CATEGORY_ZS:
	case UTF8PROC_CATEGORY_ZL:
	case UTF8PROC_CATEGORY_ZP: return SPACE;
	default:
		/* White_Space beyond the separators: tab to carriage return, and next line. */
		return (c >= 9 && c <= 13) || c == 0x85 ? SPACE : OTHER;
	}
}

bool pre_is_space(int32_t point)
{
	return sort_of(point) == SPACE;
}

static struct look pre_look(const char *text, size_t size, size_t at)
{
	utf8proc_int32_t c;
	utf8proc_ssize_t n;

	if (at >= size)
		return (struct look){ END, -1, 0 };
	n = utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(size - at), &c);
	if (n <= 0)
		return (struct look){ OTHER, -1, 1 };
	return (struct look){ sort_of(c), c, (size_t)n };
}

/* The end of the run of that sort from `at`. */
static size_t pre_run(const char *text, size_t size, size_t at, enum sort sort)
{
	for (struct look c; (c = pre_look(text, size, at)).sort == sort;)
		at += c.size;
	return at;
}

static bool is_newline(const char *text, size_t size, size_t at)
{
	return at < size && (text[at] == '\n' || text[at] == '\r');
}

/* After an apostrophe: the end of the contraction, or 0. Case folding includes the long s (U+017F),
 * whose simple fold is 's'. */
static size_t contraction(const char *text, size_t size, bool fold)
{
	int mask = fold ? ~0x20 : ~0, a, b;

	if (fold && size >= 3 && !memcmp(text + 1, "\xc5\xbf", 2))
		return 3;
	if (size < 2)
		return 0;
	a = text[1] & mask;
	if (a == ('s' & mask) || a == ('t' & mask) || a == ('m' & mask) || a == ('d' & mask))
		return 2;
	if (size < 3)
		return 0;
	b = text[2] & mask;
	if (b == ('e' & mask) && (a == ('r' & mask) || a == ('v' & mask)))
		return 3;
	return a == ('l' & mask) && b == a ? 3 : 0;
}

/* A run of spaces from the start: \s*[\r\n]+ (if newlines) or \s+(?!\S) or \s+. The run is followed
 * by the end of the text, or of smollm's segment, or by something the last space belongs to. */
static size_t spaces(enum pre_kind kind, const char *text, size_t size)
{
	size_t at = 0, last = 0, newline = 0;
	struct look c;

	while ((c = pre_look(text, size, at)).sort == SPACE) {
		last = at;
		at += c.size;
		if (c.c == '\n' || c.c == '\r')
			newline = at;
	}
	if (newline && (kind == PRE_LLAMA3 || kind == PRE_QWEN2))
		return newline;
	if (c.sort == END || (kind == PRE_SMOLLM && c.sort == NUMBER))
		return at;
	return last ? last : at;
}

static size_t next_gpt2(enum pre_kind kind, const char *text, size_t size)
{
	struct look c = pre_look(text, size, 0), d = c;
	size_t n;

	if (c.c == '\'' && (n = contraction(text, size, false)))
		return n;
	if (c.c == ' ')
		d = pre_look(text, size, c.size);
	if (d.sort == SPACE || d.sort == END)
		return spaces(kind, text, size);
	if (kind == PRE_SMOLLM && d.sort == NUMBER)
		return c.size; /* the number, or the space that may not join it */
	return pre_run(text, size, c.c == ' ' ? c.size : 0, d.sort);
}

static size_t digits(const char *text, size_t size, int most)
{
	size_t at = 0;

	for (struct look c; most-- > 0 && (c = pre_look(text, size, at)).sort == NUMBER;)
		at += c.size;
	return at;
}

static size_t next_llama3(enum pre_kind kind, const char *text, size_t size)
{
	struct look c = pre_look(text, size, 0), d;
	size_t n;

	if (c.c == '\'' && (n = contraction(text, size, true)))
		return n;
	if (c.sort == LETTER)
		return pre_run(text, size, 0, LETTER);
	if (c.sort == NUMBER)
		return digits(text, size, kind == PRE_LLAMA3 ? 3 : 1);
	d = pre_look(text, size, c.size);
	if (d.sort == LETTER && !is_newline(text, size, 0))
		return pre_run(text, size, c.size, LETTER);
	if (c.sort == OTHER || (c.c == ' ' && d.sort == OTHER)) {
		n = pre_run(text, size, c.sort == OTHER ? 0 : c.size, OTHER);
		while (is_newline(text, size, n))
			n++;
		return n;
	}
	return spaces(kind, text, size);
}

size_t pre_next(enum pre_kind kind, const char *text, size_t size)
{
	if (!size)
		return 0;
	if (kind == PRE_LLAMA3 || kind == PRE_QWEN2)
		return next_llama3(kind, text, size);
	return next_gpt2(kind, text, size);
}
