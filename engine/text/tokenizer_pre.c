/* Matching, see tokenizer_pre.h: as Perl does, the first alternative that matches, each run as long
 * as it can be.
 *
 * The language has no nested repetition, so the depth of the recursion is at most the length of the
 * expression. In the published expressions a run that is given up after a long scan is taken by a
 * later alternative, so the time is linear in the text; the one that is not so (\s+$) has `skips`.
 */

#include "engine/text/tokenizer_pre.h"

#define NONE SIZE_MAX

/* A piece of a text that an expression is applied to. */
struct text {
	struct pre_words *w;
	const unsigned char *bytes;
	size_t end;
};

uint32_t pre_sorts(int32_t point)
{
	const uint32_t control = 1u << UTF8PROC_CATEGORY_CC;
	uint32_t bit = point < 0 ? 0 : 1u << utf8proc_category(point);

	if (!(bit & (control | PRE_SEPARATORS)))
		return bit;
	/* White_Space is the separators, tab to carriage return, and next line. */
	return bit != control || (point >= 9 && point <= 13) || point == 0x85 ? bit | PRE_SPACE : bit;
}

bool pre_is_space(int32_t point)
{
	return pre_sorts(point) & PRE_SPACE;
}

bool pre_class_has(const struct pre *p, const struct pre_class *c, int32_t point, uint32_t sorts)
{
	bool in = c->sorts & sorts;

	for (int i = c->range; i < c->range + c->n_ranges && !in; i++)
		in = point >= p->range[i].first && point <= p->range[i].last;
	return in != c->negated && (c->also < 0 || pre_class_has(p, &p->class[c->also], point, sorts));
}

/* The character that s begins with, of *size bytes; -1: none, of one byte. Most have two or three
 * bytes, and need no call to the library. */
static int32_t decode(const unsigned char *s, size_t left, size_t *size)
{
	utf8proc_int32_t point;
	utf8proc_ssize_t n;

	if (left >= 2 && s[0] >= 0xc2 && s[0] < 0xe0 && (s[1] & 0xc0) == 0x80) {
		*size = 2;
		return (s[0] & 0x1f) << 6 | (s[1] & 0x3f);
	}
	if (left >= 3 && s[0] >= 0xe0 && s[0] <= 0xed && (s[1] & 0xc0) == 0x80 &&
		(s[2] & 0xc0) == 0x80) {
		point = (s[0] & 0xf) << 12 | (s[1] & 0x3f) << 6 | (s[2] & 0x3f);
		*size = 3;
		if (point >= 0x800 && point < 0xd800) /* neither too long nor a surrogate: Indic, Hangul */
			return point;
	}
	n = utf8proc_iterate(s, (utf8proc_ssize_t)left, &point);
	*size = n > 0 ? (size_t)n : 1;
	return n > 0 ? point : -1;
}

/* The size of the character at `at`, which is before the end of the text. */
static inline size_t look(struct pre_words *w, size_t at)
{
	if (!w->seen_size || w->seen != at) {
		w->point = decode((const unsigned char *)w->text + at, w->size - at, &w->seen_size);
		w->sorts = pre_sorts(w->point);
		w->seen = at;
	}
	return w->seen_size;
}

/* The size of the character at `at` if it is of the class, or 0. */
static inline size_t take(struct text *x, const struct pre_class *c, size_t at)
{
	unsigned char b;
	size_t size;

	if (at >= x->end)
		return 0;
	b = x->bytes[at];
	if (b < 0x80)
		return c->ascii[b >> 6] >> (b & 63) & 1;
	size = look(x->w, at);
	if (!c->negated && c->also < 0 && c->sorts & x->w->sorts) /* most letters */
		return size;
	return pre_class_has(x->w->pre, c, x->w->point, x->w->sorts) ? size : 0;
}

/* Where the character begins that ends at `at`. */
static size_t step_back(const struct text *x, size_t at)
{
	utf8proc_int32_t point;

	for (size_t n = 2; n <= 4 && n <= at && (x->bytes[at - n + 1] & 0xc0) == 0x80; n++)
		if (utf8proc_iterate(x->bytes + at - n, (utf8proc_ssize_t)n, &point) == (utf8proc_ssize_t)n)
			return at - n;
	return at - 1;
}

/* The end of what the code at pc matches from `at`, or NONE. */
static size_t match(struct text *x, int32_t pc, size_t at)
{
	for (const struct pre_code *code = &x->w->pre->code[pc];; code++) {
		const struct pre_class *class = &x->w->pre->class[code->class];
		size_t n, end;
		uint32_t count;

		switch (code->op) {
		case PRE_DONE: return at;
		case PRE_NOT:
			if (take(x, class, at))
				return NONE;
			break;
		case PRE_LAST:
			if (at < x->end)
				return NONE;
			break;
		case PRE_GOTO: code = &x->w->pre->code[code->other - 1]; break;
		case PRE_TRY:
			end = match(x, (int32_t)(code - x->w->pre->code) + 1, at);
			if (end != NONE || code->other < 0)
				return end;
			code = &x->w->pre->code[code->other - 1];
			break;
		case PRE_RUN:
			for (count = 0; count < code->most && (n = take(x, class, at)); count++)
				at += n;
			if (count < code->least)
				return NONE;
			if (code[1].op == PRE_DONE)
				return at;
			for (; count > code->least; count--) {
				end = match(x, (int32_t)(code - x->w->pre->code) + 1, at);
				if (end != NONE)
					return end;
				at = step_back(x, at);
			}
			break;
		}
	}
}

/* The end of the match that begins at `at`, or NONE. */
static size_t match_step(struct text *x, const struct pre_step *s, size_t at)
{
	uint32_t b = x->bytes[at];

	if (b >= 0x80) {
		look(x->w, at);
		b = 128 + (x->w->point < 0 ? PRE_NO_CHARACTER : (uint32_t)__builtin_ctz(x->w->sorts));
	}
	for (uint32_t first = s->first[b]; first; first &= first - 1) {
		size_t end = match(x, s->branch[__builtin_ctz(first)], at);

		if (end != NONE && end > at)
			return end;
	}
	return NONE;
}

/* The first match in [at, x->end): its end, or x->end; *at becomes its beginning, or x->end. */
static size_t search(struct text *x, const struct pre_step *s, size_t *at)
{
	for (;;) {
		size_t end, n;

		while (*at < x->end && x->bytes[*at] < 0x80 && !s->first[x->bytes[*at]])
			++*at;
		if (*at == x->end)
			return x->end;
		end = match_step(x, s, *at);
		if (end != NONE)
			return end;
		do
			n = s->skips < 0 ? 0 : take(x, &x->w->pre->class[s->skips], *at);
		while ((*at += n) < x->end && n);
		if (*at < x->end)
			*at += x->bytes[*at] < 0x80 ? 1 : look(x->w, *at);
	}
}

size_t pre_next(struct pre_words *w)
{
	struct text x = { w, (const unsigned char *)w->text, w->size };
	size_t begin = w->at;

	for (int i = 0; i < w->pre->n_steps; i++) {
		if (w->step[i].end <= begin && w->step[i].match > begin) {
			w->step[i].end = w->step[i].match;
		} else if (w->step[i].end <= begin) {
			size_t at = begin;

			w->step[i].match = search(&x, &w->pre->step[i], &at);
			w->step[i].end = at > begin ? at : w->step[i].match;
		}
		x.end = w->step[i].end;
	}
	w->at = x.end;
	return w->at - begin;
}
