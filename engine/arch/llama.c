/* Llama, and families that differ from it in a few things of each layer. */
#include "engine/arch/arch.h"

/* Llama 1 to 3, Mistral, SmolLM, TinyLlama … (Touvron et al. 2023): rotary pairs are neighbours. */
const struct arch arch_llama = { .name = "llama" };

/* BitNet b1.58 (Ma et al. 2024; Hugging Face's modeling_bitnet.py): a norm before the last product
 * of each block, and ternary weights, which a file may have in any format. */
static void bitnet_layer(struct arch_file *f, struct model *m, int32_t i)
{
	arch_attention(m, i)->on.inner = "attn_sub_norm.weight";
	arch_feed_forward(f, m, i)->on.inner = "ffn_sub_norm.weight";
}

const struct arch arch_bitnet = { .name = "bitnet", .halves = true, .layer = bitnet_layer };

/* Command R7B (Cohere 2024; Hugging Face's modeling_cohere2.py): attention and feed-forward read
 * the same layer norm; of four layers three see a window and are rotated, the fourth sees all and
 * is not. */
static void cohere2_layer(struct arch_file *f, struct model *m, int32_t i)
{
	struct attention *a = arch_attention(m, i);

	a->on = (struct residual){ .pre = "attn_norm.weight", .aside = true };
	arch_feed_forward(f, m, i)->on = (struct residual){ .pre = "attn_norm.weight", .joins = true };
	if ((i + 1) % 4)
		a->window = arch_int(f, "attention.sliding_window", -1, 1 << 24);
	else
		a->rope = ATTENTION_NO_ROPE;
}

static void cohere2_read(struct arch_file *f, struct model *m)
{
	arch_read_dense(f, m, false);
	m->logit_scale = (float)arch_real(f, "logit_scale", 1);
}

const struct arch arch_cohere2 = {
	.name = "cohere2", .centred = true, .read = cohere2_read, .layer = cohere2_layer
};

/* GLM 4 (GLM team 2024; Hugging Face's modeling_glm4.py): norms before and after each block, half
 * of a head rotated, gate and up in one tensor. */
static void glm4_layer(struct arch_file *f, struct model *m, int32_t i)
{
	struct feed_forward *w = arch_feed_forward(f, m, i);

	arch_attention(m, i)->on.post = "post_attention_norm.weight";
	w->on.post = "post_ffw_norm.weight";
	w->fused = true;
}

const struct arch arch_glm4 = { .name = "glm4", .layer = glm4_layer };

/* Hunyuan's dense models (Tencent 2025; Hugging Face's modeling_hunyuan_v1_dense.py): norms of
 * heads come after the rotation. */
static void hunyuan_layer(struct arch_file *f, struct model *m, int32_t i)
{
	(void)f;
	arch_attention(m, i)->norms = ATTENTION_LATE_NORMS;
}

const struct arch arch_hunyuan = {
	.name = "hunyuan-dense", .halves = true, .layer = hunyuan_layer
};

/* OLMo 2 (OLMo team 2024, section 3.2; Hugging Face's modeling_olmo2.py): norms of what blocks
 * give, none of what they read; norms of q and k over all heads. */
static void olmo2_layer(struct arch_file *f, struct model *m, int32_t i)
{
	struct attention *a = arch_attention(m, i);

	a->norms = ATTENTION_WHOLE_NORMS;
	a->on = (struct residual){ .post = "post_attention_norm.weight" };
	arch_feed_forward(f, m, i)->on = (struct residual){ .post = "post_ffw_norm.weight" };
}

const struct arch arch_olmo2 = { .name = "olmo2", .halves = true, .layer = olmo2_layer };

/* Phi-3 (Abdin et al. 2024; Hugging Face's modeling_phi3.py): q, k and v in one tensor, gate and up
 * in another. */
static void phi3_layer(struct arch_file *f, struct model *m, int32_t i)
{
	arch_attention(m, i)->fused = true;
	arch_attention(m, i)->window = arch_opt_int(f, "attention.sliding_window", 0, 1 << 24);
	arch_feed_forward(f, m, i)->fused = true;
}

const struct arch arch_phi3 = { .name = "phi3", .halves = true, .layer = phi3_layer };

/* Qwen 2 (Yang et al. 2024) has biases on q, k and v, which its tensors show, and rotary pairs half
 * a head apart; Qwen 3 (2025) has norms of each head instead. Both have mixtures of experts, the
 * former with one that all rows use. */
const struct arch arch_qwen2 = { .name = "qwen2", .halves = true };

static void qwen2moe_layer(struct arch_file *f, struct model *m, int32_t i)
{
	arch_read_router(f, arch_experts(f, m, i), K_ROUTE_all, false);
}

const struct arch arch_qwen2moe = { .name = "qwen2moe", .halves = true, .layer = qwen2moe_layer };

static void qwen3_layer(struct arch_file *f, struct model *m, int32_t i)
{
	(void)f;
	arch_attention(m, i)->norms = ATTENTION_HEAD_NORMS;
}

const struct arch arch_qwen3 = { .name = "qwen3", .halves = true, .layer = qwen3_layer };
const struct arch arch_qwen3moe = { .name = "qwen3moe", .halves = true, .layer = qwen3_layer };

/* SmolLM 3 (Hugging Face 2025; modeling_smollm3.py): every fourth layer has no rotary positions
 * (Yang et al. 2025). No key says which. */
static void smollm3_layer(struct arch_file *f, struct model *m, int32_t i)
{
	(void)f;
	if ((i + 1) % 4 == 0)
		arch_attention(m, i)->rope = ATTENTION_NO_ROPE;
}

const struct arch arch_smollm3 = { .name = "smollm3", .layer = smollm3_layer };
