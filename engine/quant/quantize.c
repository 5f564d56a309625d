/* See quant.h: the work, tensor by tensor. A tensor is read, rounded and written in pieces, whose
 * strips of rows are split over the threads. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/quant/layer_job.h"
#include "engine/quant/partial.h"
#include "kernels/format/encode.h"

enum { STRIP_WEIGHTS = 64 << 10, PIECE_STRIPS = 64 };

struct work {
	const struct gguf *g;
	struct k_ctx *kernels;
	struct quant_plan plan;
	struct partial file;
	const struct quant_options *o;
	struct calibration text; /* of a method that needs one */
	struct quant_result *r;
	quant_progress *progress;
	void *arg;
	int64_t done, all;             /* weights */
	double sum_error, sum_weights; /* of squares */
	uint8_t *piece;                /* bytes of the result */
	size_t cap;
};

/* ---- a piece: PIECE_STRIPS strips of a tensor ---- */

struct strip_sums {
	double error, weights;
};

struct piece {
	const struct work *w;
	const struct quant_tensor *t;
	struct form_scales scales;
	int64_t first, n, strip; /* rows of the piece, rows of a strip */
	struct strip_sums sums[PIECE_STRIPS];
	atomic_bool failed;
	struct err err; /* of the strip that set `failed` */
};

/* Bytes of so many rows of a tensor in this type. */
static size_t row_bytes(const struct gguf_tensor *t, enum k_type type, int64_t rows)
{
	return (size_t)(rows * (t->dim[0] / k_types[type].block) * k_types[type].block_bytes);
}

static int check_finite(
	const struct gguf_tensor *t, const float *x, int64_t n, int64_t row, struct err *e)
{
	for (int64_t i = 0; i < n; i++)
		if (!isfinite(x[i]))
			return err_set(e, ERR_INPUT,
				"tensor %s has a weight that is %s, in row %lld: the file is damaged", t->name,
				isnan(x[i]) ? "no number" : "infinite", (long long)(row + i / t->dim[0]));
	return 0;
}

static struct strip_sums compare(const float *x, const float *y, int64_t n)
{
	struct strip_sums s = { 0 };

	for (int64_t i = 0; i < n; i++) {
		const double d = (double)y[i] - (double)x[i];

		s.error += d * d;
		s.weights += (double)x[i] * (double)x[i];
	}
	return s;
}

static int round_strip(struct piece *p, int64_t i, uint8_t *scratch, struct err *e)
{
	const struct gguf_tensor *from = p->t->from;
	const int64_t at = i * p->strip, rows = p->n - at < p->strip ? p->n - at : p->strip,
				  n = rows * from->dim[0];
	const size_t bytes = row_bytes(from, from->type, rows);
	float *x = (float *)(void *)scratch, *y = x + n;
	uint8_t *raw = (uint8_t *)(y + n), *out = p->w->piece + row_bytes(from, p->t->type, at);

	if (gguf_read_part(p->w->g, from, row_bytes(from, from->type, p->first + at), bytes, raw, e))
		return -1;
	k_decode(from->type, raw, n, x);
	if (check_finite(from, x, n, p->first + at, e))
		return -1;
	for (int64_t r = 0; r < rows; r++)
		form_row(&p->t->form, &p->scales, p->first + at + r, x + r * from->dim[0],
			(int32_t)from->dim[0], out + row_bytes(from, p->t->type, r));
	k_decode(p->t->type, out, n, y);
	p->sums[i] = compare(x, y, n);
	return 0;
}

static void round_task(void *arg, int64_t i, void *scratch)
{
	struct piece *p = arg;
	struct err e = { 0 };

	if (!atomic_load_explicit(&p->failed, memory_order_relaxed) && round_strip(p, i, scratch, &e) &&
		!atomic_exchange(&p->failed, true))
		p->err = e;
}

/* ---- a tensor ---- */

static int room(struct work *w, size_t bytes, struct err *e)
{
	uint8_t *more = bytes > w->cap ? realloc(w->piece, bytes) : w->piece;

	if (!more)
		return err_set(e, ERR_MEMORY, "no memory for %zu MB of a tensor", bytes >> 20);
	w->piece = more;
	w->cap = bytes > w->cap ? bytes : w->cap;
	return 0;
}

static int step(struct work *w, int64_t n, struct err *e)
{
	w->done += n;
	if (w->progress && !w->progress(w->arg, "rounding", w->done, w->all))
		return err_set(e, ERR_INTERRUPTED,
			"stopped; %s holds what is done, and the same command goes on from it", w->file.name);
	return 0;
}

static int round_piece(struct work *w, const struct quant_tensor *t, struct piece *p, struct err *e)
{
	const int64_t strips = (p->n + p->strip - 1) / p->strip;

	if (room(w, row_bytes(t->from, t->type, p->n), e))
		return -1;
	k_deal(w->kernels, strips, round_task, p);
	if (p->failed)
		return err_set(e, p->err.code, "%s", p->err.text);
	for (int64_t i = 0; i < strips; i++) {
		w->sum_error += p->sums[i].error;
		w->sum_weights += p->sums[i].weights;
	}
	return partial_write(&w->file,
		w->plan.head.size + t->offset + row_bytes(t->from, t->type, p->first), w->piece,
		row_bytes(t->from, t->type, p->n), e);
}

static int round_pieces(struct work *w, const struct quant_tensor *t, int64_t strip,
	const struct form_scales *scales, struct err *e)
{
	const int64_t rows = quant_count(t->from) / t->from->dim[0];

	for (int64_t at = 0; at < rows; at += strip * PIECE_STRIPS) {
		const int64_t left = rows - at;
		struct piece p = { .w = w,
			.t = t,
			.scales = *scales,
			.first = at,
			.n = left < strip * PIECE_STRIPS ? left : strip * PIECE_STRIPS,
			.strip = strip };

		if (round_piece(w, t, &p, e) || step(w, p.n * t->from->dim[0], e))
			return -1;
	}
	return 0;
}

/* Reads a tensor as floats. */
static int read_weights(struct work *w, const struct quant_tensor *t, float *x, struct err *e)
{
	if (room(w, t->from->bytes, e) || gguf_read_tensor(w->g, t->from, w->piece, e))
		return -1;
	k_decode(t->from->type, w->piece, quant_count(t->from), x);
	return check_finite(t->from, x, quant_count(t->from), 0, e);
}

/* The scales of a grid that need the whole matrix. */
static int whole_scales(
	struct work *w, const struct quant_tensor *t, struct form_scales *s, struct err *e)
{
	const int64_t n = quant_count(t->from);
	float *x;
	int rc;

	*s = (struct form_scales){ 0 };
	if (!form_needs_all(&t->form))
		return 0;
	x = malloc((size_t)n * sizeof *x);
	if (!x)
		return err_set(e, ERR_MEMORY, "no memory for tensor %s", t->from->name);
	rc = read_weights(w, t, x, e) ||
		 form_scales_make(&t->form, s, x, n / t->from->dim[0], t->from->dim[0], e);
	free(x);
	return rc ? -1 : 0;
}

static int round_tensor(struct work *w, const struct quant_tensor *t, struct err *e)
{
	const int64_t strip = t->from->dim[0] < STRIP_WEIGHTS ? STRIP_WEIGHTS / t->from->dim[0] : 1;
	struct form_scales scales;
	int rc;

	if (t->from->dim[0] * 12 > (int64_t)K_SCRATCH_BYTES)
		return err_set(e, ERR_INPUT, "tensor %s has rows of %lld weights; %zu are the most",
			t->from->name, (long long)t->from->dim[0], K_SCRATCH_BYTES / 12);
	if (whole_scales(w, t, &scales, e))
		return -1;
	rc = round_pieces(w, t, strip, &scales, e);
	free(scales.unit);
	return rc;
}

static int copy_tensor(struct work *w, const struct quant_tensor *t, struct err *e)
{
	if (room(w, t->bytes, e) || gguf_read_tensor(w->g, t->from, w->piece, e) ||
		partial_write(&w->file, w->plan.head.size + t->offset, w->piece, t->bytes, e))
		return -1;
	return step(w, quant_count(t->from), e);
}

/* Zeros up to where the next tensor begins. */
static int pad(struct work *w, const struct quant_tensor *t, struct err *e)
{
	static const uint8_t zeros[1 << 20];
	const uint64_t end = t->offset + t->bytes;

	return partial_write(&w->file, w->plan.head.size + end, zeros,
		(size_t)(gguf_aligned(end, w->plan.head.align) - end), e);
}

/* ---- a layer, with a calibration text ---- */

static void parts_free(struct layer_part *p, int32_t n)
{
	for (int32_t i = 0; p && i < n; i++) {
		free(p[i].w);
		free(p[i].out);
	}
	free(p);
}

/* done: the result's weights, from the file that an earlier run left. */
static int read_part(
	struct work *w, struct layer_part *p, const struct quant_tensor *t, bool done, struct err *e)
{
	const int64_t n = quant_count(t->from);

	layer_part_init(p, t);
	p->w = malloc((size_t)n * sizeof *p->w);
	p->out = malloc(t->bytes);
	if (!p->w || !p->out)
		return err_set(e, ERR_MEMORY, "no memory for tensor %s", t->from->name);
	if (!done && read_weights(w, t, p->w, e))
		return -1;
	if (done) {
		if (partial_read(&w->file, w->plan.head.size + t->offset, p->out, t->bytes, e))
			return -1;
		k_decode(t->type, p->out, n, p->w);
	} else if (!t->rounded) {
		memcpy(p->out, w->piece, t->bytes);
	}
	return 0;
}

static struct layer_part *parts_read(
	struct work *w, const struct quant_tensor *t, int32_t n, bool done, struct err *e)
{
	struct layer_part *p = calloc((size_t)n, sizeof *p);

	if (!p)
		err_set(e, ERR_MEMORY, "no memory for a layer");
	for (int32_t i = 0; i < n && !e->code; i++)
		read_part(w, &p[i], &t[i], done, e);
	if (!e->code)
		return p;
	parts_free(p, n);
	return NULL;
}

static int write_part(struct work *w, const struct layer_part *p, struct err *e)
{
	w->sum_error += p->error;
	w->sum_weights += p->size;
	w->r->n_outliers += p->kept;
	if (partial_write(&w->file, w->plan.head.size + p->t->offset, p->out, p->t->bytes, e))
		return -1;
	return pad(w, p->t, e) || step(w, p->rows * p->cols, e) ? -1 : 0;
}

/* The n tensors of a layer from t on. */
static int round_layer(struct work *w, const struct quant_tensor *t, int32_t n, struct err *e)
{
	struct layer_part *p = parts_read(w, t, n, false, e);
	int rc = p ? layer_job_run(&w->text, w->o, t->layer, p, n, e) : -1;

	for (int32_t i = 0; i < n && !rc; i++)
		rc = write_part(w, &p[i], e);
	parts_free(p, n);
	return rc;
}

static int skip_layer(struct work *w, const struct quant_tensor *t, int32_t n, struct err *e)
{
	struct layer_part *p = parts_read(w, t, n, true, e);
	int rc = p ? layer_job_skip(&w->text, t->layer, p, n, e) : -1;

	parts_free(p, n);
	return rc;
}

/* ---- the file ---- */

/* The first tensor to write: a file that an earlier run left has all before the last layer that it
 * begins, since each layer is on the disk before the next one begins. */
static int32_t found(const struct work *w)
{
	const struct quant_plan *p = &w->plan;
	int32_t i = p->n - 1;

	while (i > 0 && p->head.size + p->tensor[i].offset >= w->file.size)
		i--;
	while (i > 0 && p->tensor[i - 1].layer == p->tensor[i].layer)
		i--;
	return i;
}

/* Tensors from t on of the same layer. */
static int32_t of_layer(const struct quant_plan *p, int32_t i)
{
	int32_t end = i;

	while (end < p->n && p->tensor[end].layer == p->tensor[i].layer)
		end++;
	return end - i;
}

/* Whether the layer's inputs are collected: a file may have tensors of layers that the model has
 * not. */
static bool reads_text(const struct work *w, int32_t layer)
{
	return quant_method_reads(w->o->method) && layer >= 0 &&
		   layer < engine_info(w->text.engine)->n_layers;
}

static int write_layer(struct work *w, const struct quant_tensor *t, int32_t n, struct err *e)
{
	if (reads_text(w, t->layer))
		return round_layer(w, t, n, e);
	for (int32_t i = 0; i < n; i++)
		if ((t[i].rounded ? round_tensor(w, &t[i], e) : copy_tensor(w, &t[i], e)) ||
			pad(w, &t[i], e))
			return -1;
	return 0;
}

/* A layer that is there from an earlier run. */
static int take_layer(struct work *w, const struct quant_tensor *t, int32_t n, struct err *e)
{
	for (int32_t i = 0; i < n; i++) {
		w->done += quant_count(t[i].from);
		w->r->n_resumed += t[i].rounded;
	}
	return reads_text(w, t->layer) ? skip_layer(w, t, n, e) : 0;
}

static int write_tensors(struct work *w, struct err *e)
{
	const struct quant_plan *p = &w->plan;
	/* the file does not say which columns LLM.int8() left as they were */
	const int32_t from = w->o->method == QUANT_LLM_INT8 ? 0 : found(w);

	for (int32_t i = 0; i < p->n; i++)
		w->all += quant_count(p->tensor[i].from);
	for (int32_t i = 0, n; i < p->n; i += n) {
		n = of_layer(p, i);
		if (i < from ? take_layer(w, &p->tensor[i], n, e) : write_layer(w, &p->tensor[i], n, e))
			return -1;
		if (i >= from && partial_sync(&w->file, e))
			return -1;
	}
	return gguf_unchanged(w->g, e);
}

/* What LLM.int8() left in f16 is known at the end. */
static int correct_bits(struct work *w, struct err *e)
{
	if (w->o->method != QUANT_LLM_INT8)
		return 0;
	w->r->bits += (16 - w->o->to.bits) * (double)w->r->n_outliers / (double)w->r->n_weights;
	quant_plan_set_bits(&w->plan, w->r->bits);
	return partial_write(&w->file, 0, w->plan.head.data, w->plan.head.size, e);
}

static int open_text(struct work *w, const char *in, char text[96], struct err *e)
{
	const struct calibration_options o = { w->o->text, w->o->size, w->o->seed, w->o->threads,
		w->progress, w->arg };

	text[0] = 0;
	if (!quant_method_reads(w->o->method))
		return 0;
	if (calibration_open(&w->text, in, &o, e))
		return -1;
	w->r->n_calibration = w->text.n * w->text.length;
	snprintf(text, 96, "%d tokens %s, hash %016llx", w->r->n_calibration,
		o.text ? "of a text" : "written by the model", (unsigned long long)w->text.hash);
	return 0;
}

static int run(struct work *w, const char *in, const char *out, struct err *e)
{
	char sha256[SHA256_HEX], text[96];
	int failed;

	if (form_check(&w->o->to, e) || open_text(w, in, text, e) ||
		file_sha256_of(in, gguf_stamp(w->g), NULL, sha256, e) ||
		quant_plan_make(&w->plan, w->g, w->o, sha256, text, w->r, e) ||
		partial_open(&w->file, out, w->plan.head.data, w->plan.head.size, e))
		return -1;
	failed = write_tensors(w, e) || correct_bits(w, e) ? -1 : 0;
	return partial_close(&w->file, failed, e);
}

int quantize_file(const char *in, const char *out, const struct quant_options *o,
	struct k_ctx *kernels, quant_progress *progress, void *arg, struct quant_result *r,
	struct err *e)
{
	struct work w = { .kernels = kernels, .o = o, .r = r, .progress = progress, .arg = arg };
	struct stat a, b;
	struct gguf *g = NULL;
	int rc;

	*r = (struct quant_result){ 0 };
	if (!stat(in, &a) && !stat(out, &b) && a.st_ino == b.st_ino && a.st_dev == b.st_dev)
		return err_set(e, ERR_USAGE, "%s is the source itself: choose another name", out);
	if (partial_is_free(out, e) || gguf_open(&g, in, e))
		return -1;
	w.g = g;
	r->source_bytes = (int64_t)gguf_file_bytes(g);
	rc = run(&w, in, out, e);
	r->error = w.sum_weights > 0 ? sqrt(w.sum_error / w.sum_weights) : 0;
	calibration_close(&w.text);
	quant_plan_free(&w.plan);
	free(w.piece);
	gguf_close(g);
	return rc;
}
