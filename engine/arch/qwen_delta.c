/* Qwen3-Next and Qwen 3.5 (Qwen team 2025, 2026; Hugging Face's modeling_qwen3_next.py): gated
 * delta rule in most layers, gated attention with norms of each head in the others. The first has
 * experts and one tensor of rates; the second has reordered its value heads. */
#include <stdio.h>

#include "engine/arch/arch.h"

void arch_read_recurrent(
	struct arch_file *f, const struct model *m, int32_t every, int64_t recurrent[ARCH_LAYERS])
{
	char name[96];

	if (f->e->code)
		return;
	snprintf(name, sizeof name, "%s.attention.recurrent_layers", f->arch->name);
	if (gguf_array_length(f->g, name) >= 0) {
		gguf_array_i64(f->g, name, recurrent, m->config.n_layers, f->e);
		return;
	}
	every = arch_int(f, "full_attention_interval", every, 1 << 16);
	for (int32_t i = 0; i < m->config.n_layers; i++)
		recurrent[i] = (i + 1) % every != 0;
}

static struct delta *add_delta(struct arch_file *f, struct model *m, int32_t i)
{
	struct delta *a = arch_add_block(f, &m->layer[i].mixer, &layer_delta);

	if (!a)
		return NULL;
	a->on.pre = "attn_norm.weight";
	a->inner = arch_int(f, "ssm.inner_size", -1, 1 << 16);
	a->n_states = arch_int(f, "ssm.state_size", -1, 1 << 10);
	a->heads = arch_int(f, "ssm.time_step_rank", -1, 1 << 12);
	a->groups = arch_int(f, "ssm.group_count", -1, 1 << 10);
	a->taps = arch_int(f, "ssm.conv_kernel", -1, K_CONV_TAPS);
	if (!f->e->code && (a->inner % a->heads || a->heads % a->groups))
		err_set(f->e, ERR_INPUT, "%s: %d channels, %d heads and %d groups do not divide each other",
			gguf_path(f->g), a->inner, a->heads, a->groups);
	return f->e->code ? NULL : a;
}

static void add_mixer(struct arch_file *f, struct model *m, int32_t i, bool recurrent, bool next)
{
	struct delta *d;

	if (!recurrent) {
		arch_attention(m, i)->gated = true;
		arch_attention(m, i)->norms = ATTENTION_HEAD_NORMS;
		return;
	}
	d = add_delta(f, m, i);
	if (!d)
		return;
	d->together = next;
	d->in_turn = !next;
}

static void qwen35_layer(struct arch_file *f, struct model *m, int32_t i, bool recurrent)
{
	struct feed_forward *w = arch_feed_forward(f, m, i);

	if (!w)
		return;
	w->on.pre = "post_attention_norm.weight";
	add_mixer(f, m, i, recurrent, false);
}

static void qwen3next_layer(struct arch_file *f, struct model *m, int32_t i, bool recurrent)
{
	struct experts *x = arch_experts(f, m, i);

	if (!x)
		return;
	x->on.pre = "post_attention_norm.weight";
	arch_read_router(f, x, K_ROUTE_chosen, true);
	add_mixer(f, m, i, recurrent, true);
}

static void read_layers(struct arch_file *f, struct model *m,
	void (*set)(struct arch_file *f, struct model *m, int32_t i, bool recurrent))
{
	int64_t recurrent[ARCH_LAYERS] = { 0 };

	arch_read_dense(f, m, true);
	arch_read_recurrent(f, m, 4, recurrent);
	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++)
		set(f, m, i, recurrent[i] != 0);
}

static void qwen35_read(struct arch_file *f, struct model *m)
{
	read_layers(f, m, qwen35_layer);
}

static void qwen3next_read(struct arch_file *f, struct model *m)
{
	read_layers(f, m, qwen3next_layer);
}

const struct arch arch_qwen35 = { .name = "qwen35", .read = qwen35_read };
const struct arch arch_qwen3next = { .name = "qwen3next", .read = qwen3next_read };
