/* See change.h. */
#include "lab/change.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "engine/model/model.h"
#include "kernels/format/encode.h"

/* ---- the plan ---- */

bool change_is_matrix(const struct gguf_tensor *t)
{
	static const char *const small[] = { "ffn_gate_inp.weight", "ssm_conv1d.weight",
		"ssm_dt.weight", "ssm_norm.weight", "shortconv.conv.weight", "position_embd.weight",
		"time_mix_lerp_fused.weight", "time_mix_r_k.weight", "channel_mix_lerp_k.weight" };

	for (size_t i = 0; i < ARRAY_N(small); i++)
		if (text_ends(t->name, small[i]))
			return false;
	return t->n_dims > 1 && text_ends(t->name, ".weight");
}

int32_t change_layer_of(const char *name)
{
	int layer = -1;

	return sscanf(name, "blk.%6d.", &layer) == 1 ? layer : -1;
}

uint32_t change_file_type(enum k_type type)
{
	static const uint32_t number[K_N_TYPES] = { [K_F16] = 1,
		[K_Q4_0] = 2,
		[K_Q4_1] = 3,
		[K_Q8_0] = 7,
		[K_Q5_0] = 8,
		[K_Q5_1] = 9,
		[K_Q2_K] = 10,
		[K_Q3_K] = 11,
		[K_Q4_K] = 14,
		[K_Q5_K] = 16,
		[K_Q6_K] = 18,
		[K_IQ4_NL] = 25,
		[K_IQ4_XS] = 30,
		[K_BF16] = 32,
		[K_MXFP4] = 38 };

	return number[type];
}

static int by_layer(const void *a, const void *b)
{
	const struct change_tensor *x = a, *y = b;

	if (x->layer != y->layer)
		return x->layer < y->layer ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

static int open_plan(struct change *c, struct err *e)
{
	struct change_plan *p = &c->plan;

	p->n = gguf_n_tensors(c->g);
	p->tensor = calloc((size_t)p->n + 1, sizeof *p->tensor);
	if (!p->tensor)
		return err_no_memory(e, "%d tensors", p->n);
	for (int32_t i = 0; i < p->n; i++) {
		const struct gguf_tensor *from = gguf_tensor_at(c->g, i);

		p->tensor[i] = (struct change_tensor){
			.from = from, .to = *from, .layer = change_layer_of(from->name)
		};
	}
	qsort(p->tensor, (size_t)p->n, sizeof *p->tensor, by_layer);
	return 0;
}

int32_t change_plan_layer(const struct change_plan *p, int32_t i)
{
	int32_t end = i;

	while (end < p->n && p->tensor[end].layer == p->tensor[i].layer)
		end++;
	return end - i;
}

static bool is_copied(const struct gguf_pair *p, const char *own, const char *const *replaced)
{
	for (; *replaced; replaced++)
		if (p->key_size == strlen(*replaced) && !memcmp(p->key, *replaced, p->key_size))
			return false;
	if (p->key_size > 6 && !memcmp(p->key, "split.", 6))
		return false; /* the result is one file */
	return p->key_size <= strlen(own) || memcmp(p->key, own, strlen(own)) != 0;
}

int change_head(struct change *c, const char *own, const char *const *replaced, struct err *e)
{
	int64_t align = GGUF_ALIGN;
	struct gguf_pair pair;

	gguf_opt_i64(c->g, "general.alignment", &align, e);
	gguf_head_begin(&c->plan.head, (size_t)align);
	for (size_t i = 0; (pair = gguf_pair_at(c->g, i)).key; i++)
		if (is_copied(&pair, own, replaced))
			gguf_head_copy(&c->plan.head, &pair);
	return e->code ? -1 : 0;
}

/* Sets the tensors' offsets and bytes, and ends the head. */
static int end_plan(struct change *c, struct err *e)
{
	struct gguf_head *h = &c->plan.head;

	for (int32_t i = 0; i < c->plan.n; i++) {
		struct change_tensor *t = &c->plan.tensor[i];

		if (t->name[0])
			t->to.name = t->name;
		t->to.data = NULL;
		t->offset = gguf_head_tensor(h, &t->to, t->to.type);
		t->to.bytes = gguf_tensor_bytes(&t->to, t->to.type);
	}
	if (gguf_head_end(h, e))
		return -1;
	c->r->bytes = (int64_t)(h->size + h->offset);
	return 0;
}

/* ---- a tensor ---- */

int change_room(struct change *c, size_t bytes, struct err *e)
{
	uint8_t *more = bytes > c->cap ? realloc(c->piece, bytes) : c->piece;

	if (!more)
		return err_no_memory(e, "%zu MB of a tensor", bytes >> 20);
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

int change_check_blocks(const struct change_tensor *t, const char *advice, struct err *e)
{
	const struct k_type_info *type = &k_types[t->to.type];

	return t->to.dim[0] % type->block
			   ? err_set(e, ERR_USAGE,
					 "tensor %s has rows of %lld weights then, and %s has blocks of %d: %s",
					 t->from->name, (long long)t->to.dim[0], type->name, type->block, advice)
			   : 0;
}

void change_sum(const float *before, const float *after, int64_t n, double *error, double *size)
{
	for (int64_t i = 0; i < n; i++) {
		const double d = (double)after[i] - (double)before[i];

		*error += d * d;
		*size += (double)before[i] * (double)before[i];
	}
}

int change_read(const struct change_tensor *t, uint8_t *raw, float *x, struct err *e)
{
	const int64_t n = gguf_tensor_weights(t->from);

	if (gguf_read_tensor(t->from, raw, e))
		return -1;
	k_decode(t->from->type, raw, n, x);
	return change_check_finite(t->from, x, n, 0, e);
}

int change_step(struct change *c, int64_t n, struct err *e)
{
	c->done += n;
	if (c->o->progress && !c->o->progress(c->o->arg, c->ops->what, c->done, c->all))
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
	if (change_room(c, t->to.bytes, e) || gguf_read_tensor(t->from, c->piece, e) ||
		change_put(c, t, 0, c->piece, t->to.bytes, e) || change_pad(c, t, e))
		return -1;
	return change_step(c, gguf_tensor_weights(t->from), e);
}

/* ---- the text ---- */

bool change_reads(const struct change *c, int32_t layer)
{
	return c->text.engine && layer >= 0 && layer < engine_info(c->text.engine)->n_layers;
}

static int read_text(struct change *c, struct err *e)
{
	if (!c->reads)
		return 0;
	if (calibration_open(&c->text, gguf_path(c->g), c->o, e))
		return -1;
	c->r->n_calibration = c->text.n * c->text.length;
	snprintf(c->text_summary, sizeof c->text_summary, "%d tokens %s, hash %016llx",
		c->r->n_calibration, c->o->text ? "of a text" : "written by the model",
		(unsigned long long)c->text.hash);
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
		if (i < from ? c->ops->take(c->self, t, n, e)
					 : c->ops->write(c->self, t, n, e) ||
						   partial_seal(&c->file, layer, place_of(c, i), place_of(c, i + n), e))
			return -1;
	}
	return gguf_unchanged(c->g, e);
}

/* What the source says that it was rounded to, or the type of most of its weights. */
static void name_source(struct change *c)
{
	struct gguf_text stated = { 0 };
	enum k_type type = model_weight_type(c->g);
	char *name = c->r->source;

	snprintf(name, sizeof c->r->source, "%s", k_types[type].name);
	if (gguf_opt_text(c->g, QUANT_SUMMARY_KEY, &stated, NULL) && stated.size) {
		snprintf(name, sizeof c->r->source, "%.*s", (int)(stated.size < 31 ? stated.size : 31),
			stated.data);
		/* 16 bits are no quantisation */
		c->r->from_quantised = !form_type(name, &type);
	}
	c->r->from_quantised |= k_types[type].block > 1;
	c->r->source_bytes = (int64_t)gguf_file_bytes(c->g);
}

static int run(struct change *c, const char *out, struct err *e)
{
	const int threads = c->o->threads ? c->o->threads : (int)sysconf(_SC_NPROCESSORS_ONLN);
	int failed;

	name_source(c);
	if (k_open(&c->kernels, "cpu", NULL, threads, e) ||
		file_sha256_of(gguf_path(c->g), gguf_stamp(c->g), NULL, c->sha256, e) || read_text(c, e) ||
		open_plan(c, e) || c->ops->plan(c->self, e) || end_plan(c, e) ||
		partial_open(&c->file, out, c->plan.head.data, c->plan.head.size, e))
		return -1;
	failed = write_tensors(c, e) || (c->ops->finish && c->ops->finish(c->self, e)) ? -1 : 0;
	return partial_close(&c->file, failed, e);
}

int change_file(struct change *c, const char *in, const char *out, struct err *e)
{
	struct stat a, b;
	int rc;

	if (!stat(in, &a) && !stat(out, &b) && a.st_ino == b.st_ino && a.st_dev == b.st_dev)
		return err_set(e, ERR_USAGE, "%s is the source itself: choose another name", out);
	if (partial_is_free(out, e) || gguf_open(&c->g, in, e))
		return -1;
	rc = run(c, out, e);
	calibration_close(&c->text);
	gguf_head_free(&c->plan.head);
	free(c->plan.tensor);
	free(c->piece);
	gguf_close(c->g);
	k_close(c->kernels);
	return rc;
}
