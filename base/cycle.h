/* Detects that a text has begun to repeat itself: its last tokens are the same `period` tokens
 * again and again. Thread: any; no state but the struct, which starts as zeros. */
#pragma once

#include <stdint.h>

enum {
	CYCLE_MAX = 64,   /* longest period, tokens */
	CYCLE_LEAST = 32, /* a repetition has at least so many tokens … */
	CYCLE_TIMES = 4,  /* … and at least so many periods */
};

struct cycle {
	int32_t id[CYCLE_MAX]; /* the last tokens, a ring */
	int64_t n;             /* tokens so far */
	/* [period]: so many of the last tokens equal the one a period earlier */
	int64_t run[CYCLE_MAX + 1];
};

/* One more token. Returns the shortest period of the repetition that ends with it, or 0. It takes
 * 64 comparisons. */
int cycle_add(struct cycle *c, int32_t id);
