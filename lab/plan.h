/* What quantising makes of each tensor of a file, and the head of the result. Thread: any one. */
#ifndef CUTAWAY_LAB_PLAN_H
#define CUTAWAY_LAB_PLAN_H

#include "lab/change_plan.h"
#include "lab/quant.h"

/* What a file says that it was rounded to, or the type of most of its weights. Whether it was
 * quantised. */
bool quant_source_name(const struct gguf *g, char name[32]);
/* sha256: of the source; text: what the calibration text was, "" without one. ERR_USAGE where a
 * format does not fit a tensor. Fills in what *r says of the plan. *at_bits: where the head has the
 * bits of a weight. */
int quant_plan_make(struct change_plan *p, const struct gguf *g, const struct quant_options *o,
	const char *sha256, const char *text, struct quant_result *r, size_t *at_bits, struct err *e);
/* Corrects what the head says of them. */
void quant_plan_set_bits(struct change_plan *p, size_t at_bits, double bits);

#endif
