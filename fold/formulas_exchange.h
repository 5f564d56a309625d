/* What ranks of tensor parallelism send each other in a step (docs/parallel.md), from shapes alone:
 * the same that engine/ranks counts, to the byte, of a dense decoder like Llama and of a step that
 * nobody watches. Thread: any; no state. */
#pragma once

#include "fold/timeline.h"

/* The setting `exchange`. */
enum formula_form { FORMULA_Q8, FORMULA_F32, FORMULA_F16 };
enum formula_form formula_form_of(const char *setting); /* NULL: the default */

struct formula_split {
	const struct tl_product *product; /* [n_products], of the whole model */
	int32_t n_products, layers, kv_heads, head_dim;
	int32_t ranks;
	int64_t rows, out_rows; /* of the step; those that logits are wanted of */
	enum formula_form form;
};

struct formula_exchanged {
	int64_t sent, exchanges; /* bytes to all others; how many in a step */
};

/* Of weights: their products read floats. */
bool formula_is_float(const char *format);
/* Whether these are all products of such a model, and of all its columns. */
bool formula_is_dense(const struct formula_split *s);
struct formula_exchanged formula_exchanged(const struct formula_split *s, int32_t rank);
/* Bytes that all ranks send. */
int64_t formula_exchanged_bytes(const struct formula_split *s);
/* Of a product's work, and of attention's, what the rank with the most of it does. */
double formula_product_share(const struct formula_split *s, const struct tl_product *p);
double formula_attention_share(const struct formula_split *s);

/* That of a session. */
struct formula_split formula_split_of(const struct timeline *t, int64_t rows, int64_t out_rows);

/* For the sheet (formulas_sheet.h): by the formula, and in the newest decode step that nobody
 * watched. NaN: not known, or the model is no dense decoder. */
struct formula_ranks {
	int32_t ranks;                        /* 1: all this is nothing */
	double bytes[2], exchanges[2], ns[2]; /* a row, a step, a step */
};
struct formula_ranks formula_ranks(const struct timeline *t, double rows, bool predicted);
