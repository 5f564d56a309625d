/* Blocks of weights as files have them, random and hostile, of any format of the table; and numbers
 * alike, for activations. Thread: any, as the caller's source of random words is. */
#pragma once

#include "kernels/kernels.h"

/* NASTY: an eighth of the scales, and a sixteenth of the floats, are zeros, subnormals, the
 * largest, infinite, no numbers. EXTREME: every weight and sub-scale is the one of greatest
 * size. */
enum mood { TAME, NASTY, EXTREME };

typedef uint32_t random_fn(void);

float blocks_float(enum mood mood, random_fn *random32);
/* n blocks of the format to raw. */
void blocks_fill(uint8_t *raw, enum k_type type, size_t n, enum mood mood, random_fn *random32);
