/* Parses the arguments of rewind commands (positions, turns, tokens) and describes changed
 * settings. No screen, no engine but its tokenizer. Thread: the UI's; no state. */
#pragma once

#include "engine/text/tokenizer.h"
#include "tui/app/commands.h"

struct travel_from {
	const struct timeline *t;
	int64_t request; /* in focus */
	int32_t open;    /* position at which the answers to its turn begin */
	int64_t cursor;  /* index of the token under the cursor, or -1 */
};

/* The request that answered the nth turn of the branch that ends with a request, from 1; 0: there
 * is none. *n_turns: how many it has. */
int64_t travel_turn(const struct timeline *t, int64_t request, long long n, int *n_turns);
/* Parses a target: "57" or "@57" a position, "-20" so many tokens back, "turn 2" the answer of the
 * second turn of this branch from its beginning, "" the cursor or, without one, the end. out->pos
 * tokens are kept. */
int travel_where(const struct travel_from *f, const char *command, const char *where,
	struct tl_branch *out, struct err *e);
/* The id of a token: "#504", its text, in quotes if blanks count, or the beginning of a word after
 * a blank. A matching candidate of the draw at this position is preferred. */
int travel_token(const struct tokenizer *tokenizer, const struct travel_from *f,
	struct tl_branch at, const char *text, int32_t *id, struct err *e);
/* The settings of a request that the user has changed since: "temp 0.7 to 1.5, seed 0 to 3"; false:
 * nothing. open: where its answer begins; ctx: longest sequence. */
bool travel_changed(const struct tl_request *r, int32_t open, const struct answer_settings *s,
	int32_t ctx, char *out, size_t cap);
