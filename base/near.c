/* See near.h. */
#include "base/near.h"

#include <string.h>

int near_edits(const char *a, const char *b)
{
	int n = (int)strlen(a), m = (int)strlen(b);
	int d[NEAR_LONGEST + 1][NEAR_LONGEST + 1];

	if (n > NEAR_LONGEST || m > NEAR_LONGEST)
		return NEAR_LONGEST;
	for (int i = 0; i <= n; i++) {
		for (int j = 0; j <= m; j++) {
			int best = i ? d[i - 1][j] + 1 : j;

			if (j && (!i || d[i][j - 1] + 1 < best))
				best = d[i][j - 1] + 1;
			if (i && j && d[i - 1][j - 1] + (a[i - 1] != b[j - 1]) < best)
				best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
				d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	}
	return d[n][m];
}
