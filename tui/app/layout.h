/* Computes the rectangle of each view: a pure function of the screen's size and of what is shown.
 *
 * Invariants, held by tests/unit/tui/test_layout.c for all sizes from 20x5 to 300x100: (1)
 * rectangles lie inside the screen and none overlaps another; (2) the chat and the prompt are
 * always there (or the zoomed view, or a lesson with what it looks at, and the prompt); (3) a view
 * that is shown has at least its min_w and min_h. Thread: any; no state. */
#pragma once

#include "tui/views/view.h"

struct layout_request {
	int w, h;
	int zoom;         /* index of the view that fills the screen, or -1 */
	int prompt_lines; /* wanted; gets at most a third of the screen */
	bool scrubber;    /* replay: three lines above the prompt */
	bool lesson;      /* one is read: it stands beside what it looks at */
	/* views without anything to show (bit i: view i), which a small screen leaves out */
	uint64_t empty;
	int look;                        /* index of the view that the lesson looks at, or -1 */
	bool look_all;                   /* as much of it as there is room for */
	const struct view *const *views; /* ends with NULL */
};

struct layout {
	struct rect status; /* one line at the top */
	struct rect rule;   /* one line over the prompt: a thin rule, or the message */
	struct rect prompt;
	struct rect hints; /* one line at the bottom */
	struct rect scrubber;
	struct rect body;               /* between status and rule: popups go here */
	struct rect view[LAYOUT_VIEWS]; /* h == 0: not shown */
};

void layout_make(struct layout *l, const struct layout_request *ask);
