/* One layer of a file that is quantised with the help of a calibration text. Thread: any one. */
#ifndef CUTAWAY_LAB_LAYER_JOB_H
#define CUTAWAY_LAB_LAYER_JOB_H

#include "lab/layer_part.h"

/* Added up. */
struct layer_sums {
	/* sums of squares of what rounding changed (after factors of columns), and of the weights */
	double error, size;
	int64_t kept;    /* weights in columns that stay in f16 (LLM.int8()) */
	int64_t columns; /* of these, in all matrices */
};

/* Rounds the layer: each part's `w` has the source's weights, and then the result's. alpha
 * [CALIBRATION_INPUTS]: the exponent of each input's factors is put there; of one that has none it
 * stays. */
int layer_job_run(const struct quant_options *o, struct layer_parts *p, struct layer_sums *sums,
	float *alpha, struct err *e);

#endif
