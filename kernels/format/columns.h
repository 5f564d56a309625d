/* Matrices that are read by columns (kernels/op/columns.h). Thread: any; no state. */
#pragma once

#include "kernels/kernels.h"

/* Whether a matrix of this format can be: blocks of 32 with one scale in f16. */
bool k_columns_fit(enum k_type type);
size_t k_columns_bytes(enum k_type type, int32_t n_rows, int32_t n_cols);
/* As k_pack_rows(), for first and n in multiples of K_STRIP. */
void k_columns_pack(struct k_matrix *m, const void *raw, int32_t first, int32_t n);
/* What an op needs to know of its matrix; the rest is 0. */
struct k_columns k_columns_of(const struct k_matrix *m);
