/* Gemma 4 (Gemma team 2026; Hugging Face's modeling_gemma4.py): Gemma 3 with heads of two sizes,
 * norms of values, inputs of each layer alone, and last layers that read the keys and values of
 * earlier ones. */
#include "engine/arch/arch.h"

/* What the file says of all layers. */
struct gemma4 {
	int64_t local[ARCH_LAYERS];     /* of each layer: does it see a window? */
	int32_t window, head_dim, rope; /* of those that do */
	int32_t n_own;                  /* layers with keys and values of their own: the first ones */
};

/* Values of local layers are as long as their keys, and heads fit the kernels. */
static int32_t local_head_dim(struct arch_file *f, const struct model_config *c)
{
	const int32_t dim = arch_int(f, "attention.key_length_swa", c->head_dim, K_MAX_HEAD_DIM);
	const int32_t value = arch_int(f, "attention.value_length_swa", dim, K_MAX_HEAD_DIM);

	if (!f->e->code && (value != dim || dim % 8))
		gguf_bad(f->g, f->e,
			"local heads with keys of %d dimensions and values of %d are not supported (the "
			"same, and a multiple of 8)",
			dim, value);
	return dim;
}

static void read_kinds(struct arch_file *f, struct model *m, struct gemma4 *all)
{
	const int32_t n = m->config.n_layers;
	int32_t dim;

	if (!arch_each(f, m, "attention.sliding_window_pattern", all->local)) {
		err_set(f->e, ERR_INPUT,
			"%s has no %s.attention.sliding_window_pattern, which a model needs", gguf_path(f->g),
			f->arch->name);
		return;
	}
	all->n_own = n - arch_opt_int(f, "attention.shared_kv_layers", 0, n - 1);
	all->head_dim = local_head_dim(f, &m->config);
	dim = arch_int(f, "rope.dimension_count_swa", all->head_dim, 1 << 12);
	if (dim > all->head_dim)
		gguf_bad(f->g, f->e, "rope dimension %d does not fit local heads of %d dimensions", dim,
			all->head_dim);
	all->rope = arch_add_rope_of(f, m, dim, arch_real(f, "rope.freq_base_swa", 10000), true, false);
}

/* The last layer with keys of its own that sees what layer i sees. */
static void set_source(struct arch_file *f, struct model *m, int32_t i, const struct gemma4 *all)
{
	struct attention *a = arch_attention(m, i);
	int32_t from = all->n_own - 1;

	while (from >= 0 && !all->local[from] != !all->local[i])
		from--;
	if (from < 0) {
		gguf_bad(f->g, f->e, "no layer has keys and values for layer %d to share", i);
		return;
	}
	a->from = arch_attention(m, from);
	a->from_layer = from;
	a->n_kv_heads = a->from->n_kv_heads;
}

static void set_attention(struct arch_file *f, struct model *m, int32_t i, const struct gemma4 *all)
{
	struct attention *a = arch_attention(m, i);

	a->norms = ATTENTION_HEAD_NORMS;
	a->value_norm = true;
	a->scale = 1;
	if (all->local[i]) {
		a->window = all->window;
		a->rope = all->rope;
		a->head_dim = all->head_dim;
	}
	if (i >= all->n_own)
		set_source(f, m, i, all);
}

/* A number that the file keeps as a tensor; 0: there is none. */
static float output_scale(struct arch_file *f, int32_t i)
{
	const struct gguf_tensor *t;
	float scale = 0;
	char name[64];

	snprintf(name, sizeof name, "blk.%d.layer_output_scale.weight", i);
	t = gguf_find(f->g, name);
	if (!t || f->e->code)
		return 0;
	if (t->type != K_F32 || t->n_dims != 1 || t->dim[0] != 1)
		gguf_bad(f->g, f->e, "%s must be one F32 value", name);
	else if (!gguf_read_tensor(t, &scale, f->e) && (!isfinite(scale) || scale == 0))
		gguf_bad(f->g, f->e, "%s is %g", name, (double)scale);
	return scale;
}

/* After the feed-forward: the layer's input, if it has one, and the scale. */
static void add_input(struct arch_file *f, struct model *m, int32_t i)
{
	struct block *after = arch_add_pair(f, &m->layer[i].ffn);
	struct layer_input *a = arch_add_block(f, after, &layer_layer_input);

	a->on.post = "post_norm.weight";
	a->width = m->inputs.each;
	a->stride = m->inputs.width;
	a->first = i * a->width;
	a->scale = output_scale(f, i);
}

static void read_inputs(struct arch_file *f, struct model *m)
{
	struct model_inputs *in = &m->inputs;

	in->each = arch_opt_int(f, "embedding_length_per_layer_input", 0, 1 << 12);
	in->width = in->each * m->config.n_layers;
	if (in->each % 8)
		gguf_bad(f->g, f->e, "inputs of %d dimensions a layer are no multiple of 8", in->each);
}

static void gemma4_read(struct arch_file *f, struct model *m)
{
	struct gemma4 all = { 0 };

	arch_read_gemma(f, m);
	read_kinds(f, m, &all);
	read_inputs(f, m);
	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++) {
		all.window = arch_gemma_layer(f, m, i);
		set_attention(f, m, i, &all);
		add_input(f, m, i);
	}
}

const struct arch arch_gemma4 = { .name = "gemma4", .read = gemma4_read };
