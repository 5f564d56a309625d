/* Attention sinks and a window (Xiao et al. 2023, "Efficient streaming language models with
 * attention sinks"): the first S positions, on which models put the attention that they do not
 * need, and the last W. Unlike in the paper, positions do not change: keys are rotated by their
 * index in the sequence. */
#include "engine/visibility/visibility.h"

static int32_t sinks_see(const int32_t *arg, int32_t pos, struct k_range *out)
{
	const int32_t sinks = arg[0], window = arg[1];

	if (pos + 1 - window <= sinks) {
		out[0] = (struct k_range){ 0, pos + 1 };
		return 1;
	}
	out[0] = (struct k_range){ 0, sinks };
	out[1] = (struct k_range){ pos + 1 - window, pos + 1 };
	return 2;
}

const struct visible_policy visible_sinks = { "sinks", { "sinks", "window" },
	"the first S positions and the last W", "sinks:4+window:512", 2, sinks_see };
