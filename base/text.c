/* See text.h. Widths are utf8proc's, except where terminals differ: spacing marks take a column of
 * their own, and the vowels and final consonants of conjoining Hangul none. */
#include "base/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/array.h"

#define MARKS_MOST 3 /* combining marks shown on one character */
#define TAB_COLUMNS 8

enum kind {
	SHOWN, /* has a cell of its own */
	MARK,  /* combines with the character before */
	/* U+FE0E, U+FE0F: text or emoji style of the character before; no width depends on it */
	STYLE,
	HIDDEN, /* must not reach a terminal */
};

struct look {
	enum kind kind;
	int32_t c; /* -1: invalid UTF-8 */
	int width;
	size_t size; /* bytes */
};

static struct look classify(int32_t c, size_t size)
{
	const utf8proc_property_t *p = utf8proc_get_property(c);

	if (c == 0xfe0e || c == 0xfe0f)
		return (struct look){ STYLE, c, 0, size };
	switch (p->category) {
	case UTF8PROC_CATEGORY_CN:
	case UTF8PROC_CATEGORY_CC:
	case UTF8PROC_CATEGORY_CF:
	case UTF8PROC_CATEGORY_CS:
	case UTF8PROC_CATEGORY_CO:
	case UTF8PROC_CATEGORY_ZL:
	case UTF8PROC_CATEGORY_ZP: return (struct look){ HIDDEN, c, 1, size };
	case UTF8PROC_CATEGORY_MC: return (struct look){ SHOWN, c, 1, size };
	}
	if (p->ignorable)
		return (struct look){ HIDDEN, c, 1, size };
	if ((c >= 0x1160 && c <= 0x11ff) || (c >= 0xd7b0 && c <= 0xd7ff))
		return (struct look){ MARK, c, 0, size };
	if (!utf8proc_charwidth(c))
		return (struct look){ MARK, c, 0, size };
	return (struct look){ SHOWN, c, utf8proc_charwidth(c), size };
}

size_t text_point(const char *text, size_t size, int32_t *c)
{
	utf8proc_ssize_t n;

	*c = (unsigned char)*text;
	if (*c < 0x80)
		return 1;
	n = utf8proc_iterate((const utf8proc_uint8_t *)text, size < 4 ? (utf8proc_ssize_t)size : 4, c);
	return n > 0 ? (size_t)n : 1;
}

size_t text_fit(const char *text, size_t n)
{
	while (n && ((unsigned char)text[n] & 0xc0) == 0x80)
		n--;
	return n;
}

int text_utf8(int before, unsigned char b)
{
	/* missing: 1 to 3 bytes; 4 to 7: the second byte after 0xe0, 0xed, 0xf0, 0xf4 has less room */
	static const unsigned char from[8] = { 0, 0x80, 0x80, 0x80, 0xa0, 0x80, 0x90, 0x80 },
							   to[8] = { 0, 0xbf, 0xbf, 0xbf, 0xbf, 0x9f, 0xbf, 0x8f },
							   after[8] = { 0, 0, 1, 2, 1, 1, 2, 2 };

	if (before < 0)
		return -1;
	if (before)
		return b >= from[before] && b <= to[before] ? after[before] : -1;
	if (b < 0x80)
		return 0;
	if (b < 0xc2 || b > 0xf4)
		return -1;
	if (b < 0xe0)
		return 1;
	if (b < 0xf0)
		return b == 0xe0 ? 4 : b == 0xed ? 5 : 2;
	return b == 0xf0 ? 6 : b == 0xf4 ? 7 : 3;
}

int text_hex(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
		   : c >= 'a' && c <= 'f' ? c - 'a' + 10
		   : c >= 'A' && c <= 'F' ? c - 'A' + 10
								  : -1;
}

static struct look text_look(const char *text, size_t size)
{
	int32_t c;
	const size_t n = text_point(text, size, &c);

	if (c >= ' ' && c <= '~')
		return (struct look){ SHOWN, c, 1, 1 };
	return c < 0 ? (struct look){ HIDDEN, -1, 1, 1 } : classify(c, n);
}

static struct glyph_run make_run(const char *text, int width, size_t used)
{
	struct glyph_run g = { .width = width, .used = used };

	memcpy(g.text, text, strlen(text));
	return g;
}

/* Near equivalents in ASCII; those of signs used in views match tui/term/canvas.c. */
static const struct {
	int32_t c;
	const char *ascii;
} twins[] = { { 0xb5, "u" }, { 0xb7, "." }, { 0xd7, "x" }, { 0x2013, "-" }, { 0x2014, "-" },
	{ 0x2018, "'" }, { 0x2019, "'" }, { 0x201c, "\"" }, { 0x201d, "\"" }, { 0x2022, "*" },
	{ 0x2026, "~" }, { 0x2190, "<" }, { 0x2191, "^" }, { 0x2192, ">" }, { 0x2193, "v" },
	{ 0x203a, ">" }, { 0x2423, "_" }, { 0x25cf, "*" }, { 0x2713, "=" }, { 0x2717, "x" } };

static uint8_t shown_also[TEXT_SHOW_MAX / 8];

void text_show_also(int32_t c)
{
	shown_also[c / 8] |= (uint8_t)(1 << c % 8);
}

static bool beyond_ascii(int32_t c)
{
	return c > 0x7e && !(c < TEXT_SHOW_MAX && shown_also[c / 8] >> c % 8 & 1);
}

static struct glyph_run standin(struct look at, bool ascii)
{
	struct glyph_run g = make_run(ascii ? "?" : "\xef\xbf\xbd", 1, at.size); /* U+FFFD */

	for (size_t i = 0; ascii && i < sizeof twins / sizeof *twins; i++)
		if (twins[i].c == at.c)
			g.text[0] = twins[i].ascii[0];
	if (at.c >= 0 && (at.c < 0x20 || at.c == 0x7f)) {
		if (ascii) { /* ^A … ^_, ^? */
			g.text[0] = '^';
			g.text[1] = (char)(at.c ^ 0x40);
			g.width = 2;
		} else { /* the pictures of control characters from U+2400 on; U+2421 for DEL */
			g.text[0] = '\xe2';
			g.text[1] = '\x90';
			g.text[2] = (char)(0x80 + (at.c == 0x7f ? 0x21 : at.c));
		}
	}
	g.standin = true;
	return g;
}

/* What a joiner may follow: emoji, and letters of the scripts that join (Arabic, Devanagari …). */
static bool may_join(int32_t c)
{
	const utf8proc_property_t *p = utf8proc_get_property(c);

	return (p->category == UTF8PROC_CATEGORY_LO && utf8proc_charwidth(c) == 1) ||
		   p->boundclass == UTF8PROC_BOUNDCLASS_EXTENDED_PICTOGRAPHIC ||
		   (c >= 0x1f3fb && c <= 0x1f3ff);
}

/* Takes the marks that follow into the run; those beyond the clamp are left out. So is a joiner
 * (U+200C, U+200D) in a valid position: the characters it joins are drawn side by side, each in its
 * own columns. */
static void take_marks(struct glyph_run *g, const char *text, size_t size)
{
	bool may = may_join(text_look(text, size).c);
	size_t used = strlen(g->text);
	int n = 0;

	while (g->used < size) {
		struct look at = text_look(text + g->used, size - g->used);
		bool joiner = may && (at.c == 0x200c || at.c == 0x200d);

		if (at.kind != MARK && at.kind != STYLE && !joiner)
			break;
		may = may && !joiner;
		if (at.kind == MARK && n++ < MARKS_MOST && used + at.size < sizeof g->text) {
			memcpy(g->text + used, text + g->used, at.size);
			used += at.size;
		}
		g->used += at.size;
	}
}

struct glyph_run text_next(const char *text, size_t size, bool ascii)
{
	struct glyph_run g;
	struct look at;

	if (!size)
		return (struct glyph_run){ .width = 0 };
	if (*text == '\n' || (*text == '\r' && size > 1 && text[1] == '\n')) {
		g = make_run("", 1, *text == '\n' ? 1 : 2);
		g.newline = true;
		return g;
	}
	if (*text == '\t') {
		g = make_run(" ", 1, 1);
		g.tab = true;
		return g;
	}
	at = text_look(text, size);
	if (at.kind == HIDDEN || at.kind == STYLE || (ascii && beyond_ascii(at.c)))
		return standin(at, ascii);
	if (at.kind == MARK) { /* no base character: a dotted circle, as in the Unicode charts */
		g = make_run("\xe2\x97\x8c", 1, 0);
		g.standin = true;
	} else {
		g = make_run("", at.width, at.size);
		memcpy(g.text, text, at.size);
	}
	if (!ascii)
		take_marks(&g, text, size);
	return g;
}

bool text_is_utf8(const char *text, size_t size)
{
	int32_t c = 0;

	for (size_t n; size && c >= 0; text += n, size -= n)
		n = text_point(text, size, &c);
	return c >= 0;
}

int text_width(const char *text, size_t size, bool ascii)
{
	int width = 0;

	while (size) {
		struct glyph_run g = text_next(text, size, ascii);

		width += g.width;
		text += g.used;
		size -= g.used;
	}
	return width;
}

/* --- growing strings --- */

struct string {
	char *data;
	size_t size, cap;
	bool failed;
};

static void append(struct string *s, const char *text, size_t size)
{
	s->failed = s->failed || !array_text(&s->data, &s->size, &s->cap, text, size);
}

static char *finish(struct string *s, size_t *size)
{
	append(s, "", 0);
	if (s->failed) {
		free(s->data);
		return NULL;
	}
	if (size)
		*size = s->size;
	return s->data;
}

char *text_clean(const char *text, size_t size, bool keep_newlines, size_t *out_size)
{
	struct string s = { 0 };
	int column = 0;

	while (size) {
		struct glyph_run g = text_next(text, size, false);

		text += g.used;
		size -= g.used;
		if (g.newline && keep_newlines) {
			append(&s, "\n", 1);
			column = 0;
		} else if (g.newline) {
			append(&s, "\xe2\x90\x8a", 3); /* U+240A, the picture of a line feed */
		} else if (g.tab && keep_newlines) {
			int n = TAB_COLUMNS - column % TAB_COLUMNS;

			append(&s, "        ", (size_t)n);
			column += n;
		} else {
			append(&s, g.text, strlen(g.text));
			column += g.width;
		}
	}
	return finish(&s, out_size);
}

/* \uXXXX, two of them above U+FFFF; the short forms where JSON has them. */
static void append_escape(struct string *s, int32_t c)
{
	static const char special[] = "\"\\\b\f\n\r\t", name[] = "\"\\bfnrt";
	const char *p = c > 0 && c < 0x80 ? strchr(special, c) : NULL;
	char buf[16];

	if (p)
		snprintf(buf, sizeof buf, "\\%c", name[p - special]);
	else if (c < 0x10000)
		snprintf(buf, sizeof buf, "\\u%04x", (unsigned)c);
	else
		snprintf(buf, sizeof buf, "\\u%04x\\u%04x", 0xd800u + ((unsigned)(c - 0x10000) >> 10),
			0xdc00u + ((unsigned)(c - 0x10000) & 0x3ff));
	append(s, buf, strlen(buf));
}

char *text_json(const char *text, size_t size)
{
	struct string s = { 0 };

	append(&s, "\"", 1);
	while (size) {
		struct look at = text_look(text, size);

		if (at.c < 0)
			append(&s, "\\ufffd", 6);
		else if (at.kind == HIDDEN || at.c == '"' || at.c == '\\')
			append_escape(&s, at.c);
		else
			append(&s, text, at.size);
		text += at.size;
		size -= at.size;
	}
	append(&s, "\"", 1);
	return finish(&s, NULL);
}

void text_xml(FILE *out, const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		switch (text[i]) {
		case '<': fputs("&lt;", out); break;
		case '>': fputs("&gt;", out); break;
		case '&': fputs("&amp;", out); break;
		default: putc(text[i], out);
		}
}

static bool shell_safe(const char *text)
{
	static const char safe[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";

	for (; *text; text++)
		if (!((unsigned char)*text & 0x80) && !strchr(safe, *text))
			return false;
	return true;
}

static bool all_shown(const char *text)
{
	struct look at;

	for (; *text; text += at.size) {
		at = text_look(text, strlen(text));
		if (at.c < 0 || at.kind == HIDDEN)
			return false;
	}
	return true;
}

char *text_shell(const char *text)
{
	struct string s = { 0 };
	bool shown = all_shown(text), safe = shown && *text && shell_safe(text);
	char octal[8];

	if (*text == '-') /* must not look like an option */
		append(&s, "./", 2);
	if (!safe)
		append(&s, shown ? "'" : "$'", shown ? 1 : 2);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (!shown && (c < ' ' || c >= 0x7f || c == '\'' || c == '\\')) {
			snprintf(octal, sizeof octal, "\\%03o", c);
			append(&s, octal, 4);
		} else if (c == '\'' && !safe) {
			append(&s, "'\\''", 4);
		} else {
			append(&s, text, 1);
		}
	}
	if (!safe)
		append(&s, "'", 1);
	return finish(&s, NULL);
}

size_t text_line(const char *text, int w, bool ascii, size_t *next)
{
	size_t at = 0, space = 0, bar = 0, size = strcspn(text, "\n");
	int width = 0;

	while (at < size) {
		struct glyph_run g = text_next(text + at, size - at, ascii);

		if (!g.used || width + g.width > w)
			break;
		if (text[at] == ' ')
			space = at;
		if (text[at] == '|')
			bar = at + 1;
		width += g.width;
		at += g.used;
	}
	if (at < size && text[at] != ' ' && (space || bar))
		at = space ? space : bar;
	*next = at + (text[at] == ' ' || text[at] == '\n');
	if (!*next && text[0])
		*next = 1;
	return at;
}

enum { PAGE_W = 78 }; /* of a terminal of 80 columns */

void text_wrapped(FILE *out, const char *text, int indent)
{
	for (size_t next; *text; text += next) {
		const size_t n = text_line(text, PAGE_W - indent, false, &next);

		fprintf(out, "%.*s\n%*s", (int)n, text, text[next] ? indent : 0, "");
	}
}

const char *text_cleaned(char *buf, size_t cap, const char *text, size_t size)
{
	char *clean = text_clean(text, size, false, NULL);

	snprintf(buf, cap, "%s", clean ? clean : "");
	free(clean);
	return buf;
}

void text_append(char *buf, size_t cap, const char *between, const char *fmt, ...)
{
	size_t n = strlen(buf);
	va_list args;

	if (n && n + strlen(between) < cap)
		n += (size_t)snprintf(buf + n, cap - n, "%s", between);
	va_start(args, fmt);
	vsnprintf(buf + n, cap - n, fmt, args);
	va_end(args);
}

bool text_ends(const char *text, const char *end)
{
	const size_t n = strlen(text), m = strlen(end);

	return n >= m && !strcmp(text + n - m, end);
}

int text_word(const char *list, char separator, const char *word, size_t size)
{
	const char end[] = { separator, '\0' };

	for (int i = 0;; i++) {
		const size_t n = strcspn(list, end);

		if (n == size && !memcmp(list, word, n))
			return i;
		if (!list[n])
			return -1;
		list += n + 1;
	}
}

size_t text_unescape(char *text, size_t size)
{
	static const char from[] = "nt\\", to[] = "\n\t\\";
	size_t n = 0;

	for (size_t i = 0; i < size; i++) {
		const char *at = NULL;

		if (text[i] == '\\' && i + 1 < size)
			at = memchr(from, text[i + 1], sizeof from - 1);
		text[n++] = at ? to[at - from] : text[i];
		i += at != NULL;
	}
	return n;
}
