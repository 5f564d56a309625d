/* Private to kernels/: what an instruction set provides, and the reference functions that others
 * build on.
 *
 * An op function does part tid of n_threads of an op and splits its outputs itself, by k_split() or
 * by drawing work from op->ticket. A part is run by one thread, once; a thread may run several, one
 * after the other, unless the op is `together`; n_threads counts parts, if op->by_rows. Where there
 * are as many parts as threads, scratch is that of thread tid, whoever runs its part. Whatever the
 * split, the bits are those of ref. */
#pragma once

#include "kernels/kernels.h"

/* Scratch (K_SCRATCH_BYTES, aligned to 64) is undefined at entry; within an op other threads may
 * read results there. An op that might need more must do without. */

/* The scratch of thread `other`, as seen by thread tid: the pool's scratch is one piece. */
static inline void *k_scratch_of(void *scratch, int tid, int other)
{
	return (unsigned char *)scratch + (ptrdiff_t)(other - tid) * (ptrdiff_t)K_SCRATCH_BYTES;
}

typedef void k_fn(struct k_op *op, int tid, int n_threads, void *scratch);

/* Does n rounds of multiply-adds between registers; returns the number of multiply-adds done. */
typedef uint64_t k_multiply_fn(int64_t n);

struct k_isa {
	const char *name;
	bool (*runs_here)(void); /* NULL: anywhere */
	k_fn *fn[K_N_KINDS];
	/* Whether the op's parts wait for one another: each thread does its own. NULL: none do. */
	bool (*together)(const struct k_op *op);
	size_t (*packed_bytes)(enum k_type type, int32_t n_rows, int32_t n_cols);
	int32_t pack_unit; /* rows that are packed together */
	bool keeps_pairs;  /* k_keeps_pairs() */
	void (*pack)(struct k_matrix *m, const void *raw, int32_t first, int32_t n);
	k_multiply_fn *multiply, *fma; /* of 8-bit integers, of f32 */
};

extern const struct k_isa k_isa_scalar;
#ifdef __x86_64__
extern const struct k_isa k_isa_avx2, k_isa_avxvnni, k_isa_avx512;
#elif defined(__aarch64__)
extern const struct k_isa k_isa_neon, k_isa_i8mm;
#endif

/* The part [*lo, *hi) of n units that thread tid does. */
static inline void k_split(int64_t n, int tid, int n_threads, int64_t *lo, int64_t *hi)
{
	*lo = n * tid / n_threads;
	*hi = n * (tid + 1) / n_threads;
}

/* attention_plan.c: statistics, attention that is observed, and a choice of keys that is shared. */
bool k_together(const struct k_op *op);
/* pick_vec8.c: whether threads part a row's groups. */
bool k_pick_is_shared(const struct k_pick *a);

/* The op function of an op that is so many units, each computed by itself (kernels/op/op.h). */
#define K_BY_UNITS(function, name)                                                                 \
	void function(struct k_op *op, int tid, int n_threads, void *scratch)                          \
	{                                                                                              \
		const struct k_##name *a = &op->u.name;                                                    \
		int64_t lo, hi;                                                                            \
                                                                                                   \
		(void)scratch;                                                                             \
		k_split(k_##name##_units(a), tid, n_threads, &lo, &hi);                                    \
		for (int64_t unit = lo; unit < hi; unit++)                                                 \
			k_##name##_unit(a, unit);                                                              \
	}

/* Waits inside an op until the ticket, which its threads increment, has reached `count`: this takes
 * microseconds, unless there are more threads than processors. */
void k_await(atomic_int *ticket, int count);

static inline void k_embed_scale(const struct k_embed *a, float *x)
{
	for (int32_t i = 0; a->scale != 0 && i < a->w->n_cols; i++)
		x[i] *= a->scale;
}

/* ref.c, ref_matmul.c, ref_attention.c */
k_fn k_ref_embed, k_ref_norm, k_ref_matmul, k_ref_rope, k_ref_attention, k_ref_glu, k_ref_stats,
	k_ref_experts;
#define X(name) k_fn k_ref_##name;
K_PLAIN_KINDS(X)
#undef X
/* cpu/experts.c: the experts op, by an instruction set's product, which one thread computes and
 * which leaves the last three quarters of its scratch. */
void k_each_expert(struct k_op *op, int tid, int n_threads, void *scratch, k_fn *matmul);
size_t k_ref_packed_bytes(enum k_type type, int32_t n_rows, int32_t n_cols);
void k_ref_pack(struct k_matrix *m, const void *raw, int32_t first, int32_t n);

/* Rotates the head at `in` to `out` (they may be one) by the table row cos, sin. */
void k_ref_rotate(
	const struct k_rope *a, const float *cos, const float *sin, const float *in, float *out);
/* Rule 10: stores the rotated key and the value of row r. */
struct k_rope_slot;
void k_ref_append(
	const struct k_rope *a, int32_t r, const struct k_rope_slot *at, const float *rotated);
/* nan_row keeps the first row that held a NaN. */
void k_ref_note_nan(k_atomic_int *nan_row, int32_t r);
#define K_STATS_BLOCK 1024 /* ids whose part of the entropy is summed together */
void k_ref_stats_row(const float *logits, int32_t vocab, struct k_logit_stats *out);
/* struct k_stats with `ask`, of a row; scratch: four bytes each K_DRAW_IDS ids. */
void k_ref_draw_row(const float *logits, int32_t vocab, float max_logit,
	const struct k_draw_request *ask, struct k_draw_reply *reply, struct k_draw_entry *list,
	uint32_t *scratch);
/* Bits, of the sum s of p and the sum w of p * (l - max). */
double k_ref_entropy(double s, double w);

/* These use vectors of 8 floats (vec8.h); AVX-512 uses them where wider ones are not faster. */
k_fn k_vec8_norm, k_vec8_rope, k_vec8_glu, k_vec8_stats;
#define X(name) k_fn k_vec8_##name;
K_PLAIN_KINDS(X)
#undef X
#define K_VEC8_FN(name) [K_OP_##name] = k_vec8_##name,
/* For the tables of instruction sets: all but what each has of its own. */
#define K_VEC8_OPS                                                                                 \
	[K_OP_norm] = k_vec8_norm, [K_OP_rope] = k_vec8_rope, [K_OP_glu] = k_vec8_glu,                 \
	[K_OP_stats] = k_vec8_stats, K_PLAIN_KINDS(K_VEC8_FN)

#ifdef __x86_64__
k_fn k_avx2_attention, k_avx512_attention;
#elif defined(__aarch64__)
k_fn k_neon_attention;
#endif
