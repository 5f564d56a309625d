/* The column that somebody may have meant: see watch.h. */
#include <string.h>

#include "sessions/watch.h"

/* Edits that make b of a, as far as few. */
static int distance(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);
	int d[32], diagonal, above;

	if (n > 31 || m > 31)
		return 99;
	for (size_t j = 0; j <= m; j++)
		d[j] = (int)j;
	for (size_t i = 1; i <= n; i++) {
		diagonal = d[0];
		d[0] = (int)i;
		for (size_t j = 1; j <= m; j++) {
			above = d[j];
			d[j] = diagonal + (a[i - 1] != b[j - 1]);
			d[j] = d[j] < above + 1 ? d[j] : above + 1;
			d[j] = d[j] < d[j - 1] + 1 ? d[j] : d[j - 1] + 1;
			diagonal = above;
		}
	}
	return d[m];
}

const char *watch_nearest(const char *name)
{
	const char *best = NULL;
	int least = 3;

	for (int i = 0; watch_column(i); i++) {
		int d = distance(name, watch_column(i)->name);
		if (d < least) {
			least = d;
			best = watch_column(i)->name;
		}
	}
	return best;
}
