/* What the chat shows of one request, or of a turn that is not a request yet: its lines and notes.
 * For view_chat.c, which draws them. Thread: the UI's. */
#ifndef CUTAWAY_TUI_CHAT_TURN_H
#define CUTAWAY_TUI_CHAT_TURN_H

#include "tui/views/chat_wrap.h"
#include "tui/views/view_util.h"

enum { TURN_LABEL_W = 4, TURNS_WAITING = 3 /* shown, the newest */ };

/* One request on the screen, from top to bottom: notes on dropped turns, the question, the files
 * before it, a note on siblings, the answer, why it ended. A note is one line. */
struct turn {
	const struct timeline *t;
	const struct tl_request *r;
	struct view_state *state;      /* where a click on a token goes */
	const struct tl_token *marked; /* under the cursor, or NULL */
	struct wrap asked, answer;
	struct view_text trimmed, files, abandoned, after;
	struct view_text thought; /* in its place */
	size_t n_who;             /* bytes of `asked` that say which client asks, with its colon */
	int32_t n_lines;          /* including the blank line before it */
	bool same_question, waits, paused, plain /* no tint */;
	bool left;        /* out of the context */
	const char *rule; /* words of a line across the window above it, or NULL */
	int32_t skip;     /* lines of the answer that are not shown, its first ones */
	bool is_choice;   /* one of several that a client asked for */
};

extern const char turn_anew[]; /* the rule above a new conversation */
/* A note between two turns. */
void turn_of_words(struct turn *n, const struct timeline *t, const char *words);
extern const struct tl_request turn_nobody; /* placeholder request of turns without one */

struct turn_look {
	int width;
	/* marks: Markdown as it was written; pieces: the question's bytes know their tokens; thoughts:
	 * they are shown */
	bool ascii, marks, pieces, thoughts;
	bool paused;   /* the engine is: nothing comes */
	int64_t token; /* index of one that must be seen, or -1; it may be a mark */
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
/* Whether it is a turn that begins a new conversation. */
bool turn_begins_anew(const struct timeline *t, const struct tl_request *r);
/* Shows only so many lines of the answer, its newest, unless the cursor is in it. */
void turn_shorten(struct turn *n, int32_t lines);
void turn_free(struct turn *n);

/* The token under the cursor, if this turn shows it, is marked. */
void turn_mark(struct turn *n, const struct timeline *t, const struct view_state *s);
/* Line of the marked token, counted from the end of the turn; -1: it is not in it. */
int32_t turn_cursor_line(const struct turn *n, const struct view_state *s);

#endif
