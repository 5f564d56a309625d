/* The palette: a list over the screen of all that can be done, filtered as one types. Ctrl-P and /
 * alone open it, and commands that choose among names (/view, /model, /lesson, /help) show their
 * part of it. Thread: the UI's. */
#pragma once

#include "tui/term/term.h"

/* One of it. The texts are copied. */
struct palette_item {
	const char *group; /* its heading; lives as long as the palette */
	const char *name, *value, *text;
	const char *more; /* other names that find it */
	const char *key;  /* that does the same, or NULL; lives as long as the palette */
	const char *line; /* what it is, typed: a command, or with a blank at its end the beginning of
						 one */
	int score;
};

enum { PALETTE_FILTER = 64 };
/* A line of the list. */
struct palette_row {
	int item;
	bool heading; /* of the group of that item, which follows */
};
struct palette {
	bool open;
	const void *grows; /* who adds to it while it is shown, NULL: nobody */
	char title[64], note[48];
	char filter[PALETTE_FILTER];
	struct palette_item *item;
	int n, cap;
	/* the best first; without a filter as they were added, with headings */
	struct palette_row *row;
	int n_rows, n_shown; /* n_shown: without headings */
	int chosen;          /* the row; no heading */
	int top, fit, y0;    /* first row on the screen, how many have room, where: as last drawn */
};

/* Begins an empty one. */
void palette_begin(struct palette *p, const char *title, const char *filter);
/* Adds one; NULL texts are "". What memory does not suffice for is left out. */
void palette_add(struct palette *p, const struct palette_item *item);
/* After the last one: it is on the screen from now on. */
void palette_show(struct palette *p);
/* After those that were added since: what is chosen and the place in the list stay. */
void palette_grow(struct palette *p);
/* The words on the right of its title; "": how many it lists. */
void palette_note(struct palette *p, const char *note);
void palette_close(struct palette *p);

enum palette_answer {
	PALETTE_STAYS,
	PALETTE_LEFT, /* closed */
	PALETTE_RUN,  /* *chosen: run its line, or type it, if it ends in a blank */
	PALETTE_TYPE, /* type its line */
	PALETTE_EXPLAIN,
};
/* A key or a click. *chosen lives until the palette is closed, which is the caller's to do. */
enum palette_answer palette_key(
	struct palette *p, const struct term_key *k, const struct palette_item **chosen);
void palette_draw(struct palette *p, struct canvas *c);
