/* What a step costs: its time as a function of its shape, fitted to measured steps.
 *
 * Vidur (Agrawal et al., MLSys 2024, section 4.2) sorts a model's operators into those whose time
 * depends on the tokens of an iteration alone (matrix products), those that depend on the context
 * of its sequences too (attention), and communication; it profiles each and interpolates. Here one
 * machine runs whole steps, and the log has the shape and the time of each: so the terms are the
 * same, of a whole step, and their prices are those that explain the steps of a recording best.
 *
 * A step's time runs from the end of the step before, where that left work: what the program does
 * between two steps is part of it. Thread: any one; no state but the caller's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "event/event.h"
#include "fold/timeline_parts.h"

struct step_shape {
	int32_t rows;      /* of prompts, newest tokens, drafts */
	int32_t outs;      /* of them those that need logits */
	int32_t requests;  /* members of the batch */
	int64_t pairs;     /* query-key pairs of all rows, of one head in a layer without a window */
	int64_t positions; /* of the cache that are read, each once for a member of the batch */
	int32_t more;      /* steps after the first: a prompt on a rank of its own, chunk by chunk */
};
/* A member of the batch: rows at pos … pos + rows - 1. */
void step_shape_add(struct step_shape *s, int32_t pos, int32_t rows, int32_t outs);
/* The same from the engine's events. True with the event `step`, which ends a step: *s is then
 * whole, and the caller clears it. */
bool step_shape_event(struct step_shape *s, const struct event *ev);

#define COST_FEW_ROWS(s) ((s)->rows < 16 * (1 + (s)->more) ? (s)->rows : 16 * (1 + (s)->more))
/* X(name, value, what it is a price of): s is the shape. All prices are 0 or more. */
#define COST_TERMS(X)                                                                              \
	X(step, 1 + s->more, "a step")                                                                 \
	X(request, s->requests, "a member of its batch")                                               \
	X(row, s->rows, "a row")                                                                       \
	X(first_rows, COST_FEW_ROWS(s), "one of the first 16 rows of each")                            \
	X(logits, s->outs, "a row of logits")                                                          \
	X(position, s->positions, "a position of the cache, read by a member")                         \
	X(pair, s->pairs, "a query-key pair")

enum {
#define X(name, value, doc) COST_##name,
	COST_TERMS(X)
#undef X
		N_COST_TERMS,
};

/* X(name, what it is): of the model, and of ranks that were measured; 0: not known. */
#define COST_MODEL(X)                                                                              \
	X(layers, "layers")                                                                            \
	X(kv_heads, "heads of keys and values of a layer")                                             \
	X(head_dim, "width of one")                                                                    \
	X(parallel, "of a step's time, what ranks can share")                                          \
	X(exchange_ns, "an exchange between ranks")                                                    \
	X(byte_ns, "a byte that a rank sends another")

struct cost_model {
#define X(name, doc) double name;
	COST_MODEL(X)
#undef X
	struct tl_product product[TL_PRODUCTS];
	int32_t n_products;
	struct tl_split split; /* that computed the steps; ranks 0: they are not of a recording */
};

struct cost {
	double ns[N_COST_TERMS];
	double token_bytes; /* of keys and values, of all layers: what a token moves */
	struct cost_model model;
	/* how well it predicts: of steps that it was not fitted to */
	int64_t n_steps;
	double error; /* median of |predicted / measured - 1| */
	double bias;  /* predicted / measured - 1 of the sum */
};

void cost_terms_of(const struct step_shape *s, double x[N_COST_TERMS]);
double cost_step_s(const struct cost *c, const struct step_shape *s);

/* Steps to fit to. */
struct cost_row {
	struct step_shape shape;
	double ns;
	double exchange_ns; /* of these, on the rank that exchanged least: it computed most */
};
struct cost_rows { /* {0}: empty */
	struct cost_row *row;
	int32_t n, cap;
	struct step_shape now;
	int32_t chunk, prefill; /* rows of a prompt's chunk; ranks for prompts */
	int64_t ended_ns;       /* of the newest step */
	bool busy;              /* which left work */
	bool no_memory;
	int64_t token_bytes;
	struct cost_model model;
	double timed_ns, parallel_ns; /* of steps whose kernels' times are known: all, and of these */
	double now_parallel_ns;
	/* of the ranks' exchanges in the step that goes on: on the rank that waited least, and the
	 * most bytes that one sent another; then the sums that a line is laid through */
	struct cost_exchange {
		double ns, n, bytes;
	} exchange;
	double line[5];
};
/* A sink: takes the steps of a run, in order. */
void cost_take(void *rows, const struct event *ev);
int cost_take_recording(struct cost_rows *rows, const char *path, struct err *e);
void cost_rows_free(struct cost_rows *rows);
/* What these steps say of the model and its ranks. parallel is what products and attention took:
 * more than can be shared, if starting them takes long (see cost_ranks_calibrate). */
void cost_model_of(struct cost_model *m, const struct cost_rows *rows);

/* Least squares of relative errors with prices of 0 or more. Errors are of alternate blocks of
 * steps, by prices fitted to the others; the prices are then those of all. -1 and ERR_INPUT: too
 * few steps. */
int cost_fit(struct cost *c, const struct cost_rows *rows, struct err *e);
/* The errors of c on other steps. */
void cost_check(struct cost *c, const struct cost_rows *rows);

/* A file of text: a line for each term, its name and its price in nanoseconds; then, where they are
 * known, one for each number of the model and for each kind of product. */
int cost_write(const struct cost *c, const char *path, struct err *e);
int cost_read(struct cost *c, const char *path, struct err *e);
