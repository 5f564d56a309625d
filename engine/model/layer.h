/* What a layer is made of. A model is a list of layers; a layer is a mixer (attention, a
 * recurrence) and a feed-forward, each a block: a kind, which is one file of this folder, and its
 * parameters. forward.c walks the list and knows no kind; engine/arch/ makes the list from a file.
 *
 * A block adds its result to the residual stream f->x [rows, dim]. Thread: the engine's. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

struct forward;
struct forward_needs;
struct memory_specs;
struct model_loader;

struct block_kind {
	const char *name;
	size_t size; /* of its parameters */
	/* Plans its tensors, blk.<l->layer>.*, by the shapes in its parameters. The first failure stays
	 * in l->e. */
	void (*load)(struct model_loader *l, void *params);
	/* Joins the memory group for what it keeps of a sequence, and records its offset in it. -1 and
	 * an error: there are too many groups. NULL: it keeps nothing. */
	int (*memory)(void *params, struct memory_specs *m, struct err *e);
	/* Widens the buffers of a step to what its ops use. */
	void (*need)(const void *params, struct forward_needs *n);
	/* Appends its ops for the rows of the step. */
	void (*write)(struct forward *f, const void *params);
	/* Offset of the pointer to the memory that the parameters own; 0: they own none. */
	size_t owns;
	/* Frees what else they own; NULL: nothing. */
	void (*close)(void *params);
};

/* A kind whose functions are x_load, x_need and x_write; those that it may lack follow. */
#define BLOCK(x, title, ...)                                                                       \
	{                                                                                              \
		.name = (title), .size = sizeof(struct x), .load = x##_load, .need = x##_need,             \
		.write = x##_write, __VA_ARGS__                                                            \
	}

struct block {
	const struct block_kind *kind; /* NULL: the layer has none */
	void *params;                  /* kind->size bytes, the layer's own */
};

struct layer {
	struct block mixer, ffn;
};

/* How a block reads the residual stream and adds to it: x += scale * post(W inner(f(norm(x)))). All
 * but `pre` may be NULL, 0 or false; names are of tensors. */
struct residual {
	const char *pre;   /* norm of what it reads; NULL: it reads the stream as it is */
	const char *inner; /* norm of what its last product reads */
	const char *post;  /* norm of its result */
	float scale;       /* factor of its result; 0: none. Not with post */
	/* Two blocks that read the same stream: the sum of the first and the stream is put aside, and
	 * what the second gives is added to that. Without post and scale */
	bool aside, joins;
	/* The stream becomes norm(x) times this, and the block adds to that (MiniMax-01); 0: it does
	 * not */
	float normed;
	/* tensors */
	const float *norm, *norm_bias, *inner_norm, *post_norm;
};
/* inner: width of what the last product reads. */
void residual_load(struct model_loader *l, struct residual *r, int64_t inner);
void residual_need(const struct residual *r, int32_t inner, struct forward_needs *n);
/* Appends the norm of f->x, to f->normed; kept: more than one op reads it. */
void residual_enter(struct forward *f, const struct residual *r, bool kept);
/* Appends the norm of f->x, to f->normed_x, and its shift, of which the caller sets all but x and
 * n. */
void residual_shift(struct forward *f, const struct residual *r, struct k_shift shift);
/* Appends the norm of in.x, if there is one, and returns what the last product reads; then that
 * product and what is done with its result; bias NULL: none. */
struct k_acts residual_inner(struct forward *f, const struct residual *r, struct k_acts in);
void residual_leave(struct forward *f, const struct residual *r, enum k_stage stage,
	struct k_acts in, const struct k_matrix *w, const float *bias);

/* Norms of q and k (Dehghani et al. 2023), RMS. */
enum attention_norms {
	ATTENTION_NO_NORMS,
	ATTENTION_HEAD_NORMS,  /* of each head, before the rotation */
	ATTENTION_LATE_NORMS,  /* of each head, after it */
	ATTENTION_WHOLE_NORMS, /* of all heads as one row, before it */
};
enum { ATTENTION_NO_ROPE = -1 };

/* Grouped-query attention (Ainslie et al. 2023): n_kv_heads = n_heads is multi-head, 1 is
 * multi-query. */
struct attention {
	int32_t n_heads, n_kv_heads, head_dim;
	int32_t group;    /* of the model's memory */
	int32_t kv_layer; /* of the layers of that group */
	int32_t rope;     /* index in the model's tables, or ATTENTION_NO_ROPE */
	int32_t window;   /* positions that a row sees, with its own; 0: all */
	float scale;      /* of a score */
	float softcap;    /* of a score; 0: none */
	bool sinks;       /* each head has a score without a value (Xiao et al. 2023, section 3.3) */
	bool fused;       /* the file keeps q, k and v in one tensor, attn_qkv */
	/* attn_q has for each head a query and a gate, whose sigmoid multiplies what the head gives */
	bool gated;
	/* Each head of v has an RMS norm without weights; v is k, before its own norm, where the file
	 * has no attn_v (Gemma 4) */
	bool value_norm;
	enum attention_norms norms;
	/* Reads the keys and values of this layer, the model's layer from_layer, and has none: norms
	 * are then not late (cross-layer attention, Brandon et al. 2024). NULL: its own */
	const struct attention *from;
	int32_t from_layer;
	struct residual on;
	/* tensors; NULL: not there */
	const float *q_norm, *k_norm; /* [head_dim]; of all heads: of all */
	struct k_matrix q, k, v, out;
	const float *q_bias, *k_bias, *v_bias, *out_bias;
	const float *sink; /* [n_heads] */
};
extern const struct block_kind layer_attention;

/* Attention of an encoder-decoder model, whose scores get a bias by distance and no scale (T5,
 * Raffel et al. 2020, section 2.1): in an encoder over all of the input; in a decoder over its own
 * positions, and then, without a bias, over what the encoder gave. */
struct relative {
	int32_t n_heads, head_dim, n_buckets;
	bool decodes;
	int32_t group, kv_layer;
	int32_t bucket[2 * K_DISTANCE + 1]; /* of each distance, from -K_DISTANCE on */
	const struct relative *like;        /* whose bias it has; NULL: its own */
	struct residual on, cross_on;
	const float *bias; /* [n_buckets, n_heads] */
	struct k_matrix q, k, v, out, cross_q, cross_out;
};
extern const struct block_kind layer_relative;

/* After an encoder's last layer: the norm of its result, and of that the keys and values that each
 * layer of the decoder keeps for cross-attention. */
struct bridge {
	int32_t n, width;            /* layers of the decoder; heads times their dimensions */
	const struct layer *decoder; /* [n] whose mixers are `relative` */
	const float *norm;           /* [dim] */
	struct k_matrix *k, *v;      /* [n] each, in one piece of memory: the layer's own */
};
extern const struct block_kind layer_bridge;

/* Latent attention in the absorbed form (DeepSeek-AI 2024, section 2.1): all heads read one key of
 * rope_dim + rank dimensions, whose last `rank` ones are the value. */
struct latent {
	int32_t n_heads, rank, rope_dim;
	int32_t key, value; /* dimensions of a head before it is absorbed; the last rope_dim turn */
	int32_t q_rank;     /* 0: queries are made in one step */
	int32_t group, kv_layer, rope;
	float scale;
	struct residual on;
	const float *q_norm, *c_norm; /* [q_rank], [rank] */
	struct k_matrix q_a, q;       /* [q_rank, dim], [n_heads * key, q_rank or dim] */
	struct k_matrix c, pe;        /* [rank, dim], [rope_dim, dim] */
	/* by head, in one piece of memory: [rank, key - rope_dim], [value, rank] */
	struct k_matrix *absorb, *expand;
	struct k_matrix out; /* [dim, n_heads * value] */
};
extern const struct block_kind layer_latent;

/* Gated feed-forward (Shazeer 2020): down(act(gate x) * up x); plain: down(act(up x)). */
struct feed_forward {
	int32_t width;
	enum k_act act;
	bool fused; /* the file keeps gate and up in one tensor, ffn_up */
	bool plain; /* there is no gate */
	struct residual on;
	struct k_matrix gate, up, down;
	const float *gate_bias, *up_bias, *down_bias; /* NULL: not there */
	struct k_matrix down_columns; /* the same by columns; data NULL: it is not there */
};
extern const struct block_kind layer_feed_forward;

/* Mixture of gated feed-forwards, of which each row uses `used` (Jiang et al. 2024), and, if it has
 * a width, of one that all rows use. */
struct experts {
	int32_t width, n, used, shared_width;
	enum k_act act;
	struct residual on;
	/* the router: see k_route */
	enum k_route_kind route;
	bool norm_weights;
	float scale;
	int32_t n_groups, used_groups;
	struct k_matrix router;
	struct k_matrix *gate, *up, *down; /* [n] each, in one piece of memory: the layer's own */
	/* NULL: not there. Of the logits; of the choice: [n]; of the experts: [n, width] twice, [n,
	 * dim]
	 */
	const float *router_bias, *choice_bias, *gate_bias, *up_bias, *down_bias;
	struct k_matrix shared_gate, shared_up, shared_down;
	struct k_matrix shared_weight; /* [1, dim] logit of the shared one's; data NULL: it weighs 1 */
};
extern const struct block_kind layer_experts;

/* A selective state-space block (Gu and Dao 2023, figure 3). */
struct mamba {
	int32_t inner, n_states, rank, taps;
	bool normed;   /* norms of dt, b and c (Jamba: Lieber et al. 2024) */
	int32_t group; /* of the model's memory */
	size_t at;     /* offset of its floats in a state */
	struct residual on;
	struct k_matrix in_x, in_z;             /* [inner, dim] */
	const float *conv, *conv_bias;          /* [inner, taps], [inner] or NULL */
	struct k_matrix x_dt, x_b, x_c;         /* [rank, inner], [n_states, inner] twice */
	struct k_matrix dt;                     /* [inner, rank] */
	const float *dt_bias, *skip;            /* [inner] */
	const float *decay;                     /* [inner, n_states], negative */
	const float *dt_norm, *b_norm, *c_norm; /* [rank], [n_states] twice, or NULL */
	struct k_matrix out;                    /* [dim, inner] */
};
extern const struct block_kind layer_mamba;

/* A diagonal state space, gated (S4D: Gu et al. 2022): out(y * silu(z)) with [x, z] = in, y of each
 * channel's own complex states, whose poles do not depend on the token. */
struct s4d {
	int32_t inner, n_states; /* numbers a channel: two a complex state */
	int32_t group;           /* of the model's memory */
	size_t at;               /* offset of its floats in a state */
	struct residual on;
	struct k_matrix in_x, in_z; /* [inner, dim] */
	const float *pole, *read;   /* [inner, n_states / 2] re and im of a step; re and -im */
	const float *skip;          /* [inner] */
	struct k_matrix out;        /* [dim, inner] */
};
extern const struct block_kind layer_s4d;

/* A gated short convolution (LFM2, Liquid AI 2025): out(c * conv(b * u)) with b, c, u = in x. */
struct short_conv {
	int32_t dim, taps;
	int32_t group; /* of the model's memory */
	size_t at;     /* offset of its floats in a state */
	struct residual on;
	const float *conv;       /* [dim, taps] */
	struct k_matrix b, c, u; /* [dim, dim], one tensor */
	struct k_matrix out;     /* [dim, dim] */
};
extern const struct block_kind layer_short_conv;

/* A causal convolution, and a state matrix [n_states, inner / heads] a head; groups of heads share
 * keys and queries. A sequence keeps the convolution's last inputs and the matrices. */
struct matrix_states {
	int32_t inner, n_states, heads, groups, taps;
	int32_t group;                 /* of the model's memory */
	size_t at;                     /* offset of its floats in a state */
	const float *conv, *conv_bias; /* [inner + 2 groups n_states, taps]; of each one, or NULL */
};

/* Mamba-2 (Dao and Gu 2024). */
struct mamba2 {
	struct matrix_states s;
	bool normed; /* a norm of each group of the gated result */
	struct residual on;
	struct k_matrix in_z;                /* [inner, dim] */
	struct k_matrix in_x;                /* [inner + 2 groups n_states, dim] */
	struct k_matrix in_dt;               /* [heads, dim]; with the two above one tensor */
	const float *dt_bias, *decay, *skip; /* [heads] */
	const float *out_norm;               /* [inner] or NULL */
	struct k_matrix out;                 /* [dim, inner] */
};
extern const struct block_kind layer_mamba2;

/* The gated delta rule (Yang et al. 2024): a matrix takes of a value what it does not say yet. */
struct delta {
	struct matrix_states s;
	bool in_turn;  /* head h belongs to group h mod groups; else neighbours do to one */
	bool together; /* alpha and beta are one tensor, by group */
	struct residual on;
	struct k_matrix qkv;          /* [2 groups n_states + inner, dim] */
	struct k_matrix z;            /* [inner, dim] */
	struct k_matrix alpha, beta;  /* [heads, dim]; together: alpha is both, beta not there */
	const float *dt_bias, *decay; /* [heads] */
	const float *out_norm;        /* [inner / heads] */
	struct k_matrix out;          /* [dim, inner] */
};
extern const struct block_kind layer_delta;

/* Lightning attention (Qin et al. 2024): a state matrix [head_dim, head_dim] a head, which forgets
 * at a rate of its own. */
struct lightning {
	int32_t heads, head_dim;
	double share;  /* of this layer, in the exponents of the rates */
	int32_t group; /* of the model's memory */
	size_t at;     /* offset of its floats in a state */
	float *rates;  /* [heads, 2] decay, 1: the layer's own */
	struct residual on;
	const float *out_norm; /* [heads * head_dim] */
	struct k_matrix qkv;   /* [3 heads head_dim, dim], by head */
	struct k_matrix z;     /* [heads * head_dim, dim] */
	struct k_matrix out;   /* [dim, heads * head_dim] */
};
extern const struct block_kind layer_lightning;

/* What a token says to one layer alone (Gemma 3n and 4; model.h, struct model_inputs): gated by the
 * stream, it is added to it, and the stream is then scaled. */
struct layer_input {
	int32_t width, stride, first; /* of its input, 0: none; of all layers'; its first column */
	float scale;                  /* of the stream; 0: none */
	struct residual on;
	struct k_matrix gate; /* [width, dim] */
	struct k_matrix out;  /* [dim, width] */
};
extern const struct block_kind layer_layer_input;

/* Two products of small rank; what is between them is the layer's. */
struct low_rank {
	int32_t rank;
	struct k_matrix down, up; /* [rank, dim], [dim, rank] */
	const float *bias;        /* [dim] or NULL */
};

/* The time mix of RWKV-7 (Peng et al. 2025, section 4): a state matrix [head_dim, head_dim] a head,
 * whose keys decay each at its own rate, and which erases by keys of its own. */
struct time_mix {
	int32_t dim, head_dim;
	bool first;    /* the model's first layer, whose values the others mix with theirs */
	int32_t group; /* of the model's memory */
	size_t at;     /* offset of its floats in a state */
	struct residual on;
	const float *shift;                       /* [6, dim] */
	struct k_matrix r, k, v;                  /* [dim, dim] */
	struct low_rank decay, rate, share, gate; /* share: of the first layer's values */
	const float *key_scale, *key_rate, *bonus, *out_norm, *out_bias; /* [dim] */
	struct k_matrix out;                                             /* [dim, dim] */
};
extern const struct block_kind layer_time_mix;

/* The channel mix of RWKV-7: down(relu(up shifted)^2). */
struct channel_mix {
	int32_t dim, width;
	int32_t group; /* of the model's memory */
	size_t at;     /* offset of its floats in a state */
	struct residual on;
	const float *shift; /* [dim] */
	struct k_matrix up, down;
};
extern const struct block_kind layer_channel_mix;

/* Linear attention whose features are Taylor's terms of exp (BASED: Arora et al. 2024): a state
 * matrix [features, head_dim] a head, which forgets nothing. */
struct taylor {
	int32_t heads, head_dim;
	int32_t feature; /* dimensions of a query before the terms are made */
	int32_t group;   /* of the model's memory */
	size_t at;       /* offset of its floats in a state */
	float *rates;    /* [heads, 2] ones: the layer's own */
	struct residual on;
	const float *out_norm; /* [heads * head_dim] */
	struct k_matrix q, k;  /* [heads * feature, dim] */
	struct k_matrix v, z;  /* [heads * head_dim, dim] */
	struct k_matrix out;   /* [dim, heads * head_dim] */
};
extern const struct block_kind layer_taylor;

/* Two blocks, one after the other; of mixers that read the same stream, the second's result is
 * added to the sum of stream and first's (struct residual, aside and joins). */
struct pair {
	struct block first, second;
};
extern const struct block_kind layer_pair;

/* Gives the block zeroed parameters of this kind; NULL if memory ran out. */
void *block_set(struct block *b, const struct block_kind *kind);
/* Frees its parameters and what they own. */
void block_free(struct block *b);
/* Gives a layer the kind and shape of another, for tensors of its own. -1 if memory ran out. */
int layer_like(struct layer *l, const struct layer *model);
void layer_free(struct layer *l);
