/* The sampler's passes over a whole row of logits (docs/arithmetic.md rule 15), in blocks of 64
 * ids.
 *
 * One source, draw_body.h, compiled for each instruction set, so that the bits are equal by
 * construction; k_draw_passes() chooses as k_isas() does. The owner of a row pads it to whole
 * blocks with -Inf and aligns it to 64 bytes. Thread: any; no state. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { K_DRAW_BLOCK = 64 };

struct k_draw_key {
	uint64_t seed;
	uint32_t pos, sample, purpose;
};

struct k_draw_passes {
	/* y = l * factor; block_max [n_blocks]: the maximum of each block of y. All whole blocks.
	 * Returns the maximum of all. */
	float (*scale)(const float *l, int32_t n_blocks, float factor, float *y, float *block_max);
	/* e = exp(y - max), 0 to 1. Returns the sum of k_mass(e). */
	uint64_t (*weigh)(const float *y, int32_t n_blocks, float max, float *e);
	/* The random numbers u of the 64 ids of one block, and whether any id of it may arrive by
	 * `arrival`: only those with k_draw_may_win() can. e is the first of the block. */
	bool (*contest)(
		const float *e, int32_t block, float arrival, const struct k_draw_key *key, float *u);
	/* -log(u) of any n ids: the arrival time of each if it were the likeliest. */
	void (*wait_ids)(const int32_t *id, int32_t n, const struct k_draw_key *key, float *wait);
	/* Arrivals of any n ids. y is the first of the row. */
	void (*arrive_ids)(const float *y, const int32_t *id, int32_t n, float max,
		const struct k_draw_key *key, float *arrival);
};

/* -log(u) >= 1 - u, and exp(max - l) = 1 / e. The factor's slack is 400 times the rounding
 * error. */
static inline bool k_draw_may_win(float u, float e, float arrival)
{
	return 1.0f - u <= arrival * 1.0001f * e;
}

extern const struct k_draw_passes k_draw_scalar, k_draw_avx2;

const struct k_draw_passes *k_draw_passes(void);
