/* What term.c and term_keys.c share: for these two alone. */
#ifndef CUTAWAY_TUI_TERM_IMPL_H
#define CUTAWAY_TUI_TERM_IMPL_H

#include <stdio.h>
#include <termios.h>

#include "tui/term/charset.h"
#include "tui/term/term.h"

/* Last: names such as `lines` are macros from here on. */
#define NCURSES_WIDECHAR 1
#define NCURSES_NOMACROS 1
#include <curses.h>
#include <term.h>

struct terminal {
	SCREEN *screen;
	WINDOW *keys; /* a pad: reading keys from it draws nothing */
	struct charset_bytes typed;
	char character[9]; /* the last character that was read */
	char again[9];     /* a character to be read again; or "" */
	FILE *memory;      /* ncurses' output */
	int out;           /* the terminal, a non-blocking file description of our own */
	struct termios found, ours;
	struct theme theme;
	bool ascii, gone;
	bool away; /* the terminal was left for good to another program */
	int w, h;
	char *frame; /* bytes of the last frame */
	size_t frame_size, frame_sent;
	struct canvas shown;
	bool anew;
	short pair[INK_N * INK_N]; /* 0: not allocated yet */
	char *paste;
	size_t paste_size;
	bool pasting;
};

void term_keys_open(struct terminal *t); /* after newterm() */

#endif
