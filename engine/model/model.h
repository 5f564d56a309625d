/* A model: configuration, weights, and a list of layers, each a mixer and a feed-forward.
 *
 * Weights live once, in the back end's own layout, in one arena, which models of one file may
 * share; the file is not kept in memory beside it. Constant after model_open but for
 * model_add_columns. Ownership: who opens closes; the kernel context must outlive the model. */
#pragma once

#include "engine/model/adapters.h"
#include "engine/model/layer.h"
#include "engine/memory/memory.h"
#include "engine/model/weights.h"

/* The numbers of attention are those common to its layers, for screens and drafters; a layer's own
 * take precedence. */
struct model_config {
	int32_t dim, n_layers, n_heads, n_kv_heads, head_dim, ffn, vocab;
	int32_t ctx_train; /* context length the model was made for */
	float norm_eps;
	bool centred; /* norms of the stream are layer norms, else RMS norms */
};

enum { MODEL_ROPES = 2, MODEL_FREQS = 256 };

/* Rotary positions (Su et al. 2021), computed once for all positions. */
struct model_rope {
	int32_t dim; /* rotated dimensions of a head, the first ones */
	bool halves; /* pairs are half of dim apart, else neighbours */
	double theta;
	float scale;              /* YaRN's factor on cos and sin; 1 without */
	double freq[MODEL_FREQS]; /* [dim / 2] */
	float *cos, *sin;         /* [ctx, dim / 2] */
};

/* What tokens say to each layer alone (Gemma 3n and 4), [rows, width]: the norm of a product of the
 * embedding, for each layer, plus a row of a table. engine/layer/layer_input.c reads it. */
struct model_inputs {
	int32_t width;               /* of all layers; 0: there are none */
	int32_t each;                /* of one */
	struct k_matrix table, proj; /* [vocab, width], [width, dim] */
	const float *norm;           /* [each] */
};

/* A masked diffusion model: rows see all positions of their sequence up to the last one that the
 * same pass computes for it. */
struct model_diffusion {
	bool on, shift; /* shift: a row's logits are for the position after it, else for its own */
	int32_t mask;   /* token id of a position that is not known yet; -1: the file names none */
};

struct model {
	struct model_config config;
	char name[192];
	struct k_matrix embed;
	struct k_matrix output; /* shares embed.data if tied */
	bool tied;
	float embed_scale;      /* factor of the embedding's rows; 0: none */
	bool normed_embedding;  /* the file has a norm of the embedding's rows */
	bool learned_positions; /* the file has a row for each position */
	const float *positions; /* [ctx_train, dim], added to the embedding; NULL: none */
	struct model_inputs inputs;
	const float *embed_norm, *embed_norm_bias; /* [dim]; NULL: none */
	const char *final_norm; /* name of the tensor output_norm; NULL: output_norm.weight */
	const float *output_norm, *output_norm_bias; /* [dim] */
	float logit_scale, logit_cap;                /* of logits; 0: none */
	int32_t pooling; /* pooling_type of the file, as llama.cpp counts them; 0: none is said */
	struct model_diffusion diffusion;
	struct layer *layer; /* [config.n_layers] */
	/* Of an encoder-decoder model: the encoder's layers, and after them one that gives their result
	 * to the decoder, which `layer` is; n_encoder 0: there is none. The first token `start` of a
	 * sequence ends the input and begins the answer */
	struct layer *encoder; /* [n_encoder] */
	int32_t n_encoder, start;
	struct memory_specs memory; /* memory groups of a sequence */
	struct model_rope rope[MODEL_ROPES];
	int32_t n_ropes;
	/* bytes in the file that one decoded token reads: all layers and the output; of pairs those
	 * that are kept, which are pair_bytes of them */
	size_t weight_bytes, pair_bytes;
	struct k_ctx *kernels;
	struct weights weights;
	struct adapters *adapters; /* NULL: none */
	void *columns;             /* of model_add_columns(), or NULL */
	bool parted;               /* other ranks have the rest of its weights, and of its heads */
};

void model_close(struct model *m);
/* Reads the last product of each feed-forward once more, for products by columns (down_columns,
 * layer.h); path is the file that was opened. Between steps; nothing is done if they are there. */
int model_add_columns(struct model *m, const char *path, struct err *e);
/* Fills in m->memory: the layers join memory groups. Called again when the layers change. */
int model_join_memory(struct model *m, struct err *e);
/* Which of its rows see later ones, in words for "%s see …"; NULL: none does. */
const char *model_sees_ahead(const struct model *m);
/* Whether a row's queries may be rotated by another position than its own. */
bool model_turns(const struct model *m);
/* The keys under which a file says in few words what it was rounded to, and from what; and how it
 * was pruned: "wanda 50%". */
#define QUANT_SUMMARY_KEY "cutaway.quantize.summary"
#define PRUNE_SUMMARY_KEY "cutaway.prune.summary"
/* The type of most of the layers' weights in a file. */
enum k_type model_weight_type(const struct gguf *g);
/* The context that a file's model was made for, without opening it; 0 with an error. */
int32_t model_context(const struct gguf *g, struct err *e);
