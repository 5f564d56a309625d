/* A timeline as text, so that two of them can be compared: fold(live) = fold(replay). */
#ifndef CUTAWAY_TESTS_TIMELINE_DUMP_H
#define CUTAWAY_TESTS_TIMELINE_DUMP_H

#include "fold/timeline.h"

/* All of it. malloc'd. */
char *timeline_dump(const struct timeline *t);

#endif
