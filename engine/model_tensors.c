/* Tensors of a file, each checked against the shape that it must have and planned into memory. See
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

static const char *part_name(const struct model_loader *l, char buf[64], const char *part)
{
	snprintf(buf, 64, "blk.%d.%s", l->layer, part);
	return buf;
}

const float *layer_vector(struct model_loader *l, const char *part, int64_t n, bool must)
{
	char name[64];

	return model_vector(l, part_name(l, name, part), n, must);
}

void layer_matrix(struct model_loader *l, struct k_matrix *w, const char *part, int64_t rows, int64_t cols)
{
	char name[64];

	if (cols % K_QBLOCK && !l->e->code) {
		err_set(l->e, ERR_INPUT, "%s: widths must be multiples of %d; layer %d has one of %lld",
				gguf_path(l->g), K_QBLOCK, l->layer, (long long)cols);
		return;
	}
	model_matrix(l, w, part_name(l, name, part), rows, cols);
}

void model_load_layer(struct model_loader *l, struct layer *layer, int32_t i)
{
	const struct block *const block[] = { &layer->mixer, &layer->ffn };

	l->layer = i;
	for (int b = 0; b < 2; b++)
		if (block[b]->kind && !l->e->code)
			block[b]->kind->load(l, block[b]->params);
}

void model_load_layers(struct model_loader *l, const struct layer *like, struct layer *layer, int32_t n)
{
	if (like->mixer.kind != &layer_attention && !l->e->code)
		err_set(l->e, ERR_USAGE, "%s: a drafter of attention layers, beside a model whose layers are others",
				gguf_path(l->g));
	for (int32_t i = 0; i < n && !l->e->code; i++) {
		if (layer_like(&layer[i], like)) {
			err_set(l->e, ERR_MEMORY, "no memory for %d layers", n);
			return;
		}
		((struct attention *)layer[i].mixer.params)->kv_layer = i;
		model_load_layer(l, &layer[i], i);
	}
}
