/* What the chat shows of one request, or of a turn that is not a request yet: its lines and notes.
 * For view_chat.c, which draws them. Thread: the UI's. */
#pragma once

#include "tui/views/view_util.h"

/* A part of a conversation as lines: bytes of tokens joined, then wrapped at words. */
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
	uint8_t *style; /* [size] MARK_x, or NULL */
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

/* Fills line[]. At least one line if there is text. width at least 1. */
void wrap_lines(struct wrap *w, int width, bool ascii);
/* Line that shows the first byte of an owner, or of one after it; or -1. */
int32_t wrap_find(const struct wrap *w, int32_t owner);

/* An answer's Markdown as it is meant: md4c reads it, and what it finds becomes a text with styles,
 * in which every byte still knows its token; marks (#, **, `) are left out. */

/* Styles of a byte, in w->style. */
enum {
	MARK_BOLD = 1,
	MARK_CODE = 2,  /* of a span or a block */
	MARK_BLOCK = 4, /* its line is code */
	MARK_DIM = 8,   /* bullets and rules, which are ours */
};

/* Replaces text and owners, and makes w->style. A table is aligned if it fits the width. If memory
 * runs out, or nothing but marks is there, w is as it was. */
void mark_down(struct wrap *w, int width, bool ascii);

/* The thought of an answer, which the chat folds. */

/* Takes the thought out of an answer, whose tokens begin at position `open`, if it has one, and
 * says in words how long it is: in tokens, and in time where that is known. */
void thought_fold(struct wrap *answer, const struct timeline *t, const struct tl_request *r,
	int32_t open, struct view_text *words);

/* Which turns the context has no room for any more. */

/* Requests from … end - 1 of the timeline, as far as they are shown (view_shown), are of turns of
 * this conversation that its newest prompt left out. */
struct chat_left {
	int32_t from, end;
};
struct chat_left chat_left(const struct timeline *t, const bool *shown);

enum { TURN_LABEL_W = 4, TURNS_WAITING = 3 /* shown, the newest */ };

/* One request on the screen, from top to bottom: notes on dropped turns, the question, the files
 * before it, a note on siblings, the answer, why it ended. Other notes
 * are one line each. */
struct turn {
	const struct timeline *t;
	const struct tl_request *r;
	struct view_state *state;         /* where a click on a token goes */
	const struct tl_token *marked;    /* under the cursor, or NULL */
	struct wrap asked, answer, below; /* below: `after`, on lines */
	struct view_text trimmed, files, abandoned, after;
	struct view_text thought; /* in its place */
	size_t n_who;             /* bytes of `asked` that say which client asks, with its colon */
	int32_t n_lines;          /* including the blank line before it */
	bool same_question, waits, plain /* no tint */;
	bool left;                       /* out of the context */
	const struct view_waiting *live; /* NULL: there is no engine */
	const char *rule;                /* words of a line across the window above it, or NULL */
	int32_t skip;                    /* lines of the answer that are not shown, its first ones */
	bool is_choice;                  /* one of several that a client asked for */
};

extern const char turn_anew[]; /* the rule above a new conversation */
/* A note between two turns. */
void turn_of_words(
	struct turn *n, const struct timeline *t, const char *words, int width, bool ascii);
extern const struct tl_request turn_nobody; /* placeholder request of turns without one */

struct turn_look {
	const bool *shown; /* view_shown */
	int width;
	/* marks: Markdown as it was written; pieces: the question's bytes know their tokens; thoughts:
	 * they are shown */
	bool ascii, marks, pieces, thoughts;
	const struct view_waiting *live; /* NULL: there is no engine */
	int64_t token;                   /* index of one that must be seen, or -1; it may be a mark */
};
void turn_of_request(struct turn *n, const struct timeline *t, const struct tl_request *r,
	const struct turn_look *look);
/* A turn that was entered and not submitted yet, on one line, so that the running answer stays
 * visible. The newest says what they wait for. */
void turn_of_waiting(struct turn *n, const struct timeline *t, const struct view_waiting *w, int i,
	int width, bool ascii);
/* The newest search, if its answer is pending, or was not found, and no turn followed; else
 * NULL. */
const struct tl_search *turn_searching(const struct timeline *t);
/* A turn that a search answers: shows the leading branch so far. */
void turn_of_search(
	struct turn *n, const struct timeline *t, const struct tl_search *s, int width, bool ascii);

/* What helps against an answer that repeats itself. */
const char *turn_loop_help(const struct tl_request *r);
/* Shows only so many lines of the answer, its newest, unless the cursor is in it. */
void turn_shorten(struct turn *n, int32_t lines);
void turn_free(struct turn *n);

/* The token under the cursor, if this turn shows it, is marked. */
void turn_mark(struct turn *n, const struct timeline *t, const struct view_state *s);
/* Line of the marked token, counted from the end of the turn; -1: it is not in it. */
int32_t turn_cursor_line(const struct turn *n, const struct view_state *s);
