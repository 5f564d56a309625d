/* Attention heads by what they add to the residual stream (Michel et al. 2019, "Are sixteen heads
 * really better than one?", asks the same by gradients): the sum of |W x|² over a text, x being a
 * head's output and W its columns of attn_output. Query heads go equally from all groups that share
 * keys and values; with `kv-heads` whole groups go, and the cache becomes smaller, too. */
#include "engine/core/engine_impl.h"
#include "engine/observe/influence.h"
#include "lab/prune_impl.h"

enum { MOST = 1024 }; /* heads: engine/arch/arch.c */

static int say(struct prune *p, int32_t heads, int32_t kv_heads, struct err *e)
{
	const struct model_config *m = prune_config(p);

	return prune_set_number(p, "attention.head_count", (uint32_t)(m->n_heads - heads), e) ||
				   prune_set_number(
					   p, "attention.head_count_kv", (uint32_t)(m->n_kv_heads - kv_heads), e) ||
				   prune_set_number(p, "attention.key_length", (uint32_t)m->head_dim, e) ||
				   prune_set_number(p, "attention.value_length", (uint32_t)m->head_dim, e)
			   ? -1
			   : 0;
}

static int plan_heads(struct prune *p, struct err *e)
{
	const struct model_config *m = prune_config(p);
	const int32_t k = p->o->remove;

	if (k < 1 || k > m->n_heads - m->n_kv_heads || k % m->n_kv_heads)
		return err_set(e, ERR_USAGE,
			"--remove %d: of %d heads that share keys and values in %d groups, each group loses as "
			"many and keeps one at least: %s%d, %d … %d are possible; --method kv-heads removes "
			"whole groups",
			k, m->n_heads, m->n_kv_heads, m->n_heads > m->n_kv_heads ? "" : "none of ",
			m->n_kv_heads, 2 * m->n_kv_heads, m->n_heads - m->n_kv_heads);
	snprintf(p->r->what, sizeof p->r->what, "%d of %d heads", k, m->n_heads);
	return say(p, k, 0, e) || prune_plan_parts(p, k, 0, 0, e) ? -1 : 0;
}

static int plan_kv_heads(struct prune *p, struct err *e)
{
	const struct model_config *m = prune_config(p);
	const int32_t k = p->o->remove, heads = k * (m->n_heads / m->n_kv_heads);

	if (k < 1 || k >= m->n_kv_heads)
		return err_set(e, ERR_USAGE,
			"--remove %d: 1 to %d of %d heads of keys and values is possible, so that one is left",
			k, m->n_kv_heads - 1, m->n_kv_heads);
	snprintf(p->r->what, sizeof p->r->what, "%d of %d kv-heads", k, m->n_kv_heads);
	return say(p, heads, k, e) || prune_plan_parts(p, heads, k, 0, e) ? -1 : 0;
}

/* Of n groups of `width` columns of attn_output each. */
static int measure(struct prune *p, const struct layer_parts *parts, const struct quant_input *in,
	int32_t n, int32_t width, float *score, struct err *e)
{
	const struct layer_part *out = layer_part_find(parts, "attn_output.weight");
	const float *h = in[INPUT_OUT].hessian;

	if (!out || in[INPUT_OUT].n != n * width || out->cols != n * width)
		return err_set(e, ERR_INPUT, "a layer has no attn_output.weight of %d columns", n * width);
	for (int32_t i = 0; i < n; i++) {
		const size_t at = (size_t)i * (size_t)width;
		const double v = columns_importance(out->w, out->rows, out->cols, (int32_t)at, width,
			h + at * (size_t)out->cols + at, out->cols);

		score[i] = (float)v;
		p->all += v;
	}
	return 0;
}

/* Whole groups go with their query heads; or of each group as many of these. */
static int mark_heads(struct prune *p, const struct layer_parts *parts,
	const struct quant_input *in, struct prune_gone *gone, struct err *e)
{
	const struct model_config *m = prune_config(p);
	const int32_t of_group = m->n_heads / m->n_kv_heads, k = p->heads / m->n_kv_heads;
	const bool groups = p->kv_heads > 0;
	const int32_t n = groups ? m->n_kv_heads : m->n_heads, among = groups ? n : of_group;
	bool *marks = groups ? gone->kv_head : gone->head;
	float score[MOST], scratch[MOST];

	if (measure(p, parts, in, n, m->n_heads / n * m->head_dim, score, e))
		return -1;
	for (int32_t at = 0; at < n; at += among)
		if (prune_mark(p, score + at, among, groups ? p->kv_heads : k, marks + at, scratch, e))
			return -1;
	for (int32_t i = 0; groups && i < m->n_heads; i++)
		gone->head[i] = gone->kv_head[i / of_group];
	return 0;
}

const struct prune_method prune_heads = { .name = "heads",
	.kind = PRUNE_PARTS,
	.reads = true,
	.hessians = 1u << INPUT_OUT,
	.plan = plan_heads,
	.parts = mark_heads };
const struct prune_method prune_kv_heads = { .name = "kv-heads",
	.kind = PRUNE_PARTS,
	.reads = true,
	.hessians = 1u << INPUT_OUT,
	.plan = plan_kv_heads,
	.parts = mark_heads };
