/* Hunyuan's dense models (Tencent 2025; Hugging Face's modeling_hunyuan_v1_dense.py): norms of
 * heads come after the rotation. */
#include "engine/arch/arch.h"

static void hunyuan_layer(struct arch_file *f, struct model *m, int32_t i)
{
	(void)f;
	arch_attention(m, i)->norms = ATTENTION_LATE_NORMS;
}

static void hunyuan_read(struct arch_file *f, struct model *m)
{
	arch_read_dense(f, m, true);
	arch_each_layer(f, m, hunyuan_layer);
}

const struct arch arch_hunyuan = { .name = "hunyuan-dense", .read = hunyuan_read };
