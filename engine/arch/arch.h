/* Families of models. A family is a struct arch here and a line in table.c: it maps a file's
 * metadata to the configuration and the list of layers of a model, and no other file knows the
 * family's name. Tensors are planned afterwards, by the layers' kinds.
 *
 * Every number of a file is checked here. The first failure stays in f->e; functions called after
 * it return something harmless. Thread: the engine's. */
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/model/model.h"

enum { ARCH_LAYERS = 256 /* most of a model */, ARCH_PARAMS = 4096 /* bytes of a block's */ };

struct arch_file {
	const struct gguf *g;
	const struct arch *arch;
	int32_t ctx;   /* the requested one, or the model's own */
	bool beyond;   /* it may be longer than what the model was made for */
	struct err *e; /* clear at first */
	/* parameters of the blocks that are asked for after a failure */
	_Alignas(max_align_t) unsigned char nowhere[ARCH_PARAMS];
};

struct arch {
	const char *name; /* general.architecture */
	/* Sets m->config, m->rope and m->layer, without tensors; NULL: as arch_read_dense(), with
	 * `halves`. Then `layer` sets what differs in each layer, until something fails; NULL: nothing
	 * does */
	void (*read)(struct arch_file *f, struct model *m);
	bool halves;
	bool centred; /* norms of the stream are layer norms, with an epsilon of their own */
	void (*layer)(struct arch_file *f, struct model *m, int32_t i);
};

extern const struct arch *const arch_table[]; /* ends with NULL */
const char *arch_name(int i);                 /* of its row i; NULL behind the last */

/* Reads g into m, for sequences of *ctx tokens (0: the model's own, at most 8192; set to the
 * result). Fails with the list of the known families. */
int arch_read(const struct gguf *g, struct model *m, int32_t *ctx, bool beyond, struct err *e);

/* ---- for the families ---- */

/* "<arch>.<key>", from 1 to max; a fallback below 0: the key is required. */
int32_t arch_int(struct arch_file *f, const char *key, int64_t fallback, int64_t max);
/* The same from 0 on; the key is never required. */
int32_t arch_opt_int(struct arch_file *f, const char *key, int32_t fallback, int32_t max);
/* A finite number. */
double arch_real(struct arch_file *f, const char *key, double fallback);

bool arch_bool(struct arch_file *f, const char *key, bool fallback);
/* A number for each layer; false: the file has no such list, or f->e says what is wrong with it. */
bool arch_each(
	struct arch_file *f, const struct model *m, const char *key, int64_t out[ARCH_LAYERS]);
/* Whether there is a tensor blk.<i>.<part>. */
bool arch_has(const struct arch_file *f, int32_t i, const char *part);
/* Key-value heads of layer i: attention.head_count_kv, a number or one for each layer; 0: the layer
 * has no attention. */
int32_t arch_kv_heads(struct arch_file *f, const struct model *m, int32_t i);

/* Reads what all families have: width, layers, context, vocabulary, the norms' epsilon;
 * arch_read_config() also reads heads and feed-forward. */
void arch_read_stream(struct arch_file *f, struct model *m);
void arch_read_config(struct arch_file *f, struct model *m);
/* Gives a block zeroed parameters, in place of those it has; after a failure some that no layer
 * has. */
void *arch_add_block(struct arch_file *f, struct block *b, const struct block_kind *kind);
/* The block becomes the first of two; returns the second, which has no kind yet. */
struct block *arch_add_pair(struct arch_file *f, struct block *b);
/* Adds a table of rotary frequencies; scaled: as <arch>.rope.scaling says (arch/rope.c). Returns
 * its number. */
int32_t arch_add_rope(struct arch_file *f, struct model *m, double theta, bool halves, bool scaled);
/* The same, of which so many dimensions turn. */
int32_t arch_add_rope_of(
	struct arch_file *f, struct model *m, int32_t dim, double theta, bool halves, bool scaled);
/* Adds the parameters of layer i's feed-forward, by the configuration. */
struct feed_forward *arch_add_feed_forward(struct arch_file *f, struct model *m, int32_t i);
/* Layer i's mixer becomes lightning attention, or Mamba by the file's ssm.* keys; Mamba-2 likewise,
 * into a block of any place. Then as `layer` of a family whose mixers are all so. */
struct lightning *arch_add_lightning(struct arch_file *f, struct model *m, int32_t i);
struct mamba *arch_add_mamba(struct arch_file *f, struct model *m, int32_t i);
struct mamba2 *arch_add_mamba2(struct arch_file *f, struct block *b);
void arch_mamba_layer(struct arch_file *f, struct model *m, int32_t i);
void arch_mamba2_layer(struct arch_file *f, struct model *m, int32_t i);
/* The parameters that layer i has; an error if its feed-forward is a mixture of experts, or is
 * none. */
struct attention *arch_attention(struct model *m, int32_t i);
struct feed_forward *arch_feed_forward(struct arch_file *f, struct model *m, int32_t i);
struct experts *arch_experts(struct arch_file *f, struct model *m, int32_t i);
/* 0 to K_ROUTE_EXPERTS; 0: there is no mixture. */
int32_t arch_n_experts(struct arch_file *f);
/* Adds a mixture of experts to layer i, with Mixtral's router; what else the file says of it, with
 * what the family does where it says nothing. */
struct experts *arch_add_experts(struct arch_file *f, struct model *m, int32_t i);
void arch_read_router(
	struct arch_file *f, struct experts *x, enum k_route_kind kind, bool norm_weights);
/* A decoder with pre-norms, as Llama: configuration, one rotary table, in each layer attention and
 * SwiGLU, or, where the file counts experts, a mixture of them as Mixtral has it. */
void arch_read_dense(struct arch_file *f, struct model *m, bool halves);
/* The same without a rotary table. */
void arch_read_without_rope(struct arch_file *f, struct model *m);

/* What the Gemma family has in common: norms on both sides, GELU, soft caps. Returns the window. */
void arch_read_gemma(struct arch_file *f, struct model *m);
int32_t arch_gemma_layer(struct arch_file *f, struct model *m, int32_t i);

/* Scaling of frequencies [rope->dim / 2]: none, linear (Chen et al. 2023), YaRN (Peng et al. 2023),
 * LongRoPE (Ding et al. 2024), or one factor a frequency (Llama 3: the tensor rope_freqs.weight).
 * Follows the configuration, never the current length. */
void arch_scale_rope(struct arch_file *f, const struct model_config *c, struct model_rope *rope);
