/* Families with recurrent mixers, alone or between layers of attention. */
#include "engine/arch/arch.h"

static void check_states(struct arch_file *f, const struct matrix_states *s)
{
	if (!f->e->code && (s->inner % s->heads || s->heads % s->groups))
		gguf_bad(f->g, f->e, "%d channels, %d heads and %d groups do not divide each other",
			s->inner, s->heads, s->groups);
}

static void read_states(struct arch_file *f, struct matrix_states *s)
{
	s->inner = arch_int(f, "ssm.inner_size", -1, 1 << 16);
	s->n_states = arch_int(f, "ssm.state_size", -1, 1 << 10);
	s->heads = arch_int(f, "ssm.time_step_rank", -1, 1 << 12);
	s->groups = arch_int(f, "ssm.group_count", -1, 1 << 10);
	s->taps = arch_int(f, "ssm.conv_kernel", -1, K_CONV_TAPS);
	check_states(f, s);
}

/* ---- Mamba ---- */

struct mamba *arch_add_mamba(struct arch_file *f, struct model *m, int32_t i)
{
	struct mamba *a = arch_add_block(f, &m->layer[i].mixer, &layer_mamba);

	a->on.pre = "attn_norm.weight";
	a->inner = arch_int(f, "ssm.inner_size", -1, 1 << 16);
	a->n_states = arch_int(f, "ssm.state_size", -1, K_SCAN_STATES);
	a->rank = arch_int(f, "ssm.time_step_rank", -1, 1 << 12);
	a->taps = arch_int(f, "ssm.conv_kernel", -1, K_CONV_TAPS);
	return a;
}

void arch_mamba_layer(struct arch_file *f, struct model *m, int32_t i)
{
	arch_add_mamba(f, m, i);
}

/* Mamba (Gu and Dao 2023): layers of one recurrent block and no feed-forward. */
const struct arch arch_mamba = {
	.name = "mamba", .read = arch_read_stream, .layer = arch_mamba_layer
};

struct mamba2 *arch_add_mamba2(struct arch_file *f, struct block *b)
{
	struct mamba2 *a = arch_add_block(f, b, &layer_mamba2);

	a->on.pre = "attn_norm.weight";
	read_states(f, &a->s);
	return a;
}

void arch_mamba2_layer(struct arch_file *f, struct model *m, int32_t i)
{
	arch_add_mamba2(f, &m->layer[i].mixer)->normed = true;
}

/* Mamba-2 (Dao and Gu 2024): layers of one recurrent block and no feed-forward. */
const struct arch arch_mamba2 = {
	.name = "mamba2", .read = arch_read_stream, .layer = arch_mamba2_layer
};

/* Jamba (Lieber et al. 2024; Hugging Face's modeling_jamba.py): Mamba with norms of its inputs, in
 * some layers attention that knows no positions; some feed-forwards are mixtures of experts. */
static void jamba_layer(struct arch_file *f, struct model *m, int32_t i)
{
	if (!arch_has(f, i, "ffn_gate_inp.weight"))
		arch_add_feed_forward(f, m, i);
	else
		arch_read_router(f, arch_experts(f, m, i), K_ROUTE_all, false);
	if (!arch_kv_heads(f, m, i))
		arch_add_mamba(f, m, i)->normed = true;
}

const struct arch arch_jamba = {
	.name = "jamba", .read = arch_read_without_rope, .layer = jamba_layer
};

/* Falcon-H1 (Zuo et al. 2025; Hugging Face's modeling_falcon_h1.py): in each layer attention and
 * Mamba-2 read the same norm, and both are added. A tensor's name lacks its end. */
static void falcon_h1_layer(struct arch_file *f, struct model *m, int32_t i)
{
	struct mamba2 *s;

	arch_feed_forward(f, m, i)->on.pre = "ffn_norm";
	arch_attention(m, i)->on.aside = true;
	s = arch_add_mamba2(f, arch_add_pair(f, &m->layer[i].mixer));
	s->on.joins = true;
	s->normed = arch_has(f, i, "ssm_norm.weight");
}

const struct arch arch_falcon_h1 = {
	.name = "falcon-h1", .halves = true, .layer = falcon_h1_layer
};

/* ---- lightning attention and the delta rule ---- */

/* Whether layer i is recurrent: by attention.recurrent_layers, else all but every so many-th. */
static bool is_recurrent(struct arch_file *f, const struct model *m, int32_t every, int32_t i)
{
	int64_t recurrent[ARCH_LAYERS] = { 0 };

	if (arch_each(f, m, "attention.recurrent_layers", recurrent))
		return recurrent[i];
	return (i + 1) % arch_int(f, "full_attention_interval", every, 1 << 16);
}

struct lightning *arch_add_lightning(struct arch_file *f, struct model *m, int32_t i)
{
	const struct model_config *c = &m->config;
	struct lightning *a = arch_add_block(f, &m->layer[i].mixer, &layer_lightning);

	a->on.pre = "attn_norm.weight";
	a->heads = c->n_heads;
	a->head_dim = c->head_dim;
	a->share = c->n_layers > 1 ? 1 - (double)i / (c->n_layers - 1) + 1e-5 : 1 + 1e-5;
	return a;
}

/* MiniMax-01 (arXiv 2501.08313; Hugging Face's modeling_minimax.py): lightning attention in most
 * layers, softmax attention in the others, and experts; what a block gives is added to its normed
 * input, not to the stream. */
static void minimax_layer(struct arch_file *f, struct model *m, int32_t i)
{
	const float scale = (float)arch_real(f, "residual_scale", 1);

	arch_experts(f, m, i)->on.normed = scale; /* there is no other form */
	if (is_recurrent(f, m, 8, i))
		arch_add_lightning(f, m, i)->on.normed = scale;
	else
		arch_attention(m, i)->on.normed = scale;
}

const struct arch arch_minimax = { .name = "minimax-01", .halves = true, .layer = minimax_layer };

/* Qwen3-Next and Qwen 3.5 (Qwen team 2025, 2026; Hugging Face's modeling_qwen3_next.py): gated
 * delta rule in most layers, gated attention with norms of each head in the others. The first has
 * experts and one tensor of rates; the second has reordered its value heads. */
static void add_qwen_mixer(struct arch_file *f, struct model *m, int32_t i, bool next)
{
	struct delta *d;

	if (!is_recurrent(f, m, 4, i)) {
		arch_attention(m, i)->gated = true;
		arch_attention(m, i)->norms = ATTENTION_HEAD_NORMS;
		return;
	}
	d = arch_add_block(f, &m->layer[i].mixer, &layer_delta);
	d->on.pre = "attn_norm.weight";
	read_states(f, &d->s);
	d->together = next;
	d->in_turn = !next;
}

static void qwen35_layer(struct arch_file *f, struct model *m, int32_t i)
{
	arch_feed_forward(f, m, i)->on.pre = "post_attention_norm.weight";
	add_qwen_mixer(f, m, i, false);
}

static void qwen3next_layer(struct arch_file *f, struct model *m, int32_t i)
{
	struct experts *x = arch_experts(f, m, i);

	x->on.pre = "post_attention_norm.weight";
	arch_read_router(f, x, K_ROUTE_chosen, true);
	add_qwen_mixer(f, m, i, true);
}

const struct arch arch_qwen35 = { .name = "qwen35", .halves = true, .layer = qwen35_layer };
const struct arch arch_qwen3next = {
	.name = "qwen3next", .halves = true, .layer = qwen3next_layer
};
