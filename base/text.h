/* The one way for text that is not ours (files, input, model output) to a terminal.
 *
 * Control characters (C0, DEL, C1), bidirectional and zero-width controls, invalid UTF-8 and unassigned
 * or private code points become visible stand-ins; runs of combining marks are clamped. Works grapheme by
 * grapheme, so a caller that cuts text never cuts inside one. Thread: any; no state. */
#ifndef CUTAWAY_BASE_TEXT_H
#define CUTAWAY_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct glyph_run {
	char text[16]; /* what to show: valid UTF-8, NUL-terminated, never a control character */
	int width;     /* columns: 0 only at the end, else 1 or 2 (stand-ins of more are several runs) */
	size_t used;   /* bytes of the input it stands for */
	bool standin;  /* it is not the text itself: show it dim */
	bool newline;  /* the input was '\n' (text is then "") */
	bool tab;
};

/* The next grapheme of text[0 … size - 1]; used = 0 at the end. ascii: everything above 0x7e becomes a
 * stand-in too. */
struct glyph_run text_next(const char *text, size_t size, bool ascii);

/* Columns that text takes on one line. */
int text_width(const char *text, size_t size, bool ascii);

/* A clean copy for terminals on one line or, with newlines kept, several. malloc'd, NUL-terminated, NULL
 * if memory ran out. */
char *text_clean(const char *text, size_t size, bool keep_newlines, size_t *out_size);

/* JSON string with quotes; invalid UTF-8 becomes U+FFFD. malloc'd. */
char *text_json(const char *text, size_t size);

#endif
