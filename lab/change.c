/* See change.h. */
#include "lab/change.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "kernels/format/encode.h"

/* ---- a tensor ---- */

int change_room(struct change *c, size_t bytes, struct err *e)
{
	uint8_t *more = bytes > c->cap ? realloc(c->piece, bytes) : c->piece;

	if (!more)
		return err_set(e, ERR_MEMORY, "no memory for %zu MB of a tensor", bytes >> 20);
	c->piece = more;
	c->cap = bytes > c->cap ? bytes : c->cap;
	return 0;
}

int change_check_finite(
	const struct gguf_tensor *t, const float *x, int64_t n, int64_t row, struct err *e)
{
	for (int64_t i = 0; i < n; i++)
		if (!isfinite(x[i]))
			return err_set(e, ERR_INPUT,
				"tensor %s has a weight that is %s, in row %lld: the file is damaged", t->name,
				isnan(x[i]) ? "no number" : "infinite", (long long)(row + i / t->dim[0]));
	return 0;
}

int change_read(
	struct change *c, const struct change_tensor *t, uint8_t *raw, float *x, struct err *e)
{
	const int64_t n = gguf_tensor_weights(t->from);

	if (gguf_read_tensor(c->g, t->from, raw, e))
		return -1;
	k_decode(t->from->type, raw, n, x);
	return change_check_finite(t->from, x, n, 0, e);
}

int change_step(struct change *c, int64_t n, struct err *e)
{
	c->done += n;
	if (c->progress && !c->progress(c->arg, c->ops->what, c->done, c->all))
		return err_set(e, ERR_INTERRUPTED,
			"stopped; %s holds what is done, and the same command goes on from it", c->file.name);
	return 0;
}

int change_put(struct change *c, const struct change_tensor *t, uint64_t at, const void *data,
	size_t n, struct err *e)
{
	return partial_write(&c->file, c->plan.head.size + t->offset + at, data, n, e);
}

int change_pad(struct change *c, const struct change_tensor *t, struct err *e)
{
	static const uint8_t zeros[1 << 20];
	const uint64_t end = t->offset + t->to.bytes;

	return change_put(
		c, t, t->to.bytes, zeros, (size_t)(gguf_aligned(end, c->plan.head.align) - end), e);
}

int change_copy(struct change *c, const struct change_tensor *t, struct err *e)
{
	if (change_room(c, t->to.bytes, e) || gguf_read_tensor(c->g, t->from, c->piece, e) ||
		change_put(c, t, 0, c->piece, t->to.bytes, e) || change_pad(c, t, e))
		return -1;
	return change_step(c, gguf_tensor_weights(t->from), e);
}

/* ---- the text ---- */

bool change_reads(const struct change *c, int32_t layer)
{
	return c->text.engine && layer >= 0 && layer < engine_info(c->text.engine)->n_layers;
}

int change_read_text(
	struct change *c, struct calibration_options o, char summary[96], struct err *e)
{
	o.progress = c->progress;
	o.arg = c->arg;
	if (calibration_open(&c->text, c->in, &o, e))
		return -1;
	snprintf(summary, 96, "%d tokens %s, hash %016llx", c->text.n * c->text.length,
		o.text ? "of a text" : "written by the model", (unsigned long long)c->text.hash);
	return 0;
}

/* ---- the file ---- */

/* Where tensor i begins in it; of one past the last, where it ends. */
static uint64_t place_of(const struct change *c, int32_t i)
{
	const struct change_plan *p = &c->plan;

	return p->head.size + (i < p->n ? p->tensor[i].offset : p->head.offset);
}

/* The first tensor to write: before it an earlier run left whole layers. */
static int32_t found(struct change *c)
{
	const struct change_plan *p = &c->plan;
	int32_t i = 0, n;

	if (c->afresh)
		return 0;
	for (int32_t layer = 0; i < p->n; i += n, layer++) {
		n = change_plan_layer(p, i);
		if (!partial_holds(&c->file, layer, place_of(c, i), place_of(c, i + n)))
			break;
	}
	return i;
}

static int write_tensors(struct change *c, struct err *e)
{
	const struct change_plan *p = &c->plan;
	const int32_t from = found(c);

	for (int32_t i = 0; i < p->n; i++) {
		c->all += gguf_tensor_weights(p->tensor[i].from);
		if (p->tensor[i].layer >= c->layers)
			c->layers = p->tensor[i].layer + 1;
	}
	for (int32_t i = 0, layer = 0, n; i < p->n; i += n, layer++) {
		const struct change_tensor *t = &p->tensor[i];

		n = change_plan_layer(p, i);
		for (int32_t k = 0; i < from && k < n; k++)
			c->done += gguf_tensor_weights(t[k].from);
		if (i < from ? c->ops->take(c->self, c, t, n, e)
					 : c->ops->write(c->self, c, t, n, e) ||
						   partial_seal(&c->file, layer, place_of(c, i), place_of(c, i + n), e))
			return -1;
	}
	return gguf_unchanged(c->g, e);
}

static int run(struct change *c, const char *out, struct err *e)
{
	char sha256[SHA256_HEX];
	int failed;

	if (file_sha256_of(c->in, gguf_stamp(c->g), NULL, sha256, e) ||
		c->ops->plan(c->self, c, sha256, e) ||
		partial_open(&c->file, out, c->plan.head.data, c->plan.head.size, e))
		return -1;
	failed = write_tensors(c, e) || (c->ops->finish && c->ops->finish(c->self, c, e)) ? -1 : 0;
	return partial_close(&c->file, failed, e);
}

int change_file(struct change *c, const char *out, struct err *e)
{
	struct gguf *g = NULL;
	struct stat a, b;
	int rc;

	if (!stat(c->in, &a) && !stat(out, &b) && a.st_ino == b.st_ino && a.st_dev == b.st_dev)
		return err_set(e, ERR_USAGE, "%s is the source itself: choose another name", out);
	if (partial_is_free(out, e) || gguf_open(&g, c->in, e))
		return -1;
	c->g = g;
	rc = run(c, out, e);
	calibration_close(&c->text);
	change_plan_free(&c->plan);
	free(c->piece);
	gguf_close(g);
	return rc;
}
