/* The formulas with the numbers of a session's model, and beside each what its last steps counted
 * and measured: a fold of the timeline, for the view and for `cutaway formulas`.
 *
 * Where batch, depth, drafts or machine are set to something else than the steps had, a sheet is a
 * prediction and nothing stands beside it. Thread: any; no state. */
#pragma once

#include "fold/timeline.h"

/* Bytes, operations a second, bytes of memory; 0: not known. */
struct formula_machine {
	const char *id, *name, *source;
	double reads, ints, halves, floats, memory;
};
/* 0: the session's own, as it was measured; from 1 on those of machine_table.h. False: no more. */
bool formula_machine_at(const struct timeline *t, int i, struct formula_machine *out);
/* By its id; -1: there is none. */
int formula_machine_named(const char *id);

/* The products of a stage for one row: sums over t->product. weights 0: it has none. */
struct formula_stage {
	double weights, bytes, row_bytes, each_bytes; /* each_bytes: read anew for each row */
	const struct tl_product *widest;
	bool ints; /* its weights are quantised: integer products */
};
struct formula_stage formula_stage(const struct timeline *t, int stage);
/* Bytes of a sequence of this depth in one memory group. */
double formula_group_bytes(const struct ev_memory *m, double depth);
/* Bytes of keys, values and states that a sequence of this depth keeps, and operations of attention
 * for its newest row. */
double formula_sequence_bytes(const struct timeline *t, double depth);
/* Of keys and values, what one more token keeps for as long as its sequence does, or its window. */
double formula_token_bytes(const struct timeline *t);
double formula_attention_ops(const struct timeline *t, double depth);

struct formula_knobs { /* 0: as in the last steps; drafts -1 likewise */
	double batch, depth, drafts;
	int machine;
};

enum formula_unit {
	FORMULA_HEAD, /* no numbers: the head of a part */
	FORMULA_BYTES,
	FORMULA_EXACT_BYTES,
	FORMULA_NS,
	FORMULA_COUNT,
	FORMULA_NUMBER,
	FORMULA_INTENSITY, /* operations a byte */
	FORMULA_TOKENS_S,
	FORMULA_OPS,
};
struct formula_line {
	enum formula_unit unit;
	char label[32], rule[48];
	double formula, seen; /* NaN: not known */
	char note[192];       /* what the formula leaves out, where they part by more than 10 % */
};
enum { FORMULA_LINES = 48 };
struct formula_sheet {
	bool known;                                /* the session says what model it is */
	bool predicted;                            /* `seen` is empty */
	double batch, depth, drafts, rows, accept; /* as they were used; accept NaN: none was measured
												*/
	struct formula_machine machine;
	struct tl_sample sample; /* the decode steps beside it */
	struct formula_line line[FORMULA_LINES];
	int n;
};
/* request: of whose rows the cache's saving is counted; 0: the newest of the conversation. */
void formula_sheet(
	const struct timeline *t, int64_t request, struct formula_knobs k, struct formula_sheet *out);
