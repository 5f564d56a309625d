/* A sliding window: the row's own position and those before it, W in all. */
#include "engine/visibility/visibility.h"

static int32_t window_see(const int32_t *arg, int32_t pos, struct k_range *out)
{
	out[0] = (struct k_range){ pos + 1 > arg[0] ? pos + 1 - arg[0] : 0, pos + 1 };
	return 1;
}

const struct visible_policy visible_window = { "window", { "window" }, "the last W positions",
	"window:512", 1, window_see };
