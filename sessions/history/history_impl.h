/* Inside sessions/history/ alone. */
#ifndef CUTAWAY_SESSIONS_HISTORY_IMPL_H
#define CUTAWAY_SESSIONS_HISTORY_IMPL_H

#include "sessions/history/history.h"

/* Takes the next event in. -1 with the error. */
int history_event(struct history *h, const struct event *ev, struct err *e);
/* After the last one. */
int history_end(struct history *h, struct err *e);

#endif
