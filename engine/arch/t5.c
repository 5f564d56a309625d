/* T5 (Raffel et al. 2020): an encoder, and a decoder that reads what it gave. Scores are not scaled
 * and get a bias by distance, of which a stack's first layer has the table (section 2.1); RMS
 * norms, no rotation. The feed-forward has a gate with GELU (Shazeer 2020; T5 1.1, Flan-T5), or is
 * ReLU. */
#include "engine/arch/arch.h"

/* The bucket of a distance r up to `most`, of n for one direction: half of them have one distance
 * each, the others grow with its logarithm. What is added keeps a quotient that is whole so. */
static int32_t bucket_of(int32_t r, int32_t n)
{
	const int32_t each = n / 2;
	double at;

	if (r < each)
		return r;
	at = k_log64((double)r / each) / k_log64((double)K_DISTANCE / each) * (n - each) + 1e-9;
	return each + (int32_t)at < n ? each + (int32_t)at : n - 1;
}

static void fill_buckets(struct relative *a)
{
	const int32_t n = a->decodes ? a->n_buckets : a->n_buckets / 2;

	for (int32_t d = -K_DISTANCE; d <= K_DISTANCE; d++) {
		const int32_t later = a->decodes || d <= 0 ? 0 : n;

		a->bucket[d + K_DISTANCE] = a->decodes && d > 0 ? 0 : later + bucket_of(d < 0 ? -d : d, n);
	}
}

static void add_layer(struct arch_file *f, struct model *m, struct layer *l,
	const struct relative *like, bool decodes)
{
	const struct model_config *c = &m->config;
	struct relative *a = arch_add_block(f, &l->mixer, &layer_relative);
	struct feed_forward *w;

	a->n_heads = c->n_heads;
	a->head_dim = c->head_dim;
	a->decodes = decodes;
	a->like = like;
	a->n_buckets = arch_int(f, "attention.relative_buckets_count", 32, 2 * K_DISTANCE);
	a->on.pre = "attn_norm.weight";
	a->cross_on.pre = "cross_attn_norm.weight";
	if (a->n_buckets % 4)
		gguf_bad(f->g, f->e, "%d buckets of distances; a multiple of 4 is needed", a->n_buckets);
	else
		fill_buckets(a);
	w = arch_add_block(f, &l->ffn, &layer_feed_forward);
	w->width = c->ffn;
	w->on.pre = "ffn_norm.weight";
	w->plain = !gguf_find(f->g, "dec.blk.0.ffn_gate.weight");
	w->act = w->plain ? K_ACT_relu : K_ACT_gelu;
}

/* The layers of both stacks; the file's number is the encoder's. */
static int32_t take_layers(struct arch_file *f, struct model *m)
{
	const int32_t n = m->config.n_layers;

	m->config.n_layers = arch_int(f, "decoder_block_count", n, ARCH_LAYERS);
	m->start = arch_opt_int(f, "decoder_start_token_id", 0, m->config.vocab - 1);
	if (m->config.n_kv_heads != m->config.n_heads)
		gguf_bad(f->g, f->e, "heads that share keys are not supported in this family");
	free(m->layer);
	m->layer = calloc((size_t)m->config.n_layers, sizeof *m->layer);
	m->encoder = calloc((size_t)n + 1, sizeof *m->encoder);
	if (!m->layer || !m->encoder)
		err_no_memory(f->e, "%d layers", n + m->config.n_layers);
	m->n_encoder = n + 1;
	return n;
}

static void t5_read(struct arch_file *f, struct model *m)
{
	struct bridge *b;
	int32_t n;

	arch_read_config(f, m);
	if (f->e->code)
		return;
	n = take_layers(f, m);
	for (int32_t i = 0; i < m->config.n_layers && !f->e->code; i++)
		add_layer(f, m, &m->layer[i], i ? m->layer[0].mixer.params : NULL, true);
	for (int32_t i = 0; i < n && !f->e->code; i++)
		add_layer(f, m, &m->encoder[i], i ? m->encoder[0].mixer.params : NULL, false);
	if (f->e->code)
		return;
	b = arch_add_block(f, &m->encoder[n].mixer, &layer_bridge);
	b->n = m->config.n_layers;
	b->width = m->config.n_heads * m->config.head_dim;
	b->decoder = m->layer;
	m->final_norm = "dec.output_norm.weight";
}

const struct arch arch_t5 = { .name = "t5", .read = t5_read };
