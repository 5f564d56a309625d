/* An answer's Markdown as it is meant: md4c reads it, and what it finds becomes a text with styles,
 * in which every byte still knows its token; marks (#, **, `) are left out. For chat_turn.c.
 * Thread: the UI's. */
#ifndef CUTAWAY_TUI_CHAT_MARK_H
#define CUTAWAY_TUI_CHAT_MARK_H

#include "tui/views/chat_wrap.h"

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

#endif
