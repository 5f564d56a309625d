/* CUTAWAY_SHIM_FREEZE=N: what the host takes between two steps. After N graphs kernels are not run,
 * so that a step's results are those of the one before and nothing but the host takes time; at the
 * end stderr is told how long it was from graph to graph. Frozen results are wrong: for time
 * alone. With CUTAWAY_SHIM_EVICT=M each of these graphs first walks M MiB, as if the host had to
 * fetch again what the caches lost while a device computed. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/cuda/shim/freeze.h"
#include "tests/cuda/shim/site.h"

enum { MOST = 1 << 16 };
static long graphs, n_gaps;
static uint64_t launched; /* ns */
static double gap[MOST];  /* us */

bool freeze_on(void)
{
	const char *n = getenv("CUTAWAY_SHIM_FREEZE");

	return n && graphs > atol(n);
}

static void evict(void)
{
	static volatile char *walked;
	const char *m = getenv("CUTAWAY_SHIM_EVICT");
	const size_t size = m ? (size_t)atol(m) << 20 : 0;

	if (size && !walked)
		walked = malloc(size);
	for (size_t i = 0; walked && i < size; i += 64)
		walked[i]++;
}

void freeze_launches(void)
{
	const uint64_t now = shim_now();

	if (freeze_on() && launched && n_gaps < MOST)
		gap[n_gaps++] = (double)(now - launched) / 1e3;
	graphs++;
	if (freeze_on())
		evict();
	launched = freeze_on() ? shim_now() : 0;
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

__attribute__((destructor)) static void tell(void)
{
	double sum = 0;

	if (!n_gaps)
		return;
	for (long i = 0; i < n_gaps; i++)
		sum += gap[i];
	qsort(gap, (size_t)n_gaps, sizeof *gap, by_size);
	fprintf(stderr, "from graph to graph: mean %.1f us, median %.1f (%.1f .. %.1f), %ld times\n",
		sum / (double)n_gaps, gap[n_gaps / 2], gap[n_gaps / 10], gap[n_gaps - 1 - n_gaps / 10],
		n_gaps);
}
