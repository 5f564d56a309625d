/* A text of tokens in a column: wrapped, scrolled, and drawn token by token. Thread: the UI's. */
#ifndef CUTAWAY_TUI_TEXT_COLUMN_H
#define CUTAWAY_TUI_TEXT_COLUMN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "event/texts.h"
#include "tui/term/canvas.h"

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

/* n tokens, numbered from base; piece(arg, i) gives the text of the i-th of them, bytes NULL if it
 * is not known. What the column had is freed. */
int text_column_fill(struct text_column *c, int32_t base, int32_t n,
	struct ev_text (*piece)(void *arg, int32_t i), void *arg, struct err *e);
int text_column_wrap(struct text_column *c, int w, bool ascii, struct err *e);
int text_column_line(const struct text_column *c, int32_t token); /* line that it begins in */
void text_column_clamp(struct text_column *c, int rows);
/* style() sets the pen's ink and attributes for a token; standin: of a character that cannot be
 * shown. */
void text_column_draw(const struct text_column *c, struct pen *pen,
	void (*style)(void *arg, int32_t token, bool standin, struct pen *pen), void *arg);
void text_column_free(struct text_column *c);

#endif
