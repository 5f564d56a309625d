/* Quantising a model file: its matrices rounded to another format of GGUF files.
 *
 * The result is written under OUT.partial and renamed when it is whole, so nothing half-written
 * ever has the final name. A run that was killed, or that found a full disk, leaves OUT.partial,
 * and the same call goes on from the layers that it holds. The bytes are a function of the source
 * and the options: no machine, no number of threads changes them. Thread: any one; rows are split
 * over the threads of the kernels. */
#ifndef CUTAWAY_ENGINE_QUANT_H
#define CUTAWAY_ENGINE_QUANT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/kernels.h"

struct quant_options {
	enum k_type to;
	/* for rows that the blocks of `to` do not divide; K_N_TYPES: such a tensor is an error */
	enum k_type otherwise;
	/* words with commas between them: tensors with one of them in their name stay as they are */
	const char *keep;
};

struct quant_result {
	int64_t n_weights;           /* that were rounded */
	double bits;                 /* of each, with its share of the scales */
	double error;                /* root of the sum of squared changes, over that of the weights */
	int64_t source_bytes, bytes; /* of the files */
	int32_t n_tensors, n_kept;   /* rounded; matrices that stayed as they were */
	int32_t n_resumed, n_otherwise; /* of those: found in OUT.partial; rounded to `otherwise` */
	bool from_quantised;            /* the source had been rounded before */
	char source[32];                /* the type of most of its layers' weights */
};

/* Called between pieces of work; false stops with ERR_INTERRUPTED, and OUT.partial stays. */
typedef bool quant_progress(void *arg, int64_t done, int64_t all);

/* kernels: any; for its threads. */
int quantize_file(const char *in, const char *out, const struct quant_options *o,
	struct k_ctx *kernels, quant_progress *progress, void *arg, struct quant_result *r,
	struct err *e);

/* The key under which a file says in few words what it was rounded to, and from what. */
#define QUANT_SUMMARY_KEY "cutaway.quantize.summary"

#endif
