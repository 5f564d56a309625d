/* See quant.h: the work, tensor by tensor. A tensor is read, rounded and written in pieces, whose
 * strips of rows are split over the threads. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "lab/layer_job.h"
#include "lab/plan.h"
#include "lab/told.h"
#include "kernels/format/encode.h"

enum { STRIP_WEIGHTS = 64 << 10, PIECE_STRIPS = 64 };

struct rounding {
	struct change *c;
	const struct quant_options *o;
	struct quant_result *r;
	size_t at_bits; /* see quant_plan_make() */
	struct layer_sums sums;
};

/* ---- a piece: PIECE_STRIPS strips of a tensor ---- */

struct strip_sums {
	double error, weights;
};

struct piece {
	const struct change *c;
	const struct change_tensor *t;
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
	uint8_t *raw = (uint8_t *)(y + n), *out = p->c->piece + row_bytes(from, p->t->to.type, at);

	if (gguf_read_part(p->c->g, from, row_bytes(from, from->type, p->first + at), bytes, raw, e))
		return -1;
	k_decode(from->type, raw, n, x);
	if (change_check_finite(from, x, n, p->first + at, e))
		return -1;
	for (int64_t r = 0; r < rows; r++)
		form_row(&p->t->form, &p->scales, p->first + at + r, x + r * from->dim[0],
			(int32_t)from->dim[0], out + row_bytes(from, p->t->to.type, r));
	k_decode(p->t->to.type, out, n, y);
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

static int round_piece(
	struct rounding *q, const struct change_tensor *t, struct piece *p, struct err *e)
{
	const int64_t strips = (p->n + p->strip - 1) / p->strip;
	const size_t bytes = row_bytes(t->from, t->to.type, p->n);

	if (change_room(q->c, bytes, e))
		return -1;
	k_deal(q->c->kernels, strips, round_task, p);
	if (p->failed)
		return err_set(e, p->err.code, "%s", p->err.text);
	for (int64_t i = 0; i < strips; i++) {
		q->sums.error += p->sums[i].error;
		q->sums.size += p->sums[i].weights;
	}
	return change_put(q->c, t, row_bytes(t->from, t->to.type, p->first), q->c->piece, bytes, e);
}

static int round_pieces(struct rounding *q, const struct change_tensor *t, int64_t strip,
	const struct form_scales *scales, struct err *e)
{
	const int64_t rows = gguf_tensor_weights(t->from) / t->from->dim[0];

	for (int64_t at = 0; at < rows; at += strip * PIECE_STRIPS) {
		const int64_t left = rows - at;
		struct piece p = { .c = q->c,
			.t = t,
			.scales = *scales,
			.first = at,
			.n = left < strip * PIECE_STRIPS ? left : strip * PIECE_STRIPS,
			.strip = strip };

		if (round_piece(q, t, &p, e) || change_step(q->c, p.n * t->from->dim[0], e))
			return -1;
	}
	return change_pad(q->c, t, e);
}

/* The scales of a grid that need the whole matrix. */
static int whole_scales(
	struct change *c, const struct change_tensor *t, struct form_scales *s, struct err *e)
{
	const int64_t n = gguf_tensor_weights(t->from);
	float *x;
	int rc;

	*s = (struct form_scales){ 0 };
	if (!form_needs_all(&t->form))
		return 0;
	x = malloc((size_t)n * sizeof *x);
	if (!x)
		return err_set(e, ERR_MEMORY, "no memory for tensor %s", t->from->name);
	rc = change_room(c, t->from->bytes, e) || change_read(c, t, c->piece, x, e) ||
		 form_scales_make(&t->form, s, x, n / t->from->dim[0], t->from->dim[0], e);
	free(x);
	return rc ? -1 : 0;
}

static int round_tensor(struct rounding *q, const struct change_tensor *t, struct err *e)
{
	const int64_t strip = t->from->dim[0] < STRIP_WEIGHTS ? STRIP_WEIGHTS / t->from->dim[0] : 1;
	struct form_scales scales;
	int rc;

	if (t->from->dim[0] * 12 > (int64_t)K_SCRATCH_BYTES)
		return err_set(e, ERR_INPUT, "tensor %s has rows of %lld weights; %zu are the most",
			t->from->name, (long long)t->from->dim[0], K_SCRATCH_BYTES / 12);
	if (whole_scales(q->c, t, &scales, e))
		return -1;
	rc = round_pieces(q, t, strip, &scales, e);
	free(scales.unit);
	return rc;
}

/* ---- the file ---- */

static int plan(void *self, struct change *c, const char *sha256, struct err *e)
{
	struct rounding *q = self;
	const struct quant_options *o = q->o;
	const struct calibration_options from = {
		.text = o->text, .size = o->size, .seed = o->seed, .threads = o->threads
	};
	char text[96] = "";

	q->r->source_bytes = (int64_t)gguf_file_bytes(c->g);
	if (form_check(&o->to, e) ||
		(quant_method_reads(o->method) && change_read_text(c, from, text, e)))
		return -1;
	q->r->n_calibration = c->text.n * c->text.length;
	return quant_plan_make(&c->plan, c->g, o, sha256, text, q->r, &q->at_bits, e);
}

/* With a calibration text. */
static int round_layer(
	struct rounding *q, const struct change_tensor *t, int32_t n, struct told *told, struct err *e)
{
	struct layer_part *p = layer_parts_read(q->c, t, n, false, e);
	int rc = p && !told_begin(told, t->layer, p, n, e) && !told_nearest(told, p, n, e)
				 ? layer_job_run(&q->c->text, q->o, t->layer, p, n, &q->sums, told->alpha, e)
				 : -1;

	for (int32_t i = 0; i < n && !rc; i++)
		rc = layer_part_write(q->c, &p[i], e);
	layer_parts_free(p, n);
	return rc;
}

/* Without one. */
static int round_tensors(
	struct rounding *q, const struct change_tensor *t, int32_t n, struct told *told, struct err *e)
{
	if (told_begin(told, t->layer, NULL, 0, e))
		return -1;
	for (int32_t i = 0; i < n; i++) {
		if (t[i].changed ? round_tensor(q, &t[i], e) : change_copy(q->c, &t[i], e))
			return -1;
		told->row.weights += t[i].changed ? gguf_tensor_weights(t[i].from) : 0;
	}
	return 0;
}

static int write_layer(
	void *self, struct change *c, const struct change_tensor *t, int32_t n, struct err *e)
{
	struct rounding *q = self;
	const struct layer_sums before = q->sums;
	struct told told = { .change = c };
	int rc = change_reads(c, t->layer) ? round_layer(q, t, n, &told, e)
									   : round_tensors(q, t, n, &told, e);

	told.row.apart = q->sums.columns - before.columns;
	if (!rc && t->layer >= 0)
		told_end(&told, quant_method_name(q->o->method), q->sums.error - before.error,
			q->sums.size - before.size);
	told_free(&told);
	return rc;
}

static int take_layer(
	void *self, struct change *c, const struct change_tensor *t, int32_t n, struct err *e)
{
	struct rounding *q = self;

	for (int32_t i = 0; i < n; i++)
		q->r->n_resumed += t[i].changed;
	return change_reads(c, t->layer) ? layer_skip(c, t, n, e) : 0;
}

/* What stayed in f16 is known at the end. */
static int correct_bits(void *self, struct change *c, struct err *e)
{
	struct rounding *q = self;

	q->r->n_outliers = q->sums.kept;
	if (!quant_method_sets_apart(q->o->method))
		return 0;
	q->r->bits += (16 - q->o->to.bits) * (double)q->sums.kept / (double)q->r->n_weights;
	quant_plan_set_bits(&c->plan, q->at_bits, q->r->bits);
	return partial_write(&c->file, 0, c->plan.head.data, c->plan.head.size, e);
}

int quantize_file(const char *in, const char *out, const struct quant_options *o,
	struct k_ctx *kernels, quant_progress *progress, void *arg, struct quant_result *r,
	struct err *e)
{
	static const struct change_ops ops = { "rounding", plan, write_layer, take_layer,
		correct_bits };
	struct rounding q = { .o = o, .r = r };
	struct change c = { .ops = &ops,
		.self = &q,
		.in = in,
		.kernels = kernels,
		.afresh = quant_method_sets_apart(o->method),
		.progress = progress,
		.arg = arg,
		.told = o->told,
		.told_arg = o->told_arg };
	int rc;

	q.c = &c;
	*r = (struct quant_result){ 0 };
	rc = change_file(&c, out, e);
	r->error = q.sums.size > 0 ? sqrt(q.sums.error / q.sums.size) : 0;
	return rc;
}
