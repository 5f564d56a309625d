/* The largest magnitude of each channel of what the products of the layers read, over a text: what
 * scales of activations are made of, and where outliers are seen. Thread: the engine's. */
#ifndef CUTAWAY_ENGINE_CHANNELS_H
#define CUTAWAY_ENGINE_CHANNELS_H

#include "base/err.h"
#include "kernels/kernels.h"

struct engine;

struct channel_input {
	int32_t layer;
	enum k_stage stage;
	int32_t dim;
	float *largest;                        /* [dim] */
	const struct k_matrix *w[K_MAX_PARTS]; /* the matrices that read it */
	int32_t n_w;
};
struct channels {
	struct channel_input *input; /* [n], in the order of the program */
	int32_t n, cap, next;
	int32_t n_tokens;
};

/* Computes the shipped prompts (demos/prompts.txt), at most a context of them, with exact settings
 * but for what rows see and the format of the cache. */
int channels_measure(struct channels *c, struct engine *e, struct err *err);
void channels_free(struct channels *c);

#endif
