/* Gemma 3 (Gemma team 2025, section 2; Hugging Face's modeling_gemma3.py): norms before and after
 * each block and of each head, GELU, an embedding times sqrt(dim); of six layers five see a window,
 * with a rotary base of their own. */
#include <math.h>

#include "engine/arch/arch.h"

enum { GLOBAL_EVERY = 6 };

static void gemma3_layer(
	struct attention *a, struct feed_forward *w, int32_t i, int32_t window, int32_t local)
{
	a->head_norms = true;
	a->post = "post_attention_norm.weight";
	w->post = "post_ffw_norm.weight";
	w->act = K_ACT_gelu;
	if ((i + 1) % GLOBAL_EVERY) {
		a->window = window;
		a->rope = local;
	}
}

static void gemma3_read(struct arch_file *f, struct model *m)
{
	int32_t window, local;

	arch_read_dense(f, m, true);
	window = arch_int(f, "attention.sliding_window", -1, 1 << 24);
	if (f->e->code)
		return;
	m->embed_scale = sqrtf((float)m->config.dim);
	local = arch_add_rope(f, m, arch_real(f, "rope.freq_base_swa", 10000), true, false);
	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++) {
		struct feed_forward *w = arch_feed_forward(f, m, i);

		if (w)
			gemma3_layer(arch_attention(m, i), w, i, window, local);
	}
}

const struct arch arch_gemma3 = { "gemma3", gemma3_read };
