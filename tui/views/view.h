/* A view draws one aspect of the timeline: a file, and one struct of functions.
 *
 * A view reads the timeline and draws on a pen. It never queries the engine or the log, so it is
 * the same live and in a replay. It keeps no state but its cursor (struct view_state). A new view
 * is one new file view_x.c and one line in the table in views.h. Thread: the UI's. */
#pragma once

#include "fold/timeline.h"
#include "tui/term/canvas.h"
#include "tui/term/keys.h"

enum { LAYOUT_VIEWS = 40 }; /* maximum; views.h checks the table against it */

struct lens_look; /* tui/state/lens.h */

enum { VIEW_KEEP_CURSOR = -1 };

/* An action that a view requests from the program. */
struct view_action {
	enum { ACTION_NOTHING, ACTION_BRANCH, ACTION_TRY, ACTION_LENS } what;
	struct tl_branch branch; /* go to its end; for a try: up to .pos */
	int32_t token;           /* try: the id to put there */
};

struct breaks;

/* Turns that were entered and not submitted yet: there is no event of them. */
enum { VIEW_WAITING = 16 };
struct view_waiting {
	char *text[VIEW_WAITING]; /* oldest first */
	int n;
	const char *why; /* what they wait for */
	bool paused;     /* the engine is */
	/* what the end of the context will do to the next turn; "" or NULL: it is far */
	const char *ahead;
};

/* The user's selection; shared by all views, so that selecting a token shows its page. */
struct view_state {
	int64_t request; /* request in focus; 0: that of branch */
	int64_t branch;  /* request whose branch the conversation continues; 0: the newest */
	/* index of the token under the cursor in the focused request, or -1: the newest */
	int64_t token;
	int32_t page;                 /* page under the cursor in the pages view, or -1 */
	int32_t layer;                /* attention: layer, or -1 for the mean */
	int32_t head;                 /* attention: head, or -1 for the mean */
	int64_t scroll[LAYOUT_VIEWS]; /* by view index */
	/* by view index; a view's own meaning. VIEW_KEEP_CURSOR of the chat: it scrolls to `token` */
	int64_t cursor[LAYOUT_VIEWS];
	/* chat: Markdown as it was written; no tint; where tokens begin and end */
	bool marks, plain, pieces, thoughts;
	/* chat, scrolled: the turn at the end of the window, the lines of it that are above that end,
	 * and those below it */
	struct {
		int64_t request;
		int32_t above, scroll;
	} read;
	struct view_action action;
	/* A click that the next drawing is to find the object of; in cells of the screen. */
	struct {
		bool on;
		int x, y;
	} click;
	struct breaks *breaks;              /* watches; NULL: there are none */
	const struct lens_look *lens;       /* the deep look, NULL: none yet */
	const struct view_waiting *waiting; /* NULL: not in a chat */
	/* the request after which a new conversation was begun; 0: none, or a turn followed */
	int64_t anew;
	bool focused; /* the view being drawn has the focus */
	bool zoomed;  /* it fills the screen */
};

struct hint { /* in the line at the bottom */
	const char *key, *word;
};

struct view {
	const char *name; /* "KV pages" */
	/* For /view, tests, and the arrangements in layout.c, which use: chat, next, sampler, pages,
	 * batch, spec, prefix, attention, time, roofline. */
	const char *id;
	const char *help; /* the text of F1, several lines, understandable for students */
	int min_w, min_h; /* smaller than this it is not shown */
	int want_h;       /* preferred height in a side column at 120x40 */
	void (*draw)(struct pen *p, const struct timeline *t, struct view_state *s);
	/* Handles a key while focused; returns true if it did. */
	bool (*key)(int key, const struct timeline *t, struct view_state *s);
	/* its own keys, ends with key NULL; Enter is its own only when zoomed. Or NULL */
	const struct hint *hints;
	int index;
};

/* In the order of the keys 1-9; ends with NULL. A view draws its own head (pen_head) at the top
 * left; the program draws the focus mark over it. */
extern const struct view *const views[];
