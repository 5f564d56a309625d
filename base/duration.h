/* Durations as people write them: 90s, 5m, 1h. Thread: any. */
#pragma once

#include <stdint.h>
#include <stdlib.h>

enum { DURATION_MOST_S = 24 * 3600 };

/* Nanoseconds of a whole number of s, m or h, from 1 s to 24 h; -1: it is none. */
static inline int64_t duration_parse(const char *text)
{
	char *end;
	const long n = *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : -1;
	long unit;

	if (n < 1 || n > DURATION_MOST_S)
		return -1;
	unit = *end == 's' ? 1 : *end == 'm' ? 60 : *end == 'h' ? 3600 : 0;
	if (!unit || end[1] || n * unit > DURATION_MOST_S)
		return -1;
	return (int64_t)n * unit * 1000000000;
}
