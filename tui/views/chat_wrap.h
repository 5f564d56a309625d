/* A part of a conversation as lines: bytes of tokens joined, then wrapped at words. For
 * view_chat.c. Thread: the UI's. */
#ifndef CUTAWAY_TUI_CHAT_WRAP_H
#define CUTAWAY_TUI_CHAT_WRAP_H

#include "fold/timeline.h"

struct wrap_line {
	/* bytes of the text; blanks and the line break at the end belong to the line */
	size_t from, to;
	int indent; /* columns before it: of a line that goes on, those of the text in the one before */
};

struct wrap {
	char *text;
	/* [size] token of a byte: its index; below WRAP_GIVEN the position, counted down, of a token
	 * from a fork's prompt; NULL: the text has no tokens. */
	int32_t *owner;
	uint8_t *style; /* [size] MARK_x (chat_mark.h), or NULL */
	size_t size, cap;
	struct wrap_line *line;
	int32_t n_lines, cap_lines;
	bool failed; /* memory ran out: the text is incomplete */
};

void wrap_free(struct wrap *w);
void wrap_add_text(struct wrap *w, const char *text, size_t size);
/* With a style, and owner[size]; NULL: they are nobody's. All of a wrap is added so, or none. */
void wrap_add_styled(
	struct wrap *w, const char *text, size_t size, const int32_t *owner, uint8_t style);
/* Bytes of another one, with their owners and styles. */
void wrap_add_piece(struct wrap *w, const struct wrap *from, size_t begin, size_t end);
enum { WRAP_NOBODY = -1, WRAP_GIVEN = -2 };

/* The part of an answer that a fork has in its prompt: positions from `open` on. */
void wrap_add_given(
	struct wrap *w, const struct timeline *t, const struct tl_request *r, int32_t open);
/* The tokens of an answer, without the end-of-turn token. While the answer runs, an incomplete last
 * character is left out. */
void wrap_add_tokens(struct wrap *w, const struct timeline *t, const struct tl_request *r);
/* Takes the first bytes away. */
void wrap_drop(struct wrap *w, size_t size);
/* Fills line[]. At least one line if there is text. width at least 1. */
void wrap_lines(struct wrap *w, int width, bool ascii);
/* Line that shows the first byte of a token, or -1. */
int32_t wrap_find(const struct wrap *w, int32_t token);

/* Line that shows the first byte of a prompt token at a position, or -1. */
int32_t wrap_find_given(const struct wrap *w, int32_t pos);

#endif
