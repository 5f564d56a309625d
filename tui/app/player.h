/* A recording as a timeline at any step: the part of replay without a screen.
 *
 * Going to a step is reading a keyframe (fold/keyframe.h) and folding the few hundred steps after
 * it, so nothing of the recording is kept in memory. A recording without keyframes is read through
 * once, a little at a time, to make them; until then a far step is reached by folding all steps
 * before it.
 *
 * The timeline of player_go loads older data from the player on demand (timeline_whole,
 * timeline_page): it may be drawn as long as the player is open. It also has texts of tokens that
 * occur later; otherwise it equals a fold from the start. "At step N" means: everything up to and
 * including the event of step N; the last step includes the events that follow it. Thread: any
 * one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/reader.h"
#include "fold/timeline.h"

struct player;

struct player_mark {
	enum reader_mark kind;
	int64_t step;
};

int player_open(struct player **p, const char *path, struct err *e);
void player_close(struct player *p);

/* as the file states; reading may find more */
int64_t player_n_steps(const struct player *p);
/* the timeline's step; 0: before the first */
int64_t player_at(const struct player *p);
bool player_closed(const struct player *p); /* the session was closed properly */
/* Reads on in the background for at most budget_ns, if keyframes are to be made. 1: more to read,
 * 0: all is read or none needed, -1: the file is damaged from here on. */
int player_read(struct player *p, int64_t budget_ns, struct err *e);
/* Takes the timeline to a step, reading what is needed. A step beyond the end is the end. */
int player_go(struct player *p, struct timeline *t, int64_t step, struct err *e);
/* Nanoseconds from this step to the next as recorded; -1 at the end. */
int64_t player_next_ns(struct player *p, struct err *e);
/* In a long recording a mark covers the KEY_STEPS steps up to its own. Not always in order of
 * steps. */
const struct player_mark *player_marks(const struct player *p, int *n);
/* Step of the next mark before or after the present step; -1: none. */
int64_t player_next_mark(struct player *p, bool forward);
/* Checks whether the file has grown. 1: it has, 0, -1. */
int player_refresh(struct player *p, struct err *e);
