/* A timeline as text, so that two of them can be compared: fold(live) = fold(replay). */
#pragma once

#include "fold/timeline.h"

/* All of it. malloc'd. */
char *timeline_dump(const struct timeline *t);
