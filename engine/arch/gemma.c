/* Gemma 2 and 3 (Gemma team 2024; 2025, section 2; Hugging Face's modeling_gemma2.py and
 * modeling_gemma3.py): norms before and after each block, GELU, an embedding times sqrt(dim). Of
 * Gemma 2 every second layer sees a window, and scores and logits have soft caps; of Gemma 3 five
 * layers of six, with a rotary base of their own, and heads have norms. */
#include "engine/arch/arch.h"

enum { GLOBAL_EVERY = 6 };

int32_t arch_gemma_layer(struct arch_file *f, struct model *m, int32_t i)
{
	struct feed_forward *w = arch_feed_forward(f, m, i);

	arch_attention(m, i)->on.post = "post_attention_norm.weight";
	w->on.post = "post_ffw_norm.weight";
	w->act = K_ACT_gelu;
	return arch_int(f, "attention.sliding_window", -1, 1 << 24);
}

void arch_read_gemma(struct arch_file *f, struct model *m)
{
	arch_read_dense(f, m, true);
	m->embed_scale = sqrtf((float)m->config.dim);
	m->logit_cap = (float)arch_real(f, "final_logit_softcapping", 0);
	if (m->logit_cap < 0)
		gguf_bad(f->g, f->e, "a soft cap of %g is out of range", (double)m->logit_cap);
}

static void gemma2_layer(struct arch_file *f, struct model *m, int32_t i)
{
	const int32_t window = arch_gemma_layer(f, m, i);

	arch_attention(m, i)->window = i % 2 ? 0 : window;
}

const struct arch arch_gemma2 = {
	.name = "gemma2", .read = arch_read_gemma, .layer = gemma2_layer
};

/* The second rotary table is that of the local layers. */
static void gemma3_read(struct arch_file *f, struct model *m)
{
	arch_read_gemma(f, m);
	if (!f->e->code)
		arch_add_rope(f, m, arch_real(f, "rope.freq_base_swa", 10000), true, false);
}

static void gemma3_layer(struct arch_file *f, struct model *m, int32_t i)
{
	const int32_t window = arch_gemma_layer(f, m, i);
	struct attention *a = arch_attention(m, i);

	a->norms = ATTENTION_HEAD_NORMS;
	if ((i + 1) % GLOBAL_EVERY) {
		a->window = window;
		a->rope = m->n_ropes - 1;
	}
}

const struct arch arch_gemma3 = { .name = "gemma3", .read = gemma3_read, .layer = gemma3_layer };
