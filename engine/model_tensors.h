/* Loading of tensors into a plan of weights (weights.h), for models and for drafters' files. The first failure is kept in e,
 * and all that comes behind it does nothing. Thread: the engine's. */
#ifndef CUTAWAY_ENGINE_MODEL_TENSORS_H
#define CUTAWAY_ENGINE_MODEL_TENSORS_H

#include "engine/model.h"

struct model_loader {
	const struct gguf *g;
	struct weights *weights;
	const struct model_config *config; /* whose shapes the layers have */
	struct k_ctx *kernels;
	struct err *e; /* must be clear at first */
};

/* A vector of F32; F16 and BF16 vectors do not occur in files. NULL if absent and not a must. */
const float *model_vector(struct model_loader *l, const char *name, int64_t n, bool must);
void model_matrix(struct model_loader *l, struct k_matrix *w, const char *name, int64_t rows, int64_t cols);
/* The tensors blk.i.* */
void model_layer(struct model_loader *l, struct model_layer *layer, int32_t i);
/* What a matrix of quantised weights multiplies is quantised in blocks of 32. */
int model_check_widths(const struct model_loader *l, const struct model_layer *layer, int32_t n_layers);

#endif
