/* Screens of their own beside the chat's and the replay's: two recordings (diff), and two
 * configurations while they run (compare). Thread: the UI's. */
#pragma once

#include "event/texts.h"
#include "sessions/compare/compare.h"
#include "sessions/diff/diff.h"
#include "tui/app/popup.h"
#include "tui/app/tui.h"

/* The loop of such a screen: keys, signals, the terminal's size, and frames, after a key or when
 * its time is over. It waits in one place. */
struct screen {
	int (*draw)(void *arg, struct canvas *c, struct err *e);
	/* code: that of a struct term_key. False: the user quits. */
	bool (*key)(void *arg, int code, int w, int h);
	/* milliseconds after which it is drawn anew; -1: never. NULL: never */
	int (*wait_ms)(void *arg);
	void *arg;
};

/* Until the user quits; the terminal is restored. */
int screen_loop(const struct screen *s, const struct tui_options *o, struct err *e);

/* A text of tokens in a column: wrapped, scrolled, and drawn token by token. */
struct text_column_line {
	size_t from, size; /* bytes of the column's text */
};

struct text_column {
	char *text;    /* of the tokens from `base` on; NUL only at the end */
	size_t *start; /* [n + 1] where a token's bytes begin */
	int32_t base, n;
	struct text_column_line *line;
	int n_lines, w; /* wrapped for this width; 0: not yet */
	int scroll;
};

/* n tokens, numbered from base. What the column had is freed. */
int text_column_fill(struct text_column *c, int32_t base, const int32_t *ids, int32_t n,
	const struct ev_texts *texts, struct err *e);
int text_column_wrap(struct text_column *c, int w, bool ascii, struct err *e);
int text_column_line(const struct text_column *c, int32_t token); /* line that it begins in */
void text_column_clamp(struct text_column *c, int rows);
/* style() sets the pen's ink and attributes for a token; standin: of a character that cannot be
 * shown. */
void text_column_draw(const struct text_column *c, struct pen *pen,
	void (*style)(void *arg, int32_t token, bool standin, struct pen *pen), void *arg);
void text_column_free(struct text_column *c);

/* Two recordings side by side on one screen: the answers in columns, the first token that differs
 * marked, the cause below. */
struct diff_screen {
	struct diff *d;
	int pair, hunk; /* shown; hunk -1: the pair has none */
	struct text_column column[2];
	bool laid;          /* the columns are laid out for this pair */
	struct popup popup; /* help */
};

void diff_screen_init(struct diff_screen *s, struct diff *d); /* at the first difference */
void diff_screen_free(struct diff_screen *s);
/* code: that of a struct term_key. False: the user quits. */
bool diff_screen_key(void *screen, int code, int w, int h);
int diff_screen_draw(void *screen, struct canvas *c, struct err *e);

/* Two configurations side by side while they run: the answers of a prompt in two columns, the first
 * token that differs marked, the table so far below. Drawing and keys only. What it shows is a
 * fold that the engines' thread feeds; it is read under the lock. */
struct compare_screen {
	const struct compare *c;
	pthread_mutex_t *lock; /* of c */
	atomic_bool *over;     /* nothing is added to c any more */
	int n_prompts, repeat; /* that will be answered, and how often */
	int back;              /* prompts back from the newest */
	struct text_column column[2];
	struct compare_row row[COMPARE_ROWS];
	int n_rows;
	int64_t n_ended;    /* answers and scores that the rows are of */
	struct popup popup; /* help */
};

int compare_screen_draw(void *screen, struct canvas *c, struct err *e);
/* False: the user quits. */
bool compare_screen_key(void *screen, int code, int w, int h);
void compare_screen_free(struct compare_screen *s);
