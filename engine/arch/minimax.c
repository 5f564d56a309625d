/* MiniMax-01 (arXiv 2501.08313; Hugging Face's modeling_minimax.py): lightning attention in most
 * layers, softmax attention in the others, and experts; what a block gives is added to its normed
 * input, not to the stream. */
#include "engine/arch/arch.h"

struct lightning *arch_add_lightning(struct arch_file *f, struct model *m, int32_t i)
{
	const struct model_config *c = &m->config;
	struct lightning *a = arch_add_block(f, &m->layer[i].mixer, &layer_lightning);

	if (!a)
		return NULL;
	a->on.pre = "attn_norm.weight";
	a->heads = c->n_heads;
	a->head_dim = c->head_dim;
	a->share = c->n_layers > 1 ? 1 - (double)i / (c->n_layers - 1) + 1e-5 : 1 + 1e-5;
	return a;
}

static void minimax_layer(struct arch_file *f, struct model *m, int32_t i, bool recurrent)
{
	const float scale = (float)arch_real(f, "residual_scale", 1);
	struct experts *x = arch_experts(f, m, i); /* there is no other form */

	if (recurrent)
		arch_add_lightning(f, m, i);
	if (f->e->code)
		return;
	x->on.normed = scale;
	if (recurrent)
		((struct lightning *)m->layer[i].mixer.params)->on.normed = scale;
	else
		arch_attention(m, i)->on.normed = scale;
}

static void minimax_read(struct arch_file *f, struct model *m)
{
	int64_t recurrent[ARCH_LAYERS] = { 0 };

	arch_read_dense(f, m, true);
	arch_read_recurrent(f, m, 8, recurrent);
	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++)
		minimax_layer(f, m, i, recurrent[i] != 0);
}

const struct arch arch_minimax = { .name = "minimax-01", .read = minimax_read };
