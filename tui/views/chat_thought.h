/* The thought of an answer, which the chat folds. For chat_turn.c. Thread: the UI's. */
#ifndef CUTAWAY_TUI_CHAT_THOUGHT_H
#define CUTAWAY_TUI_CHAT_THOUGHT_H

#include "tui/views/chat_wrap.h"
#include "tui/views/view_util.h"

/* Takes the thought out of an answer, whose tokens begin at position `open`, if it has one, and
 * says in words how long it is: in tokens, and in time where that is known. */
void thought_fold(struct wrap *answer, const struct timeline *t, const struct tl_request *r,
	int32_t open, struct view_text *words);

#endif
