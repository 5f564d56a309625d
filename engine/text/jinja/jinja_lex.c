/* A template's text as tokens, with Jinja's rules for white space around tags: "-" takes all of it,
 * a newline after a block is dropped, and so are blanks before a block that begins its line. */
#include <errno.h>

#include "base/array.h"
#include "engine/text/jinja/jinja_private.h"

struct lexer {
	struct jinja *j;
	const char *at, *end;
	bool line_starts; /* the last token ended a line, or nothing was read yet */
};

static struct jtoken *add_token(struct lexer *l, enum jtoken_type type)
{
	struct jinja *j = l->j;

	jinja_step(j, 1);
	if ((j->n_token + 1) * sizeof *j->token > j->o.bytes)
		jinja_fail(j, "it needs more than %zu bytes of memory", j->o.bytes);
	if (!ARRAY_ROOM(j->token, j->cap_token, j->n_token + 1))
		jinja_no_memory(j);
	j->token[j->n_token] = (struct jtoken){ .type = type, .line = j->line };
	return &j->token[j->n_token++];
}

static bool looking_at(const struct lexer *l, const char *text)
{
	return !strncmp(l->at, text, strlen(text));
}

static void advance(struct lexer *l, size_t n)
{
	for (; n; n--, l->at++)
		l->j->line += *l->at == '\n';
}

static size_t leading_space(const char *at, const char *end)
{
	size_t n = 0, used;
	int32_t c;

	while (at + n < end) {
		used = text_point(at + n, (size_t)(end - at) - n, &c);
		if (!jt_space(c))
			break;
		n += used;
	}
	return n;
}

/* Text between tags without what the tag after it takes; sign: '-', '+' or none. */
static void add_data(struct lexer *l, const char *from, const char *to, char sign, bool block)
{
	struct jstr s = { from, (size_t)(to - from), NULL };

	if (sign == '-') {
		s = jt_strip(s, NULL, false, true);
	} else if (sign != '+' && block) {
		const char *newline = memrchr(from, '\n', s.n), *line = newline ? newline + 1 : from;

		if ((newline || l->line_starts) && leading_space(line, to) == (size_t)(to - line))
			s.n = (size_t)(line - from);
	}
	if (s.n)
		add_token(l, T_DATA)->v = (struct jval){ .type = J_STR, .u.s = s };
}

/* After a tag: what its end takes. l->at is at the sign of the end, if it has one. */
static void end_tag(struct lexer *l, bool newline_goes)
{
	char sign = *l->at;

	advance(l, sign == '-' || sign == '+' ? 3 : 2);
	if (sign == '-')
		advance(l, leading_space(l->at, l->end));
	else if (sign != '+' && newline_goes && l->at < l->end && *l->at == '\n')
		advance(l, 1);
	l->line_starts = l->at[-1] == '\n';
}

static bool at_end_of(const struct lexer *l, const char *two)
{
	char with[4] = { '-', two[0], two[1] };

	if (looking_at(l, two) || looking_at(l, with))
		return true;
	with[0] = '+';
	return two[0] != '}' && looking_at(l, with);
}

/* --- what stands in a tag --- */

static uint32_t read_code(struct lexer *l, const char **at, const char *end, int digits)
{
	uint32_t c = 0;

	for (; digits; digits--, (*at)++) {
		const int digit = *at < end ? text_hex(**at) : -1;

		if (digit < 0)
			jinja_fail(l->j, "a string has an escape without its digits");
		c = c * 16 + (uint32_t)digit;
	}
	if (c > 0x10ffff)
		jinja_fail(l->j, "a string has an escape beyond Unicode");
	return c;
}

/* Two surrogates are one character, as in JSON. */
static void put_code(struct lexer *l, const char **at, const char *end, int digits)
{
	uint32_t c = read_code(l, at, end, digits);
	const char *low = *at + 2;

	if (digits == 4 && (c & 0xfffffc00) == 0xd800 && end - *at >= 6 && !memcmp(*at, "\\u", 2)) {
		const uint32_t second = read_code(l, &low, end, digits);

		if ((second & 0xfffffc00) == 0xdc00) {
			c = 0x10000 + ((c & 0x3ff) << 10 | (second & 0x3ff));
			*at = low;
		}
	}
	jt_put_char(l->j, (int32_t)c);
}

static void put_octal(struct lexer *l, const char **at, const char *end)
{
	int c = 0;

	for (int i = 0; i < 3 && *at < end && **at >= '0' && **at <= '7'; i++, (*at)++)
		c = c * 8 + **at - '0';
	jt_put_char(l->j, c);
}

/* After a backslash. Python keeps the backslash of what it does not know. */
static void put_escape(struct lexer *l, const char **at, const char *end)
{
	static const char from[] = "nrtabfv\\'\"", to[] = "\n\r\t\a\b\f\v\\'\"";
	const char *known = **at ? strchr(from, **at) : NULL;
	char c = *(*at)++;

	if (known)
		jinja_put(l->j, &to[known - from], 1);
	else if (c >= '0' && c <= '7')
		(*at)--, put_octal(l, at, end);
	else if (c == 'x' || c == 'u' || c == 'U')
		put_code(l, at, end, c == 'x' ? 2 : c == 'u' ? 4 : 8);
	else if (c == 'N')
		jinja_fail(l->j, "a string names a character, which is not supported");
	else if (c != '\n') {
		jinja_puts(l->j, "\\");
		jinja_put(l->j, &c, 1);
	}
}

static void lex_string(struct lexer *l)
{
	size_t mark = l->j->n_out, n;
	const char *from = l->at + 1, *at = from;

	while (at < l->end && *at != *l->at) {
		if (*at != '\\')
			jinja_put(l->j, at++, 1);
		else if (++at < l->end)
			put_escape(l, &at, l->end);
	}
	if (at >= l->end)
		jinja_fail(l->j, "a string does not end");
	n = (size_t)(at + 1 - l->at);
	add_token(l, T_CONST)->v = jinja_cut(l->j, mark);
	advance(l, n);
}

struct jval jinja_number(struct jinja *j, const char *text, size_t size)
{
	char plain[400];
	size_t n = 0;
	int base = 10;
	char *end;

	for (size_t i = 0; i < size && n < sizeof plain - 1; i++)
		if (text[i] != '_')
			plain[n++] = text[i];
	plain[n] = '\0';
	if (n > 2 && plain[0] == '0' && strchr("bBoOxX", plain[1]))
		base = strchr("bB", plain[1]) ? 2 : strchr("oO", plain[1]) ? 8 : 16;
	if (base == 10 && strpbrk(plain, ".eE"))
		return jv_of_float(strtod(plain, NULL));
	errno = 0;
	int64_t i = strtoll(plain + (base == 10 ? 0 : 2), &end, base);

	if (errno || *end)
		jinja_fail(j, "%s is no integer of 64 bits", plain);
	return jv_of_int(i);
}

static bool is_digit(const struct lexer *l, size_t n)
{
	return l->at[n] >= '0' && l->at[n] <= '9';
}

static bool is_name(const struct lexer *l, size_t n)
{
	unsigned char c = (unsigned char)l->at[n];

	return c == '_' || c >= 0x80 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		   (c >= '0' && c <= '9');
}

/* A float needs a digit on both sides of its point: 1.x is an attribute of 1; and a point before it
 * is that of an attribute: l.0.1. */
static void lex_number(struct lexer *l)
{
	const struct jtoken *last = l->j->n_token ? &l->j->token[l->j->n_token - 1] : NULL;
	size_t n = 0;
	bool based = *l->at == '0' && l->at[1] && strchr("bBoOxX", l->at[1]);
	bool whole = based || (last && last->type == T_OP && *last->name == '.');

	while (based ? is_name(l, n) : is_digit(l, n) || (n && l->at[n - 1] != '_' && l->at[n] == '_'))
		n++;
	if (!whole && l->at[n] == '.' && is_digit(l, n + 1))
		for (n++; is_digit(l, n);)
			n++;
	if (!whole && (l->at[n] | 32) == 'e') {
		size_t sign = l->at[n + 1] == '+' || l->at[n + 1] == '-';

		if (is_digit(l, n + 1 + sign))
			for (n += 1 + sign; is_digit(l, n);)
				n++;
	}
	if (n > 300)
		jinja_fail(l->j, "a number has more than 300 digits");
	add_token(l, T_CONST)->v = jinja_number(l->j, l->at, n);
	advance(l, n);
}

static void lex_operator(struct lexer *l, int *braces)
{
	static const char *const two[] = { "==", "!=", "<=", ">=", "//", "**" };
	size_t n = 1;

	for (size_t i = 0; i < sizeof two / sizeof *two; i++)
		if (looking_at(l, two[i]))
			n = 2;
	if (!*l->at || (n == 1 && !strchr("+-*/%~<>=.:|,;()[]{}", *l->at)))
		jinja_fail(l->j, "a sign is not known: '%.1s'", *l->at > ' ' ? l->at : "?");
	*braces += !!strchr("([{", *l->at) - !!strchr(")]}", *l->at);
	if (*braces > l->j->o.depth)
		jinja_fail(l->j, "it is nested deeper than %d levels", l->j->o.depth);
	if (*braces < 0)
		jinja_fail(l->j, "'%c' closes nothing", *l->at);
	add_token(l, T_OP)->name = jinja_intern(l->j, l->at, n);
	advance(l, n);
}

/* Tokens up to `close`, which does not count within brackets; NULL: up to the end. */
static void lex_inside(struct lexer *l, const char *close)
{
	int braces = 0;

	for (;;) {
		advance(l, leading_space(l->at, l->end));
		if (l->at >= l->end) {
			if (close)
				jinja_fail(l->j, "a tag does not end with '%s'", close);
			return;
		}
		if (close && !braces && at_end_of(l, close))
			return;
		if (*l->at == '\'' || *l->at == '"') {
			lex_string(l);
		} else if (is_digit(l, 0)) {
			lex_number(l);
		} else if (is_name(l, 0)) {
			size_t n = 1;

			while (is_name(l, n))
				n++;
			add_token(l, T_NAME)->name = jinja_intern(l->j, l->at, n);
			advance(l, n);
		} else {
			lex_operator(l, &braces);
		}
	}
}

/* --- tags --- */

/* {% word %} at l->at, with any signs: its bytes up to the sign of the end, or 0. */
static size_t word_tag(const struct lexer *l, const char *word)
{
	struct lexer t = *l;
	size_t n = strlen(word);

	if (!looking_at(&t, "{%"))
		return 0;
	t.at += 2;
	t.at += t.at < t.end && (*t.at == '-' || *t.at == '+');
	t.at += leading_space(t.at, t.end);
	if (!looking_at(&t, word))
		return 0;
	t.at += n;
	t.at += leading_space(t.at, t.end);
	return at_end_of(&t, "%}") ? (size_t)(t.at - l->at) : 0;
}

static char sign_at(const struct lexer *l)
{
	char c = l->end - l->at > 2 ? l->at[2] : 0;

	return c == '-' || c == '+' ? c : 0;
}

static void lex_raw(struct lexer *l, size_t opening)
{
	const char *from, *to;
	size_t n = 0;

	advance(l, opening);
	end_tag(l, false);
	for (from = l->at; l->at < l->end && !(n = word_tag(l, "endraw")); advance(l, 1))
		;
	if (!n)
		jinja_fail(l->j, "{%% raw %%} does not end");
	to = l->at;
	add_data(l, from, to, sign_at(l), true);
	advance(l, n);
	end_tag(l, true);
}

static void lex_comment(struct lexer *l)
{
	const char *from = l->at + (sign_at(l) ? 3 : 2);
	const char *end = memmem(from, (size_t)(l->end - from), "#}", 2);

	if (!end)
		jinja_fail(l->j, "a comment does not end");
	if (end > from && (end[-1] == '-' || end[-1] == '+'))
		end--;
	advance(l, (size_t)(end - l->at));
	end_tag(l, true);
}

static void lex_tag(struct lexer *l)
{
	size_t raw = word_tag(l, "raw");
	bool print = l->at[1] == '{';

	if (raw) {
		lex_raw(l, raw);
		return;
	}
	if (l->at[1] == '#') {
		lex_comment(l);
		return;
	}
	add_token(l, print ? T_PRINT : T_BLOCK);
	advance(l, sign_at(l) ? 3 : 2);
	lex_inside(l, print ? "}}" : "%}");
	add_token(l, print ? T_PRINT_END : T_BLOCK_END);
	end_tag(l, !print);
}

static void lex_template(struct lexer *l)
{
	while (l->at < l->end) {
		const char *from = l->at, *tag = from;

		while ((tag = memchr(tag, '{', (size_t)(l->end - tag))))
			if (l->end - tag > 1 && (tag[1] == '{' || tag[1] == '%' || tag[1] == '#'))
				break;
			else
				tag++;
		if (!tag) {
			add_data(l, from, l->end, '+', false);
			return;
		}
		l->at = tag;
		add_data(l, from, tag, sign_at(l), tag[1] != '{');
		l->at = from;
		advance(l, (size_t)(tag - from));
		lex_tag(l);
	}
}

/* Newlines of all systems as "\n"; a last one of the file is no part of the template. */
static struct jstr normalise(struct jinja *j, const char *text, size_t size)
{
	char *copy = jinja_alloc(j, size + 1);
	size_t n = 0;

	for (size_t i = 0; i < size; i++)
		if (text[i] != '\r')
			copy[n++] = text[i];
		else if (i + 1 == size || text[i + 1] != '\n')
			copy[n++] = '\n';
	n -= n && copy[n - 1] == '\n';
	copy[n] = '\0'; /* behind the end, so that nobody looks further */
	return (struct jstr){ copy, n, NULL };
}

void jinja_lex(struct jinja *j, const char *text, size_t size, bool expression)
{
	struct jstr s = normalise(j, text, size);
	struct lexer l = { .j = j, .at = s.at, .end = s.at + s.n, .line_starts = true };

	j->n_token = 0;
	j->line = 1;
	if (expression)
		lex_inside(&l, NULL);
	else
		lex_template(&l);
	add_token(&l, T_END);
}
