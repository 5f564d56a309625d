/* One layer of a file that is quantised with the help of a calibration text. Thread: any one. */
#ifndef CUTAWAY_ENGINE_QUANT_LAYER_JOB_H
#define CUTAWAY_ENGINE_QUANT_LAYER_JOB_H

#include "engine/quant/calibration.h"
#include "engine/quant/plan.h"

/* A tensor of the layer. */
struct layer_part {
	const struct quant_tensor *t;
	float *w;     /* [rows, cols] */
	uint8_t *out; /* [t->bytes] as the result has it; at first the bytes of the source if it stays
				   */
	int64_t rows;
	int32_t cols;
	int32_t input; /* enum calibration_input; -1: it is no matrix that reads one */
	int64_t kept;  /* weights in columns that stay in f16 (LLM.int8()) */
	/* of a rounded one: sums of squares of what rounding changed (after factors of columns), and of
	 * the weights */
	double error, size;
};

/* Sets rows, columns and input, by the tensor. */
void layer_part_init(struct layer_part *p, const struct quant_tensor *t);
/* Rounds the layer: p[i].w has the source's weights, and then the result's. */
int layer_job_run(struct calibration *c, const struct quant_options *o, int32_t layer,
	struct layer_part *p, int32_t n, struct err *e);
/* Takes the text through a layer that was rounded before. */
int layer_job_skip(
	struct calibration *c, int32_t layer, const struct layer_part *p, int32_t n, struct err *e);

#endif
