/* Screens of their own beside the chat's and the replay's: two recordings (diff), and two
 * configurations while they run (compare). Thread: the UI's. */
#pragma once

#include "event/texts.h"
#include "sessions/compare/compare.h"
#include "sessions/diff/diff.h"
#include "tui/app/popup.h"
#include "tui/app/tui.h"

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

/* What a screen is; its functions get the struct whose first member is the struct screen. */
struct screen_kind {
	int (*draw)(void *screen, struct canvas *c, struct err *e);
	/* code: that of a struct term_key; not of those that quit or ask for help */
	void (*key)(void *screen, int code, int w, int h);
	/* milliseconds after which it is drawn anew; -1: never. NULL: never */
	int (*wait_ms)(void *screen);
	const char *name, *help;
};
extern const struct screen_kind diff_screen, compare_screen;

/* Two texts side by side, and the help over them. */
struct screen {
	const struct screen_kind *kind;
	struct text_column column[2];
	struct popup popup;
};

/* Keys, signals, the terminal's size, and frames, after a key or when its time is over, until the
 * user quits; the terminal is restored. It waits in one place. */
int screen_loop(struct screen *s, const struct tui_options *o, struct err *e);
int screen_draw(struct screen *s, struct canvas *c, struct err *e);
bool screen_key(struct screen *s, int code, int w, int h); /* false: the user quits */
void screen_free(struct screen *s);

/* Pens of one side, one column narrower than its half, so that texts do not touch the rule. */
struct pen screen_side(struct canvas *c, int side, int y, int rows);
/* Of its first two rows; "A" and the name are drawn, in what follows the pen is dim. */
struct pen screen_title(struct canvas *c, int side, const char *name);
/* The last row. */
struct pen screen_status(struct canvas *c);

/* Two recordings side by side on one screen: the answers in columns, the first token that differs
 * marked, the cause below. */
struct diff_screen {
	struct screen screen;
	struct diff *d;
	int pair, hunk; /* shown; hunk -1: the pair has none */
	bool laid;      /* the columns are laid out for this pair */
};

void diff_screen_init(struct diff_screen *s, struct diff *d); /* at the first difference */

/* Two configurations side by side while they run: the answers of a prompt in two columns, the first
 * token that differs marked, the table so far below. What it shows is a fold that the engines'
 * thread feeds; it is read under the lock. */
struct compare_screen {
	struct screen screen;
	const struct compare *c;
	pthread_mutex_t *lock; /* of c */
	atomic_bool *over;     /* nothing is added to c any more */
	int n_prompts, repeat; /* that will be answered, and how often */
	int back;              /* prompts back from the newest */
	struct compare_row row[COMPARE_ROWS];
	int n_rows;
	int64_t n_ended; /* answers and scores that the rows are of */
};
