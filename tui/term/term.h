/* The terminal: the only module that uses ncurses.
 *
 * Shows a canvas and reads keys. Never waits for the terminal: ncurses writes its frames to memory,
 * and term_flush() passes on what the terminal accepts. While a frame is being sent, term_draw()
 * does nothing, so a slow or stopped terminal gets fewer frames and blocks no thread.
 *
 * One at a time, because the crash handler restores only one. Thread: the UI's. */
#pragma once

#include "tui/term/keys.h"
#include "tui/term/theme.h"

struct terminal;

struct term_options {
	bool ascii; /* else as the locale says */
	/* "dark", "light" or "mono"; else, also NULL, found out from NO_COLOR and COLORFGBG */
	const char *theme;
};

/* After charset_open(). Fails with a clear error where there is no terminal, or one that cannot
 * place its cursor. From here on fatal signals (SIGSEGV, SIGABRT …) restore the terminal first. */
int term_open(struct terminal **t, const struct term_options *o, struct err *e);
void term_close(struct terminal *t); /* restores the terminal; NULL is fine */

void term_size(const struct terminal *t, int *w, int *h);
bool term_ascii(const struct terminal *t);
const struct theme *term_theme(const struct terminal *t);
void term_set_theme(struct terminal *t, const char *theme); /* as in struct term_options */
void term_set_projector(struct terminal *t, bool on);

/* Shows a canvas of term_size(). Returns false, having done nothing, if the last frame is still
 * being sent. */
bool term_draw(struct terminal *t, const struct canvas *c);
int term_out_fd(const struct terminal *t);
bool term_pending(const struct terminal *t); /* poll term_out_fd() for POLLOUT, then term_flush() */
int term_flush(struct terminal *t);          /* -1: the terminal is gone */

void term_resize(struct terminal *t);  /* after SIGWINCH: asks for the new size */
void term_refresh(struct terminal *t); /* everything is drawn anew with the next frame */
/* Restores the terminal, stops the process group as Ctrl-Z does, and returns when it is continued:
 * in the foreground, or with a pending signal to end, when another program has the terminal and
 * this one no longer uses it. */
void term_suspend(struct terminal *t);

enum { KEY_PASTE_ = KEY_MOUSE_ + 1, KEY_EOF_, KEY_CHAR_ };
enum mouse_button { MOUSE_CLICK, MOUSE_WHEEL_UP, MOUSE_WHEEL_DOWN };

struct term_key {
	/* 0 … 127: as typed; KEY_CHAR_: beyond ASCII; else KEY_* of keys.h, KEY_PASTE_, KEY_EOF_ */
	int code;
	/* the whole character as UTF-8, or bytes that readline knows for this key; may be "" */
	const char *seq;
	const char *text; /* KEY_PASTE_: what was pasted, UTF-8, until the next call */
	size_t size;
	int x, y; /* KEY_MOUSE_ */
	enum mouse_button button;
};
/* Puts a text on the terminal's clipboard, where the terminal lets programs do so (OSC 52). */
void term_copy(struct terminal *t, const char *text, size_t n);
/* Next key; false if there is none. Waits only a moment (25 ms) to distinguish Esc from the start
 * of a sequence. */
bool term_key(struct terminal *t, struct term_key *k);
