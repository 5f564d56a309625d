/* Loading of tensors into a plan of weights (weights.h), for models and for drafters' files. The
 * first failure is kept in e, and all calls after it do nothing. Thread: the engine's. */
#pragma once

#include "engine/model/model.h"

struct model_loader {
	const struct gguf *g;
	struct weights *weights;
	const struct model_config *config; /* its dim is that of the layers */
	struct err *e;                     /* must be clear at first */
	int32_t layer;                     /* layer in the names of layer_vector() and layer_matrix() */
	const char *stack;                 /* before "blk." in those names; NULL: nothing */
};

/* Rows [first, first + n) of a tensor of `all` rows: for matrices that a file stores as one. */
struct row_slice {
	int64_t first, n, all;
};

/* F32 only, row after row: F16 and BF16 do not occur in files. NULL if absent and optional. */
const float *model_floats(
	struct model_loader *l, const char *name, int64_t cols, int64_t rows, bool must);
const float *model_vector(struct model_loader *l, const char *name, int64_t n, bool must);
void model_rows(
	struct model_loader *l, struct k_matrix *w, const char *name, struct row_slice s, int64_t cols);
void model_matrix(
	struct model_loader *l, struct k_matrix *w, const char *name, int64_t rows, int64_t cols);
/* The same for "blk.<layer>.<part>". A matrix's input is rounded in blocks of 32, so cols is a
 * multiple of 32. */
const float *layer_floats(struct model_loader *l, const char *part, int64_t cols, int64_t rows);
const float *layer_vector(struct model_loader *l, const char *part, int64_t n, bool must);
void layer_rows(
	struct model_loader *l, struct k_matrix *w, const char *part, struct row_slice s, int64_t cols);
void layer_matrix(
	struct model_loader *l, struct k_matrix *w, const char *part, int64_t rows, int64_t cols);
/* Matrices that a file stores as one, one after the other; w NULL: the end. */
struct layer_part {
	struct k_matrix *w;
	int64_t rows;
};
void layer_parts(
	struct model_loader *l, const char *part, int64_t cols, const struct layer_part *in);
#define LAYER_PARTS(l, part, cols, ...)                                                            \
	layer_parts(l, part, cols, (struct layer_part[]){ __VA_ARGS__, { NULL, 0 } })
/* Whether the file has it. */
bool layer_has(const struct model_loader *l, const char *part);
/* Of floats, with rows of any length. */
void layer_narrow(
	struct model_loader *l, struct k_matrix *w, const char *part, int64_t rows, int64_t cols);
/* Loads all tensors of layer i, whose kinds and shapes are set. */
void model_load_layer(struct model_loader *l, struct layer *layer, int32_t i);
/* Loads n layers of the shape of `like`, an attention layer without a window, with the tensors
 * blk.0 … of a drafter's file. Freed by layer_free(), also after a failure, which is in l->e. */
void model_load_layers(
	struct model_loader *l, const struct layer *like, struct layer *layer, int32_t n);
