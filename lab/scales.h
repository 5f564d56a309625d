/* Factors by which the columns of matrices that read one input are multiplied before they are
 * rounded; what writes the input is divided by them, so the product stays what it was.
 *
 * AWQ (Lin et al. 2023): columns that meet large inputs become larger, so that rounding loses less
 * of them. SmoothQuant (Xiao et al. 2022): inputs and weights share their extremes, so that both
 * can have 8 bits. Thread: any one; rows are split over the threads of the kernels. */
#pragma once

#include "base/err.h"
#include "engine/model/form.h"

/* What is known of an input of n columns. */
struct quant_input {
	int32_t n;
	int64_t rows;                  /* that were seen */
	float *hessian;                /* [n, n] sum of x transpose(x); NULL: not collected */
	double *sum_abs, *sum_squares; /* [n] */
	float *max_abs;                /* [n] */
};

/* A matrix that reads it. */
struct quant_reader {
	const float *w; /* [rows, n] */
	int64_t rows;
	const struct quant_form *form;
};

/* Of s_j = (mean |x_j|)^alpha, alpha = 0, 0.05 … 0.95, those that leave the least squared error of
 * the outputs. */
struct awq_found {
	double alpha, error, plain; /* that error, and the one without factors */
};
int awq_scales(struct k_ctx *kernels, const struct quant_input *in,
	const struct quant_reader *readers, int32_t n_readers, float *s, struct awq_found *found,
	struct err *e);
/* s_j = (max |x_j|)^alpha / (max |w_j|)^(1 - alpha); 1 where either is 0. */
void smooth_scales(const struct quant_input *in, const struct quant_reader *readers,
	int32_t n_readers, double alpha, float *s);
