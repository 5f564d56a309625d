/* A layer's tensors as floats, between a source and its changed copy, and a calibration text that
 * goes through them. Thread: any one. */
#pragma once

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

/* ---- quantised with the help of the text (layer_job.c) ---- */

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

/* ---- what is told of it (told.c) ---- */

/* The event `changed`. Its errors are those of what the layer adds to the text's residual stream,
 * so they compare any methods: the text goes through the layer as it was, rounded to the nearest,
 * and as it is written. All zero but for `change`: nothing was begun. */
struct told {
	struct change *change; /* whose `told` is NULL: all calls do nothing */
	struct ev_changed row; /* what is known by others is filled in by them */
	float alpha[CALIBRATION_INPUTS];
	float *before, *exact; /* what enters the layer, and what leaves it as it was; or NULL */
	int64_t began_ns;
};

/* The layer as it was: its parts' `w` has its weights; p NULL: they are not read. The text stays
 * before the layer. */
int told_begin(struct told *t, int32_t layer, const struct layer_parts *p, struct err *e);
/* The same with each weight rounded to the nearest; p is unchanged. */
int told_nearest(struct told *t, const struct layer_parts *p, struct err *e);
/* The layer is written, and the text has gone through it. error, size: sums of squares of what
 * changed in its weights, and of them. Tells. */
void told_end(struct told *t, const char *method, double error, double size);
/* Also after an error. */
void told_free(struct told *t);
