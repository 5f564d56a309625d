/* What ops of several layers have in common. Thread: the engine's. */
#ifndef CUTAWAY_ENGINE_LAYER_OPS_H
#define CUTAWAY_ENGINE_LAYER_OPS_H

#include "engine/run/forward.h"

/* Members of an op that keeps a state in pages of this memory group, and of one that reads or
 * writes keys and values there. */
#define LAYER_STATE(f, group)                                                                      \
	.n = (f)->n_rows, .rows = (f)->state[group], .state = &(f)->store[group].state
#define LAYER_KV(f, group)                                                                         \
	.n = (f)->n_rows, .rows = (f)->rows, .pages = (f)->pages[group], .kv = &(f)->store[group].kv

/* Floats that a convolution keeps of a sequence. */
static inline size_t layer_conv_floats(int32_t width, int32_t taps)
{
	return (size_t)width * (size_t)(taps - 1);
}

/* Appends the op gated for the step's rows of x, each `groups` groups of `group` values one after
 * the other; neither norm nor gate. The caller adds what it has beyond that. */
struct k_gated *layer_gated(struct forward *f, enum k_stage stage, const float *x, int32_t groups,
	int32_t group, struct k_acts out);
/* The same with x changed in place. */
struct k_gated *layer_gated_self(
	struct forward *f, enum k_stage stage, float *x, int32_t groups, int32_t group);
/* Adds a norm of each group, with weights w [weights] or, NULL, without; z, which lies as x. */
void layer_gated_norm(struct k_gated *g, const float *w, int32_t weights);
void layer_gated_by(struct k_gated *g, const float *z, enum k_gate_by by);

#endif
