/* Compiling the expressions of a rule, see tokenizer_pre.h.
 *
 *   expression  alternatives of items: a|b
 *   item        atom, atom followed by ? + * {n} {n,m}, (?:…) and (?i:…), these followed by ? or
 *               nothing, (?!class), $
 *   atom        a character, a class
 *   class       \p{L}, \p{Lu}, \s, \d, \S, [ab-c\s], [^…], [a-c&&[^b]]
 *
 * \S and \d as in Unicode. (?i:…) folds single letters of ASCII, with the two characters beyond it
 * that fold to one (long s, Kelvin sign). */
#include <stdlib.h>
#include <string.h>

#include "engine/text/tokenizer_pre.h"

struct parser {
	struct pre *p;
	const char *at;
	bool folds, bad;
};

static void parse_alternatives(struct parser *r, struct pre_step *top);

static bool accept(struct parser *r, const char *text)
{
	size_t n = strlen(text);

	if (strncmp(r->at, text, n))
		return false;
	r->at += n;
	return true;
}

/* Bits of the categories of a name: "L" or "Lu". */
static uint32_t categories_of(const char *name, size_t size)
{
	static const char all[] = "LuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSo"; /* as in utf8proc */
	uint32_t bits = 0;

	for (int i = 0; all[i]; i += 2)
		if (size && size <= 2 && !strncmp(all + i, name, size))
			bits |= 1u << (i / 2 + UTF8PROC_CATEGORY_LU);
	return bits;
}

/* --- code --- */

static int32_t emit(struct parser *r, struct pre_code code)
{
	if (r->p->n_code == PRE_CODE) {
		r->bad = true;
		return 0;
	}
	r->p->code[r->p->n_code] = code;
	return r->p->n_code++;
}

static uint32_t parse_number(struct parser *r)
{
	char *end;
	unsigned long n = strtoul(r->at, &end, 10);

	r->bad |= end == r->at || n > 1000;
	r->at = end;
	return (uint32_t)n;
}

static void parse_count(struct parser *r, struct pre_code *code)
{
	code->least = accept(r, "?") || accept(r, "*") ? 0 : 1;
	code->most = code->least ? 1 : r->at[-1] == '?' ? 1 : UINT32_MAX;
	if (code->least && accept(r, "+"))
		code->most = UINT32_MAX;
	if (code->least && accept(r, "{")) {
		code->least = code->most = parse_number(r);
		if (accept(r, ","))
			code->most = parse_number(r);
		r->bad |= !accept(r, "}");
	}
}

/* --- classes --- */

static void add_range(struct parser *r, struct pre_class *c, int32_t first, int32_t last)
{
	struct pre *p = r->p;

	if (p->n_ranges == PRE_RANGES || last < first) {
		r->bad = true;
		return;
	}
	p->range[p->n_ranges].first = first;
	p->range[p->n_ranges++].last = last;
	c->n_ranges++;
}

static void add_letter(struct parser *r, struct pre_class *c, int32_t letter)
{
	add_range(r, c, letter, letter);
	if (!r->folds || (letter | 0x20) < 'a' || (letter | 0x20) > 'z')
		return;
	add_range(r, c, letter ^ 0x20, letter ^ 0x20);
	if ((letter | 0x20) == 's')
		add_range(r, c, 0x17f, 0x17f);
	if ((letter | 0x20) == 'k')
		add_range(r, c, 0x212a, 0x212a);
}

/* A character, which may be escaped. */
static int32_t parse_character(struct parser *r)
{
	static const char from[] = "nrt", to[] = "\n\r\t";
	bool escaped = accept(r, "\\");
	const char *known = escaped && *r->at ? strchr(from, *r->at) : NULL;
	utf8proc_int32_t point;
	utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)r->at, -1, &point);

	if (n <= 0 || !point) {
		r->bad = true;
		return 0;
	}
	r->at += n;
	return known ? to[known - from] : point;
}

/* \p{…}, \s or \d; false: none of them. */
static bool parse_set(struct parser *r, struct pre_class *c)
{
	uint32_t bits = 0;

	if (accept(r, "\\s")) {
		c->sorts |= PRE_SPACE;
		return true;
	}
	if (accept(r, "\\d")) {
		bits = categories_of("Nd", 2);
	} else if (accept(r, "\\p{")) {
		const char *end = strchr(r->at, '}');

		bits = end ? categories_of(r->at, (size_t)(end - r->at)) : 0;
		r->bad |= !bits;
		r->at = bits ? end + 1 : r->at;
	}
	c->sorts |= bits;
	return bits;
}

static void parse_brackets(struct parser *r, struct pre_class *c);

static int32_t new_class(struct parser *r)
{
	struct pre *p = r->p;

	if (p->n_classes == PRE_CLASSES) {
		r->bad = true;
		return 0;
	}
	p->class[p->n_classes] = (struct pre_class){ .range = (int16_t)p->n_ranges, .also = -1 };
	return p->n_classes++;
}

static void fill_tables(const struct pre *p, struct pre_class *c)
{
	const uint32_t spaces = 1u << UTF8PROC_CATEGORY_CC | PRE_SEPARATORS;

	c->categories = c->negated ? ~c->sorts : c->sorts | (c->sorts & PRE_SPACE ? spaces : 0);
	for (int i = c->range; i < c->range + c->n_ranges && !c->negated; i++)
		c->categories |= p->range[i].last < 128 ? 0 : ~0u;
	c->categories &= ~(1u << PRE_NO_CHARACTER);
	c->categories |= (uint32_t)c->negated << PRE_NO_CHARACTER;
	for (int b = 0; b < 128; b++)
		if (pre_class_has(p, c, b, pre_sorts(b)))
			c->ascii[b >> 6] |= 1ull << (b & 63);
}

/* A character, a set or brackets. */
static int32_t parse_class(struct parser *r)
{
	int32_t id = new_class(r);
	struct pre_class *c = &r->p->class[id];

	if (accept(r, "["))
		parse_brackets(r, c);
	else if (accept(r, "\\S"))
		*c = (struct pre_class){ .sorts = PRE_SPACE, .negated = true, .also = -1 };
	else if (!parse_set(r, c))
		add_letter(r, c, parse_character(r));
	fill_tables(r->p, c);
	return id;
}

static void parse_brackets(struct parser *r, struct pre_class *c)
{
	c->negated = accept(r, "^");
	while (!r->bad && !accept(r, "]")) {
		int32_t first;

		if (accept(r, "&&")) {
			c->also = (int16_t)parse_class(r);
			r->bad |= *r->at != ']'; /* the ranges of a class stand together */
			continue;
		}
		if (parse_set(r, c))
			continue;
		first = parse_character(r);
		if (r->at[0] == '-' && r->at[1] != ']') {
			r->at++;
			add_range(r, c, first, parse_character(r));
		} else {
			add_letter(r, c, first);
		}
	}
}

/* --- expressions --- */

static void parse_group(struct parser *r, bool folds)
{
	int32_t try = emit(r, (struct pre_code){ .op = PRE_TRY, .other = -1 });
	bool outer = r->folds;

	r->folds = folds;
	parse_alternatives(r, NULL);
	r->folds = outer;
	r->bad |= !accept(r, ")") || *r->at == '*' || *r->at == '+' || *r->at == '{';
	if (accept(r, "?"))
		r->p->code[try].other = r->p->n_code;
}

static void parse_item(struct parser *r)
{
	struct pre_code code = { .op = PRE_RUN };

	if (accept(r, "(?:") || accept(r, "(?i:")) {
		parse_group(r, r->at[-2] == 'i');
	} else if (accept(r, "(?!")) {
		code.op = PRE_NOT;
		code.class = parse_class(r);
		r->bad |= !accept(r, ")");
		emit(r, code);
	} else if (accept(r, "$")) {
		emit(r, (struct pre_code){ .op = PRE_LAST });
	} else {
		r->bad |= strchr("()?+*{}^.", *r->at) != NULL;
		code.class = parse_class(r);
		parse_count(r, &code);
		emit(r, code);
	}
}

/* An alternative of a whole expression begins where `top` says; those of a group are tried in turn,
 * and end with a jump to the end of all. */
static void parse_alternatives(struct parser *r, struct pre_step *top)
{
	struct pre_code *code = r->p->code;
	int32_t jump = -1, try = -1;

	do {
		if (top && top->n_branches < PRE_BRANCHES)
			top->branch[top->n_branches++] = r->p->n_code;
		else
			r->bad |= top != NULL;
		if (try >= 0)
			code[try].other = r->p->n_code;
		try = top ? -1 : emit(r, (struct pre_code){ .op = PRE_TRY, .other = -1 });
		while (!r->bad && *r->at && *r->at != '|' && *r->at != ')')
			parse_item(r);
		jump = emit(r, (struct pre_code){ .op = top ? PRE_DONE : PRE_GOTO, .other = jump });
	} while (!r->bad && accept(r, "|"));
	for (int32_t next; jump >= 0 && !r->bad; jump = next) {
		next = code[jump].other;
		code[jump].other = r->p->n_code;
	}
}

static bool can_hold(const struct pre_class *c, int b)
{
	return b < 128 ? c->ascii[b >> 6] >> (b & 63) & 1 : c->categories >> (b - 128) & 1;
}

/* False only if the code cannot match a text that begins with b, an index of `first`. */
static bool can_begin(const struct pre *p, int32_t pc, int b)
{
	for (;; pc++) {
		const struct pre_code *c = &p->code[pc];
		const struct pre_class *class = &p->class[c->class];

		if (c->op == PRE_GOTO)
			pc = c->other - 1;
		else if (c->op == PRE_TRY && c->other >= 0 && can_begin(p, c->other, b))
			return true;
		else if (c->op == PRE_DONE || (c->op == PRE_RUN && can_hold(class, b)))
			return true;
		else if (c->op == PRE_RUN && c->least)
			return false;
	}
}

static void parse_step(struct parser *r, struct pre_step *s)
{
	const struct pre_code *code;

	parse_alternatives(r, s);
	r->bad |= *r->at != '\0';
	for (int i = 0; i < s->n_branches && !r->bad; i++)
		for (int b = 0; b < 128 + PRE_CATEGORIES; b++)
			s->first[b] |= (uint16_t)(can_begin(r->p, s->branch[i], b) << i);
	code = &r->p->code[s->branch[0]];
	s->skips =
		s->n_branches == 1 && code->op == PRE_RUN && code->most == UINT32_MAX ? code->class : -1;
}

struct pre *pre_compile(const struct pre_rule *rule)
{
	struct pre *p = calloc(1, sizeof *p);
	bool bad = !p;

	while (!bad && p->n_steps < PRE_STEPS && rule->regex[p->n_steps]) {
		struct parser r = { .p = p, .at = rule->regex[p->n_steps] };

		parse_step(&r, &p->step[p->n_steps++]);
		bad = r.bad;
	}
	if (bad) {
		free(p);
		return NULL;
	}
	return p;
}
