/* Phi-3 (Abdin et al. 2024; Hugging Face's modeling_phi3.py): q, k and v in one tensor, gate and up
 * in another. */
#include "engine/arch/arch.h"

static void phi3_read(struct arch_file *f, struct model *m)
{
	int64_t window = 0;

	arch_read_dense(f, m, true);
	gguf_opt_i64(f->g, "phi3.attention.sliding_window", &window, f->e);
	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++) {
		struct feed_forward *w = arch_feed_forward(f, m, i);

		arch_attention(m, i)->fused = true;
		arch_attention(m, i)->window = (int32_t)window;
		if (w)
			w->fused = true;
	}
}

const struct arch arch_phi3 = { .name = "phi3", .read = phi3_read };
