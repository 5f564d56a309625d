/* Attention sinks and a window (Xiao et al. 2023, "Efficient streaming language models with
 * attention sinks"): the first S positions, on which models put the attention that they do not
 * need, and the last W. Two ways to count
 * positions: `sinks` leaves them as they are, so sinks move away without end; `stream` counts
 * inside the cache, as the paper does, so that they stay S + W - 1 back at most, also beyond the
 * context that the model was trained on. Since rotations are relative, no key moves: a row's query
 * for the sinks is rotated by its index in the cache, the one for the window by that in the
 * sequence. */
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

const struct visible_policy visible_sinks = { .name = "sinks",
	.part = { "sinks", "window" },
	.doc = "the first S positions and the last W",
	.offer = "sinks:4+window:512",
	.n_ranges = 2,
	.see = sinks_see };

static int32_t stream_rotated(const int32_t *arg, int32_t pos)
{
	return pos < arg[0] + arg[1] ? pos : arg[0] + arg[1] - 1;
}

const struct visible_policy visible_stream = { .name = "stream",
	.part = { "stream", "window" },
	.doc = "the same, with positions counted inside the cache",
	.offer = "stream:4+window:508",
	.n_ranges = 2,
	.see = sinks_see,
	.rotated = stream_rotated };
