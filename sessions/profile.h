/* Where the time of a token goes: each kernel stage against its own limit, and what lies between kernels.
 * Thread: any; no state. */
#ifndef CUTAWAY_SESSIONS_PROFILE_H
#define CUTAWAY_SESSIONS_PROFILE_H

#include <stdio.h>

#include "sessions/bench.h"

/* A table for each phase that was measured; nothing for the others. 100 columns. */
void profile_print(const struct bench_report *r, FILE *f);

#endif
