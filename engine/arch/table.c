/* The table of known families, a line each (arch.h). */
#include "engine/arch/arch.h"

extern const struct arch arch_gemma3, arch_llama, arch_mamba, arch_phi3, arch_qwen2, arch_qwen3;

const struct arch *const arch_table[] = {
	&arch_gemma3,
	&arch_llama,
	&arch_mamba,
	&arch_phi3,
	&arch_qwen2,
	&arch_qwen3,
	NULL,
};
