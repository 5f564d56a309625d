/* A recording as a timeline at any step: what replay stands on, without a screen.
 *
 * Going to a step is reading a keyframe (fold/keyframe.h) and folding the few hundred steps after
 * it, so nothing of the recording is kept in memory. A recording without keyframes is read through
 * once, a little at a time, to make them; until then far steps are reached by folding all before
 * them.
 *
 * The timeline of player_go asks the player for what it was not given (timeline_whole,
 * timeline_page): it may be drawn as long as the player is open. It has texts of tokens that occur
 * later; else it is what a fold from the start gives. "At step N" means: everything up to and with
 * the event of step N; the last step has what follows it, too. Thread: any one. */
#ifndef CUTAWAY_TUI_PLAYER_H
#define CUTAWAY_TUI_PLAYER_H

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

/* as the file says; more may be found while reading */
int64_t player_n_steps(const struct player *p);
/* step the timeline stands at; 0: before the first */
int64_t player_at(const struct player *p);
bool player_closed(const struct player *p); /* the session ended in order */
/* Reads on in the background for at most budget_ns, if keyframes are to be made. 1: more to read,
 * 0: all is read or nothing is to be, -1: the file is damaged from here on. */
int player_read(struct player *p, int64_t budget_ns, struct err *e);
/* Takes the timeline to a step, reading what is needed. A step beyond the end is the end. */
int player_go(struct player *p, struct timeline *t, int64_t step, struct err *e);
/* Nanoseconds from this step to the next as recorded; -1 at the end. */
int64_t player_next_ns(struct player *p, struct err *e);
/* Of a long recording a mark stands for the KEY_STEPS steps up to its own. Not always in order of
 * steps. */
const struct player_mark *player_marks(const struct player *p, int *n);
/* Step of the next mark before or after the present step; -1: none. */
int64_t player_next_mark(struct player *p, bool forward);
/* Looks whether the file has grown. 1: it has, 0, -1. */
int player_refresh(struct player *p, struct err *e);

#endif
