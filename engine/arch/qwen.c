/* Qwen 2 (Yang et al. 2024): Llama with biases on q, k and v, which the tensors tell; rotary pairs are half a head
 * apart. */
#include "engine/arch/arch.h"

static void qwen2_read(struct arch_file *f, struct model *m)
{
	arch_read_dense(f, m, true);
}

const struct arch arch_qwen2 = { "qwen2", qwen2_read };
