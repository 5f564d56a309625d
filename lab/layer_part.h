/* A layer's tensors as floats, between a source and its changed copy, and a calibration text that
 * goes through them. Thread: any one. */
#ifndef CUTAWAY_LAB_LAYER_PART_H
#define CUTAWAY_LAB_LAYER_PART_H

#include "lab/change.h"

struct layer_part {
	const struct change_tensor *t;
	uint8_t *raw; /* [from->bytes] of the source; NULL: it was read from the result */
	float *w;     /* [rows, cols], in the shape of the source */
	uint8_t *out; /* [to.bytes] as the result has it; at first the source's if it stays */
	int64_t rows;
	int32_t cols;
	int32_t input; /* enum calibration_input; -1: it is no matrix that reads one */
};

/* The n tensors of a layer. done: the result's, from the file that an earlier run left (of tensors
 * that keep their shape). NULL after an error. */
struct layer_part *layer_parts_read(
	struct change *c, const struct change_tensor *t, int32_t n, bool done, struct err *e);
void layer_parts_free(struct layer_part *p, int32_t n);
/* Writes p->out; its weights are done. */
int layer_part_write(struct change *c, const struct layer_part *p, struct err *e);
/* The part of this name ("attn_v.weight"); NULL: none. */
struct layer_part *layer_part_find(struct layer_part *p, int32_t n, const char *name);
/* p->w becomes the weights of p->out, which has the source's shape. */
int layer_part_take(struct layer_part *p, struct err *e);

/* Runs the text through the layer, as p->w has it. in [CALIBRATION_INPUTS]: what its matrices read
 * is added up there, and the text stays before the layer (hessians: as in calibration_run). NULL:
 * the text goes on to the next. */
int layer_pass(struct calibration *c, int32_t layer, const struct layer_part *p, int32_t n,
	struct quant_input *in, unsigned hessians, struct err *e);
/* Takes the text through a layer that an earlier run wrote. */
int layer_skip(struct change *c, const struct change_tensor *t, int32_t n, struct err *e);

#endif
