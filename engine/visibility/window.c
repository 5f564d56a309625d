/* A sliding window: the row's own position and those before it, W in all. */
#include "engine/visibility/visibility.h"

static int32_t window_see(const int32_t *arg, int32_t pos, struct k_range *out)
{
	out[0] = (struct k_range){ pos + 1 > arg[0] ? pos + 1 - arg[0] : 0, pos + 1 };
	return 1;
}

const struct visible_policy visible_window = { .name = "window",
	.part = { "window" },
	.doc = "the last W positions",
	.offer = "window:512",
	.n_ranges = 1,
	.see = window_see };
