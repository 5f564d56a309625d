/* What the files of the terminal (term.c, term_*.c) share: for these alone. */
#pragma once

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <termios.h>
#include <unistd.h>

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
	enum theme_depth depth; /* what it can show */
	bool ascii, gone;
	bool away; /* the terminal was left for good to another program */
	int w, h;
	char *frame; /* bytes of the last frame */
	size_t frame_size, frame_sent;
	struct canvas shown;
	bool anew;
	short pair[INK_N * INK_N]; /* 0: not allocated yet */
	char paste[1 << 16];       /* what is longer comes in several keys */
	size_t paste_size;
	bool kitty;       /* it has kitty's keyboard protocol */
	bool pasting;     /* its end has not come */
	bool brackets;    /* the terminal says where what is pasted begins and ends */
	int burst;        /* keys read since none was waiting */
	int64_t lines_ns; /* when a line end without brackets was taken as pasted */
};

enum { PASTE_BEGIN = 0x3001, PASTE_END }; /* keys as ncurses numbers them */

void term_keys_open(struct terminal *t); /* after newterm() */
/* The next key that is not a character, as ncurses numbers it (above 255); or 0 and a character, as
 * UTF-8 in t->character, however many bytes and reads it came in. ERR: there is none. */
int term_read(struct terminal *t);
/* Whether the character that was read begins something pasted without brackets. */
bool paste_begins(struct terminal *t);
/* Gathers what is pasted, from c on, which was read: between brackets until the end, over several
 * calls if need be, else as long as characters wait. False: nothing yet. */
bool paste_take(struct terminal *t, int c, struct term_key *k);

/* term_kitty.c. Asks the terminal for kitty's keyboard protocol; its answer, a key, begins it. */
void kitty_begin(struct terminal *t);
void kitty_end(struct terminal *t);
enum kitty { KITTY_UNKNOWN, KITTY_CHARACTER, KITTY_SEQUENCE };
/* What a sequence CSI … is: a character (then in t->character, as if read), or a key without
 * modifiers (then *seq is what terminals usually send for it), or neither. */
enum kitty kitty_take(struct terminal *t, const char **seq);

/* term_links.c. Draws the references to papers that stand on the screen once more, as hyperlinks
 * (OSC 8), for terminals that are likely to know them. After refresh(). */
void links_draw(struct terminal *t, const struct canvas *c);
/* The attributes of a cell, as ncurses has them. */
attr_t term_attr(struct terminal *t, const struct cell *c, short *pair);

/* Sends a sequence that ncurses has no name for, after what ncurses wrote so far. */
void term_send(struct terminal *t, const char *text);

/* Ctrl-Z: the process stops and gives the terminal back. */

/* Stops the process. Returns true when it is continued in the foreground; false when it is
 * continued in the background to end: after `kill %1` of a shell it must not stop again before it
 * has read that signal. */
bool away_until_ours(void);

/* Restores the terminal when the program crashes: SIGSEGV, SIGABRT and the like.
 *
 * Everything the handler touches is prepared before it is installed and is safe in a signal
 * handler: write(), tcsetattr(), constant memory. The signal then has its normal effect. Thread:
 * the UI's; the handler may run on any. */

void crash_begin(int out, const struct termios *found); /* found: the modes to restore */
void crash_add(const char *text); /* bytes to write; what no longer fits is left out */
void crash_arm(void);
void crash_disarm(void);
