/* Loading of tensors into a plan of weights (weights.h), for models and for drafters' files. The first failure is kept in e,
 * and all that comes behind it does nothing. Thread: the engine's. */
#ifndef CUTAWAY_ENGINE_MODEL_TENSORS_H
#define CUTAWAY_ENGINE_MODEL_TENSORS_H

#include "engine/model.h"

struct model_loader {
	const struct gguf *g;
	struct weights *weights;
	const struct model_config *config; /* whose dim the layers have */
	struct k_ctx *kernels;
	struct err *e; /* must be clear at first */
	int32_t layer; /* that layer_vector() and layer_matrix() name */
};

/* A vector of F32; F16 and BF16 vectors do not occur in files. NULL if absent and not a must. */
const float *model_vector(struct model_loader *l, const char *name, int64_t n, bool must);
void model_matrix(struct model_loader *l, struct k_matrix *w, const char *name, int64_t rows, int64_t cols);
/* The same of "blk.<layer>.<part>". What a matrix multiplies is rounded in blocks of 32, so cols is a multiple. */
const float *layer_vector(struct model_loader *l, const char *part, int64_t n, bool must);
void layer_matrix(struct model_loader *l, struct k_matrix *w, const char *part, int64_t rows, int64_t cols);
/* All tensors of layer i, whose kinds and shapes are set. */
void model_load_layer(struct model_loader *l, struct layer *layer, int32_t i);
/* n layers of the shape of `like`, an attention layer that sees all, with the tensors blk.0 … of a drafter's file. Freed by
 * layer_free(), also after a failure, which is in l->e. */
void model_load_layers(struct model_loader *l, const struct layer *like, struct layer *layer, int32_t n);

#endif
