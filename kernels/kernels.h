/* The kernel table: everything that touches tensors, for every back end.
 *
 * A step of the model is a *program*: an array of ops that engine/run/forward.c writes in terms of
 * this header and a back end runs in order. All threads of the pool walk the program together; each
 * op splits its own outputs among them, with a barrier between ops. (A CUDA back end runs the same
 * program as launches, or as one graph of them.)
 *
 * ref.c is the definition of every op (docs/arithmetic.md, rule by rule); every other kernel is
 * compared with it by memcmp. Nothing in here depends on the number of threads.
 *
 * Kernels include nothing of the project but base/. All pointers are owned by the caller; a program
 * and its buffers must not move while it runs. Thread: one engine thread calls k_run(); the pool's
 * other threads are private to the back end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/format/format_table.h"
#include "kernels/format/kv.h"
#include "kernels/op/ops.h"

/* CUDA files are compiled as C++: they see the same layout and use atomics of their own. */
#ifdef __cplusplus
typedef int k_atomic_int;
#else
#include <stdatomic.h>
typedef atomic_int k_atomic_int;
#endif

#ifdef K_FREE_ORDER /* a build for measuring what the fixed order costs: docs/arithmetic.md, end   \
					 */
enum { K_FREE = 1, K_ARITH_VERSION = 0 };
#define K_ORDER_NAME " free-order"
#else
enum { K_FREE = 0, K_ARITH_VERSION = 1 };
#define K_ORDER_NAME ""
#endif

struct k_type_info {
	const char *name;
	int32_t gguf_id, block, block_bytes;
};
extern const struct k_type_info k_types[K_N_TYPES];

/* A weight matrix y = W x in the back end's own layout. `data` was filled by k_pack(). The only
 * copy. */
struct k_matrix {
	enum k_type type;
	int32_t n_rows; /* outputs */
	int32_t n_cols; /* inputs, a multiple of the type's block */
	bool by_column; /* read by the op columns, and in its layout; set before it is packed */
	void *data;
	/* Of floats: of each four neighbours in a row at most two are not +0, and these alone are kept
	 * (2:4), where k_keeps_pairs(); set before it is packed */
	bool pairs;
};

/* Positions first … end - 1 of a sequence. What a row sees is a list of ranges: ascending, none
 * touches the one before; the last non-empty one ends at pos + 1, or, if the op says so, before it
 * or after later positions of the step; only empty ones follow it, whose first and end are that
 * end. */
struct k_range {
	int32_t first, end;
};

/* Of a row's positions before `end` only those with (position + phase) % period < width are read;
 * period 0: all. */
struct k_stride_mask {
	int32_t period, phase, width, end;
};

/* Each row sees all positions up to its own: one range for each row. */
static inline void k_see_all(const struct k_row *rows, int32_t n, struct k_range *ranges)
{
	for (int32_t r = 0; r < n; r++)
		ranges[r] = (struct k_range){ 0, rows[r].pos + 1 };
}

/* Arguments of the ops, one struct each; n is the number of rows. Of each the arrays that are the
 * host's, also where kernels run on a device: K_INPUTS_<op> and, of block tables, K_TABLES_<op>. */

struct k_embed { /* x[r] = row ids[r] of the matrix, read as a vector (rule 5) */
	const struct k_matrix *w;
	const int32_t *ids; /* [n] */
	float *x;           /* [n, dim] */
	float scale;        /* of every value; 0: none */
	int32_t n;
};
#define K_INPUTS_embed(PLAIN, a) PLAIN(a->ids, a->n)

struct k_norm { /* RMS norm of x[pick[r]] (pick NULL: of x[r]), rule 7, then quantised, rule 4 */
	const float *x;        /* [.., dim] */
	const int32_t *pick;   /* [n] or NULL */
	const float *w;        /* [dim] */
	const float *residual; /* [n, dim] or NULL; added last; may equal out.x, as x may not */
	float eps;
	bool kept;         /* ops after the next one read the result too */
	struct k_acts out; /* [n, dim] */
	int32_t n;
};
#define K_INPUTS_norm(PLAIN, a) PLAIN(a->pick, a->n)

#define K_MAX_PARTS 3
struct k_matmul {     /* up to three matrices over the same input: Q, K and V; gate and up */
	struct k_acts in; /* [n, n_cols] */
	struct {
		const struct k_matrix *w;
		const float *bias;     /* [n_rows] or NULL; added first */
		const float *residual; /* [n, n_rows] or NULL; added second; may equal out */
		float *out;            /* [n, n_rows] */
	} part[K_MAX_PARTS];
	int32_t n_parts, n;
	/* quantised weights count as the floats of their values, too (rule 21): what is read is in.x;
	 * on a CPU */
	bool as_floats;
	/* 0, or: quantised weights are also multiplied, as floats, by the values of in.x beyond it in
	 * magnitude, which q does not have, and that is added last (rule 24) */
	float above;
};
#define K_INPUTS_matmul(PLAIN, a)

/* rotates q (then times scale, rule 10) in place; k is rotated and stored, v is stored */
struct k_rope {
	float *q;               /* [n, n_heads, head_dim] */
	const float *k;         /* [n, n_kv_heads, head_dim] */
	const float *v;         /* [n, n_kv_heads, head_dim]; k where values are part of the keys */
	const float *cos, *sin; /* [.., rope_dim / 2] rows of the table, by position */
	int32_t rope_dim;       /* leading dimensions of a head that are rotated, even */
	bool neox;              /* pairs are (i, i + rope_dim/2); else neighbours (2i, 2i + 1) */
	float scale;
	int32_t n_heads, layer, n;
	const struct k_row *rows;  /* [n] */
	const struct k_also *also; /* [n_also] */
	int32_t n_also;
	const int32_t *const *pages; /* [n_seqs] block tables */
	const struct k_kv *kv;
	k_atomic_int *nan_row; /* set to r + 1 for a row that held a NaN (the request then fails) */
};
#define K_TABLES_rope(TABLE, a) TABLE(a->pages, a->kv)
#define K_INPUTS_rope(PLAIN, a) PLAIN(a->rows, a->n) PLAIN(a->also, a->n_also) PLAIN(a->kv, 1)

/* Distances beyond it are one, in both directions (Raffel et al. 2020, section 2.1). */
enum { K_DISTANCE = 128 };

/* How a step's attention is computed, by a GPU or a CPU's vector kernels; the bits are the same. */
enum k_attend {
	/* Span by span: its scores, their softmax and its values while a cache has them, merged as they
	 * come (Dao et al. 2022, "FlashAttention"); threads share the spans of a head (Dao et al. 2023,
	 * "Flash-Decoding") */
	K_ATTEND_FLASH,
	K_ATTEND_HEADS,  /* likewise, but all spans of a head stay with one thread */
	K_ATTEND_MATRIX, /* all scores of the layer to memory, then their softmax, then the values */
};
/* Of K_ATTEND_MATRIX: a query's floats in memory for a span: scores and then probabilities, their
 * maximum and sum, sums of the groups; whole cache lines. */
#define K_MATRIX_SPAN 144

struct k_attention {   /* rule 11; out is quantised for the output matrix (rule 4) */
	const float *q;    /* [n, n_heads, head_dim], rotated and scaled */
	struct k_acts out; /* [n, n_heads * k_value_dim()]; out.x is never NULL */
	int32_t n_heads, layer, n;
	const struct k_row *rows;
	const struct k_range *ranges; /* [n, n_ranges] what each row sees */
	int32_t n_ranges;
	/* Of what a row sees: the groups that its heads read, as k_pick writes them, and the positions
	 * that all of them read; or NULL: all */
	const uint8_t *selected; /* [n, n_kv_heads, selected_stride] */
	int32_t selected_stride;
	const struct k_stride_mask *stride_mask; /* [n] */
	const float *sink_q; /* as q: the query for the first n_sinks positions; NULL: q */
	int32_t n_sinks;
	const int32_t *const *pages; /* block tables; an entry that no row sees may be -1 */
	const struct k_kv *kv;
	/* kv's format is by channel: where the last positions are, in f16; else NULL */
	const struct k_kv *recent;
	const int32_t *const *recent_pages;
	float softcap;      /* 0: none */
	const float *sinks; /* [n_heads] a score without a value, for each head; NULL: none */
	/* For rows with observe >= 0, NULL otherwise: */
	float *share; /* [n_observed, n_heads, share_stride] share of each group of 16 positions up to
				   * the row's own, 0 where it sees none; nothing is written after that */
	int32_t *near_zero; /* [n_observed, n_heads] visible probabilities below `threshold` */
	int32_t share_stride;
	float threshold;
	/* A layer of an encoder-decoder model: on a GPU, and with a matrix, it has no faster way than
	 * the definition. Ranges may end before a row's own position. adds: to the share, near_zero and
	 * attn_score of the op before */
	bool relative, adds;
	bool ahead;            /* rows see later ones of the step */
	const float *bias;     /* [.., n_heads] by bucket, added to a score (rule 23); NULL: none */
	const int32_t *bucket; /* [2 K_DISTANCE + 1] of each distance from -K_DISTANCE on */
	/* As share, of every row, and only of groups that it reads; or NULL */
	float *attn_score; /* [n, n_heads, attn_score_stride] */
	int32_t attn_score_stride;
	enum k_attend way;
	float *matrix; /* [n, n_heads, matrix_spans, K_MATRIX_SPAN]; NULL: way is another */
	int32_t matrix_spans;
};
#define K_TABLES_attention(TABLE, a) TABLE(a->pages, a->kv) TABLE(a->recent_pages, a->recent)
#define K_INPUTS_attention(PLAIN, a)                                                               \
	PLAIN(a->recent, 1)                                                                            \
	PLAIN(a->stride_mask, a->n)                                                                    \
	PLAIN(a->bucket, 2 * K_DISTANCE + 1)                                                           \
	PLAIN(a->rows, a->n)                                                                           \
	PLAIN(a->ranges, a->n * a->n_ranges)                                                           \
	PLAIN(a->kv, 1)

/* What a head's sums are multiplied by when all spans are merged. */
K_INLINE float k_attention_inverse(const struct k_attention *a, int32_t head, float max, float sum)
{
	return a->sinks ? k_sink_inverse(max, sum, a->sinks[head]) : 1.0f / sum;
}

/* Product of a mixture of experts: slot s of row r by the matrix of expert ids[r, s]. Each slot is
 * a row of the output. */
struct k_experts {
	struct k_acts in; /* [n, n_cols], or [n * k, n_cols] if each slot has a row */
	/* [n_experts], all of one shape and format; on a CPU, where one has no data its slots are left
	 * as they are */
	const struct k_matrix *w;
	const float *bias;  /* [n_experts, n_rows] added to the product; NULL: none */
	const int32_t *ids; /* [n, k] */
	float *out;         /* [n * k, n_rows] */
	int32_t n_experts, k, n;
	bool each; /* each slot has its own row of `in` */
};
#define K_INPUTS_experts(PLAIN, a)

/* Statistics of one row of logits. */
struct k_logit_stats {
	uint64_t hash;  /* rule 14 */
	uint64_t mass;  /* sum over i of nearest(exp(l - max) * 2^40) (rule 15) */
	double entropy; /* bits, of the softmax of the row; summed in a fixed order */
	float max;
	int32_t argmax; /* lowest id among equals */
};

/* What a draw needs of a row of logits, so that the row may stay on the device (rule 15; no
 * penalties). With y = logit * factor: the mass of all ids, the greatest values, and the race of
 * the whole vocabulary. */
enum {
	K_DRAW_IDS = 64,    /* ids of a block; the floor comes from the blocks' maxima */
	K_DRAW_BEST = 256,  /* most that `best` may be */
	K_DRAW_LIST = 1024, /* ids that are listed, at most */
	K_DRAW_TARGET = 0,  /* purpose word of the race's random numbers */
};
struct k_draw_request {
	float factor; /* > 0 */
	int32_t best; /* the list must have at least the `best` greatest, 1 to K_DRAW_BEST */
	int32_t id;   /* id whose logit is needed too, or -1 */
	bool race;
	uint32_t pos, sample;
	uint64_t seed;
};
struct k_draw_reply {
	uint64_t mass; /* sum over all ids of nearest(exp(y - max y) * 2^40) */
	/* The `best`-th greatest of the maxima of y over K_DRAW_IDS ids each; -Inf if there are
	 * fewer. */
	float floor;
	int32_t n; /* ids with y >= floor, all of which are listed if n <= K_DRAW_LIST; INT32_MAX: there
				  is a NaN, and none is listed */
	int32_t winner;            /* of the race; -1: none was requested */
	float arrival;             /* the winner's; +Inf without */
	float winner_logit, logit; /* the winner's, that of ask.id; else 0 */
	int64_t ahead; /* ids of greater y than the winner, or of equal y and lower; else 0 */
};
struct k_draw_entry {
	int32_t id;
	float logit;
};

struct k_stats {
	const float *logits; /* [n, vocab] */
	int32_t vocab, n;
	struct k_logit_stats *out; /* [n] */
	/* NULL: no draws. Only the reference and devices support it, for rows that the host cannot
	 * read */
	const struct k_draw_request *ask; /* [n] */
	struct k_draw_reply *reply;       /* [n] */
	struct k_draw_entry *list;        /* [n, K_DRAW_LIST], by id */
};
#define K_INPUTS_stats(PLAIN, a) PLAIN(a->ask, a->n)

enum k_kind {
#define X(name, ...) K_OP_##name,
	K_KINDS(X)
#undef X
		K_N_KINDS
};

/* What an op is for: the unit in which time is shown. name, label on the screen, what it does. */
#define K_STAGES(X)                                                                                \
	X(embed, "embed", "reads the rows of the embedding")                                           \
	X(norm, "norm", "root-mean-square norms, and rounding to 8 bits")                              \
	X(qkv, "qkv", "projections into the mixer: query, key and value")                              \
	X(rope, "rope", "rotary positions; appends K and V to the cache")                              \
	X(attention, "attention", "scores, softmax and weighted sum over the cached pages")            \
	X(out, "out", "output projection of the mixer")                                                \
	X(gate_up, "FFN gate·up", "the two expanding matrices of the feed-forward")                    \
	X(act, "act", "the gate's activation times up, and rounding to 8 bits")                        \
	X(down, "FFN down", "the contracting matrix of the feed-forward")                              \
	X(head, "LM head", "logits: the output matrix over the whole vocabulary")                      \
	X(stats, "stats", "hash, maximum, mass and entropy of the logits")                             \
	X(scan, "scan", "causal convolution and selective scan: a recurrent layer's memory")           \
	X(route, "router", "a token's experts: their scores, the choice, the sum of what they gave")   \
	X(adapter, "adapter", "what the rows' low-rank adapters add to products")

enum k_stage {
#define X(name, label, doc) K_STAGE_##name,
	K_STAGES(X)
#undef X
		K_N_STAGES
};

struct k_op {
	enum k_kind kind;
	enum k_stage stage;
	int32_t layer;  /* of the model; -1: none */
	uint64_t bytes; /* counted from shapes by the code that wrote the op: weights, KV and
					   activations */
	uint64_t ops;   /* counted likewise: a multiply-add is two */
	union {
#define X(name, ...) struct k_##name name;
		K_KINDS(X)
#undef X
	} u;
	/* Fields that a walk writes are together, after those that all threads read: else each step
	 * would fetch those again, too. */
	uint64_t ns;         /* out: wall time of this op, if the program is timed */
	k_atomic_int ticket; /* for kernels that distribute their work dynamically; zeroed by k_run() */
	bool by_rows;        /* a product that the walk splits by rows of activations; set by k_run() */
	uint64_t walk;       /* a CPU's number of the walk, no two alike; 0: outside of one */
};

struct k_program {
	struct k_op *op;
	int32_t n_ops;
	int32_t layer; /* of the ops that are appended next */
	bool timed;    /* fill ns */
	/* From k_new_version() for every change of an op: a back end caches what it made of the ops
	 * while this stays the same, but nothing of version 0. Data behind their pointers may change
	 * without a new version. */
	uint64_t version;
};

/* A back end with its pool. */
struct k_ctx;

/* Scratch of each of its threads. Untouched memory costs nothing. */
#define K_SCRATCH_BYTES ((size_t)16 << 20)

/* backend: "cpu", "ref", "cuda", or "auto", which is cuda if that works and else cpu; the latter
 * two may name a device by its number, "cuda:1". isa, of CPUs: NULL for the best of this machine,
 * or one of k_isas(). n_threads >= 1 (1 for the engine's own thread alone). Runs the known-answer
 * hash of all kernels (rule 1) and fails with ERR_DEVICE if it differs from ref.c's. */
int k_open(struct k_ctx **ctx, const char *backend, const char *isa, int n_threads, struct err *e);
void k_close(struct k_ctx *ctx); /* NULL is fine */

const char *k_backend_name(const struct k_ctx *ctx); /* "cpu", "ref" or "cuda" */
const char *k_isa_name(const struct k_ctx *ctx);     /* "avx2", "neon", …; "scalar" for ref */
int k_n_threads(const struct k_ctx *ctx);
/* The system's ID of thread i >= 1 of the pool, once it has run. (Thread 0 is the caller of
 * k_run.) */
int k_thread_id(const struct k_ctx *ctx, int i);
/* "NVIDIA H200"; "" on a CPU. */
const char *k_device_name(const struct k_ctx *ctx);
/* Why "auto" took the CPU; "" otherwise. */
const char *k_fallback(const struct k_ctx *ctx);
/* How a device runs a program: "launches", "graph" or "early", with equal bits. On a CPU there
 * is no choice: ERR_USAGE, and the mode is "". */
int k_set_mode(struct k_ctx *ctx, const char *mode, struct err *e);
const char *k_mode(const struct k_ctx *ctx);

struct k_device_info {
	int index, driver; /* 13000: CUDA 13.0 */
	char name[128];
	size_t memory_bytes;
	int processors, major, minor; /* compute capability */
	char unfit[192];              /* why it cannot be used, "" if it can */
};
/* Writes at most cap of them (0: only counts); returns how many, or -1: there is no driver, and e
 * has the reason. */
int k_devices(struct k_device_info *out, int cap, struct err *e);
/* The architectures that this program has kernels for: "sm_80 sm_90 compute_90"; "" for none. */
const char *k_cuda_build(void);

/* NULL-terminated, best first: those that this processor runs, none better than the one in
 * CUTAWAY_ISA. k_open refuses a CPU if that names none. */
const char *const *k_isas(void);

/* Size and layout of a matrix in this back end. k_pack() works in the host's memory; where the
 * kernels use other memory, the caller uploads the result. It reads `raw`, rows of GGUF blocks as
 * in the file, n_rows * (n_cols / block) * block_bytes, and uses the pool. m->data has
 * k_packed_bytes(), aligned to 64. */
size_t k_packed_bytes(const struct k_ctx *ctx, enum k_type type, int32_t n_rows, int32_t n_cols);
void k_pack(struct k_ctx *ctx, struct k_matrix *m, const void *raw);
/* The same for rows [first, first + n); only these are at `raw`. first is a multiple of
 * k_pack_unit() (by_column: K_STRIP), and so is n unless the matrix ends there. Any thread;
 * different rows may be packed at once. */
void k_pack_rows(
	const struct k_ctx *ctx, struct k_matrix *m, const void *raw, int32_t first, int32_t n);
int32_t k_pack_unit(const struct k_ctx *ctx);
/* Whether matrices of the type and width may be pairs, and whether these n weights are. */
bool k_keeps_pairs(const struct k_ctx *ctx, enum k_type type, int32_t n_cols);
bool k_pairs_hold(enum k_type type, const void *raw, size_t n);
/* Names the layout of packed matrices: two back ends of one name give the same bytes. It has the
 * instruction set and a hash of known matrices as packed, so a new layout has a new name. */
const char *k_layout_name(const struct k_ctx *ctx);

/* Calls fn(arg, i, scratch) for each i of 0 … n - 1, distributed in order over all threads, and
 * returns when all are done. scratch is the thread's own, K_SCRATCH_BYTES, aligned to 64, undefined
 * at entry. */
typedef void k_task_fn(void *arg, int64_t i, void *scratch);
void k_deal(struct k_ctx *ctx, int64_t n, k_task_fn *fn, void *arg);
/* Bytes of weights that multiplying one row by m reads: counted from the packed form. */
size_t k_matrix_bytes(const struct k_ctx *ctx, const struct k_matrix *m);

/* A version that no program of this process had before. */
uint64_t k_new_version(void);

/* Memory of a back end: all that the pointers of a program point to. */
enum k_memory {
	K_WEIGHTS, /* for kernels alone, read by all; filled by k_upload() */
	K_WORK,    /* for kernels alone: activations, logits; zeroed */
	K_PAGES,   /* likewise: KV pages, read far apart */
	K_SHARED,  /* the host's between runs, the kernels' during one: ids, rows, statistics; zeroed */
};
/* Aligned to 64. NULL with ERR_MEMORY, which says how much there is; `what` names its use and a
 * remedy: "KV pages; try fewer with --pages". Freed by k_free(), at the latest by k_close(). */
void *k_alloc(
	struct k_ctx *ctx, size_t bytes, enum k_memory where, const char *what, struct err *e);
void k_free(struct k_ctx *ctx, void *p); /* NULL is fine */
/* Whether the host can read and write all of it between runs, as on a CPU, and untouched memory
 * costs nothing. Else only the following three functions access what is for kernels alone. */
bool k_is_host(const struct k_ctx *ctx);
/* From the host's memory to the kernels' own; done when it returns. */
int k_upload(struct k_ctx *ctx, void *to, const void *from, size_t bytes, struct err *e);
/* The other way, not of K_WEIGHTS; done when it returns. */
int k_fetch(struct k_ctx *ctx, void *to, const void *from, size_t bytes, struct err *e);
/* Within K_PAGES or K_WORK, done before the next k_run() starts, which also reports its failure. */
void k_copy(struct k_ctx *ctx, void *to, const void *from, size_t bytes);

/* Runs the program and returns when it is done. Sets the floating-point environment of every thread
 * (rule 1). A CPU cannot fail; a device can (ERR_DEVICE), and cannot be used again: results are
 * invalid, and only k_free() and k_close() may follow. */
int k_run(struct k_ctx *ctx, struct k_program *p, struct err *e);

/* Plain read bandwidth of this machine with this pool, bytes a second: the best of at most
 * n_passes over `bytes` of memory, fewer where the machine is quiet; least (may be NULL) is the
 * worst of them. A pass over 256 MB takes 10 to 30 ms, and making them as long as a few passes. */
double k_measure_read(struct k_ctx *ctx, size_t bytes, int32_t n_passes, double *least);
/* One such pass over `bytes` (a multiple of 64) at data, which are not changed; on a device, over
 * as many bytes of its own. */
double k_read_rate(struct k_ctx *ctx, const void *data, size_t bytes);
/* 8-bit multiply-adds a second of all threads, by the instructions that the matrix products of this
 * back end use, with all operands in registers: the best of several passes, about 30 ms in all. */
double k_measure_int(struct k_ctx *ctx);
/* The same of f32, as attention and weights that are floats use them; 0: not measured, as on a
 * device. */
double k_measure_float(struct k_ctx *ctx);

/* Adds the positions that a row's kv head reads to those in bits [pos / 16 + 1]: 16 of a group,
 * from the lowest bit on. Returns how many it reads. */
int32_t k_attention_reads(const struct k_attention *a, int32_t r, int32_t kv_head, uint16_t *bits);

/* The probabilities of one row and head over positions 0 … pos, p [pos + 1], as rule 11 scales
 * them, 0 for positions it does not see: computed by the reference on the calling thread, from
 * memory that the host reads. q, rows, pages and kv are those of the op after it ran. */
void k_attention_row(const struct k_attention *a, int32_t r, int32_t head, float *p);

/* RoPE tables (rule 9): cos and sin of pos * freq[i], computed with + - * alone.
 * freq[i] as given by k_rope_freqs; out is [n_pos, n_freqs]. */
void k_rope_table(
	const double *freq, int32_t n_freqs, int32_t n_pos, float *cos_out, float *sin_out);
/* The same for positions first … end - 1; only these are written. Any thread. */
void k_rope_rows(const double *freq, int32_t n_freqs, int32_t first, int32_t end, float *cos_out,
	float *sin_out);
/* freq[i] = theta^(-2 i / rope_dim), with k_exp64 and k_log64. */
void k_rope_freqs(double theta, int32_t rope_dim, double *freq);
