/* Llama 1 to 3, Mistral, SmolLM, TinyLlama … (Touvron et al. 2023): rotary pairs are neighbours. */
#include "engine/arch/arch.h"

static void llama_read(struct arch_file *f, struct model *m)
{
	arch_read_dense(f, m, false);
}

const struct arch arch_llama = { .name = "llama", .read = llama_read };
