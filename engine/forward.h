/* One step of the model, in terms of the kernel table. To understand the engine, read forward.c first.
 *
 * A batch of rows goes through all layers together; rows of different requests never meet but in the same
 * matrix product, which computes each row by itself (law 2). Buffers are taken once, at open.
 * Thread: the engine's. */
#ifndef CUTAWAY_ENGINE_FORWARD_H
#define CUTAWAY_ENGINE_FORWARD_H

#include <stdint.h>

#include "base/err.h"
#include "engine/model.h"
#include "kernels/kernels.h"

struct forward_stage {
	uint64_t ns, bytes, ops;
};

struct forward {
	const struct model *model;
	const struct k_kv *kv;
	int32_t max_rows, max_out, max_observed, max_groups;

	/* what the caller fills in for a step */
	int32_t n_rows, n_out, n_observed;
	int32_t *ids;           /* [max_rows] */
	struct k_row *rows;     /* [max_rows] */
	const int32_t **pages;  /* [max_rows] block tables, by rows[].seq */
	int32_t *out_row;       /* [max_out] rows whose logits are wanted */
	uint64_t kv_positions;  /* positions of the cache that attention reads: for counting bytes */
	uint64_t kv_pairs;      /* pairs of query and visible position: for counting operations */
	float threshold;        /* attention values below it count as near zero */

	/* results */
	float *logits;               /* [max_out, vocab] */
	struct k_logit_stats *stats; /* [max_out] */
	/* of the step's observed rows; as close together as the deepest of them allows, since another thread
	 * reads it at once */
	float *share;       /* [layers][n_observed][heads][share_stride] by group of 16 */
	int32_t *near_zero; /* [layers][n_observed][heads] */
	int32_t share_stride;
	k_atomic_int nan_row; /* r + 1 of a row whose keys or values were not numbers */
	struct forward_stage stage[K_N_STAGES];

	/* scratch */
	float *x, *q, *k, *v, *gate, *up; /* [max_rows, …] */
	struct k_acts normed, mixed, act, head;
	struct k_program program;
	int32_t built_rows, built_out; /* what the program was written for */
	void *memory;
	size_t memory_bytes;
};

int forward_open(struct forward *f, const struct model *m, const struct k_kv *kv, int32_t max_rows,
				 int32_t max_out, int32_t max_observed, int32_t ctx, struct err *e);
void forward_close(struct forward *f);
void forward_run(struct forward *f, bool timed);

#endif
