/* A model file written again with changes, layer by layer: quantised (quant.h), pruned (prune.h).
 *
 * The result is written under OUT.partial and renamed when it is whole, so nothing half-written
 * ever has the final name. A run that was killed, or that found a full disk, leaves OUT.partial,
 * and the same call goes on from the layers that it holds. Thread: any one. */
#ifndef CUTAWAY_LAB_CHANGE_H
#define CUTAWAY_LAB_CHANGE_H

#include "lab/calibration.h"
#include "lab/change_plan.h"
#include "lab/partial.h"

struct change;

/* What one kind of change does; `self` is its own. */
struct change_ops {
	const char *what; /* "rounding" */
	/* Makes c->plan, with its head. sha256: of the source. */
	int (*plan)(void *self, struct change *c, const char *sha256, struct err *e);
	/* Writes the n tensors from t on, of one layer or of none. */
	int (*write)(
		void *self, struct change *c, const struct change_tensor *t, int32_t n, struct err *e);
	/* They are there from an earlier run. */
	int (*take)(
		void *self, struct change *c, const struct change_tensor *t, int32_t n, struct err *e);
	/* All is written, and may be corrected; NULL: nothing is. */
	int (*finish)(void *self, struct change *c, struct err *e);
};

struct change {
	const struct change_ops *ops;
	void *self;
	const char *in;
	struct k_ctx *kernels;
	bool afresh; /* what an earlier run left is not gone on from */
	quant_progress *progress;
	void *arg;
	quant_told *told;
	void *told_arg;
	/* set by change_file(): */
	const struct gguf *g;
	struct change_plan plan;
	struct partial file;
	struct calibration text; /* of what reads one: change_read_text() */
	int32_t layers;          /* of the source */
	int64_t done, all;       /* weights */
	uint8_t *piece;          /* scratch [cap] */
	size_t cap;
};

/* ERR_USAGE if out is there already, or is the source. */
int change_file(struct change *c, const char *out, struct err *e);

/* ---- for the kinds ---- */

/* Opens c->text; `summary` is what the result says of it. */
int change_read_text(
	struct change *c, struct calibration_options o, char summary[96], struct err *e);
/* Whether the text goes through this layer: a file may have tensors of layers that the model has
 * not. */
bool change_reads(const struct change *c, int32_t layer);
/* c->piece with room for so many bytes. */
int change_room(struct change *c, size_t bytes, struct err *e);
/* Fails for a weight that is no finite number. x: from `row` on. */
int change_check_finite(
	const struct gguf_tensor *t, const float *x, int64_t n, int64_t row, struct err *e);
/* A tensor of the source as it is there [from->bytes] and as floats. */
int change_read(
	struct change *c, const struct change_tensor *t, uint8_t *raw, float *x, struct err *e);
/* Bytes [at, at + n) of a tensor of the result. */
int change_put(struct change *c, const struct change_tensor *t, uint64_t at, const void *data,
	size_t n, struct err *e);
/* Zeros up to where the next tensor begins. */
int change_pad(struct change *c, const struct change_tensor *t, struct err *e);
int change_copy(struct change *c, const struct change_tensor *t, struct err *e);
/* So many weights of the source are done. ERR_INTERRUPTED if progress says so. */
int change_step(struct change *c, int64_t n, struct err *e);

#endif
