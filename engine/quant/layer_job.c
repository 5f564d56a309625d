/* See layer_job.h: inputs are collected from the layer as it is, its matrices are rounded, and the
 * text goes through the rounded layer to the next. */
#include "engine/quant/layer_job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model/gguf_write.h"
#include "engine/quant/gptq.h"
#include "kernels/format/encode.h"

static bool is_part(const struct layer_part *p, const char *name)
{
	const char *dot = strchr(p->t->from->name + strlen("blk."), '.');

	return dot && !strcmp(dot + 1, name);
}

void layer_part_init(struct layer_part *p, const struct quant_tensor *t)
{
	static const struct {
		const char *name;
		int32_t input;
	} reads[] = { { "attn_q.weight", INPUT_QKV }, { "attn_k.weight", INPUT_QKV },
		{ "attn_v.weight", INPUT_QKV }, { "attn_qkv.weight", INPUT_QKV },
		{ "attn_output.weight", INPUT_OUT }, { "ffn_gate.weight", INPUT_GATE_UP },
		{ "ffn_up.weight", INPUT_GATE_UP }, { "ffn_down.weight", INPUT_DOWN } };

	*p = (struct layer_part){ .t = t, .cols = (int32_t)t->from->dim[0], .input = -1 };
	p->rows = quant_count(t->from) / p->cols;
	for (size_t i = 0; i < sizeof reads / sizeof *reads; i++)
		if (is_part(p, reads[i].name))
			p->input = reads[i].input;
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

static int pass(struct calibration *c, int32_t layer, const struct layer_part *p, int32_t n,
	struct quant_input *in, bool hessians, struct err *e)
{
	struct memory_file m;
	int rc = memory_file_open(&m, p, n, e);

	if (!rc)
		rc = calibration_run(c, layer, m.g, in, hessians, !in, e);
	memory_file_close(&m);
	return rc;
}

int layer_job_skip(
	struct calibration *c, int32_t layer, const struct layer_part *p, int32_t n, struct err *e)
{
	return pass(c, layer, p, n, NULL, false, e);
}

/* ---- rounding ---- */

struct rows_job {
	struct layer_part *p;
	const struct form_scales *scales;
	const float *max_abs; /* [cols] of the input, for LLM.int8(); or NULL */
};

static void round_row(void *arg, int64_t r, void *scratch)
{
	const struct rows_job *j = arg;
	struct layer_part *p = j->p;
	const float *w = p->w + r * p->cols;
	uint8_t *out = p->out + (size_t)r * (p->t->bytes / (size_t)p->rows);

	if (j->max_abs)
		form_row_outliers(&p->t->form, j->max_abs, w, p->cols, scratch, out);
	else
		form_row(&p->t->form, j->scales, r, w, p->cols, out);
}

static int round_part(struct k_ctx *kernels, const struct quant_options *o, struct layer_part *p,
	const struct quant_input *in, const struct gptq *g, struct err *e)
{
	const bool outliers = o->method == QUANT_LLM_INT8 && p->input >= 0;
	struct form_scales scales;
	struct rows_job j = { p, &scales, outliers ? in[p->input].max_abs : NULL };
	int rc = form_scales_make(&p->t->form, &scales, p->w, p->rows, p->cols, e);

	if (!rc && o->method == QUANT_GPTQ && p->input >= 0)
		rc = gptq_round(&g[p->input], &p->t->form, &scales, p->w, p->rows, p->out, e);
	else if (!rc)
		k_deal(kernels, p->rows, round_row, &j);
	for (int32_t c = 0; j.max_abs && c < p->cols; c++)
		p->kept += j.max_abs[c] > FORM_OUTLIER ? p->rows : 0;
	free(scales.unit);
	return rc;
}

static int round_parts(struct calibration *c, const struct quant_options *o, struct layer_part *p,
	int32_t n, const struct quant_input *in, struct err *e)
{
	struct gptq g[CALIBRATION_INPUTS] = { 0 };
	struct k_ctx *kernels = calibration_kernels(c);

	for (int i = 0; i < CALIBRATION_INPUTS && o->method == QUANT_GPTQ && !e->code; i++)
		gptq_open(&g[i], kernels, in[i].hessian, in[i].n, o->damping, o->act_order, e);
	for (int32_t i = 0; i < n && !e->code; i++) {
		if (p[i].t->rounded)
			round_part(kernels, o, &p[i], in, g, e);
		else if (p[i].t->type == K_F32) /* a norm may have taken factors of columns */
			memcpy(p[i].out, p[i].w, p[i].t->bytes);
	}
	for (int i = 0; i < CALIBRATION_INPUTS; i++)
		gptq_close(&g[i]);
	return e->code ? -1 : 0;
}

/* ---- factors of columns ---- */

static struct layer_part *find(struct layer_part *p, int32_t n, const char *name)
{
	for (int32_t i = 0; i < n; i++)
		if (is_part(&p[i], name))
			return &p[i];
	return NULL;
}

static struct layer_part *norm_of(struct layer_part *p, int32_t columns)
{
	return p && p->rows == 1 && p->cols == columns ? p : NULL;
}

/* What writes the columns of an input: a norm, or the last rows of a matrix, with its bias. NULL:
 * nothing that could take the factors. */
static struct layer_part *writer_of(
	const struct calibration *c, struct layer_part *p, int32_t n, int32_t input, int32_t columns)
{
	const struct engine_info *info = engine_info(c->engine);
	struct layer_part *w;

	switch (input) {
	case INPUT_QKV: return norm_of(find(p, n, "attn_norm.weight"), columns);
	case INPUT_GATE_UP: return norm_of(find(p, n, "ffn_norm.weight"), columns);
	case INPUT_OUT: /* heads that share a value would need factors in common */
		w = info->n_heads == info->n_kv_heads ? find(p, n, "attn_v.weight") : NULL;
		break;
	default: w = find(p, n, "ffn_up.weight"); break;
	}
	return w && w->t->rounded && w->rows >= columns ? w : NULL;
}

static void divide(struct layer_part *w, const float *s, int32_t n)
{
	float *last = w->w + (w->rows > 1 ? (w->rows - n) * w->cols : 0);

	for (int32_t j = 0; j < n && w->rows == 1; j++)
		last[j] /= s[j];
	for (int32_t j = 0; j < n && w->rows > 1; j++)
		for (int32_t k = 0; k < w->cols; k++)
			last[(int64_t)j * w->cols + k] /= s[j];
}

static void fold(struct layer_part *p, int32_t n, int32_t input, struct layer_part *writer,
	const float *s, int32_t columns)
{
	struct layer_part *bias = input == INPUT_OUT ? find(p, n, "attn_v.bias") : NULL;

	for (int32_t i = 0; i < n; i++)
		for (int64_t k = 0; p[i].input == input && k < p[i].rows * p[i].cols; k++)
			p[i].w[k] *= s[k % p[i].cols];
	divide(writer, s, columns);
	if (norm_of(bias, columns))
		divide(bias, s, columns);
}

/* The factors of one input, applied. Where a matrix that reads it stays as it is, there are none.
 */
static int scale_input(struct calibration *c, const struct quant_options *o, struct layer_part *p,
	int32_t n, const struct quant_input *in, int32_t input, struct err *e)
{
	struct layer_part *writer = writer_of(c, p, n, input, in->n);
	struct quant_reader readers[CALIBRATION_INPUTS];
	float *s = malloc((size_t)in->n * sizeof *s);
	double error = 0, plain = 0;
	int32_t n_readers = 0;
	bool all = writer;

	if (!s)
		return err_set(e, ERR_MEMORY, "no memory for %d factors", in->n);
	for (int32_t i = 0; i < n; i++)
		if (p[i].input == input) {
			all = all && p[i].t->rounded;
			readers[n_readers++] = (struct quant_reader){ p[i].w, p[i].rows, &p[i].t->form };
		}
	if (all && o->method == QUANT_AWQ)
		awq_scales(calibration_kernels(c), in, readers, n_readers, s, &error, &plain, e);
	else if (all)
		smooth_scales(in, readers, n_readers, o->alpha, s);
	if (all && !e->code)
		fold(p, n, input, writer, s, in->n);
	free(s);
	return e->code ? -1 : 0;
}

/* SmoothQuant takes the inputs that a norm writes; AWQ all that something can take factors for. */
static int scale_inputs(struct calibration *c, const struct quant_options *o, struct layer_part *p,
	int32_t n, const struct quant_input *in, struct err *e)
{
	for (int32_t i = 0; i < CALIBRATION_INPUTS; i++)
		if ((o->method == QUANT_AWQ ||
				(o->method == QUANT_SMOOTHQUANT && (i == INPUT_QKV || i == INPUT_GATE_UP))) &&
			scale_input(c, o, p, n, &in[i], i, e))
			return -1;
	return 0;
}

/* A matrix of another width is none of those that the model reads. */
static void check_inputs(struct layer_part *p, int32_t n, const struct quant_input *in)
{
	for (int32_t i = 0; i < n; i++)
		if (p[i].input >= 0 && p[i].cols != in[p[i].input].n)
			p[i].input = -1;
}

/* The weights become those of the result. */
static int take_result(struct layer_part *p, struct err *e)
{
	const int64_t n = p->rows * p->cols;
	float *w = malloc((size_t)n * sizeof *w);

	if (!w)
		return err_set(e, ERR_MEMORY, "no memory for tensor %s", p->t->from->name);
	k_decode(p->t->type, p->out, n, w);
	for (int64_t i = 0; i < n && p->t->rounded; i++) {
		const double d = (double)w[i] - (double)p->w[i];

		p->error += d * d;
		p->size += (double)p->w[i] * (double)p->w[i];
	}
	free(p->w);
	p->w = w;
	return 0;
}

int layer_job_run(struct calibration *c, const struct quant_options *o, int32_t layer,
	struct layer_part *p, int32_t n, struct err *e)
{
	struct quant_input in[CALIBRATION_INPUTS] = { 0 };
	const bool hessians = o->method == QUANT_GPTQ || o->method == QUANT_AWQ;
	int rc = pass(c, layer, p, n, in, hessians, e);

	if (!rc) {
		check_inputs(p, n, in);
		rc = scale_inputs(c, o, p, n, in, e) || round_parts(c, o, p, n, in, e) ? -1 : 0;
	}
	calibration_free(in);
	for (int32_t i = 0; i < n && !rc; i++)
		rc = take_result(&p[i], e);
	return rc ? -1 : pass(c, layer, p, n, NULL, false, e);
}
