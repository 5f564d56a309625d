/* One step of the model, as a program of kernel ops. To understand the engine, read forward.c
 * first.
 *
 * A batch of rows goes through all layers together; rows of different requests share only the
 * matrix products, which compute each row by itself (law 2). Buffers are allocated once, at open.
 * Thread: the engine's. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "engine/model/model.h"
#include "engine/run/program.h"
#include "engine/visibility/visibility.h"

struct forward_mask;
struct forward_stage {
	uint64_t ns, bytes, ops;
};

/* All that a program depends on; the versions of the last ones are kept, since observed and
 * unobserved steps alternate. */
struct forward_shape {
	int32_t rows, out, observed, stride, also, layers;
	bool encodes, begin_more, adapted;
	enum k_cache format;
	float least;
	struct visible visible;
	float threshold;
	uint64_t version;
};
/* The widest buffer of a step that any layer needs, in floats a row. */
struct forward_acts {
	int32_t dim;
	bool x, q; /* floats, blocks of 8 bits: the forms that the matrices which read it need */
};
enum { FORWARD_MASKS = 4 /* windows of one model that differ */ };
enum { FORWARD_INPUT, FORWARD_OWN, FORWARD_PARTS };
struct forward_needs {
	int32_t ops;                                  /* of all layers */
	int32_t window[FORWARD_MASKS + 1], n_windows; /* more are too many */
	int32_t q, kv, heads, kv_heads, wide;         /* heads, kv_heads: of attention */
	int32_t masked; /* widest activations of which `mask` has the bits */
	int32_t q_normed, k_normed, inner;
	int32_t room; /* floats of a state matrix of one layer, once a step */
	bool first;   /* the first layer's values are kept for the step */
	bool added;   /* a layer's result is put aside before it is added */
	struct forward_acts normed, mixed, act, head;
};
/* For layers: raises *width to n; w reads these activations. */
void forward_widen(int32_t *width, int32_t n);
void forward_reads(struct forward_acts *a, const struct k_matrix *w);
/* For attention: registers a layer with this window of its own (0: none); then, in a step, gives
 * what its rows see. */
void forward_sees(struct forward_needs *n, int32_t window);
const struct forward_mask *forward_mask(const struct forward *f, int32_t window);
int32_t forward_n_ranges(const struct forward *f, int32_t window);
/* The norm that the model's stream has; bias NULL: none. */
struct k_op *forward_add_norm(struct forward *f, const float *x, const int32_t *pick,
	const float *w, const float *bias, struct k_acts out, int32_t n);

/* Counts the small ones of these activations and, with least > 0, makes those below that share of a
 * row's largest 0. masked: of these f->observed.mask has the bits. */
void forward_add_sparse(struct forward *f, struct k_acts a, float least, bool masked);
/* The share of a row's largest from which a value counts where `least` is this. */
float forward_mark(float least);
/* Lets the values that a layer is about to write, and that are only counted, have a place of their
 * own: then one op counts those of all layers, at the end. On a device, where each op costs more
 * than what it reads, and of few rows. */
void forward_keep_sparse(struct forward *f, struct k_acts *a, bool masked);
void forward_add_late(struct forward *f);
/* out = W in + residual (NULL: none), by columns, of which f->observed.mask has those that are
 * read. */
void forward_add_columns(struct forward *f, enum k_stage stage, struct k_acts in,
	const struct k_matrix *w, const float *residual, float *out);
/* Where this step's counts of an op sparse go. */
void forward_aim_sparse(const struct forward *f, struct k_op *op);

/* Share of a row's largest from which a value counts in f->observed.mask, where nothing is left
 * out. */
#define FORWARD_MARK 1e-2f
#define FORWARD_ZEROS (-1.0f)

enum {
	FORWARD_RECENT = 64,    /* shapes of steps whose programs a back end may have kept */
	FORWARD_BEGIN_OPS = 16, /* the most that forward.begin may write */
	FORWARD_KEPT = 8,       /* layers whose streams are kept */
	FORWARD_FINAL = 64,     /* rows that forward_final() takes at once */
	FORWARD_LATE_ROWS = 8,  /* rows of a step whose near zeros are counted at its end, at most */
};

/* Values of layers that one op counts at the end of the pass: forward_keep_sparse(). */
struct forward_late {
	float *x; /* [n_layers][FORWARD_LATE_ROWS][widest]; NULL: they are counted at once */
	size_t used;
	struct k_op op; /* of the layers so far, if it waits */
	bool waits;
};

/* What rows see in the layers that have the same window of their own. Made for each step. */
struct forward_mask {
	int32_t window;         /* 0: none */
	struct k_range *ranges; /* [max_rows, visible_n_ranges()], in memory shared with the kernels */
	/* for counting: positions of the cache that attention reads; pairs of query and visible
	 * position */
	uint64_t positions, pairs;
	uint64_t whole; /* positions that attention would read if rows saw all */
	/* of these positions, those that formats by channel keep in f16 */
	uint64_t recent, whole_recent;
};

/* The residual stream after a layer, kept for who reads it when the step is done; users 0: none. */
struct forward_kept {
	int32_t layer, users;
	float *x; /* [max_rows, dim], the kernels' */
};

/* Changes a program as layers wrote it, for a step of so many rows. It has room for twice its ops.
 */
struct forward_rewriter {
	void (*fn)(const void *arg, struct k_program *p, int32_t rows);
	const void *arg;
};
/* In the order in which they do it: floats.h, whose products read floats; layer_watch.h. */
enum forward_rewrites { FORWARD_FLOATS, FORWARD_WATCH, FORWARD_REWRITERS };

/* What rows read of what they see, by the policy, in memory shared with the kernels. */
struct forward_choice {
	/* how many groups, and which, as k_pick writes them. Where heads keep groups, the budget is of
	 * the span after the row's */
	int32_t *budget;   /* [max_rows] */
	uint8_t *selected; /* [layers][n_rows][needs.kv_heads][selected_stride]; NULL: nothing chooses
						*/
	int32_t selected_stride;
	struct k_stride_mask *stride_mask; /* [max_rows] positions */
	int32_t *rotated; /* [max_rows] position by which the query for the first ones is rotated */
	uint16_t *reads;  /* [max_groups] for counting alone */
	/* where heads keep groups: the first row of each row's request; what rows gave to each group of
	 * 16, in the layer that runs; else NULL */
	int32_t *begins;           /* [max_rows] */
	float *attn_score;         /* [max_rows][needs.heads][max_groups] */
	float *attn_score_scratch; /* [needs.kv_heads][k_heavy_floats(max_groups)] */
};

/* What the draws of a step's outputs ask of it, where the host cannot read the logits in place. */
struct forward_draw {
	bool asks;                  /* the caller fills in `ask` */
	struct k_draw_request *ask; /* [max_out]; NULL, like the others: it reads the logits */
	struct k_draw_reply *reply; /* [max_out] */
	struct k_draw_entry *list;  /* [max_out, K_DRAW_LIST] */
	bool *whole;                /* [max_out] set by the caller: the row is needed, or was fetched */
};

/* What is told of a step's observed rows; packed as closely as the deepest of them allows, since
 * another thread reads it soon. */
struct forward_observed {
	float *share;       /* [layers][n_observed][heads][share_stride] by group of 16 */
	int32_t *near_zero; /* [layers][n_observed][heads] */
	int32_t share_stride;
	float threshold; /* attention values below it count as near zero */
	/* [layers][n_observed][K_NEAR] of what attention gives, and of the inner values of a
	 * feed-forward: how many are below a tenth … of a row's largest */
	int32_t *mixed_near, *inner_near;
	uint32_t *mask; /* [layers][n_rows][needs.masked / 32] bits of those that are not small */
	struct forward_late late[2]; /* of what attention gives, of inner values */
};

/* What a step took, and read. */
struct forward_cost {
	struct forward_stage stage[K_N_STAGES];
	/* keys and values that attention read in the step, and would have read if rows saw all */
	uint64_t kv_bytes, kv_whole_bytes;
};

/* What the newest program was written for, and those of before. */
struct forward_programs {
	struct forward_shape built;
	struct forward_shape recent[FORWARD_RECENT];
	int32_t next_recent;
};

/* The layers' own [max_rows, …], in the kernels' memory. */
struct forward_scratch {
	float *q, *k, *v; /* [needs.q], [needs.kv], [needs.kv] */
	float *sink_q;    /* [needs.q] */
	float *gate, *up; /* [needs.wide] */
	float *q_normed, *k_normed;
	float *added;  /* [dim] if needs.added */
	float *inputs; /* [model->inputs.width] of each layer, from add_embedding() */
	float *inner;  /* [needs.inner] normalised input of a block's last product */
	float *room;   /* [needs.room], not a row */
	float *first;  /* [dim] if needs.first: of the first layer, for the others */
	float *shrunk; /* [K_ADAPTED, most rank] where the model has adapters (forward_adapt.c) */
	/* [max_out, vocab]; `logits` itself where the host can read it */
	float *computed_logits;
	struct k_acts normed, mixed, act, head;
	float *normed_x; /* room for normed.x, which is NULL where no product reads it */
};

/* Other ranks that compute the same step (engine/ranks). Functions may be NULL; they fail as
 * k_run() does. */
struct forward_remote {
	void *arg;
	int (*begin)(void *arg, struct forward *f, struct err *e); /* the caller's fields are filled in
																*/
	void (*split)(void *arg, struct forward *f);               /* the program is new */
	int (*run)(void *arg, struct forward *f, struct err *e);   /* in place of k_run() */
	int (*end)(void *arg, struct forward *f, struct err *e);
};

struct forward {
	const struct model *model;
	const struct memory_store *store; /* [MEMORY_GROUPS] */
	int32_t max_rows, max_out, max_observed, max_also, max_groups;

	/* what the caller fills in for a step, in memory shared with the kernels */
	int32_t n_rows, n_out, n_observed, n_also;
	int32_t n_layers;    /* layers to run; all of the model's, unless the caller sets fewer */
	int32_t *ids;        /* [max_rows] */
	struct k_row *rows;  /* [max_rows] */
	struct k_also *also; /* [max_also] */
	const int32_t **pages[MEMORY_GROUPS];     /* [max_rows] block tables, by rows[].seq */
	struct k_state_row *state[MEMORY_GROUPS]; /* [max_rows]; used by groups of states */
	int32_t *out_row;                         /* [max_out] rows whose logits are wanted */
	/* the requests of the rows, contiguous and ascending; for counting, where heads keep
	 * groups, and where rows see ahead */
	int32_t n_items;
	int32_t *item_row; /* [max_rows] and their first rows */
	struct forward_draw draw;

	/* how it is computed */
	struct visible visible; /* the policy of the run: forward_set_visible() */
	/* rows see all that the step computes for their request, later positions, too:
	 * without windows, visibility and formats by channel */
	bool ahead;
	enum k_attend attend; /* forward_set_attend() */
	float *matrix; /* [max_rows][needs.heads][matrix_spans][K_MATRIX_SPAN], once it was wanted */
	int32_t matrix_spans;
	/* Inputs of the feed-forwards' last product that are below this share of a row's largest are 0,
	 * and their columns are not read (the model must have them: model_add_columns); FORWARD_ZEROS:
	 * columns of what is 0 anyway are not read; 0: all are. */
	float least;
	struct forward_rewriter rewriter[FORWARD_REWRITERS]; /* see forward_set_rewriter() */
	/* Writes the ops that fill x, a function of n_rows and begin_more alone. NULL: x are the rows
	 * `ids` of the embedding. */
	void (*begin)(void *arg, struct forward *f);
	void *begin_arg;
	bool begin_more;
	bool adapted;                        /* some row of the step has an adapter (rows[].adapter) */
	const struct forward_remote *remote; /* NULL: this process computes all of it */
	struct forward_kept kept[FORWARD_KEPT];
	struct forward_choice choice;
	struct forward_mask mask[FORWARD_MASKS]; /* [needs.n_windows] */
	/* of an encoder-decoder model: rows are an encoder's; what a decoder's see of it and of their
	 * own */
	bool encodes;
	struct forward_mask part[FORWARD_PARTS];

	/* results, likewise shared */
	float *logits;               /* [max_out, vocab]; on a device, those that were fetched */
	struct k_logit_stats *stats; /* [max_out] */
	struct forward_observed observed;
	k_atomic_int *nan_row; /* r + 1 of a row whose keys or values were not numbers */
	struct forward_cost cost;

	float *x;     /* [max_rows, dim] the residual stream, the kernels' */
	float *final; /* [FORWARD_FINAL, dim] of forward_final(), shared */
	struct forward_scratch own;
	struct k_program program;
	struct forward_needs needs;
	struct forward_programs programs;
	void *work, *shared;
};

/* Floats that fill whole cache lines. */
static inline int32_t forward_whole_lines(int32_t n)
{
	return (n + 15) / 16 * 16;
}
struct forward_sizes {
	int32_t rows, out, observed, also, ctx; /* the most of a step; ctx: the longest sequence */
	/* the caller fills `ask` before a step, and fetches the rows it needs; else all are fetched */
	bool asks;
};
/* store: the pages of each memory group of the model, until closing. */
int forward_open(struct forward *f, const struct model *m, const struct memory_store *store,
	struct forward_sizes most, struct err *e);
void forward_close(struct forward *f);
/* Values a row in the widest of its activation buffers. */
int32_t forward_widest(const struct forward *f);
/* Makes room for steps of so many rows; called between steps. If it fails with ERR_MEMORY, nothing
 * changes. */
int forward_grow(struct forward *f, int32_t max_rows, struct err *e);
/* What rows see from the next step on; full without it. If it fails with ERR_MEMORY, nothing
 * changes; back to a policy that there was it does not fail. */
int forward_set_visible(struct forward *f, const struct visible *v, struct err *e);
/* How attention is computed from the next step on; likewise. */
int forward_set_attend(struct forward *f, enum k_attend way, struct err *e);
/* Sets rows 0 … n - 1 to positions pos … of sequence 0, whose block table is the same for all
 * groups. */
void forward_chain(struct forward *f, const int32_t *table, int32_t pos, int32_t n);
/* The matrix products that a row goes through, one after the other: all of the same stage, format
 * and width as one. */
struct forward_product {
	enum k_stage stage;
	enum k_type type;
	int32_t inputs, outputs, n; /* width of each, and how many there are */
	uint64_t bytes, row_values; /* of all: packed; values read and written for each row */
	bool each_row;              /* a mixture of experts: each row reads weights of its own */
};
/* From the next step on the residual stream after this layer is kept, until it was dropped as
 * often. Between steps. ERR_USAGE: too many layers are; ERR_MEMORY. */
int forward_keep(struct forward *f, int32_t layer, struct err *e);
void forward_drop(struct forward *f, int32_t layer);
/* Of the last step's rows, [n_rows, dim], in the kernels' memory: x, if it is not kept. */
const float *forward_stream(const struct forward *f, int32_t layer);
/* Keeps what `as` keeps; appends the op that keeps a layer's, if it is kept: for forward_*.c. */
int forward_keep_same(struct forward *f, const struct forward *as, struct err *e);
void forward_write_kept(struct forward *f, int32_t layer);
/* forward_adapt.c: whether some row of the step has an adapter; after each product of an adapted
 * matrix, what the rows' adapters add to it. */
bool forward_is_adapted(const struct forward *f);
void forward_add_adapters(struct forward *f);
/* ERR_INPUT: an adapter changes a matrix that is in no product of a step's rows. Between steps. */
int forward_check_adapters(struct forward *f, struct err *e);
/* The next step writes its program anew. */
void forward_rewrite(struct forward *f);
/* After a run: counts what attention read, also where rows chose. */
void forward_count_read(struct forward *f);
/* Sets an op's bytes and operations, by its shapes and what the step's rows see. */
void forward_count(const struct forward *f, struct k_op *op);
/* The program of one row, as layers write it: for who wants to know its products. Between steps. */
const struct k_program *forward_program_of_one(struct forward *f);
/* From the next step on its program is rewritten so, too; fn NULL: no more. */
void forward_set_rewriter(
	struct forward *f, enum forward_rewrites which, struct forward_rewriter with);
/* Between steps. Returns how many there are, at most `most`. */
int32_t forward_products(struct forward *f, struct forward_product *out, int32_t most);
/* Fails only as k_run() does. */
int forward_run(struct forward *f, bool timed, struct err *e);
/* Logits of n outputs from `first` on, from the kernels' memory; n 0 is allowed. */
int forward_fetch(struct forward *f, int32_t first, int32_t n, struct err *e);
/* The same, one op at a time: fn sees each when it is done, with its layer (-1: before or after the
 * layers), and returns false to stop. For probes (probe.h); only where memory is the host's. */
typedef bool forward_op_fn(void *arg, const struct k_op *op, int32_t layer);
int forward_run_each(struct forward *f, forward_op_fn *fn, void *arg, struct err *e);
/* The final states of rows first … first + n - 1 of the last step, n <= FORWARD_FINAL: the stream
 * after the last layer and the output norm, [n, dim] floats, the caller's until the next call. NULL
 * with the error, as k_run() fails. */
float *forward_final(struct forward *f, int32_t first, int32_t n, struct err *e);
/* Runs the output norm and matrix alone, over the first n rows of x, n <= max_out: logits and
 * stats. */
int forward_lens(struct forward *f, int32_t n, struct err *e);
