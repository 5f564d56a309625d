/* The largest magnitude of each channel of what the products of the layers read, over a text: what
 * scales of activations are made of, and where outliers are seen. Thread: the engine's. */
#pragma once

#include "engine/run/forward.h"

struct engine;

/* What is done in a pass over the shipped prompts (demos/prompts.txt), at most a context of them,
 * with exact settings but for what rows see and the format of the cache. */
struct shipped_pass {
	void (*begin)(void *arg, struct forward *f, int32_t rows); /* of a chunk */
	void (*end)(void *arg);                                    /* of it; NULL: nothing */
	forward_op_fn *see;                                        /* after each op */
	void *arg;
};
/* The number of tokens; -1 after an error. */
int32_t shipped_text_run(struct engine *e, const struct shipped_pass *with, struct err *err);

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

/* Over the shipped prompts. */
int channels_measure(struct channels *c, struct engine *e, struct err *err);
void channels_free(struct channels *c);

/* What a setting does that measures over them: its value is "measure", or "" for nothing, which it
 * is afterwards. */
int channels_setting(struct engine *e, const char **value, const char *name,
	int (*measure_fn)(struct engine *e, struct err *err), struct err *err);
