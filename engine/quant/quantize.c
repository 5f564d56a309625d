/* See quant.h: the work, tensor by tensor. A tensor is read, rounded and written in pieces, whose
 * strips of rows are split over the threads. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/quant/partial.h"
#include "engine/quant/plan.h"
#include "kernels/format/encode.h"

enum { STRIP_WEIGHTS = 64 << 10, PIECE_STRIPS = 64 };

struct work {
	const struct gguf *g;
	struct k_ctx *kernels;
	struct quant_plan plan;
	struct partial file;
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
	k_encode(p->t->type, x, n, out);
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
	if (w->progress && !w->progress(w->arg, w->done, w->all))
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

static int round_tensor(struct work *w, const struct quant_tensor *t, struct err *e)
{
	const int64_t rows = quant_count(t->from) / t->from->dim[0];
	const int64_t strip = t->from->dim[0] < STRIP_WEIGHTS ? STRIP_WEIGHTS / t->from->dim[0] : 1;

	if (t->from->dim[0] * 12 > (int64_t)K_SCRATCH_BYTES)
		return err_set(e, ERR_INPUT, "tensor %s has rows of %lld weights; %zu are the most",
			t->from->name, (long long)t->from->dim[0], K_SCRATCH_BYTES / 12);
	for (int64_t at = 0; at < rows; at += strip * PIECE_STRIPS) {
		const int64_t left = rows - at;
		struct piece p = { .w = w,
			.t = t,
			.first = at,
			.n = left < strip * PIECE_STRIPS ? left : strip * PIECE_STRIPS,
			.strip = strip };

		if (round_piece(w, t, &p, e) || step(w, p.n * t->from->dim[0], e))
			return -1;
	}
	return 0;
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

static int write_tensors(struct work *w, struct err *e)
{
	const int32_t from = found(w);

	for (int32_t i = 0; i < w->plan.n; i++)
		w->all += quant_count(w->plan.tensor[i].from);
	for (int32_t i = 0; i < from; i++) {
		w->done += quant_count(w->plan.tensor[i].from);
		w->r->n_resumed += w->plan.tensor[i].rounded;
	}
	for (int32_t i = from; i < w->plan.n; i++) {
		const struct quant_tensor *t = &w->plan.tensor[i];

		if (i > from && t->layer != t[-1].layer && partial_sync(&w->file, e))
			return -1;
		if ((t->rounded ? round_tensor(w, t, e) : copy_tensor(w, t, e)) || pad(w, t, e))
			return -1;
	}
	return gguf_unchanged(w->g, e);
}

static int run(
	struct work *w, const char *in, const char *out, const struct quant_options *o, struct err *e)
{
	char sha256[SHA256_HEX];
	int failed;

	if (file_sha256_of(in, gguf_stamp(w->g), NULL, sha256, e) ||
		quant_plan_make(&w->plan, w->g, o, sha256, w->r, e) ||
		partial_open(&w->file, out, w->plan.head.data, w->plan.head.size, e))
		return -1;
	failed = write_tensors(w, e);
	return partial_close(&w->file, failed, e);
}

int quantize_file(const char *in, const char *out, const struct quant_options *o,
	struct k_ctx *kernels, quant_progress *progress, void *arg, struct quant_result *r,
	struct err *e)
{
	struct work w = { .kernels = kernels, .r = r, .progress = progress, .arg = arg };
	struct stat a, b;
	struct gguf *g = NULL;
	int rc;

	*r = (struct quant_result){ 0 };
	if (!stat(in, &a) && !stat(out, &b) && a.st_ino == b.st_ino && a.st_dev == b.st_dev)
		return err_set(e, ERR_USAGE, "%s is the source itself: choose another name", out);
	if (gguf_open(&g, in, e))
		return -1;
	w.g = g;
	r->source_bytes = (int64_t)gguf_file_bytes(g);
	rc = run(&w, in, out, o, e);
	r->error = w.sum_weights > 0 ? sqrt(w.sum_error / w.sum_weights) : 0;
	quant_plan_free(&w.plan);
	free(w.piece);
	gguf_close(g);
	return rc;
}
