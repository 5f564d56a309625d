/* A part of a conversation as lines: bytes of tokens joined, then wrapped at words. For view_chat.c.
 * Thread: the UI's. */
#ifndef CUTAWAY_TUI_CHAT_WRAP_H
#define CUTAWAY_TUI_CHAT_WRAP_H

#include "tui/timeline.h"

struct wrap_line {
	size_t from, to; /* bytes of the text; blanks and the line break at the end belong to the line */
};

struct wrap {
	char *text;
	int32_t *owner; /* [size] index of the token a byte came from, or NULL: the text is nobody's */
	size_t size, cap;
	struct wrap_line *line;
	int32_t n_lines, cap_lines;
	bool failed; /* memory ran out: it holds what came before */
};

void wrap_free(struct wrap *w);
void wrap_add_text(struct wrap *w, const char *text, size_t size);
/* The tokens of an answer, without the end-of-turn token. While it is being written, a last character that
 * is not whole yet is kept back. */
void wrap_add_tokens(struct wrap *w, const struct timeline *t, const struct tl_request *r);
/* Fills line[]. At least one line if there is text. width at least 1. */
void wrap_lines(struct wrap *w, int width, bool ascii);
/* Line that shows the first byte of a token, or -1. */
int32_t wrap_find(const struct wrap *w, int32_t token);

#endif
