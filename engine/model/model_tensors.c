/* Tensors of a file, each checked against the shape that it must have and planned into memory. See
 * model_tensors.h. */
#include "engine/model/model_tensors.h"

#include <stdio.h>

static const struct gguf_tensor *tensor_find(
	const struct model_loader *l, const char *name, bool must)
{
	const struct gguf_tensor *t = gguf_find(l->g, name);

	if (!t && must)
		gguf_bad(l->g, l->e, "tensor %s is missing", name);
	return t;
}

/* Rows of a tensor as a matrix; matrices of experts lie one after the other. */
static int64_t n_rows(const struct gguf_tensor *t)
{
	return t->dim[1] * t->dim[2] * t->dim[3];
}

static int check_shape(
	const struct model_loader *l, const struct gguf_tensor *t, int64_t cols, int64_t rows)
{
	if (t->dim[0] == cols && n_rows(t) == rows)
		return 0;
	return gguf_bad(l->g, l->e, "tensor %s is %lld x %lld; %lld x %lld was expected", t->name,
		(long long)n_rows(t), (long long)t->dim[0], (long long)rows, (long long)cols);
}

const float *model_floats(
	struct model_loader *l, const char *name, int64_t cols, int64_t rows, bool must)
{
	const struct gguf_tensor *t = tensor_find(l, name, must);

	if (!t || l->e->code || check_shape(l, t, cols, rows))
		return NULL;
	if (t->type != K_F32) {
		gguf_bad(l->g, l->e, "tensor %s is %s; what is no matrix of a product must be F32", name,
			k_types[t->type].name);
		return NULL;
	}
	return weights_add_vector(l->weights, t, l->e);
}

const float *model_vector(struct model_loader *l, const char *name, int64_t n, bool must)
{
	return model_floats(l, name, n, 1, must);
}

void model_rows(
	struct model_loader *l, struct k_matrix *w, const char *name, struct row_slice s, int64_t cols)
{
	const struct gguf_tensor *t = tensor_find(l, name, true);

	if (!t || l->e->code || check_shape(l, t, cols, s.all))
		return;
	if (cols % k_types[t->type].block || (k_types[t->type].block > 1 && cols % K_QBLOCK)) {
		gguf_bad(l->g, l->e, "tensor %s has rows of %lld, not a multiple of its block of %d", name,
			(long long)cols, k_types[t->type].block);
		return;
	}
	w->type = t->type;
	w->n_rows = (int32_t)s.n;
	w->n_cols = (int32_t)cols;
	weights_add_matrix(l->weights, t, s.first, w, l->e);
}

void model_matrix(
	struct model_loader *l, struct k_matrix *w, const char *name, int64_t rows, int64_t cols)
{
	model_rows(l, w, name, (struct row_slice){ 0, rows, rows }, cols);
}

static const char *part_name(const struct model_loader *l, char buf[64], const char *part)
{
	snprintf(buf, 64, "%sblk.%d.%s", l->stack ? l->stack : "", l->layer, part);
	return buf;
}

bool layer_has(const struct model_loader *l, const char *part)
{
	char name[64];

	return gguf_find(l->g, part_name(l, name, part)) != NULL;
}

const float *layer_vector(struct model_loader *l, const char *part, int64_t n, bool must)
{
	char name[64];

	return model_vector(l, part_name(l, name, part), n, must);
}

const float *layer_floats(struct model_loader *l, const char *part, int64_t cols, int64_t rows)
{
	char name[64];

	return model_floats(l, part_name(l, name, part), cols, rows, true);
}

void layer_rows(
	struct model_loader *l, struct k_matrix *w, const char *part, struct row_slice s, int64_t cols)
{
	char name[64];

	if (cols % K_QBLOCK && !l->e->code) {
		gguf_bad(l->g, l->e, "widths must be multiples of %d; layer %d has one of %lld", K_QBLOCK,
			l->layer, (long long)cols);
		return;
	}
	model_rows(l, w, part_name(l, name, part), s, cols);
}

void layer_parts(
	struct model_loader *l, const char *part, int64_t cols, const struct layer_part *in)
{
	struct row_slice s = { 0 };

	for (const struct layer_part *p = in; p->w; p++)
		s.all += p->rows;
	for (; in->w; in++) {
		s.n = in->rows;
		layer_rows(l, in->w, part, s, cols);
		s.first += s.n;
	}
}

void layer_matrix(
	struct model_loader *l, struct k_matrix *w, const char *part, int64_t rows, int64_t cols)
{
	layer_rows(l, w, part, (struct row_slice){ 0, rows, rows }, cols);
}

void layer_narrow(
	struct model_loader *l, struct k_matrix *w, const char *part, int64_t rows, int64_t cols)
{
	char name[64];

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

void model_load_layers(
	struct model_loader *l, const struct layer *like, struct layer *layer, int32_t n)
{
	const bool fits = like->mixer.kind == &layer_attention && like->ffn.kind != &layer_pair;

	if (!fits && !l->e->code)
		err_set(l->e, ERR_USAGE,
			"%s: a drafter of layers of attention and feed-forward, beside a model whose layers "
			"are others",
			gguf_path(l->g));
	for (int32_t i = 0; i < n && !l->e->code; i++) {
		if (layer_like(&layer[i], like)) {
			err_no_memory(l->e, "%d layers", n);
			return;
		}
		model_load_layer(l, &layer[i], i);
	}
}
