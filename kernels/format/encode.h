/* Rounding of weights to the formats of files, and reading them back.
 *
 * Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, MXFP4, F16 and BF16 give the bytes of the gguf package's own
 * quantizers (tests/data/quants.py); the others search for the scales that leave the least error.
 * The bytes are a function of the weights alone, the same on every machine. Any value may come: of
 * a NaN or an infinity nothing is promised but that all stays in bounds. Thread: any; no state. */
#pragma once

#include <stdint.h>

#include "kernels/kernels.h"

/* n: a multiple of the format's block; `blocks` are as in a file. */
void k_encode(enum k_type type, const float *x, int64_t n, uint8_t *blocks);
/* Each value as the embedding reads it (docs/arithmetic.md, rule 5); and weights from, from + 1 …
 * to - 1 of a row, from a multiple of 32: ref_matmul.c. */
void k_ref_floats(enum k_type type, const uint8_t *row, int64_t from, int64_t to, float *x);
static inline void k_decode(enum k_type type, const uint8_t *blocks, int64_t n, float *x)
{
	k_ref_floats(type, blocks, 0, n, x);
}
/* Rounds weight k of one block of a quantised type to the nearest value that the block's scales
 * give, stores its code, and returns the value. */
float k_round_to(enum k_type type, uint8_t *block, int32_t k, float x);
