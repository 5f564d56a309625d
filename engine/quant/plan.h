/* What becomes of each tensor of a file that is quantised, and the head of the result. Thread: any
 * one; constant once made. */
#ifndef CUTAWAY_ENGINE_QUANT_PLAN_H
#define CUTAWAY_ENGINE_QUANT_PLAN_H

#include "engine/model/gguf_write.h"
#include "engine/quant/quant.h"

struct quant_tensor {
	const struct gguf_tensor *from;
	bool rounded;           /* else its bytes are copied */
	struct quant_form form; /* what it is rounded to */
	enum k_type type;       /* in the result */
	int32_t layer;          /* -1: of none */
	uint64_t offset;        /* in the section of tensors */
	size_t bytes;
};

struct quant_plan {
	struct quant_tensor *tensor; /* [n] in the order of the result: of no layer, then by layer */
	int32_t n;
	struct gguf_head head;
	size_t at_bits; /* where the head has them */
};

/* sha256: of the source; text: what the calibration text was, "" without one. ERR_USAGE where a
 * format does not fit a tensor. Fills in what *r says of the plan. */
int quant_plan_make(struct quant_plan *p, const struct gguf *g, const struct quant_options *o,
	const char *sha256, const char *text, struct quant_result *r, struct err *e);
/* Corrects what the head says of the bits of a weight. */
void quant_plan_set_bits(struct quant_plan *p, double bits);
void quant_plan_free(struct quant_plan *p);

static inline int64_t quant_count(const struct gguf_tensor *t)
{
	return t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
}

#endif
