/* A draft model: a smaller model of the same vocabulary guesses token by token (Leviathan et al.
 * 2023, "Fast Inference from Transformers via Speculative Decoding"; Chen et al. 2023). Either a
 * whole model's file, whose vocabulary is compared with the target's token by token, or a drafter's
 * file of kind "model": layers and an output norm of their own between the target's embedding and
 * the rows of its head.
 *
 * Tokens of the text that the draft model has not seen are computed before it guesses: after a step
 * these are the kept ones. Thread: the engine's. */
#include "engine/arch/open.h"
#include "engine/draft/net.h"
#include "engine/draft/slots.h"

enum { MOST_LAYERS = 64 };

struct drafter {
	struct net net;
	struct slots slots;
	struct model *whole; /* its own model; NULL: layers between the target's ends */
	int32_t width;
	struct slot **of; /* [slots] by job; NULL: no guess */
	int32_t *out_job; /* [slots] by output of a pass */
};

/* ---- opening ---- */

static void load_layers(void *arg, const struct gguf *g, struct model_loader *l)
{
	struct drafter *d = arg;
	int64_t n = 0;

	if (gguf_get_i64(g, "cutaway.draft.layers", &n, l->e))
		return;
	if (n < 1 || n > MOST_LAYERS)
		gguf_bad(g, l->e, "cutaway.draft.layers is %lld; 1 to %d is possible", (long long)n,
			MOST_LAYERS);
	else
		net_load_layers(&d->net, l, (int32_t)n);
}

static int open_pruned(
	struct drafter *d, const struct draft_env *env, const char *path, struct err *e)
{
	if (k_is_host(env->kernels) != k_is_host(env->model->kernels))
		return err_set(e, ERR_USAGE,
			"%s: its embedding and head are those of the model, which are on the device; beside it "
			"drafts a whole model's FILE",
			path);
	return net_open_file(&d->net, env, "model", path, load_layers, d, e);
}

static int check_vocab(const struct gguf *g, const struct draft_env *env, struct err *e)
{
	struct gguf *target;
	int failed;

	if (gguf_open(&target, env->model_path, e))
		return -1;
	failed = draft_same_vocab(g, target, e);
	gguf_close(target);
	return failed;
}

/* Its context may be shorter than the target's: it does not guess beyond it. */
static int open_whole(
	struct drafter *d, const struct draft_env *env, const struct gguf *g, struct err *e)
{
	struct model_options o = { .cache = WEIGHTS_CACHE_OFF };
	struct draft_env own = *env;

	if (check_vocab(g, env, e) || !(own.ctx = model_context(g, e)))
		return -1;
	own.ctx = own.ctx < env->ctx ? own.ctx : env->ctx;
	if (model_open(&d->whole, g, env->kernels, &o, &own.ctx, e))
		return -1;
	if (d->whole->diffusion.on)
		return err_set(
			e, ERR_USAGE, "%s: a diffusion model has no next token to guess", gguf_path(g));
	if (d->whole->n_encoder && !env->model->n_encoder)
		return err_set(e, ERR_USAGE,
			"%s: this model's encoder reads an input, and what the model is asked has none",
			gguf_path(g));
	own.model = d->whole;
	return net_open(&d->net, &own, NULL, own.vocab, e);
}

static int open_network(
	struct drafter *d, const struct draft_env *env, const char *path, struct err *e)
{
	struct gguf *g;
	bool pruned;
	int failed;

	if (gguf_open(&g, path, e))
		return -1;
	pruned = draft_is_drafter(g, NULL);
	failed = pruned ? 0 : open_whole(d, env, g, e);
	gguf_close(g);
	return pruned ? open_pruned(d, env, path, e) : failed;
}

static grow_pass_fn draft_model_pass;

static int model_drafter_open(
	struct drafter *d, const struct draft_env *env, const char *args, struct err *e)
{
	struct net_args *a = &d->net.args;
	char path[DRAFT_PATH];
	int32_t branches;

	*a = (struct net_args){ 2, 3, 12, true, 2 };
	if (net_read_args(&d->net, "draft", args, path, e) || open_network(d, env, path, e))
		return -1;
	d->width = a->nodes;
	branches = a->nodes > a->depth ? (DRAFT_MAX - 1) * (GROW_WIDTH - 1) : 0;
	if (slots_open(&d->slots, &d->net.env, &d->net.model.memory, branches, e) ||
		net_open_pass(&d->net, d->slots.store, draft_model_pass, d, e))
		return -1;
	d->of = calloc((size_t)env->slots, sizeof *d->of);
	d->out_job = calloc((size_t)env->slots, sizeof *d->out_job);
	return d->of && d->out_job ? 0 : err_no_memory(e, "a draft model");
}

static void model_drafter_close(struct drafter *d)
{
	slots_close(&d->slots);
	net_close(&d->net);
	model_close(d->whole);
	free(d->of);
	free(d->out_job);
}

/* ---- guessing ---- */

static void add_row(
	struct drafter *d, const struct draft_job *job, int32_t id, int32_t pos, int32_t seq, bool out)
{
	const int32_t row = net_row(&d->net, id, pos, seq, out);

	d->net.forward.rows[row].input = d->net.model.n_encoder ? job->n_input : 0;
}

static int draft_model_pass(void *arg, struct grow *g, const struct grow_row *row, int32_t n,
	struct grow_pass *out, struct err *e)
{
	struct drafter *d = arg;

	net_begin(&d->net);
	for (int32_t i = 0; i < n; i++) {
		struct grow_tree *t = &g->tree[row[i].tree];
		const struct slot *slot = d->of[row[i].tree];
		const int32_t *table = slots_table(&d->slots, slot, t, row[i].node);
		const struct grow_node *node = &t->node[row[i].node];

		add_row(d, t->job, node->id, slot->n + node->depth - 1, net_seq(&d->net, table), true);
	}
	*out = (struct grow_pass){ d->net.forward.logits, d->net.forward.stats };
	return net_run(&d->net, e);
}

/* Trees begin from the logits of the newest tokens. */
static int run_known(struct drafter *d, struct err *e)
{
	struct forward *f = &d->net.forward;

	if (f->n_rows && net_run(&d->net, e))
		return -1;
	for (int32_t i = 0; i < f->n_out; i++)
		grow_offer(&d->net.grow, d->out_job[i], -1, net_logits(&d->net, i), &f->stats[i]);
	net_begin(&d->net);
	return 0;
}

/* The input of an encoder, which is a pass of its own, if it is another than the slot's. Beyond it
 * stands the token that ends it, so what is known beyond it is of the same input. */
static int compute_input(
	struct drafter *d, const struct draft_job *job, struct slot *slot, struct err *e)
{
	int32_t seq;

	if (!d->net.model.n_encoder || slot->n > job->n_input)
		return 0;
	if (run_known(d, e))
		return -1;
	seq = net_seq(&d->net, slot->table);
	for (slot->n = 0; slot->n < job->n_input; slot->n++) {
		add_row(d, job, job->ids[slot->n], slot->n, seq, false);
		slot->at[slot->n] = slot->n;
	}
	return run_known(d, e);
}

/* Computes all tokens of the text that it has not computed; the newest one always, for its
 * logits. */
static int compute_known(
	struct drafter *d, const struct draft_job *job, int32_t index, struct err *e)
{
	struct slot *slot = slots_take(&d->slots, job->request, job->ids, job->n);
	int32_t seq = -1;

	d->of[index] = slot;
	if (compute_input(d, job, slot, e))
		return -1;
	slot_cut(slot, job->n - 1);
	while (slot->n < job->n) {
		int32_t at = slot->n;

		if (d->net.forward.n_rows == d->net.forward.max_rows) {
			if (run_known(d, e))
				return -1;
			seq = -1;
		}
		if (seq < 0)
			seq = net_seq(&d->net, slot->table);
		if (at == job->n - 1)
			d->out_job[d->net.forward.n_out] = index;
		add_row(d, job, job->ids[at], at, seq, at == job->n - 1);
		slot->at[slot->n++] = at;
	}
	return 0;
}

static int model_drafter_propose(
	struct drafter *d, const struct draft_job *job, int32_t n, struct err *e)
{
	grow_begin(&d->net.grow, job, n);
	slots_begin(&d->slots);
	net_begin(&d->net);
	for (int32_t i = 0; i < n; i++)
		if (job[i].n + job[i].depth <= d->net.env.ctx && compute_known(d, &job[i], i, e))
			return -1;
	return run_known(d, e) || net_grow(&d->net, e) ? -1 : 0;
}

static void model_drafter_forget(struct drafter *d, int64_t request)
{
	slots_end(&d->slots, request);
}

const struct draft_ops draft_model = {
	DRAFTER(model_drafter, "draft", "[FILE,]k[,nodes[,least]]",
		"a smaller model of the same vocabulary"),
	.variants = (const struct draft_variant[]){ { "draft", "draft:$f$n,$n,0", false, 0.2 }, { 0 } },
	.alone = "guesses with a model beside a model, and there is no model here",
	.computes = true,
	.cost_rows = NET_COST_ROWS,
	.forget = model_drafter_forget,
};
