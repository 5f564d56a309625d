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

struct layer_parts {
	struct change *change;
	struct layer_part *part; /* [n] */
	int32_t n, layer;        /* layer: of the source */
};

/* The n tensors of a layer, freed by the caller also after an error. done: the result's, from the
 * file that an earlier run left (of tensors that keep their shape). */
int layer_parts_read(struct layer_parts *p, struct change *c, const struct change_tensor *t,
	int32_t n, bool done, struct err *e);
void layer_parts_free(struct layer_parts *p);
/* Writes each part's `out`; its weights are done. */
int layer_parts_write(const struct layer_parts *p, struct err *e);
/* The part of this name ("attn_v.weight"); NULL: none. */
struct layer_part *layer_part_find(const struct layer_parts *p, const char *name);
/* p->w becomes the weights of p->out, which has the source's shape. */
int layer_part_take(struct layer_part *p, struct err *e);

/* Runs the text through the layer, as its parts' `w` has it. in [CALIBRATION_INPUTS]: what its
 * matrices read is added up there, and the text stays before the layer (hessians: as in
 * calibration_run). NULL: the text goes on to the next. */
int layer_pass(
	const struct layer_parts *p, struct quant_input *in, unsigned hessians, struct err *e);
/* Takes the text through a layer that an earlier run wrote. */
int layer_skip(struct change *c, const struct change_tensor *t, int32_t n, struct err *e);

#endif
