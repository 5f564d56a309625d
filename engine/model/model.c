/* See model.h; a file is opened in engine/arch/open.c. */
#include "engine/model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *model_sees_ahead(const struct model *m)
{
	return m->diffusion.on ? "the rows of a diffusion model"
		   : m->n_encoder  ? "an encoder's rows"
						   : NULL;
}

bool model_turns(const struct model *m)
{
	for (int32_t i = 0; i < m->config.n_layers; i++) {
		const struct block *b = &m->layer[i].mixer;

		if (b->kind == &layer_attention &&
			((const struct attention *)b->params)->norms == ATTENTION_LATE_NORMS)
			return false;
	}
	return !m->learned_positions;
}

enum k_type model_weight_type(const struct gguf *g)
{
	size_t bytes[K_N_TYPES] = { 0 };
	int most = 0;

	for (int32_t i = 0; i < gguf_n_tensors(g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);

		if (strstr(t->name, "blk.") && t->n_dims > 1)
			bytes[t->type] += t->bytes;
	}
	for (int i = 1; i < K_N_TYPES; i++)
		most = bytes[i] > bytes[most] ? i : most;
	return (enum k_type)most;
}

int32_t model_context(const struct gguf *g, struct err *e)
{
	struct gguf_text arch = { "", 0 };
	int64_t ctx = 0;
	char key[96];

	if (gguf_get_text(g, "general.architecture", &arch, e))
		return 0;
	snprintf(
		key, sizeof key, "%.*s.context_length", (int)(arch.size < 40 ? arch.size : 40), arch.data);
	if (gguf_get_i64(g, key, &ctx, e))
		return 0;
	if (ctx < 1 || ctx > 1 << 24)
		gguf_bad(g, e, "%s is %lld; 1 to %d is possible", key, (long long)ctx, 1 << 24);
	return e->code ? 0 : (int32_t)ctx;
}

static int join_layers(struct model *m, struct layer *layer, int32_t n, struct err *e)
{
	for (int32_t i = 0; i < n; i++) {
		const struct block *const block[] = { &layer[i].mixer, &layer[i].ffn };

		for (int b = 0; b < 2; b++)
			if (block[b]->kind && block[b]->kind->memory &&
				block[b]->kind->memory(block[b]->params, &m->memory, e))
				return -1;
	}
	return 0;
}

int model_join_memory(struct model *m, struct err *e)
{
	m->memory.n = 0;
	return join_layers(m, m->layer, m->config.n_layers, e) ||
				   join_layers(m, m->encoder, m->n_encoder, e)
			   ? -1
			   : 0;
}

void model_close(struct model *m)
{
	if (!m)
		return;
	adapters_close(m->adapters);
	weights_close(&m->weights);
	k_free(m->kernels, m->columns);
	for (int32_t i = 0; i < m->n_ropes; i++)
		k_free(m->kernels, m->rope[i].cos);
	for (int32_t i = 0; m->layer && i < m->config.n_layers; i++)
		layer_free(&m->layer[i]);
	for (int32_t i = 0; m->encoder && i < m->n_encoder; i++)
		layer_free(&m->encoder[i]);
	free(m->encoder);
	free(m->layer);
	free(m);
}
