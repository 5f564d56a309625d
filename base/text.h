/* Makes untrusted text (files, input, model output) safe to show: all of it passes here on its way
 * to a terminal.
 *
 * Control characters (C0, DEL, C1), bidirectional and zero-width controls, invalid UTF-8 and
 * unassigned or private code points become visible stand-ins; runs of combining marks are clamped.
 * (A joiner, U+200C or U+200D, is left out after an emoji or a letter of a script that joins, where
 * it belongs.) A run is what a terminal draws in one cell: a character and the marks on it. (Not a
 * whole grapheme: terminals draw flags, emoji joined by U+200D and spacing marks as the several
 * characters they are made of, and widths must be theirs.) Thread: any; the only state is
 * text_show_also()'s. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct glyph_run {
	char text[16]; /* what to show: valid UTF-8, NUL-terminated, never a control character */
	/* columns: 0 only at the end, else 1 or 2 (wider stand-ins are several runs) */
	int width;
	size_t used;  /* bytes of the input that it covers */
	bool standin; /* a replacement, not the text itself: show it dim */
	bool newline; /* the input was '\n' or "\r\n" (text is then "", width 1) */
	bool tab;     /* (text is then " ", width 1) */
};

/* The next grapheme of text[0 … size - 1]; used = 0 at the end. ascii: everything above 0x7e
 * becomes a stand-in too, except what text_show_also() allowed: the nearest ASCII for quotes,
 * dashes and the like, else '?'. */
struct glyph_run text_next(const char *text, size_t size, bool ascii);

/* The terminal's encoding is not UTF-8 but has this character (below TEXT_SHOW_MAX), in as many
 * columns: ascii lets it through. Call it before other threads show text. */
enum { TEXT_SHOW_MAX = 0x10000 };
void text_show_also(int32_t c);

/* Bytes of the character that text [size > 0] begins with, and its code point; where it is no valid
 * UTF-8, 1 and -1. */
size_t text_point(const char *text, size_t size, int32_t *c);
/* The most bytes up to n, of which text has more or that are its end, that part no character. */
size_t text_fit(const char *text, size_t n);

/* A byte of UTF-8 after others: 0: at a character's beginning; else what is missing of it. -1: it
 * cannot come there. */
int text_utf8(int before, unsigned char byte);
/* The value of a hexadecimal digit, or -1. */
int text_hex(char c);

/* Whole characters of valid UTF-8. */
bool text_is_utf8(const char *text, size_t size);

/* Columns that text takes on one line. */
int text_width(const char *text, size_t size, bool ascii);

/* A clean copy for terminals on one line or, with newlines kept, several (then tabs become spaces
 * up to the next multiple of 8 columns). malloc'd, NUL-terminated, NULL if memory ran out. */
char *text_clean(const char *text, size_t size, bool keep_newlines, size_t *out_size);

/* JSON string with quotes; invalid UTF-8 becomes U+FFFD; whatever text_next would not show is
 * written as an escape, so that it too may go to a terminal and yet nothing is lost. malloc'd, NULL
 * if memory ran out. */
char *text_json(const char *text, size_t size);

/* The text of an XML or HTML element: <, > and & as entities. Not for attributes. */
void text_xml(FILE *out, const char *text, size_t size);

/* One word of a shell's command line: as it is where that is safe, else quoted; control characters
 * as escapes in $'…', so that it may go to a terminal and still names the same file. malloc'd, NULL
 * if memory ran out. */
char *text_shell(const char *text);

/* For wrapping: bytes of the first line of text, at most w columns and cut between words where
 * there is a space, else after a | of choices; *next: where the line after begins (past a space or
 * a newline; 0 only at the end of text). */
size_t text_line(const char *text, int w, bool ascii, size_t *next);
/* The text for a terminal of 80 columns, each line but the first indented so far. */
void text_wrapped(FILE *out, const char *text, int indent);
/* A clean copy on one line in buf, cut to fit; "" if memory ran out. Returns buf. */
const char *text_cleaned(char *buf, size_t cap, const char *text, size_t size);
/* Appends as printf does, cut to fit; `between` comes before it unless buf is "". */
void text_append(char *buf, size_t cap, const char *between, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Which word of a list with such a separator it is, from 0; -1: none. */
int text_word(const char *list, char separator, const char *word, size_t size);
/* "\n", "\t" and "\\" as in C, in place; any other backslash stays. Returns its size then. */
size_t text_unescape(char *text, size_t size);
/* Whether it ends so. */
bool text_ends(const char *text, const char *end);
/* The end of a word of n things. */
static inline const char *plural(int64_t n)
{
	return n == 1 ? "" : "s";
}
