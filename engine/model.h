/* A model: configuration, weights, and a list of layers, each a mixer and a feed-forward.
 *
 * Weights live once, in the back end's own layout, in one arena; the file is not kept in memory beside
 * it. Constant after model_open. Ownership: who opens closes; the kernel context must outlive the model. */
#ifndef CUTAWAY_ENGINE_MODEL_H
#define CUTAWAY_ENGINE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/gguf.h"
#include "engine/weights.h"
#include "kernels/kernels.h"

struct model_config {
	int32_t dim, n_layers, n_heads, n_kv_heads, head_dim, ffn, vocab;
	int32_t ctx_train;  /* context length the model was made for */
	int32_t rope_dim;   /* rotated dimensions of a head */
	bool neox;          /* pairs are half a head apart, else neighbours */
	double rope_theta;
	float rope_mscale;  /* YaRN's factor on cos and sin, 1 without */
	float norm_eps;
	float softcap;      /* of attention scores; 0: none */
};

/* Grouped-query attention (Ainslie et al. 2023): n_kv_heads = n_heads is multi-head, 1 is single-query. */
struct model_mixer {
	const float *norm;           /* [dim] */
	struct k_matrix q, k, v, out;
	const float *q_bias, *k_bias, *v_bias, *out_bias; /* or NULL */
};

/* SwiGLU (Shazeer 2020). */
struct model_ffn {
	const float *norm; /* [dim] */
	struct k_matrix gate, up, down;
};

struct model_layer {
	struct model_mixer mixer;
	struct model_ffn ffn;
};

struct model {
	struct model_config config;
	char name[96];
	struct k_matrix embed;
	struct k_matrix output;  /* shares embed.data if tied */
	bool tied;
	const float *output_norm; /* [dim] */
	struct model_layer *layer; /* [n_layers] */
	float *rope_cos, *rope_sin; /* [ctx, rope_dim / 2] */
	size_t weight_bytes; /* bytes in the file that one decoded token reads: all layers and the output */
	struct k_ctx *kernels;
	struct weights weights;
};

struct model_options {
	enum weights_cache cache;
	const atomic_bool *abandon; /* see weights_load(); NULL: never */
};

/* ctx: longest sequence; 0: the model's own, at most 8192; more than the model's own is an error.
 * On success config.ctx_train is the model's and *ctx what is to be used. */
int model_open(struct model **m, const struct gguf *g, struct k_ctx *kernels,
			   const struct model_options *o, int32_t *ctx, struct err *e);
void model_close(struct model *m);

#endif
