/* Pruning a model file: weights that become zeros, or layers, heads and inner channels of the
 * feed-forward that are no longer there, so that the file and its products are smaller.
 *
 * Written as change.h says; the bytes are a function of the source and the options. A method is a
 * file and a line in prune_table.c. Thread: any one. */
#pragma once

#include "lab/quant.h"

enum prune_kind {
	PRUNE_ZEROS,  /* weights become zeros: --sparsity or --pattern */
	PRUNE_LAYERS, /* --remove: layers of the model */
	PRUNE_PARTS,  /* --remove: parts of every layer */
};

struct prune;
struct prune_gone;
struct layer_part;
struct layer_parts;
struct quant_input;

struct prune_method {
	const char *name;
	enum prune_kind kind;
	bool reads;        /* a calibration text */
	unsigned hessians; /* see calibration_run() */
	/* Checks the options, and says of p->c->plan what becomes of its tensors. */
	int (*plan)(struct prune *p, struct err *e);
	/* PRUNE_ZEROS: zeros in part->w. in [CALIBRATION_INPUTS]: what matrices read; NULL: no text */
	int (*zeros)(
		struct prune *p, struct layer_part *part, const struct quant_input *in, struct err *e);
	/* PRUNE_PARTS: marks as many as the plan says */
	int (*parts)(struct prune *p, const struct layer_parts *parts, const struct quant_input *in,
		struct prune_gone *gone, struct err *e);
};
extern const struct prune_method *const prune_table[]; /* ends with NULL */

struct prune_options {
	struct change_options common;
	const struct prune_method *method;
	double sparsity;  /* of zeros: the share of each matrix */
	int32_t keep, of; /* or, of > 0: `keep` of each `of` columns stay */
	int32_t remove;   /* of the others: how many */
	int32_t unit;     /* of channels: neighbours that go together */
	enum k_type to; /* of zeros: the matrices' type in the result; K_N_TYPES: the source's where it
					 * holds a zero, else F16 */
};

enum { PRUNE_MOST_LAYERS = 256 };

struct prune_result {
	struct change_result common;
	int64_t n_weights; /* of the layers' matrices */
	int64_t n_gone;    /* of these: zero, or no longer there */
	/* of zeros, bytes of these matrices: as they are; with a bit for each weight and the codes of
	 * those that stay; of 2:4 as sparse tensor cores read it, 2 bits for each that stays (0: no
	 * such pattern) */
	int64_t dense_bytes, mask_bytes, pattern_bytes;
	int32_t n_converted;                /* matrices in another type than in the source */
	int32_t n_layers;                   /* of the source; 0: not measured */
	float influence[PRUNE_MOST_LAYERS]; /* of PRUNE_LAYERS: of each layer of the source */
	bool removed[PRUNE_MOST_LAYERS];
	/* of PRUNE_PARTS: of the squares of what the parts add to the stream, the share that went */
	double lost;
	char what[96]; /* was done: "wanda 50%" */
};

int prune_file(const char *in, const char *out, const struct prune_options *o,
	struct prune_result *r, struct err *e);

/* Whether weights of this type can be exactly zero: not where a block has a minimum. */
bool prune_holds_zero(enum k_type type);
