/* What routers and recurrent layers did in a step. Layers compute in buffers that the next layer
 * overwrites; watched, the few values that tell are written to a place of their own for each
 * layer, and their readers read them there. No op is added and no value changes, so neither do
 * bits. Thread: the engine's. */
#pragma once

#include "engine/run/program.h"

struct forward;

struct layer_watch {
	struct k_ctx *kernels;
	float *base;
	size_t row;   /* floats that all layers need for a row */
	int32_t rows; /* steps of more rows are not watched */
};
/* Room for what the layers of f's model tell; between steps. row 0: they have nothing to tell. -1:
 * no memory. */
int layer_watch_open(struct layer_watch *w, struct forward *f, struct err *e);
void layer_watch_close(struct layer_watch *w); /* a zeroed one is fine */
/* From the next step on the ops of f write what is watched to the room (NULL: no more): then, after
 * the step, of each route its logits (or p), ids and weights; of each `linear` its rate; of each
 * scan its delta.
 */
void layer_watch_use(struct forward *f, const struct layer_watch *w);
