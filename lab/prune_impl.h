/* Inside of pruning: what methods are made of. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/layer_part.h"
#include "lab/prune.h"

/* A number of the metadata, <arch>.<name>, that the result has in place of the source's. */
struct prune_number {
	char key[96];
	uint32_t value;
};

struct prune {
	const struct prune_options *o;
	struct prune_result *r;
	struct change *c;
	struct prune_number number[8];
	int32_t n_numbers;
	int32_t heads, kv_heads, channels; /* of PRUNE_PARTS: how many of each layer go */
	double lost, all;                  /* see struct prune_result */
};

/* What goes of the parts of a layer. */
struct prune_gone {
	bool *head, *kv_head, *channel; /* [of the model's configuration] each; all of one allocation */
};

extern const struct prune_method prune_magnitude, prune_wanda, prune_layers, prune_heads,
	prune_kv_heads, prune_channels;

/* Marks the k least of n scores, among equals the first ones. scratch [n] */
void prune_least(const float *score, int64_t n, int64_t k, bool *gone, float *scratch);
/* The same, and what they add to the stream is lost. ERR_INPUT if not exactly k are marked: a score
 * was no number. */
int prune_mark(struct prune *p, const float *score, int64_t n, int64_t k, bool *gone,
	float *scratch, struct err *e);
/* The result's <arch>.<name>. */
int prune_set_number(struct prune *p, const char *name, uint32_t value, struct err *e);
const struct model_config *prune_config(const struct prune *p);

/* prune_parts.c: so many of each layer's go; shapes and metadata follow. ERR_USAGE where blocks of
 * a type do not divide what is left. */
int prune_plan_parts(
	struct prune *p, int32_t heads, int32_t kv_heads, int32_t channels, struct err *e);
/* Writes what is left into each part's `out`; w has zeros, or what rounding made of the rest. */
int prune_cut(
	struct prune *p, struct layer_parts *parts, const struct quant_input *in, struct err *e);
