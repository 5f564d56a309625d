/* One model on several ranks, with the bits of one (docs/parallel.md).
 *
 * Every rank has the whole program of a step and changes it: of each op it keeps what it computes,
 * and between ops stand exchanges, after which all have what the next op reads. Outputs are split,
 * never sums, so each output element still has its one order of reduction (docs/arithmetic.md, rule
 * 13), on whichever rank it is computed. Rank 0 has the engine: queue, pages, draws, events. The
 * others follow: they have pools of the same pages, and get with each step what rank 0's rows are.
 *
 * A rank loads the rows of weights that its ops read. Thread: a rank's engine thread. */
#pragma once

#include "engine/model/model.h"
#include "engine/ranks/transport.h"
#include "engine/run/forward.h"

/* What is exchanged, in the order of the setting's words. Exact: the next product's input as it
 * reads it, 8 bits with scales, and the residual stream in f32; all in f32. Lossy: what blocks add
 * to the stream in f16. */
enum ranks_form { RANKS_q8, RANKS_f32, RANKS_f16 };

/* first … end - 1 */
struct ranks_span {
	int32_t first, end;
};

/* Rows of a matrix, or of each of n matrices that lie one after the other. */
struct ranks_part {
	const struct k_matrix *of;
	int32_t n;
	struct ranks_span rows;
	struct k_matrix *is; /* [n], whose data are inside those of `of` */
};

/* Of `n` rows each rank has the columns of its span, side by side in k->local; afterwards each has
 * all of them. */
struct ranks_exchange {
	int32_t at; /* before this op of the program */
	int32_t n;
	int32_t of, first; /* k->local holds so many rows, of which these n are from `first` on */
	struct ranks_span columns[TRANSPORT_RANKS];
	struct k_acts to;      /* whole rows; x, or q with its scales, or both */
	const float *from;     /* what is sent, put into k->local first; NULL: it is there */
	const float *residual; /* added to what came; may be to.x */
	bool x, q;             /* what is sent */
	bool half;             /* x in f16 */
	bool requantise;       /* to.q is made of x that came */
	bool root;             /* rank 0 alone gets it */
	bool alone;            /* each rank has all columns: they are only rounded */
	/* Rows are slots of experts, each of which the rank of its expert has, in to.x itself; NULL:
	 * they are not */
	const int32_t *ids; /* [n] */
	int32_t n_experts;
	bool take;    /* nothing is sent: to.x holds all, and the own columns are put together */
	size_t local; /* bytes before it in k->local */
};

/* An op of attention. */
struct ranks_heads {
	int32_t op, layer, group; /* group -1: it is not split */
	int32_t whole, whole_kv;  /* heads of all ranks */
};

enum { RANKS_LANE = 256 };
/* What a rank did since it was opened, and in its last step. */
struct ranks_count {
	uint64_t compute_ns;
	struct transport_count traffic;
	int64_t began_ns; /* by the clock of its machine */
	int32_t n_lane;   /* ns of computing and exchanging by turns; 0: not asked for */
	uint32_t lane[RANKS_LANE];
};

/* Rows first … first + n - 1 of a step of `all`, with the further pages that these are stored in.
 */
struct ranks_rows {
	int32_t all, first, n;
	const struct k_also *also; /* rows counted from `first` */
	int32_t n_also;
};

struct ranks {
	struct transport *transport;
	struct k_ctx *kernels;
	int32_t rank, n; /* parts of each layer: the own one, how many */
	enum ranks_form form;
	bool by_expert; /* each rank has some experts of a mixture whole, not rows of each */

	/* The pipeline: stage s has layers layer[s] … layer[s + 1] - 1 and is ranks s * n …
	 * s * n + n - 1 of the transport. */
	int32_t stage, n_stages, layer[TRANSPORT_RANKS + 1];
	int32_t micro_batches; /* of a step, at most; 0: twice the stages */
	/* ops of the newest program: before the layers, the own layers, the head */
	int32_t embed_end, layers_at, layers_end, head_at, head_end;
	struct k_op *cut;    /* ops of some rows */
	struct k_also *also; /* their further pages */
	/* heads of keys and values of a memory group in the whole model, where they are split; 0: each
	 * rank has all */
	int32_t whole_kv[MEMORY_GROUPS];

	/* Sequence parallel: the ranks that share rows; of the newest step rank r has rows row[r] …
	 * row[r + 1] - 1 */
	int32_t n_sequence, row[TRANSPORT_RANKS + 1];
	uint8_t *passed; /* pages on their way */
	size_t cap_passed;

	struct ranks_part *part;
	int32_t n_parts, cap_parts, at_part;
	/* matrices of the model's program, and those that this rank's reads, whole or parts */
	struct ranks_list {
		const struct k_matrix **m;
		int32_t n, cap;
	} all, used;

	struct ranks_exchange *exchange; /* of the newest program */
	int32_t n_exchanges, cap_exchanges;
	uint8_t *local, *received; /* [local_bytes]; [n] of that */
	size_t local_bytes;

	struct ranks_copy *copy; /* pages that were copied since the last step */
	int32_t n_copies, cap_copies;
	struct ranks_count count;

	struct ranks_heads *heads; /* of the newest program: attention that is split */
	int32_t n_heads, cap_heads;
	struct k_kv whole_store[MEMORY_GROUPS]; /* of the whole model, for counting alone */
	uint8_t *observed;                      /* what ranks_gather_observed() moves */
	size_t cap_observed;
};

/* A page's contents went to another one of its group. */
struct ranks_copy {
	int32_t group, to, from;
};

/* Part `rank` of n of so many units. */
struct ranks_span ranks_span(int32_t units, int32_t rank, int32_t n);

/* When the model is planned and not yet loaded: which memory groups are split, and which weights
 * this rank needs; m->memory gets its share. */
int ranks_plan(struct ranks *k, struct model *m, struct err *e);
/* Whether it needs any of these rows. */
bool ranks_wants(const void *ranks, const struct k_matrix *m, int32_t first, int32_t n);
/* Buffers for steps of f; from now on f is split. */
int ranks_attach(struct ranks *k, struct forward *f, struct err *e);
void ranks_free(struct ranks *k);
/* Of the weights that its products read. */
int64_t ranks_weight_bytes(const struct ranks *k);
/* After a step: what rows of other ranks' heads were observed to be, to rank 0. */
int ranks_gather_observed(struct ranks *k, struct forward *f, struct err *e);
/* Ops of attention are for the own heads again. */
void ranks_own_heads(const struct ranks *k, struct forward *f);

/* experts.c: from each slot's rank to all others. */
int ranks_gather_slots(struct ranks *k, const struct ranks_exchange *x, struct err *e);

/* rows.c: the op becomes that of some rows. False: it cannot. */
bool ranks_cut_rows(struct k_op *op, const struct ranks_rows *r);

/* pipeline.c: layers of the stages, so that each reads about as many bytes of weights. -1: why the
 * model cannot be cut between layers. */
int ranks_plan_stages(struct ranks *k, const struct forward *f, struct err *e);
/* Finds the layers and the head in the program; ops of other stages stay, and are not run. */
void ranks_find_stage(struct ranks *k, const struct k_program *p);
bool ranks_has_op(const struct ranks *k, int32_t at);
/* The step's layers by micro-batches, then the head. */
int ranks_run_stages(struct ranks *k, struct forward *f, struct err *e);

/* sequence.c: rows of the step by rank. */
int ranks_run_sequence(struct ranks *k, struct forward *f, struct err *e);

/* tensor.c: splits the program of f, and lists the exchanges. */
void ranks_split(struct ranks *k, struct forward *f);
/* Whether the attention op `at` of a whole program can be split by heads, from the product of its
 * queries on. */
bool ranks_can_split(const struct k_program *p, int32_t at, int32_t unit);

/* A part of n matrices, made where it is new. NULL: no memory. by_expert: all rows of those of this
 * rank's experts. */
const struct k_matrix *ranks_part_of(
	struct ranks *k, const struct k_matrix *of, int32_t n, struct ranks_span rows, bool by_expert);

/* exchange.c: runs the program with its exchanges. */
int ranks_run(struct ranks *k, struct forward *f, struct err *e);
/* Ops first … end - 1 with the exchanges after each; rows NULL: of all rows. */
int ranks_run_ops(struct ranks *k, struct forward *f, int32_t first, int32_t end,
	const struct ranks_rows *rows, struct err *e);
/* The exchanges before op `at` alone. */
int ranks_run_exchanges(struct ranks *k, struct forward *f, int32_t at, struct err *e);
/* Messages that are no exchange of the program's. */
int ranks_pass(struct ranks *k, const struct forward *f, const struct message *out, int32_t n_out,
	const struct message *in, int32_t n_in, struct err *e);
int ranks_send(
	struct ranks *k, struct forward *f, int32_t to, void *data, size_t bytes, struct err *e);
int ranks_receive(
	struct ranks *k, struct forward *f, int32_t from, void *data, size_t bytes, struct err *e);
/* Bytes of so many rows of so many columns, as they are sent. */
size_t ranks_bytes(const struct ranks_exchange *x, int32_t columns);
/* Where an op writes what is sent. */
struct k_acts ranks_local(const struct ranks *k, const struct ranks_exchange *x);

/* wire.c: what a step is given, from rank 0 to the others: rows, block tables, what rows choose. */
struct wire {
	uint8_t *data;
	size_t n, at, cap;
	bool reads, failed;
};
void wire_bytes(struct wire *w, void *p, size_t n);
/* Numbers that a reader leaves in the message, which stays until the next one. */
void wire_list(struct wire *w, const int32_t **list, int32_t n);
void ranks_wire_step(struct wire *w, struct forward *f, int32_t n_groups);
