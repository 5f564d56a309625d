/* The known-answer check of rule 1. Private to kernels/. */
#pragma once

#include "kernels/context.h"

/* Runs ops on made-up data with the context's kernels and threads, and compares hashes of the
 * results with those of arithmetic version 1. 0, or -1 with ERR_DEVICE naming the op. Takes a few
 * milliseconds. */
int k_selfcheck(struct k_ctx *ctx, struct err *e);

/* The context's k_layout_name(): its instruction set, and a hash of how it packs a known matrix of
 * each type. */
int k_selfcheck_layout(struct k_ctx *ctx, char name[K_LAYOUT_NAME], struct err *e);
