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

struct layer_part *layer_part_find(struct layer_part *p, int32_t n, const char *name)
{
	for (int32_t i = 0; i < n; i++)
		if (is_part(&p[i], name))
			return &p[i];
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
	for (size_t i = 0; i < sizeof reads / sizeof *reads; i++)
		if (is_part(p, reads[i].name))
			p->input = reads[i].input;
}

/* ---- reading and writing ---- */

static int read_done(struct change *c, struct layer_part *p, struct err *e)
{
	if (partial_read(&c->file, c->plan.head.size + p->t->offset, p->out, p->t->to.bytes, e))
		return -1;
	k_decode(p->t->to.type, p->out, p->rows * p->cols, p->w);
	return 0;
}

static int read_part(
	struct change *c, struct layer_part *p, const struct change_tensor *t, bool done, struct err *e)
{
	part_init(p, t);
	p->w = malloc((size_t)(p->rows * p->cols) * sizeof *p->w);
	p->out = malloc(t->to.bytes);
	p->raw = done ? NULL : malloc(t->from->bytes);
	if (!p->w || !p->out || (!p->raw && !done))
		return err_set(e, ERR_MEMORY, "no memory for tensor %s", t->from->name);
	if (done)
		return read_done(c, p, e);
	if (change_read(c, t, p->raw, p->w, e))
		return -1;
	if (!t->changed)
		memcpy(p->out, p->raw, t->to.bytes);
	return 0;
}

void layer_parts_free(struct layer_part *p, int32_t n)
{
	for (int32_t i = 0; p && i < n; i++) {
		free(p[i].raw);
		free(p[i].w);
		free(p[i].out);
	}
	free(p);
}

struct layer_part *layer_parts_read(
	struct change *c, const struct change_tensor *t, int32_t n, bool done, struct err *e)
{
	struct layer_part *p = calloc((size_t)n, sizeof *p);

	if (!p)
		err_set(e, ERR_MEMORY, "no memory for a layer");
	for (int32_t i = 0; i < n && !e->code; i++)
		read_part(c, &p[i], &t[i], done, e);
	if (!e->code)
		return p;
	layer_parts_free(p, n);
	return NULL;
}

int layer_part_write(struct change *c, const struct layer_part *p, struct err *e)
{
	if (change_put(c, p->t, 0, p->out, p->t->to.bytes, e) || change_pad(c, p->t, e))
		return -1;
	return change_step(c, p->rows * p->cols, e);
}

int layer_part_take(struct layer_part *p, struct err *e)
{
	const int64_t n = p->rows * p->cols;
	float *w = malloc((size_t)n * sizeof *w);

	if (!w)
		return err_set(e, ERR_MEMORY, "no memory for tensor %s", p->t->from->name);
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

static int put_weights(struct memory_file *m, const struct layer_part *p, int32_t n, struct err *e)
{
	const size_t start = m->head.size;
	uint8_t *data = realloc(m->head.data, start + m->head.offset);
	uint64_t at = start;

	if (!data)
		return err_set(
			e, ERR_MEMORY, "no memory for a layer of %zu MB", (size_t)m->head.offset >> 20);
	m->head.data = data;
	memset(data + start, 0, m->head.offset);
	for (int32_t i = 0; i < n; i++) {
		const size_t bytes = (size_t)p[i].rows * (size_t)p[i].cols * sizeof(float);

		memcpy(data + at, p[i].w, bytes);
		at = gguf_aligned(at + bytes, m->head.align);
	}
	return gguf_open_memory(&m->g, data, start + m->head.offset, e);
}

static int memory_file_open(
	struct memory_file *m, const struct layer_part *p, int32_t n, struct err *e)
{
	*m = (struct memory_file){ 0 };
	gguf_head_begin(&m->head, GGUF_ALIGN);
	for (int32_t i = 0; i < n; i++)
		gguf_head_tensor(&m->head, p[i].t->from, K_F32);
	return gguf_head_end(&m->head, e) || put_weights(m, p, n, e) ? -1 : 0;
}

static void memory_file_close(struct memory_file *m)
{
	gguf_close(m->g);
	gguf_head_free(&m->head);
}

int layer_pass(struct calibration *c, int32_t layer, const struct layer_part *p, int32_t n,
	struct quant_input *in, unsigned hessians, struct err *e)
{
	struct memory_file m;
	int rc = memory_file_open(&m, p, n, e);

	if (!rc)
		rc = calibration_run(c, layer, m.g, in, hessians, !in, e);
	memory_file_close(&m);
	return rc;
}

int layer_skip(struct change *c, const struct change_tensor *t, int32_t n, struct err *e)
{
	struct layer_part *p = layer_parts_read(c, t, n, true, e);
	int rc = p ? layer_pass(&c->text, t->layer, p, n, NULL, 0, e) : -1;

	layer_parts_free(p, n);
	return rc;
}
