/* All positions up to the row's own: plain causal attention. */
#include "engine/visibility/visibility.h"

int32_t visible_see_all(const int32_t *arg, int32_t pos, struct k_range *out)
{
	(void)arg;
	out[0] = (struct k_range){ 0, pos + 1 };
	return 1;
}

const struct visible_policy visible_full = { .name = "full",
	.doc = "all positions up to its own",
	.offer = "full",
	.n_ranges = 1,
	.see = visible_see_all };
