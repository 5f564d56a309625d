/* Tensors of a Llama-family file, each checked against the shape that it must have and planned into memory. See
 * model_tensors.h. */
#include "engine/model_tensors.h"

#include <stdio.h>

static const struct gguf_tensor *find(const struct model_loader *l, const char *name, bool must)
{
	const struct gguf_tensor *t = gguf_find(l->g, name);

	if (!t && must)
		err_set(l->e, ERR_INPUT, "%s: tensor %s is missing", gguf_path(l->g), name);
	return t;
}

static int check_shape(const struct model_loader *l, const struct gguf_tensor *t, int64_t cols, int64_t rows)
{
	int64_t have_rows = t->n_dims > 1 ? t->dim[1] : 1;

	if (t->dim[0] == cols && have_rows == rows && t->n_dims <= 2)
		return 0;
	return err_set(l->e, ERR_INPUT, "%s: tensor %s is %lld x %lld; %lld x %lld was expected",
				   gguf_path(l->g), t->name, (long long)have_rows, (long long)t->dim[0],
				   (long long)rows, (long long)cols);
}

/* A vector of F32; F16 and BF16 vectors do not occur in files. NULL if absent and not a must. */
const float *model_vector(struct model_loader *l, const char *name, int64_t n, bool must)
{
	const struct gguf_tensor *t = find(l, name, must);

	if (!t || l->e->code || check_shape(l, t, n, 1))
		return NULL;
	if (t->type != K_F32) {
		err_set(l->e, ERR_INPUT, "%s: tensor %s is %s; norms and biases must be F32",
				gguf_path(l->g), name, k_types[t->type].name);
		return NULL;
	}
	return weights_add_vector(l->weights, t, l->e);
}

void model_matrix(struct model_loader *l, struct k_matrix *w, const char *name, int64_t rows, int64_t cols)
{
	const struct gguf_tensor *t = find(l, name, true);

	if (!t || l->e->code || check_shape(l, t, cols, rows))
		return;
	if (cols % k_types[t->type].block || (k_types[t->type].block > 1 && cols % K_QBLOCK)) {
		err_set(l->e, ERR_INPUT, "%s: tensor %s has rows of %lld, not a multiple of its block of %d",
				gguf_path(l->g), name, (long long)cols, k_types[t->type].block);
		return;
	}
	w->type = t->type;
	w->n_rows = (int32_t)rows;
	w->n_cols = (int32_t)cols;
	weights_add_matrix(l->weights, l->g, l->kernels, t, w, l->e);
}

static const char *layer_name(char buf[64], int32_t layer, const char *part)
{
	snprintf(buf, 64, "blk.%d.%s", layer, part);
	return buf;
}

void model_layer(struct model_loader *l, struct model_layer *layer, int32_t i)
{
	const struct model_config *c = l->config;
	struct model_mixer *a = &layer->mixer;
	struct model_ffn *f = &layer->ffn;
	int64_t q = (int64_t)c->n_heads * c->head_dim, kv = (int64_t)c->n_kv_heads * c->head_dim;
	char name[64];

	a->norm = model_vector(l, layer_name(name, i, "attn_norm.weight"), c->dim, true);
	model_matrix(l, &a->q, layer_name(name, i, "attn_q.weight"), q, c->dim);
	model_matrix(l, &a->k, layer_name(name, i, "attn_k.weight"), kv, c->dim);
	model_matrix(l, &a->v, layer_name(name, i, "attn_v.weight"), kv, c->dim);
	model_matrix(l, &a->out, layer_name(name, i, "attn_output.weight"), c->dim, q);
	a->q_bias = model_vector(l, layer_name(name, i, "attn_q.bias"), q, false);
	a->k_bias = model_vector(l, layer_name(name, i, "attn_k.bias"), kv, false);
	a->v_bias = model_vector(l, layer_name(name, i, "attn_v.bias"), kv, false);
	a->out_bias = model_vector(l, layer_name(name, i, "attn_output.bias"), c->dim, false);
	f->norm = model_vector(l, layer_name(name, i, "ffn_norm.weight"), c->dim, true);
	model_matrix(l, &f->gate, layer_name(name, i, "ffn_gate.weight"), c->ffn, c->dim);
	model_matrix(l, &f->up, layer_name(name, i, "ffn_up.weight"), c->ffn, c->dim);
	model_matrix(l, &f->down, layer_name(name, i, "ffn_down.weight"), c->dim, c->ffn);
}

int model_check_widths(const struct model_loader *l, const struct model_layer *layer, int32_t n_layers)
{
	for (int32_t i = 0; i < n_layers; i++) {
		const struct k_matrix *w[] = { &layer[i].mixer.q,  &layer[i].mixer.out,
									   &layer[i].ffn.gate, &layer[i].ffn.down };
		for (size_t j = 0; j < sizeof w / sizeof *w; j++)
			if (w[j]->n_cols % K_QBLOCK)
				return err_set(l->e, ERR_INPUT,
							   "%s: widths must be multiples of %d; layer %d has one of %d",
							   gguf_path(l->g), K_QBLOCK, i, w[j]->n_cols);
	}
	return 0;
}
