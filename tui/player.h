/* A recording as a timeline at any step: what replay stands on, without a screen.
 *
 * The events are kept packed in memory as they are read (a little at a time, so that the first screen is up at
 * once); going back folds them again from the start, which is fast and needs no second way of undoing things.
 * "At step N" means: everything up to and with the event of step N; the last step has what follows it, too.
 * Thread: any one. */
#ifndef CUTAWAY_TUI_PLAYER_H
#define CUTAWAY_TUI_PLAYER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/reader.h"
#include "tui/timeline.h"

struct player;

struct player_mark {
	enum reader_mark kind;
	int64_t step;
};

int player_open(struct player **p, const char *path, struct err *e);
void player_close(struct player *p);

int64_t player_n_steps(const struct player *p); /* as the file says; more may be found while reading */
int64_t player_at(const struct player *p);      /* step the timeline stands at; 0: before the first */
bool player_closed(const struct player *p);     /* the session ended in order */
/* Reads on for at most budget_ns. 1: more to read, 0: all is read, -1: the file is damaged from here on. */
int player_read(struct player *p, int64_t budget_ns, struct err *e);
/* Takes the timeline to a step, reading what is needed. A step beyond the end is the end. */
int player_go(struct player *p, struct timeline *t, int64_t step, struct err *e);
/* Nanoseconds from this step to the next as recorded; -1 at the end. */
int64_t player_next_ns(struct player *p, struct err *e);
const struct player_mark *player_marks(const struct player *p, int *n);

#endif
