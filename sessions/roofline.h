/* The roofline (Williams, Waterman and Patterson 2009): counted operations and bytes of each kernel
 * stage and the time it took, against the measured rates of reads and of 8-bit multiply-adds.
 * Thread: any; no state. */
#ifndef CUTAWAY_SESSIONS_ROOFLINE_H
#define CUTAWAY_SESSIONS_ROOFLINE_H

#include <stdbool.h>
#include <stdio.h>

#include "sessions/bench.h"

struct roofline_point {
	const char *name;
	enum bench_phase phase;
	double intensity; /* operations a byte */
	double rate;	  /* operations a second */
	double share;	  /* of its roof, by the rates beside each run */
};

struct roofline {
	double read_rate; /* bytes a second */
	double int_rate;  /* operations a second; a multiply-add is two */
	struct roofline_point point[BENCH_N_PHASES * EV_N_stage];
	int n_points;
};

/* Decoding at the beginning of a text, and prefill. What was not measured, and stages whose time or work is 0,
 * have no point. Names are not owned. */
void roofline_of(struct roofline *p, const struct bench_report *r);
/* 80 columns. Errors of the file are the caller's to see. */
void roofline_print(const struct roofline *p, bool ascii, FILE *f);
void roofline_svg(const struct roofline *p, FILE *f);

#endif
