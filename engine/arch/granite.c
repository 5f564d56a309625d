/* Granite 3 and 4 (IBM 2024, 2025; Hugging Face's modeling_granitemoe.py, -hybrid.py): Llama, dense
 * or with experts, and four factors: of the embedding, of scores, of what a block gives, and of
 * logits, which are divided by theirs. Hybrids have Mamba-2 in the layers without key-value heads;
 * the key rope.scaling.finetuned says whether positions turn anything. */
#include "engine/arch/arch.h"

/* The mixer, of a hybrid too; returns where its result goes. */
static struct residual *granite_mixer(struct arch_file *f, struct model *m, int32_t i)
{
	struct attention *a = arch_attention(m, i);
	struct mamba2 *s;

	if (arch_kv_heads(f, m, i)) {
		a->scale = (float)arch_real(f, "attention.scale", (double)a->scale);
		return &a->on;
	}
	s = arch_add_mamba2(f, &m->layer[i].mixer);
	s->normed = true;
	return &s->on;
}

static void granite_layer(struct arch_file *f, struct model *m, int32_t i)
{
	const float scale = (float)arch_real(f, "residual_scale", 1);
	struct block *ffn = &m->layer[i].ffn;

	granite_mixer(f, m, i)->scale = scale;
	if (ffn->kind == &layer_experts)
		((struct experts *)ffn->params)->on.scale = scale;
	else
		((struct feed_forward *)ffn->params)->on.scale = scale;
}

static void granite_read(struct arch_file *f, struct model *m)
{
	double divisor;

	if (arch_bool(f, "rope.scaling.finetuned", true))
		arch_read_dense(f, m, false);
	else
		arch_read_without_rope(f, m);
	m->embed_scale = (float)arch_real(f, "embedding_scale", 0);
	divisor = arch_real(f, "logit_scale", 1);
	if (!(fabs(divisor) >= 1e-6))
		gguf_bad(f->g, f->e, "logits would be divided by %g", divisor);
	else
		m->logit_scale = (float)(1 / divisor);
}

const struct arch arch_granite = {
	.name = "granite", .read = granite_read, .layer = granite_layer
};
const struct arch arch_granitehybrid = {
	.name = "granitehybrid", .read = granite_read, .layer = granite_layer
};
const struct arch arch_granitemoe = {
	.name = "granitemoe", .read = granite_read, .layer = granite_layer
};
