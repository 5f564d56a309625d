/* Writing programs: what forward.c and the drafters' networks have in common. Ops and memory, no
 * policy. Thread: the engine's. */
#pragma once

#include "kernels/kernels.h"

/* Each appends an op to p, which has room for it. */
struct k_op *program_add(struct k_program *p, enum k_kind kind, enum k_stage stage);
struct k_embed *program_embed(
	struct k_program *p, const struct k_matrix *w, const int32_t *ids, float *x, int32_t n);
/* pick NULL: rows 0 … n - 1 of x. */
struct k_norm *program_norm(struct k_program *p, const float *x, const int32_t *pick,
	const float *w, float eps, struct k_acts out, int32_t n);
/* The caller then adds up to K_MAX_PARTS parts. */
struct k_matmul *program_matmul(
	struct k_program *p, enum k_stage stage, struct k_acts in, int32_t n);
void program_part(struct k_matmul *m, const struct k_matrix *w, const float *bias,
	const float *residual, float *out);
void program_glu(struct k_program *p, enum k_act act, const float *gate, const float *up,
	struct k_acts out, int32_t n);
void program_stats(
	struct k_program *p, const float *logits, int32_t vocab, int32_t n, struct k_logit_stats *out);
/* Adds what the stats op reports for the rows' draws. */
void program_ask(struct k_program *p, const struct k_draw_request *ask, struct k_draw_reply *reply,
	struct k_draw_entry *list);

/* Its ops first … end - 1, which it shares. */
struct k_program program_slice(const struct k_program *p, int32_t first, int32_t end);

/* Hands out pieces of one allocation; with base NULL it only counts. */
struct cutter {
	uint8_t *base;
	size_t used;
};
void *program_cut(struct cutter *c, size_t count, size_t size);
/* Of so many of what p points to, to p. */
#define CUT(c, p, count) ((p) = program_cut(c, (size_t)(count), sizeof *(p)))
/* Activations in the forms that are needed: floats, blocks of 8 bits. */
struct k_acts program_cut_acts(struct cutter *c, size_t rows, int32_t dim, bool x, bool q);
/* The same memory with rows of dim, at most the dim it was cut for. */
struct k_acts program_acts_of(struct k_acts a, int32_t dim);
/* The rows of `a` from row on. */
struct k_acts program_acts_from(struct k_acts a, int32_t row);
/* Its weights as floats (rule 5) [n_rows, n_cols], to be freed; NULL after an error. Between steps;
 * where memory is the host's. */
float *program_read_matrix(struct k_ctx *kernels, const struct k_matrix *m, struct err *e);
/* Whether a matrix of such weights is multiplied by floats. */
bool program_wants_floats(const struct k_matrix *w);
