/* GPTQ (Frantar et al. 2022, "GPTQ: accurate post-training quantization for generative pre-trained
 * transformers"): columns are rounded one after the other, and what each rounding changes in the
 * layer's output is made up for, as far as it can be, by those that are not rounded yet. Thread:
 * any one; rows are split over the threads of the kernels. */
#pragma once

#include "base/err.h"
#include "engine/model/form.h"

struct gptq {
	int32_t n;      /* columns */
	double *u;      /* [n, n] upper factor of the inverse of H: inverse = transpose(u) u */
	int32_t *order; /* [n] columns as they are rounded */
	bool *dead;     /* [n] of no input: the weights become 0 */
	struct k_ctx *kernels;
};

/* h [n, n]: sum of x transpose(x) over the inputs x of the matrix; any factor will do. damping: of
 * the mean of its diagonal, added to it (0.01 in the paper); it is doubled until H has a factor.
 * act_order: columns of the greatest inputs first, with scales that are fitted beforehand. */
int gptq_open(struct gptq *g, struct k_ctx *kernels, const float *h, int32_t n, double damping,
	bool act_order, struct err *e);
void gptq_close(struct gptq *g);
/* Rounds w [rows, n] into the bytes of a file. */
int gptq_round(const struct gptq *g, const struct quant_form *f, const struct form_scales *s,
	const float *w, int64_t rows, uint8_t *out, struct err *e);
