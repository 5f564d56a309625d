/* The table of known families, a line each (arch.h). */
#include "engine/arch/arch.h"

extern const struct arch arch_bitnet, arch_cohere2, arch_deepseek2, arch_dream, arch_falcon_h1,
	arch_gemma2, arch_gemma3, arch_gemma4, arch_glm4, arch_gpt2, arch_gpt_oss, arch_gptneox,
	arch_granite, arch_granitehybrid, arch_granitemoe, arch_hunyuan, arch_jamba, arch_lfm2,
	arch_lfm2moe, arch_llada, arch_llama, arch_mamba, arch_mamba2, arch_minimax, arch_mixed,
	arch_olmo2, arch_olmoe, arch_phi3, arch_qwen2, arch_qwen2moe, arch_qwen3, arch_qwen35,
	arch_qwen3moe, arch_qwen3next, arch_rwkv7, arch_smollm3, arch_t5;

const struct arch *const arch_table[] = { &arch_bitnet, &arch_cohere2, &arch_deepseek2, &arch_dream,
	&arch_falcon_h1, &arch_gemma2, &arch_gemma3, &arch_gemma4, &arch_glm4, &arch_gpt2,
	&arch_gpt_oss, &arch_gptneox, &arch_granite, &arch_granitehybrid, &arch_granitemoe,
	&arch_hunyuan, &arch_jamba, &arch_lfm2, &arch_lfm2moe, &arch_llada, &arch_llama, &arch_mamba,
	&arch_mamba2, &arch_minimax, &arch_mixed, &arch_olmo2, &arch_olmoe, &arch_phi3, &arch_qwen2,
	&arch_qwen2moe, &arch_qwen3, &arch_qwen35, &arch_qwen3moe, &arch_qwen3next, &arch_rwkv7,
	&arch_smollm3, &arch_t5, NULL };
