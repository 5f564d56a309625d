/* How a unit of a plain op is written, once for all back ends. On a CPU a thread has a unit, and
 * what is below are loops. On a GPU a warp has it, or a block (ops.h says which), and each of its
 * threads a share of each loop: kernels/cuda/lanes.cuh.
 *
 *   K_LANES(i, n)    each i < n: lane i % 32 of a warp has it; in a block, every warp for itself
 *   K_WARPS(i, n)    in a block: a warp has it, and may share it by K_LANES
 *   K_THREADS(i, n)  in a block: a thread has it
 *   K_MEET()         in a block: what was written in front of it others may read behind it
 *   K_ROOM(type, s)  in a block: memory that its threads share, s; it begins with what the unit
 *                    before left there and perhaps still reads, so with a K_MEET
 *   K_LARGE_ROOM     the same of more than 20 KB (K_ROOM_BYTES): cu_op_shared() names the op
 *   K_UNROLL         in front of a loop: of the GPU's share some at a time
 *   x[K_OWN]         of a loop by K_LANES what each lane keeps: all, or its own
 *   x[K_AT(i)]       of i < 32;   x[K_CHAIN(i)]  of any i, the lane's chain
 *
 * Whether i is a lane's or a loop's, sums have the order of rule 7. */
#pragma once

#include "kernels/arith.h"

enum { K_ROOM_BYTES = 20 << 10 }; /* of a K_ROOM, at most */

#ifndef __cplusplus /* else the kernels of a GPU, which have them already */

#define K_AT(i) (i)
#define K_CHAIN(i) ((i) % 32u)

enum {
	K_OWN = 32,
	K_AHEAD = 1, /* loads that one waits for together */
};

#define K_UNIT_FN static inline /* of functions that have such loops */
#define K_LANES(i, n) for (int32_t i = 0; i < (n); i++)
#define K_WARPS(i, n) K_LANES(i, n)
#define K_THREADS(i, n) K_LANES(i, n)
#define K_MEET() ((void)0)
#define K_UNROLL
#define K_ROOM(type, s) type s##_room, *const s = &s##_room
#define K_LARGE_ROOM(type, s) K_ROOM(type, s)

/* The first lane of those that share a loop. */
K_UNIT_FN int32_t k_lane(void)
{
	return 0;
}

/* The trees of rules 7 and 11 over lanes, of which the latter takes the first 16; the greatest, and
 * the sum of integers. */
K_UNIT_FN float k_lanes_sum(float lane[K_OWN])
{
	return k_tree_sum(lane, K_OWN);
}
K_UNIT_FN float k_half_sum(float lane[K_OWN])
{
	return k_tree_sum(lane, K_OWN / 2);
}
K_UNIT_FN int32_t k_lanes_total(int32_t own)
{
	return own;
}
K_UNIT_FN uint32_t k_lanes_most(uint32_t own)
{
	return own;
}

#endif
