/* A model file written again with changes, layer by layer: quantised (quant.h), pruned (prune.h).
 *
 * The result is written under OUT.partial and renamed when it is whole, so nothing half-written
 * ever has the final name. A run that was killed, or that found a full disk, leaves OUT.partial,
 * and the same call goes on from the layers that it holds. Thread: any one. */
#pragma once

#include "engine/model/gguf_write.h"
#include "lab/calibration.h"
#include "lab/partial.h"

/* What becomes of a tensor of the source. */
struct change_tensor {
	const struct gguf_tensor *from;
	struct gguf_tensor to;  /* name, type, shape and bytes in the result; no data */
	char name[64];          /* to.name, where it is another one than from->name */
	bool changed;           /* else its bytes are copied */
	struct quant_form form; /* of a rounded one: what it is rounded to */
	int32_t layer;          /* of the source; -1: of none */
	uint64_t offset;        /* in the section of tensors */
};

struct change_plan {
	struct change_tensor *tensor; /* [n] those of no layer, then by layer */
	int32_t n;
	struct gguf_head head;
};

/* What one kind of change does; `self` is its own. */
struct change_ops {
	const char *what; /* "rounding" */
	/* Says of c->plan's tensors, which are as in the source, what becomes of them, and puts its
	 * pairs into the head. */
	int (*plan)(void *self, struct err *e);
	/* Writes the n tensors from t on, of one layer or of none. */
	int (*write)(void *self, const struct change_tensor *t, int32_t n, struct err *e);
	/* They are there from an earlier run. */
	int (*take)(void *self, const struct change_tensor *t, int32_t n, struct err *e);
	/* All is written, and may be corrected; NULL: nothing is. */
	int (*finish)(void *self, struct err *e);
};

struct change {
	const struct change_ops *ops;
	void *self;
	const struct change_options *o;
	struct change_result *r;
	bool reads;  /* a calibration text */
	bool afresh; /* what an earlier run left is not gone on from */
	/* set by change_file(): */
	struct k_ctx *kernels;
	struct gguf *g;
	char sha256[SHA256_HEX]; /* of the source */
	struct change_plan plan;
	struct partial file;
	struct calibration text; /* of what reads one */
	char text_summary[96];   /* what the result says of it; "": none is read */
	int32_t layers;          /* of the source */
	int64_t done, all;       /* weights */
	uint8_t *piece;          /* scratch [cap] */
	size_t cap;
};

/* ERR_USAGE if out is there already, or is the source. */
int change_file(struct change *c, const char *in, const char *out, struct err *e);

/* ---- for the kinds ---- */

/* Begins the head with the source's pairs, but for those whose key begins with `own` and the
 * `replaced` ones (ends with NULL); the caller adds its pairs. */
int change_head(struct change *c, const char *own, const char *const *replaced, struct err *e);
/* How many tensors from the i-th on are of the same layer (or of none) as it. */
int32_t change_plan_layer(const struct change_plan *p, int32_t i);
/* blk.N.…: N; -1: of no layer. */
int32_t change_layer_of(const char *name);
/* The matrix of a product; not a small one that decides much or must be floats: a router's, those
 * of a recurrence. */
bool change_is_matrix(const struct gguf_tensor *t);
/* general.file_type as llama.cpp numbers it. */
uint32_t change_file_type(enum k_type type);
#define CHANGE_FILE_TYPE_KEY "general.file_type"

/* Whether the text goes through this layer: a file may have tensors of layers that the model has
 * not. */
bool change_reads(const struct change *c, int32_t layer);
/* c->piece with room for so many bytes. */
int change_room(struct change *c, size_t bytes, struct err *e);
/* Fails for a weight that is no finite number. x: from `row` on. */
int change_check_finite(
	const struct gguf_tensor *t, const float *x, int64_t n, int64_t row, struct err *e);
/* ERR_USAGE with the advice where its rows in the result are no whole blocks of its type. */
int change_check_blocks(const struct change_tensor *t, const char *advice, struct err *e);
/* Adds up the squares of what changed in n weights, and of them. */
void change_sum(const float *before, const float *after, int64_t n, double *error, double *size);
/* A tensor of the source as it is there [from->bytes] and as floats. */
int change_read(const struct change_tensor *t, uint8_t *raw, float *x, struct err *e);
/* Bytes [at, at + n) of a tensor of the result. */
int change_put(struct change *c, const struct change_tensor *t, uint64_t at, const void *data,
	size_t n, struct err *e);
/* Zeros up to where the next tensor begins. */
int change_pad(struct change *c, const struct change_tensor *t, struct err *e);
int change_copy(struct change *c, const struct change_tensor *t, struct err *e);
/* So many weights of the source are done. ERR_INTERRUPTED if progress says so. */
int change_step(struct change *c, int64_t n, struct err *e);
