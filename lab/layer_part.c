/* See layer_part.h. */
#include "lab/layer_part.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/format/encode.h"

static bool is_part(const struct layer_part *p, const char *name)
{
	const char *dot = strchr(p->t->from->name + strlen("blk."), '.');

	return dot && !strcmp(dot + 1, name);
}

struct layer_part *layer_part_find(const struct layer_parts *p, const char *name)
{
	for (int32_t i = 0; i < p->n; i++)
		if (is_part(&p->part[i], name))
			return &p->part[i];
	return NULL;
}

static void part_init(struct layer_part *p, const struct change_tensor *t)
{
	static const struct {
		const char *name;
		int32_t input;
	} reads[] = { { "attn_q.weight", INPUT_QKV }, { "attn_k.weight", INPUT_QKV },
		{ "attn_v.weight", INPUT_QKV }, { "attn_qkv.weight", INPUT_QKV },
		{ "attn_output.weight", INPUT_OUT }, { "ffn_gate.weight", INPUT_GATE_UP },
		{ "ffn_up.weight", INPUT_GATE_UP }, { "ffn_down.weight", INPUT_DOWN } };

	*p = (struct layer_part){ .t = t, .cols = (int32_t)t->from->dim[0], .input = -1 };
	p->rows = gguf_tensor_weights(t->from) / p->cols;
	for (size_t i = 0; i < ARRAY_N(reads); i++)
		if (is_part(p, reads[i].name))
			p->input = reads[i].input;
}

/* ---- reading and writing ---- */

static int read_part(
	struct change *c, struct layer_part *p, const struct change_tensor *t, bool done, struct err *e)
{
	part_init(p, t);
	p->w = malloc((size_t)(p->rows * p->cols) * sizeof *p->w);
	p->out = malloc(t->to.bytes);
	p->raw = done ? NULL : malloc(t->from->bytes);
	if (!p->w || !p->out || (!p->raw && !done))
		return err_no_memory(e, "tensor %s", t->from->name);
	if (done ? partial_read(&c->file, c->plan.head.size + t->offset, p->out, t->to.bytes, e)
			 : change_read(t, p->raw, p->w, e))
		return -1;
	if (done)
		k_decode(t->to.type, p->out, p->rows * p->cols, p->w);
	else if (!t->changed)
		memcpy(p->out, p->raw, t->to.bytes);
	return 0;
}

void layer_parts_free(struct layer_parts *p)
{
	for (int32_t i = 0; i < p->n; i++) {
		free(p->part[i].raw);
		free(p->part[i].w);
		free(p->part[i].out);
	}
	free(p->part);
}

int layer_parts_read(struct layer_parts *p, struct change *c, const struct change_tensor *t,
	int32_t n, bool done, struct err *e)
{
	*p = (struct layer_parts){ .change = c, .layer = t->layer };
	p->part = calloc((size_t)n, sizeof *p->part);
	if (!p->part)
		return err_no_memory(e, "a layer");
	p->n = n;
	for (int32_t i = 0; i < n && !e->code; i++)
		read_part(c, &p->part[i], &t[i], done, e);
	return e->code ? -1 : 0;
}

int layer_parts_write(const struct layer_parts *p, struct err *e)
{
	for (int32_t i = 0; i < p->n; i++) {
		const struct layer_part *part = &p->part[i];

		if (change_put(p->change, part->t, 0, part->out, part->t->to.bytes, e) ||
			change_pad(p->change, part->t, e) || change_step(p->change, part->rows * part->cols, e))
			return -1;
	}
	return 0;
}

int layer_part_take(struct layer_part *p, struct err *e)
{
	const int64_t n = p->rows * p->cols;
	float *w = malloc((size_t)n * sizeof *w);

	if (!w)
		return err_no_memory(e, "tensor %s", p->t->from->name);
	k_decode(p->t->to.type, p->out, n, w);
	free(p->w);
	p->w = w;
	return 0;
}

/* ---- the layer as a file in memory ---- */

struct memory_file {
	struct gguf_head head;
	struct gguf *g;
};

static int put_weights(struct memory_file *m, const struct layer_parts *p, struct err *e)
{
	const size_t start = m->head.size;
	uint8_t *data = realloc(m->head.data, start + m->head.offset);
	uint64_t at = start;

	if (!data)
		return err_no_memory(e, "a layer of %zu MB", (size_t)m->head.offset >> 20);
	m->head.data = data;
	memset(data + start, 0, m->head.offset);
	for (int32_t i = 0; i < p->n; i++) {
		const size_t bytes = (size_t)(p->part[i].rows * p->part[i].cols) * sizeof(float);

		memcpy(data + at, p->part[i].w, bytes);
		at = gguf_aligned(at + bytes, m->head.align);
	}
	return gguf_open_memory(&m->g, data, start + m->head.offset, e);
}

int layer_pass(
	const struct layer_parts *p, struct quant_input *in, unsigned hessians, struct err *e)
{
	struct memory_file m = { .g = NULL };
	int rc;

	gguf_head_begin(&m.head, GGUF_ALIGN);
	for (int32_t i = 0; i < p->n; i++)
		gguf_head_tensor(&m.head, p->part[i].t->from, K_F32);
	rc = gguf_head_end(&m.head, e) || put_weights(&m, p, e) ||
		 calibration_run(&p->change->text, p->layer, m.g, in, hessians, !in, e);
	gguf_close(m.g);
	gguf_head_free(&m.head);
	return rc ? -1 : 0;
}

int layer_skip(struct change *c, const struct change_tensor *t, int32_t n, struct err *e)
{
	struct layer_parts p;
	const int rc = layer_parts_read(&p, c, t, n, true, e) || layer_pass(&p, NULL, 0, e) ? -1 : 0;

	layer_parts_free(&p);
	return rc;
}
