/* Parts of every layer: heads and inner channels. What the same number of each layer's leave is a
 * smaller model of the same family, in which tensors have fewer rows or columns. Rows, and whole
 * blocks of columns, keep their bytes; other columns are rounded again. Thread: any one. */
#include "engine/core/engine_impl.h"
#include "lab/prune_impl.h"
#include "kernels/format/encode.h"

/* What the places along one dimension of a tensor belong to: all query heads so many times, then
 * all heads of keys and values, then all channels. */
struct axis {
	const char *name;
	int dim; /* of a tensor: 0: its columns */
	int heads, kv_heads, channels;
};

static const struct axis axes[] = { { "attn_q.weight", 1, 1, 0, 0 }, { "attn_q.bias", 0, 1, 0, 0 },
	{ "attn_k.weight", 1, 0, 1, 0 }, { "attn_k.bias", 0, 0, 1, 0 }, { "attn_v.weight", 1, 0, 1, 0 },
	{ "attn_v.bias", 0, 0, 1, 0 }, { "attn_qkv.weight", 1, 1, 2, 0 },
	{ "attn_qkv.bias", 0, 1, 2, 0 }, { "attn_output.weight", 0, 1, 0, 0 },
	{ "ffn_gate.weight", 1, 0, 0, 1 }, { "ffn_gate.bias", 0, 0, 0, 1 },
	{ "ffn_up.weight", 1, 0, 0, 1 }, { "ffn_up.bias", 0, 0, 0, 1 },
	{ "ffn_down.weight", 0, 0, 0, 1 }, { "attn_q_norm.weight", 0, 1, 0, 0 },
	{ "attn_k_norm.weight", 0, 0, 1, 0 }, { "attn_sub_norm.weight", 0, 1, 0, 0 },
	{ "ffn_sub_norm.weight", 0, 0, 0, 1 } };

/* Of a tensor "blk.N.name"; false: it has no such parts. */
static bool find_axis(const struct gguf_tensor *t, const struct model_config *m, struct axis *out)
{
	const char *dot = strchr(t->name + strlen("blk."), '.');

	for (size_t i = 0; dot && i < ARRAY_N(axes); i++)
		if (!strcmp(dot + 1, axes[i].name)) {
			*out = axes[i];
			if (out->channels && t->dim[out->dim] == 2 * (int64_t)m->ffn)
				out->channels = 2; /* gate and up in one */
			/* norms of one head each are common to all heads */
			return t->n_dims > 1 || t->dim[0] != m->head_dim;
		}
	return false;
}

static int64_t places(
	const struct axis *a, int64_t heads, int64_t kv_heads, int64_t channels, int64_t head_dim)
{
	return (a->heads * heads + a->kv_heads * kv_heads) * head_dim + a->channels * channels;
}

/* ---- the plan ---- */

static int plan_tensor(struct prune *p, struct change_tensor *t, struct err *e)
{
	const struct model_config *m = prune_config(p);
	struct axis a;
	int64_t gone;

	if (!change_reads(p->c, t->layer))
		return 0;
	p->r->n_weights += change_is_matrix(t->from) ? gguf_tensor_weights(t->from) : 0;
	if (!find_axis(t->from, m, &a))
		return 0;
	gone = places(&a, p->heads, p->kv_heads, p->channels, m->head_dim);
	if (t->from->dim[a.dim] != places(&a, m->n_heads, m->n_kv_heads, m->ffn, m->head_dim))
		return err_set(
			e, ERR_INPUT, "tensor %s has another shape than the model's others", t->from->name);
	t->changed = gone > 0;
	t->to.dim[a.dim] -= gone;
	p->r->n_gone += gguf_tensor_weights(t->from) - gguf_tensor_weights(&t->to);
	return change_check_blocks(t, "remove a number that leaves whole blocks", e);
}

int prune_plan_parts(
	struct prune *p, int32_t heads, int32_t kv_heads, int32_t channels, struct err *e)
{
	p->heads = heads;
	p->kv_heads = kv_heads;
	p->channels = channels;
	for (int32_t i = 0; i < p->c->plan.n; i++)
		if (plan_tensor(p, &p->c->plan.tensor[i], e))
			return -1;
	return 0;
}

/* ---- a layer ---- */

static bool *mark(bool *to, const bool *gone, int32_t n, int32_t unit, int times)
{
	for (int64_t i = 0; i < (int64_t)times * n; i++)
		for (int32_t k = 0; k < unit; k++)
			*to++ = gone[i % n];
	return to;
}

/* Whether each block of a row goes or stays as a whole. */
static bool whole_blocks(const struct layer_part *p, const bool *gone)
{
	const int32_t block = k_types[p->t->to.type].block;

	for (int32_t at = 0; at < p->cols; at += block)
		if (memcmp(gone + at, gone + at + 1, (size_t)(block - 1) * sizeof *gone) != 0)
			return false;
	return true;
}

static void copy_blocks(const struct layer_part *p, int64_t r, const bool *gone, uint8_t *out)
{
	const struct k_type_info *type = &k_types[p->t->to.type];
	const size_t bytes = (size_t)type->block_bytes;
	const uint8_t *raw = p->raw + (size_t)r * (p->t->from->bytes / (size_t)p->rows);

	for (int32_t at = 0; at < p->cols; at += type->block, raw += bytes)
		if (!gone[at]) {
			memcpy(out, raw, bytes);
			out += bytes;
		}
}

/* buf [cols]. */
static void round_again(
	const struct layer_part *p, int64_t r, const bool *gone, float *buf, uint8_t *out)
{
	int32_t n = 0;

	for (int32_t i = 0; i < p->cols; i++)
		if (!gone[i])
			buf[n++] = p->w[r * p->cols + i];
	k_encode(p->t->to.type, buf, n, out);
}

/* The layer for the text: columns that are gone are zero, the others as the result has them. */
static void spread_row(
	struct layer_part *p, int64_t r, const bool *gone, float *buf, const uint8_t *out)
{
	float *w = p->w + r * p->cols;

	k_decode(p->t->to.type, out, (int32_t)p->t->to.dim[0], buf);
	for (int32_t i = 0; i < p->cols; i++)
		w[i] = gone[i] ? 0 : *buf++;
}

static void cut_columns(struct layer_part *p, const bool *gone, float *buf)
{
	const bool whole = whole_blocks(p, gone);

	for (int64_t r = 0; r < p->rows; r++) {
		uint8_t *out = p->out + (size_t)r * (p->t->to.bytes / (size_t)p->rows);

		if (whole)
			copy_blocks(p, r, gone, out);
		else
			round_again(p, r, gone, buf, out);
		spread_row(p, r, gone, buf, out);
	}
}

static void cut_rows(struct layer_part *p, const bool *gone)
{
	const size_t bytes = p->t->from->bytes / (size_t)p->rows;
	uint8_t *out = p->out;

	for (int64_t r = 0; r < p->rows; r++)
		if (!gone[r]) {
			memcpy(out, p->raw + (size_t)r * bytes, bytes);
			out += bytes;
		}
}

static int cut_part(
	struct prune *p, struct layer_part *part, const struct prune_gone *gone, struct err *e)
{
	const struct model_config *m = prune_config(p);
	struct axis a = { 0 };
	bool *marks, *end;
	float *buf;

	if (!part->t->changed || !find_axis(part->t->from, m, &a))
		return 0;
	marks = malloc((size_t)part->t->from->dim[a.dim] * sizeof *marks);
	buf = malloc((size_t)part->cols * sizeof *buf);
	if (marks && buf) {
		end = mark(marks, gone->head, m->n_heads, m->head_dim, a.heads);
		end = mark(end, gone->kv_head, m->n_kv_heads, m->head_dim, a.kv_heads);
		mark(end, gone->channel, m->ffn, 1, a.channels);
		if (a.dim)
			cut_rows(part, marks);
		else
			cut_columns(part, marks, buf);
	} else {
		err_no_memory(e, "tensor %s", part->t->from->name);
	}
	free(marks);
	free(buf);
	return e->code ? -1 : 0;
}

int prune_cut(
	struct prune *p, struct layer_parts *parts, const struct quant_input *in, struct err *e)
{
	const struct model_config *m = prune_config(p);
	bool *all = calloc((size_t)(m->n_heads + m->n_kv_heads + m->ffn), sizeof *all);
	struct prune_gone gone = { all, all + m->n_heads, all + m->n_heads + m->n_kv_heads };

	if (!all)
		return err_no_memory(e, "the parts of a layer");
	if (!p->o->method->parts(p, parts, in, &gone, e))
		for (int32_t i = 0; i < parts->n && !e->code; i++)
			cut_part(p, &parts->part[i], &gone, e);
	free(all);
	return e->code ? -1 : 0;
}
