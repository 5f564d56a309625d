/* For tests of views: a view's text, and small conversations said token by token. What fails ends
 * the test. */
#pragma once

#include "tui/views/view.h"

extern const struct view_state fresh; /* nothing chosen, nothing focused */

/* The made-up session up to a step. The caller frees it. */
struct timeline demo_timeline(int steps);
struct canvas canvas_of(int w, int h, bool ascii);
/* malloc'd */
char *text_of(
	const struct view *v, const struct timeline *t, struct view_state *s, int w, int h, bool ascii);
/* yes: the text is there; else: it is not. */
void assert_shows(const struct view *v, const struct timeline *t, const struct view_state *s, int w,
	int h, const char *expected, bool yes);

struct said { /* a conversation of one answer; ids and positions count up from 0 */
	struct timeline t;
	int64_t seq, pos;
};
void say_begin(struct said *d, const char *text);
void say_event(struct said *d, struct event *ev);
void say_token(struct said *d, const char *bytes);
void say_again(struct said *d, int32_t id); /* a token that was said before */
void say_finish(struct said *d, enum ev_code_finish reason, const char *why /* or NULL */);

/* Frees text. 1: it is not what its file in tests/data/views has, and says so; with UPDATE_GOLDEN=1
 * it is written there first. */
int golden_differs(const char *name, char *text);
