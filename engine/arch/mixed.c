/* A decoder like Llama whose layers mix positions in different ways, as the file says for each:
 * attention, with a window or with an earlier layer's keys and values, Mamba in both forms, S4D,
 * linear or lightning attention. The models of `make family` are such (docs/family.md). */
#include "engine/arch/arch.h"

static void add_linear(struct arch_file *f, struct model *m, int32_t i)
{
	struct taylor *a = arch_add_block(f, &m->layer[i].mixer, &layer_taylor);

	a->on.pre = "attn_norm.weight";
	a->heads = m->config.n_heads;
	a->head_dim = m->config.head_dim;
	a->feature = arch_int(f, "linear.feature_length", -1, K_TAYLOR_DIM);
}

static void add_lightning(struct arch_file *f, struct model *m, int32_t i)
{
	arch_add_lightning(f, m, i);
}

static void add_s4d(struct arch_file *f, struct model *m, int32_t i)
{
	struct s4d *a = arch_add_block(f, &m->layer[i].mixer, &layer_s4d);

	a->on.pre = "attn_norm.weight";
	a->inner = arch_int(f, "ssm.inner_size", -1, 1 << 16);
	a->n_states = 2 * arch_int(f, "s4d.pole_count", -1, K_SCAN_STATES / 2);
}

static const struct {
	const char *name;
	void (*add)(struct arch_file *f, struct model *m, int32_t i); /* NULL: it is there already */
} mixers[] = {
	{ "attention", NULL },
	{ "lightning", add_lightning },
	{ "linear", add_linear },
	{ "mamba", arch_mamba_layer },
	{ "mamba2", arch_mamba2_layer },
	{ "s4d", add_s4d },
};

/* What the file calls the mixer of layer i. */
static void set_mixer(struct arch_file *f, struct model *m, int32_t i, const struct gguf_text *kind)
{
	for (size_t k = 0; k < sizeof mixers / sizeof *mixers; k++)
		if (gguf_text_is(kind, mixers[k].name)) {
			if (mixers[k].add)
				mixers[k].add(f, m, i);
			return;
		}
	gguf_bad(f->g, f->e,
		"the mixer of layer %d is \"%.*s\"; attention, lightning, linear, mamba, mamba2 and "
		"s4d are possible",
		i, (int)(kind->size < 40 ? kind->size : 40), kind->data);
}

static void set_mixers(struct arch_file *f, struct model *m)
{
	struct gguf_text kind[ARCH_LAYERS];
	char name[96];

	snprintf(name, sizeof name, "%s.mixers", f->arch->name);
	if (gguf_array_text(f->g, name, kind, m->config.n_layers, f->e))
		return;
	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++)
		set_mixer(f, m, i, &kind[i]);
}

static void set_windows(struct arch_file *f, struct model *m)
{
	int64_t window[ARCH_LAYERS];

	if (!arch_each(f, m, "attention.window", window))
		return;
	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++) {
		if (window[i] < 0 || window[i] > 1 << 24)
			gguf_bad(f->g, f->e, "the window of layer %d is %lld", i, (long long)window[i]);
		else if (m->layer[i].mixer.kind == &layer_attention)
			arch_attention(m, i)->window = (int32_t)window[i];
	}
}

/* An earlier layer that has keys and values, of the same window. */
static bool lends(const struct model *m, int32_t i, int64_t from)
{
	const struct attention *a = m->layer[i].mixer.params, *b;

	if (from < 0 || from >= i || m->layer[i].mixer.kind != &layer_attention ||
		m->layer[from].mixer.kind != &layer_attention)
		return false;
	b = m->layer[from].mixer.params;
	return !b->from && b->window == a->window;
}

/* Whose keys and values layers read: their own, or an earlier layer's. */
static void set_lenders(struct arch_file *f, struct model *m)
{
	int64_t from[ARCH_LAYERS];

	if (!arch_each(f, m, "attention.kv_from", from))
		return;
	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++) {
		if (from[i] == -1 || from[i] == i)
			continue;
		if (!lends(m, i, from[i])) {
			gguf_bad(f->g, f->e, "layer %d cannot read the keys and values of layer %lld", i,
				(long long)from[i]);
			return;
		}
		arch_attention(m, i)->from = arch_attention(m, (int32_t)from[i]);
		arch_attention(m, i)->from_layer = (int32_t)from[i];
	}
}

/* Feed-forwards without a gate, where the file names their activation. */
static void set_activation(struct arch_file *f, struct model *m)
{
	struct gguf_text act = { 0 };
	const bool named = gguf_opt_text(f->g, "cutaway-mixed.feed_forward.activation", &act, f->e);
	const bool square = named && gguf_text_is(&act, "relu2");

	if (named && !square && !gguf_text_is(&act, "relu"))
		gguf_bad(f->g, f->e, "activation \"%.*s\"; relu and relu2 are possible",
			(int)(act.size < 40 ? act.size : 40), act.data);
	for (int32_t i = 0; named && i < m->config.n_layers && !f->e->code; i++) {
		struct feed_forward *w = arch_feed_forward(f, m, i);

		w->plain = true;
		w->act = square ? K_ACT_relu2 : K_ACT_relu;
	}
}

static void mixed_read(struct arch_file *f, struct model *m)
{
	arch_read_dense(f, m, false);
	if (f->e->code)
		return;
	set_mixers(f, m);
	set_windows(f, m);
	set_lenders(f, m);
	set_activation(f, m);
}

const struct arch arch_mixed = { .name = "cutaway-mixed", .read = mixed_read };
