/* The prompt: readline through its callback interface, drawn on a canvas.
 *
 * Readline edits (history, inputrc, emacs and vi modes, completion); it never reads from the
 * terminal, never writes to it, sets no modes and catches no signals. Bytes are fed in, the line is
 * drawn by prompt_draw().
 *
 * Readline's state is global: one prompt a process. Thread: the UI's. Open it before the terminal
 * is taken over (readline reads terminfo then) and after the locale is set. */
#pragma once

#include "tui/term/canvas.h"

struct prompt_options {
	const char *history; /* file, or NULL: none is kept */
	/* Completions of the word that begins at `start` and ends at `end` of line: a malloc'd list of
	 * malloc'd texts, ending with NULL; or NULL. *files: complete file names instead. */
	char **(*complete)(void *arg, const char *line, int start, int end, bool *files);
	void *arg;
};

/* An unusable history file is no reason to fail; it is then neither read nor written. */
int prompt_open(const struct prompt_options *o, struct err *e);
void prompt_close(void);

/* Bytes as typed, key sequences included; all bytes of a character in one call, as a search cannot
 * take part of one. */
void prompt_feed(const char *bytes, size_t n);
/* The byte sequence of a key that is not a character; ignored if readline does not know it. */
void prompt_sequence(const char *seq);
/* Inserts pasted text (bracketed paste) as it is, newlines kept. */
void prompt_paste(const char *text, size_t size);
/* The line that was finished with Enter, malloc'd; NULL if there is none. More may follow. */
char *prompt_take(void);
/* True once after Ctrl-D on an empty line. */
bool prompt_take_eof(void);

const char *prompt_text(void); /* the present text */
void prompt_set(const char *text);
bool prompt_wants_escape(void); /* vi mode, or a mode of its own: Esc has a meaning of its own */
bool prompt_busy(void); /* an incremental search or another mode of its own takes the keys */

/* Matches that the last Tab found, until the next key. */
int prompt_n_matches(void);
const char *prompt_match(int i);

/* Lines that the text takes, w columns wide, after a label. */
int prompt_lines(int w, const char *label, bool ascii);
/* Draws it and places the canvas' cursor. `empty` (may be NULL) is shown dim while the text is
 * empty. Not awake: the prompt lacks the focus; all of it is dim, without a cursor. */
void prompt_draw(struct pen *p, const char *label, const char *empty, bool awake);
