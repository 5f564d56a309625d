/* The conversation of a recording, to be taken up again: its turns with exactly the tokens that
 * they had, and the settings as they stood at its end.
 *
 * Of several branches it is the one in use last: that of the newest request of the conversation; of
 * forks of one turn the last, with which the chat itself goes on. The turns before are found by
 * their tokens, which the newest prompt begins with; a turn that was dropped because the context
 * was full ends the search, and what the prompt still has from before it belongs to the first turn.
 * Nothing in the file is trusted. Thread: any one. */
#pragma once

#include "engine/core/engine.h"
#include "sessions/history/history.h"

struct resumed_turn {
	const struct history_request *r; /* the history's: params, sample, text */
	int32_t *ids;                    /* prompt and answer */
	int32_t n_prompt, n;             /* up to the opening of the answer; all */
	int32_t max_tokens;              /* of its answer from there on; 0: the context was the limit */
	struct setting_stops stop;
	struct ev_token *token; /* [n - n_prompt] as engine_note_answer() takes them */
	enum ev_code_finish reason;
};

struct resumed {
	char *path;
	struct history *h;
	struct resumed_turn *turn; /* the oldest first; at least one */
	int32_t n_turns, cap_turns;
};

/* ERR_INPUT if the recording has no conversation, or one that is not whole. */
int resumed_open(struct resumed **p, const char *path, struct err *e);
void resumed_close(struct resumed *p); /* NULL is fine */

/* Writes the settings that the conversation ended with, but for those that `given` says were given
 * now. What engine and answer then point to is the conversation's. ERR_INPUT, with what to do, for
 * one that cannot be had. */
int resumed_settings(struct resumed *p, struct engine_options *engine,
	struct answer_settings *answer, bool (*given)(void *arg, const char *name), void *arg,
	struct err *e);
