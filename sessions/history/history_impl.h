/* Inside sessions/history/ alone. */
#pragma once

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sessions/history/history.h"

/* Takes the next event in. -1 with the error. */
int history_event(struct history *h, const struct event *ev, struct err *e);
/* After the last one. */
int history_end(struct history *h, struct err *e);
