/* The last product of each feed-forward in a second layout, by columns. See model.h. Only
 * feed-forwards of one file tensor have one; experts read few weights already. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/model/model.h"
#include "kernels/format/columns.h"

enum { ALIGN = 64 };

static struct feed_forward *feed_forward_of(const struct model *m, int32_t layer)
{
	const struct block *b = &m->layer[layer].ffn;
	const struct pair *pair = b->params;
	struct feed_forward *w;

	if (b->kind == &layer_pair)
		b = &pair->first;
	w = b->kind == &layer_feed_forward ? b->params : NULL;

	return w && !w->down_bias ? w : NULL; /* a product by columns adds no bias */
}

/* Its tensor as it was when the model was opened, or NULL. */
static const struct gguf_tensor *tensor_of(
	const struct gguf *g, int32_t layer, const struct k_matrix *down, struct err *e)
{
	const struct gguf_tensor *t;
	char name[64];

	snprintf(name, sizeof name, "blk.%d.ffn_down.weight", layer);
	t = gguf_find(g, name);
	if (!t || t->type != down->type || t->dim[0] != down->n_cols || t->dim[1] != down->n_rows) {
		gguf_bad(g, e, "it was changed since it was opened");
		return NULL;
	}
	if (!k_columns_fit(t->type)) {
		err_set(e, ERR_USAGE,
			"skipping: tensor %s is %s, which cannot be read by columns; formats with one scale "
			"for 32 weights can be, such as Q4_0, Q4_1 and Q8_0 (see cutaway quantize)",
			name, k_types[t->type].name);
		return NULL;
	}
	return t;
}

static size_t whole(size_t bytes)
{
	return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Bytes of all of them; 0: an error, or there are none. */
static size_t plan(struct model *m, const struct gguf *g, struct err *e)
{
	size_t bytes = 0;

	for (int32_t i = 0; i < m->config.n_layers; i++) {
		struct feed_forward *w = feed_forward_of(m, i);

		if (!w)
			continue;
		if (!tensor_of(g, i, &w->down, e))
			return 0;
		w->down_columns = w->down;
		w->down_columns.by_column = true;
		bytes += whole(k_matrix_bytes(m->kernels, &w->down_columns));
	}
	if (!bytes)
		err_set(e, ERR_USAGE,
			"skipping: this model has no gated feed-forward to read less of, and no plain one");
	return bytes;
}

static int fill(struct model *m, const struct gguf *g, int32_t layer, uint8_t *to, struct err *e)
{
	struct k_matrix *c = &feed_forward_of(m, layer)->down_columns;
	const struct gguf_tensor *t = tensor_of(g, layer, c, e);
	uint8_t *raw = t ? malloc(t->bytes) : NULL;

	if (t && !raw)
		err_no_memory(e, "columns");
	if (!raw || gguf_read_tensor(t, raw, e) || weights_pack(m->kernels, c, raw, to, e))
		c->data = NULL;
	free(raw);
	return c->data ? 0 : -1;
}

static int add_columns(struct model *m, const struct gguf *g, struct err *e)
{
	const size_t bytes = plan(m, g, e);
	uint8_t *at;

	if (e->code)
		return -1;
	m->columns = at = k_alloc(m->kernels, bytes, K_WEIGHTS, "the matrices by columns", e);
	for (int32_t i = 0; at && i < m->config.n_layers; i++) {
		if (!feed_forward_of(m, i))
			continue;
		if (fill(m, g, i, at, e)) {
			k_free(m->kernels, m->columns);
			m->columns = at = NULL;
			break;
		}
		at += whole(k_matrix_bytes(m->kernels, &feed_forward_of(m, i)->down_columns));
	}
	return at ? 0 : -1;
}

int model_add_columns(struct model *m, const char *path, struct err *e)
{
	struct gguf *g = NULL;
	int failed = 0;

	if (!m->columns)
		failed = gguf_open(&g, path, e) || add_columns(m, g, e);
	gguf_close(g);
	return failed ? -1 : 0;
}
