/* CUTAWAY_SHIM_FREEZE=N: what the host takes between two steps. From the N-th graph on kernels are
 * not run, so that a step's results are those of the one before and nothing but the host takes
 * time; at the end stderr is told how long it was from the end of a wait to the next graph. Frozen
 * results are wrong: for time alone. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/cuda/shim/freeze.h"

enum { MOST = 1 << 16 };
static long graphs, n_gaps;
static double waited, gap[MOST]; /* us */

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

bool freeze_on(void)
{
	const char *n = getenv("CUTAWAY_SHIM_FREEZE");

	return n && graphs > atol(n);
}

void freeze_launches(void)
{
	graphs++;
	if (waited > 0 && n_gaps < MOST && freeze_on())
		gap[n_gaps++] = now_us() - waited;
	waited = 0;
}

void freeze_waited(void)
{
	waited = now_us();
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

__attribute__((destructor)) static void tell(void)
{
	if (!n_gaps)
		return;
	qsort(gap, (size_t)n_gaps, sizeof *gap, by_size);
	fprintf(stderr, "from a wait to the next graph: median %.1f us (%.1f .. %.1f), %ld times\n",
		gap[n_gaps / 2], gap[n_gaps / 10], gap[n_gaps - 1 - n_gaps / 10], n_gaps);
}
