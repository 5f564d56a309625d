/* What weights are rounded to: a format of GGUF files, or a grid of any bits and groups, whose
 * values a file holds as floats (its true size is counted, not that of the file). Thread: any; no
 * state. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/kernels.h"

enum { FORM_ROW = 0, FORM_TENSOR = -1 };

struct quant_form {
	/* of the tensor in the file; of a grid F16 or F32: values are scale times integer, rounded to
	 * it, as an engine that computes in f16 would have them */
	enum k_type type;
	/* a grid: */
	int32_t bits;    /* 2 to 8; 0: no grid */
	int32_t group;   /* columns that share a scale, FORM_ROW or FORM_TENSOR */
	bool zero_point; /* from the least value to the greatest; else as far below zero as above */
	bool nf4;        /* the 16 quantiles of a normal distribution (Dettmers 2023, QLoRA) */
	bool e4m3; /* 8-bit floats of 4 bits of exponent and 3 of mantissa (Micikevicius et al. 2022) */
	bool twice; /* the scales of 256 groups in 8 bits, too (QLoRA's double quantisation) */
};

/* Columns that get scales together, of n_cols; a grid's last group may be shorter. */
int32_t form_unit(const struct quant_form *f, int32_t n_cols);
/* How many units a row has. */
static inline int32_t form_units(int32_t unit, int32_t n_cols)
{
	return (n_cols + unit - 1) / unit;
}
/* Bits of a weight of a matrix, with its share of scales and zero points. */
double form_bits(const struct quant_form *f, int64_t rows, int64_t cols);
/* "Q4_0"; "3-bit/128", "4-bit/32z", "8-bit/row", "nf4/64d", "e4m3/row". */
const char *form_name(const struct quant_form *f, char buf[32]);
/* A format by its name, in any case. */
bool form_type(const char *name, enum k_type *out);
/* Reads a number of columns, "row" or "tensor". Returns what follows; NULL: none of these. */
const char *form_group(const char *s, int32_t *out);
/* What form_name() prints, names in any case, "-bit" left out or not; without a group 128.
 * ERR_USAGE. */
int form_parse(const char *text, struct quant_form *out, struct err *e);
/* ERR_USAGE for a grid that there is not. */
int form_check(const struct quant_form *f, struct err *e);

/* The scale of a unit: weight = scale * (integer - zero), or scale * level; f16 as in the file. Of
 * a format: `block`, where its bytes are. */
struct form_unit {
	float scale, zero;
	uint8_t *block;
};
/* From the unit's n weights; formats write u->block, with codes, too. */
void form_fit(const struct quant_form *f, struct form_unit *u, const float *x, int64_t n);
/* Rounds weight k of the unit to the nearest value, which is returned as the file will have it; a
 * format's code is stored. */
float form_round(const struct quant_form *f, const struct form_unit *u, int32_t k, float x);
/* Scales of a grid that were fitted to more than a row: [rows, units of a row], or one of all. */
struct form_scales {
	struct form_unit *unit;
	int64_t n; /* 0: each row has its own */
};
static inline bool form_needs_all(const struct quant_form *f)
{
	return f->bits && (f->group == FORM_TENSOR || f->twice);
}
/* For FORM_TENSOR and `twice`: made of the whole matrix x [rows, cols]. Freed by free(s->unit). */
int form_scales_make(const struct quant_form *f, struct form_scales *s, const float *x,
	int64_t rows, int64_t cols, struct err *e);
/* Columns that are apart [cols] stay in the file's floats; the others are rounded as a row without
 * them. x [cols] is scratch. */
void form_row_apart(const struct quant_form *f, const bool *apart, const float *w, int32_t cols,
	float *x, uint8_t *out);
/* Rounds row r: bytes as in the file. */
void form_row(const struct quant_form *f, const struct form_scales *s, int64_t r, const float *x,
	int32_t cols, uint8_t *out);
