/* Granite 3 (IBM 2024; Hugging Face's modeling_granitemoe.py): Llama, dense or with experts, and
 * four factors: of the embedding, of scores, of what a block gives, and of logits, which are
 * divided by theirs. */
#include <math.h>

#include "engine/arch/arch.h"

static void granite_layer(struct arch_file *f, struct model *m, int32_t i)
{
	const float scale = (float)arch_real(f, "residual_scale", 1);
	struct attention *a = arch_attention(m, i);
	struct block *ffn = &m->layer[i].ffn;

	a->scale = (float)arch_real(f, "attention.scale", (double)a->scale);
	a->on.scale = scale;
	if (ffn->kind == &layer_experts)
		((struct experts *)ffn->params)->on.scale = scale;
	else
		((struct feed_forward *)ffn->params)->on.scale = scale;
}

static void granite_read(struct arch_file *f, struct model *m)
{
	double divisor;

	arch_read_dense(f, m, false);
	m->embed_scale = (float)arch_real(f, "embedding_scale", 0);
	divisor = arch_real(f, "logit_scale", 1);
	if (!(fabs(divisor) >= 1e-6))
		err_set(f->e, ERR_INPUT, "%s: logits would be divided by %g", gguf_path(f->g), divisor);
	else
		m->logit_scale = (float)(1 / divisor);
	arch_each_layer(f, m, granite_layer);
}

const struct arch arch_granite = { "granite", granite_read };
const struct arch arch_granitemoe = { "granitemoe", granite_read };
