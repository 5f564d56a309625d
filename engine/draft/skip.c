/* Layer-skip self-speculation: the target's first layers and its own head guess, its other layers
 * verify. (Zhang et al. 2024, "Draft & Verify"; Elhoushi et al. 2024, "LayerSkip", whose models are
 * trained for it: others lose more by it.)
 *
 * Keys and values of the first layers are those of the target's own pages: drafting writes them
 * where verification will write the same bits again, so there is no state to keep or undo. Thread:
 * the engine's. */
#include "engine/draft/net.h"

struct drafter {
	struct net net;
	int32_t width;
};

/* Takes the list of frequent ids from a trained drafter of this model, if there is one: the whole
 * vocabulary is a third of a step. */
static void borrow_ids(const struct draft_env *env, int32_t **ids, int32_t *n)
{
	static const char *const files[] = { "draft", "medusa", "eagle" };
	struct err ignored = { 0 };
	char path[DRAFT_PATH];
	const char *numbers;
	struct gguf *g;

	*ids = NULL;
	*n = env->vocab;
	for (size_t i = 0; i < sizeof files / sizeof *files && !*ids; i++) {
		if (draft_find_file(files[i], NULL, path, &numbers, &ignored) ||
			draft_open_file(&g, path, NULL, env, &ignored))
			continue;
		if (draft_read_ids(g, env->vocab, ids, n, &ignored))
			*n = env->vocab;
		gguf_close(g);
	}
}

static int skip_pass(void *arg, struct grow *g, const struct grow_row *row, int32_t n,
	struct grow_pass *out, struct err *e)
{
	struct net *net = &((struct drafter *)arg)->net;

	net_begin(net);
	for (int32_t i = 0; i < n; i++) {
		const struct grow_tree *t = &g->tree[row[i].tree];
		int32_t ahead = row[i].node < 0 ? 0 : t->node[row[i].node].depth;
		int32_t id = row[i].node < 0 ? t->job->ids[t->job->n - 1] : t->node[row[i].node].id;

		net_row(net, id, t->job->n - 1 + ahead, net_seq_of(net, t->job->table), true);
	}
	*out = (struct grow_pass){ net->forward.logits, net->forward.stats };
	return net_run(net, e);
}

static int read_args(const struct draft_env *env, const char *args, int32_t v[3], struct err *e)
{
	int32_t all = env->model->config.n_layers;
	int n;

	v[0] = 4 * all / 5;
	n = draft_numbers(args, 0, 256, v, 3);
	if (n < 0 || v[0] < 1 || v[0] >= all || v[1] < 1 || v[1] > DRAFT_MAX || v[2] > 100)
		return err_set(e, ERR_USAGE,
			"skip[:layers[,k[,least]]] is what is needed, as in skip:%d,4: layers from 1 to %d of "
			"this model's %d, k from 1 to %d tokens ahead, the least worth of a guess in percent",
			4 * all / 5, all - 1, all, DRAFT_MAX);
	return 0;
}

static void skip_close(struct drafter *d)
{
	net_close(&d->net);
}

static int skip_open(
	struct drafter *d, const struct draft_env *env, const char *args, struct err *e)
{
	int32_t v[3] = { 0, 4, 40 }, n, *ids;

	if (memory_has_states(&env->model->memory))
		return err_set(e, ERR_USAGE,
			"skip writes ahead in pages of keys and values, and this model keeps states");
	if (env->model->n_encoder)
		return err_set(
			e, ERR_USAGE, "skip drafts with a decoder alone, and this one reads an encoder");
	if (read_args(env, args, v, e))
		return -1;
	d->width = v[1];
	borrow_ids(env, &ids, &n);
	if (net_open(&d->net, env, ids, n, e))
		return -1;
	d->net.model.config.n_layers = v[0];
	d->net.args = (struct net_args){ v[1], v[1], v[2], false, 1 };
	return net_open_pass(&d->net, env->store, skip_pass, d, e);
}

static int skip_propose(struct drafter *d, const struct draft_job *job, int32_t n, struct err *e)
{
	const struct visible *v = &d->net.env.forward->visible;
	struct grow *g = &d->net.grow;
	struct grow_pass out = { 0 };
	int32_t n_rows = 0;

	/* what the target's rows do not see may have no page; what they choose among has */
	d->net.forward.visible =
		visible_picks(v) || visible_most_kept(v, 1) ? (struct visible){ 0 } : *v;
	grow_begin(g, job, n);
	for (int32_t i = 0; i < n; i++)
		if (job[i].writable)
			g->row[n_rows++] = (struct grow_row){ (int16_t)i, -1 };
	if (n_rows && skip_pass(d, g, g->row, n_rows, &out, e))
		return -1;
	for (int32_t i = 0, row = 0; i < n; i++)
		if (job[i].writable) {
			grow_offer(g, i, -1, net_logits(&d->net, row), &out.stats[row]);
			row++;
		}
	return net_grow(&d->net, e);
}

const struct draft_ops draft_skip = {
	DRAFTER(
		skip, "skip", "layers[,k[,least]]", "the model's own first layers guess, the others check"),
	.variants = (const struct draft_variant[]){ { "skip", "skip:$l,$n,0", false, 0.8 }, { 0 } },
	.offer = (const char *const[]){ "skip:24", NULL },
	.alone = "drafts with the model's layers, and there is no model here",
	.needs_pages = true,
	.computes = true,
	.layers = true,
	.shadowed = "skip:$l,3",
};
