/* Opens a model: its family reads the file's metadata, and weights come from the file into the back
 * end's layout. Thread: the engine's. */
#pragma once

#include "engine/model/model.h"

struct model_options {
	enum weights_cache cache;
	const atomic_bool *abandon; /* see weights_load(); NULL: never */
	bool share;                 /* its weights with other models of this file in the process */
	bool pairs;                 /* matrices that are such are kept so (weights.h) */
	bool beyond;                /* ctx may be more than the model's own */
	int32_t times;              /* positions are so many times ctx; 0: once */
	const char *adapters;       /* files of low-rank adapters (adapters.h); NULL: none */
	/* When all is planned, before weights are read; may choose which are. NULL: all are. */
	int (*planned)(void *arg, struct model *m, struct err *e);
	void *arg;
};

/* ctx: longest sequence; 0: the model's own, at most 8192; more than the model's own is an error,
 * unless beyond.
 * On success config.ctx_train is the model's and *ctx the one to use. */
int model_open(struct model **m, const struct gguf *g, struct k_ctx *kernels,
	const struct model_options *o, int32_t *ctx, struct err *e);
