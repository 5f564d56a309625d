/* Whole layers by their block influence (Men et al. 2024, "ShortGPT: layers in large language
 * models are more redundant than you expect"): 1 less the cosine between what enters a layer and
 * what leaves it, the mean over all tokens of a text. Thread: any one. */
#include "engine/core/engine_impl.h"
#include "engine/observe/influence.h"
#include "lab/prune_impl.h"

/* ---- the influence of each layer ---- */

/* Layer t->layer of the n tensors from t on, as the source has it. */
static int measure_layer(
	struct prune *p, const struct change_tensor *t, int32_t n, float *before, struct err *e)
{
	struct calibration *text = &p->c->text;
	const int64_t tokens = (int64_t)text->n * text->length;
	const int32_t dim = prune_config(p)->dim;
	struct layer_parts parts;
	int rc = layer_parts_read(&parts, p->c, t, n, false, e);

	if (!rc) {
		memcpy(before, text->x, (size_t)(tokens * dim) * sizeof *before);
		rc = layer_pass(&parts, NULL, 0, e);
	}
	if (!rc)
		p->r->influence[t->layer] =
			(float)(influence_sum(before, text->x, tokens, dim) / (double)tokens);
	layer_parts_free(&parts);
	return rc;
}

static int measure(struct prune *p, struct err *e)
{
	const struct calibration *text = &p->c->text;
	const struct change_options *o = &p->o->common;
	const struct model_config *m = prune_config(p);
	struct change_plan *plan = &p->c->plan;
	float *before =
		malloc((size_t)text->n * (size_t)text->length * (size_t)m->dim * sizeof *before);

	if (!before)
		return err_no_memory(e, "a text of %d tokens", text->n * text->length);
	for (int32_t i = 0, n; i < plan->n && !e->code; i += n) {
		const int32_t layer = plan->tensor[i].layer;

		n = change_plan_layer(plan, i);
		if (!change_reads(p->c, layer))
			continue;
		if (o->progress &&
			!o->progress(o->arg, "measuring the influence of layers", layer, m->n_layers))
			err_set(e, ERR_INTERRUPTED, "stopped; nothing was written");
		else
			measure_layer(p, &plan->tensor[i], n, before, e);
	}
	free(before);
	return e->code ? -1 : 0;
}

/* ---- what goes ---- */

/* A family that gives each layer its kind by number must find the same kinds in the result. */
static int check_kinds(const struct prune *p, struct err *e)
{
	const struct model *m = p->c->text.engine->model;

	for (int32_t i = 0, to = 0; i < m->config.n_layers; i++) {
		const struct block *from = &m->layer[i].mixer, *at = &m->layer[to].mixer;
		const struct attention *a = from->params, *b = at->params;

		if (p->r->removed[i])
			continue;
		if (from->kind != at->kind)
			return err_set(e, ERR_USAGE,
				"layer %d (%s) would become layer %d, which is one of %s in this family: layers go "
				"there only by whole rounds",
				i, from->kind->name, to, at->kind->name);
		if (from->kind != &layer_attention) {
			to++;
			continue;
		}
		if (a->window != b->window || a->rope != b->rope)
			return err_set(e, ERR_USAGE,
				"layer %d would become layer %d, whose window is another in this family (%d and %d "
				"positions, 0: all): layers go there only by whole rounds",
				i, to, a->window, b->window);
		to++;
	}
	return 0;
}

/* Numbers that the file gives layer by layer would no longer fit. */
static int check_lists(const struct prune *p, struct err *e)
{
	struct gguf_pair pair;

	for (size_t i = 0; (pair = gguf_pair_at(p->c->g, i)).key; i++) {
		char key[128];

		snprintf(key, sizeof key, "%.*s", (int)pair.key_size, pair.key);
		if (strncmp(key, "tokenizer.", 10) != 0 &&
			gguf_array_length(p->c->g, key) == p->r->n_layers)
			return err_set(e, ERR_USAGE,
				"%s is a list with a number for each layer: removing layers of such a model is not "
				"supported",
				key);
	}
	return 0;
}

static void renumber(struct change_tensor *t, const struct prune_result *r)
{
	int32_t to = t->layer;

	if (t->layer < 0)
		return;
	for (int32_t i = 0; i < t->layer && i < r->n_layers; i++)
		to -= r->removed[i];
	snprintf(t->name, sizeof t->name, "blk.%d%s", to, strchr(t->from->name + 4, '.'));
}

/* The tensors that stay, under their new numbers. */
static void drop(struct prune *p)
{
	struct change_plan *plan = &p->c->plan;
	struct prune_result *r = p->r;
	int32_t n = 0;

	for (int32_t i = 0; i < plan->n; i++) {
		struct change_tensor t = plan->tensor[i];
		const bool known = t.layer >= 0 && t.layer < r->n_layers;
		const int64_t weights = known ? gguf_tensor_weights(t.from) : 0;

		r->n_weights += weights;
		if (known && r->removed[t.layer]) {
			r->n_gone += weights;
			continue;
		}
		renumber(&t, r);
		plan->tensor[n++] = t;
	}
	plan->n = n;
}

static int plan_layers(struct prune *p, struct err *e)
{
	struct prune_result *r = p->r;
	const int32_t n = prune_config(p)->n_layers, k = p->o->remove;
	float scratch[PRUNE_MOST_LAYERS];

	if (k < 1 || k >= n || n > PRUNE_MOST_LAYERS)
		return err_set(e, ERR_USAGE,
			"--remove %d: 1 to %d of %d layers is possible, so that one is left", k, n - 1, n);
	r->n_layers = n;
	if (check_lists(p, e) || measure(p, e))
		return -1;
	if (prune_mark(p, r->influence, n, k, r->removed, scratch, e) || check_kinds(p, e))
		return -1;
	drop(p);
	snprintf(r->what, sizeof r->what, "%d of %d layers", k, n);
	return prune_set_number(p, "block_count", (uint32_t)(n - k), e);
}

const struct prune_method prune_layers = {
	.name = "layers", .kind = PRUNE_LAYERS, .reads = true, .plan = plan_layers
};
