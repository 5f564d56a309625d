/* What ops of several layers have in common. Thread: the engine's. */
#pragma once

#include <stdlib.h>

#include "engine/run/forward.h"

/* Members of an op that keeps a state in pages of this memory group, and of one that reads or
 * writes keys and values there. */
#define LAYER_STATE(f, group)                                                                      \
	.n = (f)->n_rows, .rows = (f)->state[group], .state = &(f)->store[group].state
#define LAYER_KV(f, group)                                                                         \
	.n = (f)->n_rows, .rows = (f)->rows, .pages = (f)->pages[group], .kv = &(f)->store[group].kv

/* Appends a product of the step's rows with one matrix; bias NULL: none. */
void layer_product(struct forward *f, enum k_stage stage, struct k_acts in,
	const struct k_matrix *w, const float *bias, float *out);
/* The same with several matrices at once; w NULL: the end. */
struct layer_output {
	const struct k_matrix *w;
	float *to;
};
void layer_products(
	struct forward *f, enum k_stage stage, struct k_acts in, const struct layer_output *out);
#define LAYER_PRODUCTS(f, stage, in, ...)                                                          \
	layer_products(f, stage, in, (struct layer_output[]){ __VA_ARGS__, { NULL, NULL } })
/* Appends an activation of the step's rows, or, K_ACT_none, a copy in the forms that out has. */
void layer_activate(
	struct forward *f, enum k_stage stage, const float *x, struct k_acts out, enum k_act act);
/* Appends the op that rotates queries and keys by t, NULL: not at all, and stores keys and values
 * in layer `layer` of a memory group. The caller adds what it has beyond that. */
struct k_rope *layer_rope(struct forward *f, int32_t group, int32_t layer, int32_t n_heads,
	const struct model_rope *t, float *q, const float *k, const float *v);
/* Appends attention over what is stored there, which reads the ranges that its rows see. */
struct k_attention *layer_attend(struct forward *f, int32_t group, int32_t layer, int32_t n_heads,
	const float *q, struct k_acts out, const struct k_range *ranges);
/* Appends the op of a state matrix [keys, values] a head, at `at` in a group's pages; the caller
 * sets q, k, v and rates. */
struct k_linear *layer_linear(struct forward *f, int32_t group, size_t at, int32_t heads,
	int32_t keys, int32_t values, float *out);
/* Rates of heads that do not depend on the row: [heads, 2] decay and amount, all 1, to be freed;
 * NULL: no memory, which l->e says. */
float *layer_fixed_rates(struct model_loader *l, int32_t heads);
/* Appends a convolution, whose state is at `at` in a group's pages. */
struct k_conv *layer_conv(struct forward *f, int32_t group, size_t at, int32_t taps, const float *x,
	const float *w, const float *bias, struct k_acts out);

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

/* The function `memory` of a kind that keeps so many floats of a sequence; a: its parameters. */
#define STATE_MEMORY(x, floats)                                                                    \
	static int x##_memory(void *params, struct memory_specs *m, struct err *e)                     \
	{                                                                                              \
		struct x *a = params;                                                                      \
                                                                                                   \
		return memory_join_state(m, floats, &a->group, &a->at, e);                                 \
	}

/* struct matrix_states: values that the convolution mixes: inputs, keys and queries. */
static inline int32_t states_mixed(const struct matrix_states *s)
{
	return s->inner + 2 * s->groups * s->n_states;
}
int states_memory(struct matrix_states *s, struct memory_specs *m, struct err *e);
void states_need(const struct matrix_states *s, struct forward_needs *n);
/* The convolution of f->own.up, to f->own.mixed. */
void states_conv(struct forward *f, const struct matrix_states *s);
/* Then the op of the matrices, by rates in f->own.q, to f->own.up; the caller sets q, k and v. */
struct k_linear *states_linear(struct forward *f, const struct matrix_states *s);
