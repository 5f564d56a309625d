/* SmolLM 3 (Hugging Face 2025; modeling_smollm3.py): Llama, but every fourth layer has no rotary
 * positions (Yang et al. 2025). No key says which. */
#include "engine/arch/arch.h"

enum { NO_ROPE_EVERY = 4 };

static void smollm3_layer(struct arch_file *f, struct model *m, int32_t i)
{
	(void)f;
	if ((i + 1) % NO_ROPE_EVERY == 0)
		arch_attention(m, i)->rope = ATTENTION_NO_ROPE;
}

static void smollm3_read(struct arch_file *f, struct model *m)
{
	arch_read_dense(f, m, false);
	arch_each_layer(f, m, smollm3_layer);
}

const struct arch arch_smollm3 = { .name = "smollm3", .read = smollm3_read };
