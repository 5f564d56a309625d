/* See quant.h: the work, tensor by tensor. A tensor is read, rounded and written in pieces, whose
 * strips of rows are split over the threads. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/model/model.h"
#include "lab/layer_part.h"
#include "kernels/format/encode.h"

#define OWN_KEYS "cutaway.quantize."
enum { STRIP_WEIGHTS = 64 << 10, PIECE_STRIPS = 64 };

struct rounding {
	struct change c;
	const struct quant_options *o;
	struct quant_result *r;
	size_t at_bits; /* where the head has the bits of a weight */
	struct layer_sums sums;
};

static const struct {
	const char *name;
	bool reads;
} methods[QUANT_N_METHODS] = {
#define X(method, name, reads, ...) { name, reads },
	QUANT_METHODS(X)
#undef X
};

const char *quant_method_name(enum quant_method m)
{
	return methods[m].name;
}

enum quant_method quant_method_named(const char *name)
{
	enum quant_method m = QUANT_RTN;

	while (m < QUANT_N_METHODS && strcasecmp(name, methods[m].name))
		m++;
	return m;
}

bool quant_method_reads(enum quant_method m)
{
	return methods[m].reads;
}

bool quant_method_sets_apart(enum quant_method m)
{
	return m == QUANT_LLM_INT8 || m == QUANT_SALIENT;
}

/* ---- the plan ---- */

/* Whether one of the words, with commas between them, is in the name. */
static bool is_kept(const char *name, const char *words)
{
	while (words && *words) {
		const size_t n = strcspn(words, ",");

		if (n && memmem(name, strlen(name), words, n))
			return true;
		words += n + (words[n] == ',');
	}
	return false;
}

/* Columns that `form` takes together divide the rows, or `otherwise` does. */
static int choose_form(
	struct change_tensor *t, const struct quant_options *o, struct quant_result *r, struct err *e)
{
	t->form = o->to;
	if (t->from->dim[0] % k_types[t->form.type].block && o->otherwise < K_N_TYPES) {
		t->form = (struct quant_form){ .type = o->otherwise };
		r->n_otherwise++;
	}
	t->to.type = t->form.type;
	return change_check_blocks(t,
		"give such tensors another format with --else, or leave them as they are with --keep", e);
}

static int plan_tensor(
	struct change_tensor *t, const struct quant_options *o, struct quant_result *r, struct err *e)
{
	const int64_t n = gguf_tensor_weights(t->from);

	if (!change_is_matrix(t->from))
		return 0;
	t->changed = !is_kept(t->from->name, o->keep) && (!o->to.bits || t->layer >= 0);
	r->common.from_quantised |= k_types[t->from->type].block > 1;
	if (!t->changed) {
		r->n_kept++;
		return 0;
	}
	if (choose_form(t, o, r, e))
		return -1;
	r->n_tensors++;
	r->n_weights += n;
	r->bits += (double)n * form_bits(&t->form, n / t->from->dim[0], t->from->dim[0]);
	return 0;
}

/* "3-bit/128 gptq from Q4_1"; what goes without saying is left out. */
static void summarise(const struct quant_options *o, const struct quant_result *r, char buf[96])
{
	char name[32];
	const bool plain = o->method == QUANT_RTN && !o->to.bits;

	snprintf(buf, 96, "%s%s%s%s%s", form_name(&o->to, name), plain ? "" : " ",
		plain ? "" : quant_method_name(o->method), r->common.from_quantised ? " from " : "",
		r->common.from_quantised ? r->common.source : "");
}

static void put_own(struct rounding *q)
{
	struct gguf_head *h = &q->c.plan.head;
	const struct quant_options *o = q->o;
	const struct quant_result *r = q->r;
	char summary[96], name[32];

	summarise(o, r, summary);
	gguf_head_u32(h, CHANGE_FILE_TYPE_KEY, change_file_type(o->to.type));
	gguf_head_text(h, OWN_KEYS "method", quant_method_name(o->method));
	gguf_head_text(h, OWN_KEYS "to", form_name(&o->to, name));
	gguf_head_f32(h, OWN_KEYS "bits", (float)r->bits);
	q->at_bits = h->size - sizeof(float);
	if (*q->c.text_summary)
		gguf_head_text(h, OWN_KEYS "calibration", q->c.text_summary);
	if (o->method == QUANT_GPTQ) {
		gguf_head_f32(h, OWN_KEYS "damping", (float)o->damping);
		gguf_head_bool(h, OWN_KEYS "act_order", o->act_order);
	}
	if (o->method == QUANT_SMOOTHQUANT)
		gguf_head_f32(h, OWN_KEYS "alpha", (float)o->alpha);
	gguf_head_text(h, OWN_KEYS "source_sha256", q->c.sha256);
	gguf_head_text(h, OWN_KEYS "source_type", r->common.source);
	gguf_head_bool(h, OWN_KEYS "from_quantised", r->common.from_quantised);
	gguf_head_text(h, QUANT_SUMMARY_KEY, summary);
}

static int plan(void *self, struct err *e)
{
	static const char *const replaced[] = { CHANGE_FILE_TYPE_KEY, NULL };
	struct rounding *q = self;
	struct change_plan *p = &q->c.plan;
	struct quant_result *r = q->r;

	for (int32_t i = 0; i < p->n; i++)
		if (plan_tensor(&p->tensor[i], q->o, r, e))
			return -1;
	if (!r->n_tensors)
		return err_set(e, ERR_USAGE, "%s has no matrix to round%s", gguf_path(q->c.g),
			r->n_kept ? ": --keep leaves all as they are" : "");
	r->bits /= (double)r->n_weights;
	if (change_head(&q->c, OWN_KEYS, replaced, e))
		return -1;
	put_own(q);
	return 0;
}

/* ---- a piece: PIECE_STRIPS strips of a tensor ---- */

struct piece {
	const struct change *c;
	const struct change_tensor *t;
	struct form_scales scales;
	int64_t first, n, strip;                        /* rows of the piece, rows of a strip */
	double error[PIECE_STRIPS], size[PIECE_STRIPS]; /* of each strip: see change_sum() */
	atomic_bool failed;
	struct err err; /* of the strip that set `failed` */
};

/* Bytes of so many rows of a tensor in this type. */
static size_t row_bytes(const struct gguf_tensor *t, enum k_type type, int64_t rows)
{
	return (size_t)(rows * (t->dim[0] / k_types[type].block) * k_types[type].block_bytes);
}

static int round_strip(struct piece *p, int64_t i, uint8_t *scratch, struct err *e)
{
	const struct gguf_tensor *from = p->t->from;
	const int64_t at = i * p->strip, rows = p->n - at < p->strip ? p->n - at : p->strip,
				  n = rows * from->dim[0];
	const size_t bytes = row_bytes(from, from->type, rows);
	float *x = (float *)(void *)scratch, *y = x + n;
	uint8_t *raw = (uint8_t *)(y + n), *out = p->c->piece + row_bytes(from, p->t->to.type, at);

	if (gguf_read_bytes(from, row_bytes(from, from->type, p->first + at), bytes, raw, e))
		return -1;
	k_decode(from->type, raw, n, x);
	if (change_check_finite(from, x, n, p->first + at, e))
		return -1;
	for (int64_t r = 0; r < rows; r++)
		form_row(&p->t->form, &p->scales, p->first + at + r, x + r * from->dim[0],
			(int32_t)from->dim[0], out + row_bytes(from, p->t->to.type, r));
	k_decode(p->t->to.type, out, n, y);
	change_sum(x, y, n, &p->error[i], &p->size[i]);
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

	if (change_room(&q->c, bytes, e))
		return -1;
	k_deal(q->c.kernels, strips, round_task, p);
	if (p->failed)
		return err_set(e, p->err.code, "%s", p->err.text);
	for (int64_t i = 0; i < strips; i++) {
		q->sums.error += p->error[i];
		q->sums.size += p->size[i];
	}
	return change_put(&q->c, t, row_bytes(t->from, t->to.type, p->first), q->c.piece, bytes, e);
}

static int round_pieces(struct rounding *q, const struct change_tensor *t, int64_t strip,
	const struct form_scales *scales, struct err *e)
{
	const int64_t rows = gguf_tensor_weights(t->from) / t->from->dim[0];

	for (int64_t at = 0; at < rows; at += strip * PIECE_STRIPS) {
		const int64_t left = rows - at;
		struct piece p = { .c = &q->c,
			.t = t,
			.scales = *scales,
			.first = at,
			.n = left < strip * PIECE_STRIPS ? left : strip * PIECE_STRIPS,
			.strip = strip };

		if (round_piece(q, t, &p, e) || change_step(&q->c, p.n * t->from->dim[0], e))
			return -1;
	}
	return change_pad(&q->c, t, e);
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
		return err_no_memory(e, "tensor %s", t->from->name);
	rc = change_room(c, t->from->bytes, e) || change_read(t, c->piece, x, e) ||
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
	if (whole_scales(&q->c, t, &scales, e))
		return -1;
	rc = round_pieces(q, t, strip, &scales, e);
	free(scales.unit);
	return rc;
}

/* ---- the file ---- */

/* With a calibration text. */
static int round_layer(
	struct rounding *q, const struct change_tensor *t, int32_t n, struct told *told, struct err *e)
{
	struct layer_parts p;
	const int rc = layer_parts_read(&p, &q->c, t, n, false, e) ||
						   told_begin(told, t->layer, &p, e) || told_nearest(told, &p, e) ||
						   layer_job_run(q->o, &p, &q->sums, told->alpha, e) ||
						   layer_parts_write(&p, e)
					   ? -1
					   : 0;

	layer_parts_free(&p);
	return rc;
}

/* Without one. */
static int round_tensors(
	struct rounding *q, const struct change_tensor *t, int32_t n, struct told *told, struct err *e)
{
	if (told_begin(told, t->layer, NULL, e))
		return -1;
	for (int32_t i = 0; i < n; i++) {
		if (t[i].changed ? round_tensor(q, &t[i], e) : change_copy(&q->c, &t[i], e))
			return -1;
		told->row.weights += t[i].changed ? gguf_tensor_weights(t[i].from) : 0;
	}
	return 0;
}

static int write_layer(void *self, const struct change_tensor *t, int32_t n, struct err *e)
{
	struct rounding *q = self;
	const struct layer_sums before = q->sums;
	struct told told = { .change = &q->c };
	int rc = change_reads(&q->c, t->layer) ? round_layer(q, t, n, &told, e)
										   : round_tensors(q, t, n, &told, e);

	told.row.apart = q->sums.columns - before.columns;
	if (!rc && t->layer >= 0)
		told_end(&told, quant_method_name(q->o->method), q->sums.error - before.error,
			q->sums.size - before.size);
	told_free(&told);
	return rc;
}

static int take_layer(void *self, const struct change_tensor *t, int32_t n, struct err *e)
{
	struct rounding *q = self;

	for (int32_t i = 0; i < n; i++)
		q->r->common.n_resumed += t[i].changed;
	return change_reads(&q->c, t->layer) ? layer_skip(&q->c, t, n, e) : 0;
}

/* What stayed in f16 is known at the end. */
static int correct_bits(void *self, struct err *e)
{
	struct rounding *q = self;
	struct gguf_head *h = &q->c.plan.head;
	float bits;

	q->r->n_outliers = q->sums.kept;
	if (!quant_method_sets_apart(q->o->method))
		return 0;
	q->r->bits += (16 - q->o->to.bits) * (double)q->sums.kept / (double)q->r->n_weights;
	bits = (float)q->r->bits;
	memcpy(h->data + q->at_bits, &bits, sizeof bits);
	return partial_write(&q->c.file, 0, h->data, h->size, e);
}

int quantize_file(const char *in, const char *out, const struct quant_options *o,
	struct quant_result *r, struct err *e)
{
	static const struct change_ops ops = { "rounding", plan, write_layer, take_layer,
		correct_bits };
	struct rounding q = { .o = o,
		.r = r,
		.c = { .ops = &ops,
			.o = &o->common,
			.r = &r->common,
			.reads = quant_method_reads(o->method),
			.afresh = quant_method_sets_apart(o->method) } };
	int rc;

	*r = (struct quant_result){ 0 };
	q.c.self = &q;
	rc = form_check(&o->to, e) || change_file(&q.c, in, out, e) ? -1 : 0;
	r->error = q.sums.size > 0 ? sqrt(q.sums.error / q.sums.size) : 0;
	return rc;
}
