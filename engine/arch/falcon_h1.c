/* Falcon-H1 (Zuo et al. 2025; Hugging Face's modeling_falcon_h1.py): in each layer attention and
 * Mamba-2 read the same norm, and both are added. A tensor's name lacks its end. */
#include <stdio.h>

#include "engine/arch/arch.h"

static void falcon_layer(struct arch_file *f, struct model *m, int32_t i)
{
	struct feed_forward *w = arch_feed_forward(f, m, i);
	struct block attention = m->layer[i].mixer;
	struct pair *a;
	struct mamba2 *s;
	char name[64];

	if (!w)
		return;
	w->on.pre = "ffn_norm";
	m->layer[i].mixer = (struct block){ 0 };
	a = arch_add_block(f, &m->layer[i].mixer, &layer_pair);
	if (!a) {
		block_free(&attention);
		return;
	}
	a->first = attention;
	s = arch_add_mamba2(f, &a->second);
	snprintf(name, sizeof name, "blk.%d.ssm_norm.weight", i);
	((struct attention *)a->first.params)->on.aside = true;
	if (!s)
		return;
	s->on.joins = true;
	s->normed = gguf_find(f->g, name) != NULL;
}

static void falcon_h1_read(struct arch_file *f, struct model *m)
{
	arch_read_dense(f, m, true);
	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++)
		falcon_layer(f, m, i);
}

const struct arch arch_falcon_h1 = { .name = "falcon-h1", .read = falcon_h1_read };
