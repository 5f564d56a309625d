/* The column that somebody may have meant: see watch.h. */
#include <stddef.h>

#include "base/near.h"
#include "sessions/watch/watch.h"

const char *watch_nearest(const char *name)
{
	const char *best = NULL;
	int least = NEAR_ENOUGH + 1;

	for (int i = 0; watch_column(i); i++) {
		int d = near_edits(name, watch_column(i)->name);
		if (d < least) {
			least = d;
			best = watch_column(i)->name;
		}
	}
	return best;
}
