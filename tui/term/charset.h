/* The terminal's encoding, as the environment names it. Internally all text is UTF-8: input is
 * converted to UTF-8 here, and output to the terminal's encoding.
 *
 * With an ASCII environment (LC_ALL=C) the output is ASCII, but input is read as UTF-8, which
 * nearly all terminals send. One terminal a process. Thread: the UI's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Finds out the encoding. From here on LC_CTYPE is UTF-8 for the thread that calls, which readline
 * and ncurses need; no other category changes. Once, before prompt_open() and term_open(), and
 * before other threads draw. */
void charset_open(void);
/* false: call base/text.h with `ascii`; it knows which other characters there are */
bool charset_is_utf8(void);

/* Input bytes that are not yet a complete character. */
struct charset_bytes {
	char byte[8];
	size_t n; /* never full after charset_take() returned 0 */
};
void charset_add(struct charset_bytes *b, unsigned char byte);
/* Takes the first character out, as UTF-8: its bytes (1 … 8); 0 if it is not complete yet. Invalid
 * bytes are passed unchanged in UTF-8, and as U+FFFD in other encodings. */
size_t charset_take(struct charset_bytes *b, char out[8]);

/* Turns UTF-8 into the terminal's encoding, in place; escape sequences stay. Returns the bytes that
 * are left. */
size_t charset_encode(char *text, size_t size);
