/* The table of known families, a line each (arch.h). */
#include "engine/arch/arch.h"

extern const struct arch arch_bitnet, arch_cohere2, arch_deepseek2, arch_gemma2, arch_gemma3,
	arch_glm4, arch_gpt2, arch_gpt_oss, arch_gptneox, arch_granite, arch_granitemoe, arch_hunyuan,
	arch_llama, arch_mamba, arch_olmo2, arch_olmoe, arch_phi3, arch_qwen2, arch_qwen2moe,
	arch_qwen3, arch_qwen3moe, arch_smollm3;

const struct arch *const arch_table[] = {
	&arch_bitnet,
	&arch_cohere2,
	&arch_deepseek2,
	&arch_gemma2,
	&arch_gemma3,
	&arch_glm4,
	&arch_gpt2,
	&arch_gpt_oss,
	&arch_gptneox,
	&arch_granite,
	&arch_granitemoe,
	&arch_hunyuan,
	&arch_llama,
	&arch_mamba,
	&arch_olmo2,
	&arch_olmoe,
	&arch_phi3,
	&arch_qwen2,
	&arch_qwen2moe,
	&arch_qwen3,
	&arch_qwen3moe,
	&arch_smollm3,
	NULL,
};
