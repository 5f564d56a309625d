/* The terminal's encoding, as the environment names it. Inside all text is UTF-8, whatever the
 * terminal: what it sends becomes UTF-8 here, and what it is shown becomes its own.
 *
 * A terminal that the environment says to be ASCII (LC_ALL=C) is shown ASCII; what it sends is
 * taken for UTF-8, as nearly every terminal sends today. One terminal a process. Thread: the
 * UI's. */
#ifndef CUTAWAY_TUI_CHARSET_H
#define CUTAWAY_TUI_CHARSET_H

#include <stdbool.h>
#include <stddef.h>

/* Finds out the encoding. From here on LC_CTYPE is UTF-8 for the thread that calls, which readline
 * and ncurses need; no other category changes. Once, before prompt_open() and term_open(), and
 * before other threads draw. */
void charset_open(void);
/* false: base/text.h must be asked for ASCII and knows what else there is */
bool charset_is_utf8(void);

/* Bytes that were typed and are not yet a character. */
struct charset_bytes {
	char byte[8];
	size_t n; /* never full after charset_take() said 0 */
};
void charset_add(struct charset_bytes *b, unsigned char byte);
/* Takes the first character out, as UTF-8: its bytes (1 … 8); 0 if it is not whole yet. Bytes that
 * are no character of the encoding come as they are, or as U+FFFD where that is another than
 * UTF-8. */
size_t charset_take(struct charset_bytes *b, char out[8]);

/* Turns UTF-8 into the terminal's encoding, in place; escape sequences stay. Returns the bytes that
 * are left. */
size_t charset_encode(char *text, size_t size);

#endif
