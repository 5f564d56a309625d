/* Masks by position with gaps: what a row does not read a later one may. A dilated window (Beltagy
 * et al. 2020, "Longformer", section 3.1), and the two patterns of the Sparse Transformer (Child et
 * al. 2019, section 4.3): strided, and fixed. Keys are stored 16 positions to a vector, so only a
 * pattern of whole groups of 16 saves the reading of keys; values are read by position. */
#include "engine/visibility/visibility.h"

static int32_t dilated_see(const int32_t *arg, int32_t pos, struct k_range *out)
{
	const int64_t first = pos - (int64_t)(arg[0] - 1) * arg[1];

	out[0] = (struct k_range){ first > 0 ? (int32_t)first : 0, pos + 1 };
	return 1;
}

static struct k_stride_mask dilated_mask(const int32_t *arg, int32_t pos)
{
	return (struct k_stride_mask){ arg[1], arg[1] - pos % arg[1], 1, pos + 1 };
}

const struct visible_policy visible_dilated = { .name = "dilated",
	.part = { "window", "dilation" },
	.doc = "W positions, each D before the next",
	.offer = "window:256+dilation:4",
	.n_ranges = 1,
	.see = dilated_see,
	.stride_mask = dilated_mask };

static struct k_stride_mask strided_mask(const int32_t *arg, int32_t pos)
{
	return (struct k_stride_mask){ arg[0], arg[0] - pos % arg[0], 1,
		pos + 1 > arg[1] ? pos + 1 - arg[1] : 0 };
}

const struct visible_policy visible_strided = { .name = "strided",
	.part = { "stride", "window" },
	.doc = "the last W positions, and each that lies a multiple of S back",
	.offer = "stride:64+window:64",
	.n_ranges = 1,
	.see = visible_see_all,
	.stride_mask = strided_mask };

static struct k_stride_mask fixed_mask(const int32_t *arg, int32_t pos)
{
	return (struct k_stride_mask){ arg[0], arg[1], arg[1], pos - pos % arg[0] };
}

const struct visible_policy visible_fixed = { .name = "fixed",
	.part = { "block", "last" },
	.doc = "those of its own block of B, and the last C of each block before",
	.offer = "block:128+last:32",
	.n_ranges = 1,
	.see = visible_see_all,
	.stride_mask = fixed_mask };
