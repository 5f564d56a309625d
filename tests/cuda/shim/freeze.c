/* CUTAWAY_SHIM_FREEZE=N: what the host takes between two steps. After N graphs kernels are not run,
 * so that a step's results are those of the one before and nothing but the host takes time; at the
 * end stderr is told how long it was from the end of a wait to the next graph. Frozen results are
 * wrong: for time alone. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/cuda/shim/freeze.h"
#include "tests/cuda/shim/site.h"

enum { MOST = 1 << 16 };
static long graphs, n_gaps;
static uint64_t waited;  /* ns */
static double gap[MOST]; /* us */

bool freeze_on(void)
{
	const char *n = getenv("CUTAWAY_SHIM_FREEZE");

	return n && graphs > atol(n);
}

void freeze_launches(void)
{
	graphs++;
	if (waited && n_gaps < MOST && freeze_on())
		gap[n_gaps++] = (double)(shim_now() - waited) / 1e3;
	waited = 0;
}

void freeze_waited(void)
{
	waited = shim_now();
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
