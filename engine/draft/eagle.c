/* EAGLE: a single layer that reads the target's features guesses the next ones (Li et al. 2024,
 * "EAGLE: Speculative Sampling Requires Rethinking Feature Uncertainty"); trees by confidence as in
 * EAGLE-2 (Li et al. 2024b), features of several layers as in EAGLE-3 (Li et al. 2025).
 *
 * With h[t - 1] the residual stream after the target's last layer at position t - 1, h'[t - 1] ...
 * those after the lower layers that the file names, and x[t] the token at t:
 * z[t] = We · norm(embed(x[t])) + Wh · norm(h[t - 1]) + W' · norm(h'[t - 1]) + ...,
 * g[t] = layer(z)[t],   logits of x[t + 1] = Head · norm(g[t]).
 * Beyond the newest token g stands for h, and nothing for the others. The embedding and the head
 * are the target's.
 *
 * The features that a step computed are kept until a guess is requested, or until there are many
 * (learn): then the layer runs over them, and its output at the newest token gives the first guess.
 * So a drafter that learns from every step and seldom guesses costs little. Positions found in the
 * prefix cache have no features: the others are numbered without gaps, which hardly changes what
 * rotary positions give. Thread: the engine's. */
#include "engine/draft/net.h"
#include "engine/draft/slots.h"

enum {
	WAITING = 64, /* features of a slot that wait for the layer */
	STREAMS = 5,  /* of the target that it reads, at most */
};
_Static_assert(3 + 2 * STREAMS <= FORWARD_BEGIN_OPS, "write_input()");

struct waiting {
	int32_t n, at[WAITING]; /* the positions that read them, each one after its own; ascending */
};

struct stream { /* the target's residual stream after one layer */
	int32_t layer;
	struct k_matrix w;
	const float *norm;
	float *feature;             /* [rows, dim] */
	float *kept;                /* [slots, WAITING, dim] features that wait */
	struct net_copy keep, read; /* to kept; from there to feature */
};

struct drafter {
	struct net net;
	struct slots slots;
	struct k_matrix of_embed;
	const float *embed_norm;
	struct stream stream[STREAMS]; /* the last layer's, then the lower ones that the file names */
	int32_t n_streams, n_held;     /* held: those whose layer is kept for it */

	/* the kernels' */
	void *work;
	float *embedded; /* [rows, dim] */
	struct k_acts normed;
	float *root; /* [slots, dim] g at the newest token */
	/* the host's, of the newest token of each slot */
	float *logits; /* [slots, head] */
	struct k_logit_stats *stats;
	int32_t *root_n;         /* length of the text that ends at the root; 0: not known */
	struct waiting *waiting; /* [slots] */

	int32_t width;
	struct slot **of;  /* [slots] by job */
	int32_t *out_slot; /* [slots] by output of a pass over features */
};

static size_t index_of(const struct drafter *d, const struct slot *slot)
{
	return (size_t)(slot - d->slots.slot);
}

/* Appends x = w · norm(of) + x, or without x. */
static void add_part(const struct drafter *d, struct forward *f, const float *of, const float *norm,
	const struct k_matrix *w, const float *x)
{
	struct k_program *p = &f->program;

	program_norm(p, of, NULL, norm, f->model->config.norm_eps, d->normed, f->n_rows);
	program_part(program_matmul(p, K_STAGE_embed, d->normed, f->n_rows), w, NULL, x, f->x);
}

/* x = z, instead of the embedding; begin_more: the rows have features of all streams. */
static void write_input(void *arg, struct forward *f)
{
	struct drafter *d = arg;
	const int32_t streams = f->begin_more ? d->n_streams : 1;

	program_embed(&f->program, &f->model->embed, f->ids, d->embedded, f->n_rows)->scale =
		f->model->embed_scale;
	add_part(d, f, d->embedded, d->embed_norm, &d->of_embed, NULL);
	for (int32_t i = 0; i < streams; i++)
		add_part(d, f, d->stream[i].feature, d->stream[i].norm, &d->stream[i].w, f->x);
}

/* ---- opening ---- */

static void cut_work(struct drafter *d, struct cutter *c)
{
	const size_t rows = (size_t)d->net.forward.max_rows, dim = (size_t)d->net.model.config.dim;
	const size_t slots = (size_t)d->net.env.slots;
	bool x = program_wants_floats(&d->of_embed), q = !x;

	for (int32_t i = 0; i < d->n_streams; i++) {
		struct stream *s = &d->stream[i];

		x |= program_wants_floats(&s->w);
		q |= !program_wants_floats(&s->w);
		CUT(c, s->feature, rows * dim);
		CUT(c, s->kept, slots * WAITING * dim);
	}
	CUT(c, d->embedded, rows * dim);
	d->normed = program_cut_acts(c, rows, (int32_t)dim, x, q);
	CUT(c, d->root, slots * dim);
}

static int take_memory(struct drafter *d, struct err *e)
{
	size_t slots = (size_t)d->net.env.slots;

	d->work = net_take(&d->net, cut_work, d, K_WORK, "an EAGLE drafter", e);
	if (!d->work)
		return -1;
	d->logits = calloc(slots, (size_t)d->net.head.n * sizeof *d->logits);
	d->stats = calloc(slots, sizeof *d->stats);
	d->root_n = calloc(slots, sizeof *d->root_n);
	d->waiting = calloc(slots, sizeof *d->waiting);
	d->of = calloc(slots, sizeof *d->of);
	d->out_slot = calloc(slots, sizeof *d->out_slot);
	if (!d->logits || !d->stats || !d->root_n || !d->waiting || !d->of || !d->out_slot)
		return err_no_memory(e, "an EAGLE drafter");
	return 0;
}

static void load_stream(struct stream *s, int32_t layer, const char *name, struct model_loader *l)
{
	const int32_t dim = l->config->dim;
	char tensor[64];

	s->layer = layer;
	s->keep = s->read = (struct net_copy){ .kernels = l->weights->kernels, .dim = (size_t)dim };
	snprintf(tensor, sizeof tensor, "%s_norm.weight", name);
	s->norm = model_vector(l, tensor, dim, true);
	snprintf(tensor, sizeof tensor, "%s.weight", name);
	model_matrix(l, &s->w, tensor, dim, dim);
}

static void load_streams(struct drafter *d, const struct gguf *g, struct model_loader *l)
{
	const int32_t last = d->net.env.model->config.n_layers - 1;
	int32_t lower[STREAMS - 1], n;
	char name[32];

	load_stream(&d->stream[0], last, "fc.hidden", l);
	if (draft_read_list(g, "cutaway.draft.lower", STREAMS - 1, last, lower, &n, l->e))
		return;
	for (int32_t i = 0; i < n; i++) {
		snprintf(name, sizeof name, "fc.lower.%d", i);
		load_stream(&d->stream[1 + i], lower[i], name, l);
	}
	d->n_streams = 1 + n;
}

static void eagle_load(void *arg, const struct gguf *g, struct model_loader *l)
{
	struct drafter *d = arg;
	int32_t dim = l->config->dim;

	d->embed_norm = model_vector(l, "fc.embed_norm.weight", dim, true);
	model_matrix(l, &d->of_embed, "fc.embed.weight", dim, dim);
	load_streams(d, g, l);
	net_load_layers(&d->net, l, 1);
}

static grow_pass_fn eagle_pass;

/* From the next step on the target keeps what it reads of the lower layers. */
static int hold_streams(struct drafter *d, struct err *e)
{
	for (d->n_held = 1; d->n_held < d->n_streams; d->n_held++)
		if (forward_keep(d->net.env.forward, d->stream[d->n_held].layer, e))
			return -1;
	return 0;
}

static int eagle_open(
	struct drafter *d, const struct draft_env *env, const char *args, struct err *e)
{
	char path[DRAFT_PATH];

	d->net.args = (struct net_args){ 3, 4, 15, true, 2 };
	if (net_read_args(&d->net, "eagle", args, path, e) ||
		net_open_file(&d->net, env, "eagle", path, eagle_load, d, e) ||
		slots_open(&d->slots, env, &d->net.model.memory, (DRAFT_MAX - 1) * (GROW_WIDTH - 1), e) ||
		net_open_pass(&d->net, d->slots.store, eagle_pass, d, e))
		return -1;
	d->width = d->net.args.nodes;
	d->net.forward.begin = write_input;
	d->net.forward.begin_arg = d;
	return take_memory(d, e) || hold_streams(d, e) ? -1 : 0;
}

static void eagle_close(struct drafter *d)
{
	for (int32_t i = 1; i < d->n_held; i++)
		forward_drop(d->net.env.forward, d->stream[i].layer);
	k_free(d->net.env.kernels, d->work);
	slots_close(&d->slots);
	net_close(&d->net);
	free(d->logits);
	free(d->stats);
	free(d->root_n);
	free(d->waiting);
	free(d->of);
	free(d->out_slot);
}

/* ---- what steps computed ---- */

/* Runs the layer over the collected rows, and keeps its outputs at newest tokens. */
static int run_rows(struct drafter *d, struct err *e)
{
	struct forward *f = &d->net.forward;
	struct net_copy copy = { .kernels = d->net.env.kernels,
		.dim = (size_t)d->net.model.config.dim };
	size_t dim = copy.dim, head = (size_t)d->net.head.n;

	for (int32_t i = 0; i < d->n_streams; i++)
		net_copy_end(&d->stream[i].read);
	if (!f->n_rows)
		return 0;
	f->begin_more = true;
	if (net_run(&d->net, e))
		return -1;
	f->begin_more = false;
	for (int32_t i = 0; i < f->n_out; i++) {
		size_t slot = (size_t)d->out_slot[i];

		net_copy_row(&copy, d->root + slot * dim, f->x + (size_t)f->out_row[i] * dim);
		memcpy(d->logits + slot * head, net_logits(&d->net, i), head * sizeof *d->logits);
		d->stats[slot] = f->stats[i];
		d->root_n[slot] = d->slots.slot[slot].n_ids;
	}
	net_copy_end(&copy);
	net_begin(&d->net);
	return 0;
}

/* Adds rows for the waiting features of a slot. */
static int put_waiting(struct drafter *d, struct slot *slot, struct err *e)
{
	const size_t index = index_of(d, slot);
	struct waiting *w = &d->waiting[index];
	int32_t seq;

	if (d->net.forward.n_rows + w->n > d->net.forward.max_rows && run_rows(d, e))
		return -1;
	seq = w->n ? net_seq(&d->net, slot->table) : -1;
	for (int32_t i = 0; i < w->n; i++) {
		bool newest = w->at[i] == slot->n_ids - 1;
		int32_t row;

		if (newest)
			d->out_slot[d->net.forward.n_out] = (int32_t)index;
		row = net_row(&d->net, slot->ids[w->at[i]], slot->n, seq, newest);
		for (struct stream *s = d->stream; s < d->stream + d->n_streams; s++)
			net_copy_row(&s->read, s->feature + (size_t)row * s->read.dim,
				s->kept + (index * WAITING + (size_t)i) * s->read.dim);
		slot->at[slot->n++] = w->at[i];
	}
	w->n = 0;
	return 0;
}

/* Drops features at positions from `pos` on: they belong to another text. */
static void cut_waiting(struct waiting *w, int32_t pos)
{
	while (w->n && w->at[w->n - 1] >= pos)
		w->n--;
}

/* A row of the target's step becomes a feature that waits. */
static void keep_row(struct drafter *d, size_t to, size_t row)
{
	for (struct stream *s = d->stream; s < d->stream + d->n_streams; s++)
		net_copy_row(&s->keep, s->kept + to * s->keep.dim,
			forward_stream(d->net.env.forward, s->layer) + row * s->keep.dim);
}

static void end_keeping(struct drafter *d)
{
	for (int32_t i = 0; i < d->n_streams; i++)
		net_copy_end(&d->stream[i].keep);
}

/* The layer reads the feature of position p at p + 1, if that token is known. */
static int learn_one(struct drafter *d, const struct draft_seen *s, struct err *e)
{
	struct slot *slot = slots_take(&d->slots, s->request, s->ids, s->n);
	struct waiting *w = &d->waiting[index_of(d, slot)];

	slot_cut(slot, s->pos + 1);
	cut_waiting(w, slot->same < s->pos + 1 ? slot->same : s->pos + 1);
	d->root_n[index_of(d, slot)] = 0;
	for (int32_t i = 0; i < s->n_rows && s->pos + i + 1 < s->n; i++) {
		if (w->n == WAITING) {
			end_keeping(d);
			if (put_waiting(d, slot, e) || run_rows(d, e))
				return -1;
		}
		keep_row(d, index_of(d, slot) * WAITING + (size_t)w->n, (size_t)s->row[i]);
		w->at[w->n++] = s->pos + i + 1;
	}
	end_keeping(d);
	return 0;
}

static int eagle_learn(struct drafter *d, const struct draft_seen *seen, int32_t n, struct err *e)
{
	net_begin(&d->net);
	for (int32_t i = 0; i < n; i++)
		if (learn_one(d, &seen[i], e))
			return -1;
	return 0;
}

/* The slot of a job if its text is the one that was learnt; its root is still to be computed. */
static struct slot *slot_of(struct drafter *d, const struct draft_job *job)
{
	struct slot *slot = slots_find(&d->slots, job->request);

	if (!slot)
		return NULL;
	slot_go_back(slot, job->ids, job->n);
	cut_waiting(&d->waiting[index_of(d, slot)], slot->same);
	return slot->same == job->n ? slot : NULL;
}

/* ---- trees ---- */

static int eagle_pass(void *arg, struct grow *g, const struct grow_row *row, int32_t n,
	struct grow_pass *out, struct err *e)
{
	struct drafter *d = arg;
	struct forward *f = &d->net.forward;
	struct net_copy copy = { .kernels = d->net.env.kernels,
		.dim = (size_t)d->net.model.config.dim };

	net_begin(&d->net);
	for (int32_t i = 0; i < n; i++) {
		struct grow_tree *t = &g->tree[row[i].tree];
		const struct grow_node *node = &t->node[row[i].node];
		const struct slot *slot = d->of[row[i].tree];
		const int32_t *table = slots_table(&d->slots, slot, t, row[i].node);
		const float *from = node->parent < 0 ? d->root + index_of(d, slot) * copy.dim
											 : f->x + (size_t)t->node[node->parent].row * copy.dim;

		net_row(&d->net, node->id, slot->n + node->depth - 1, net_seq(&d->net, table), true);
		net_copy_row(&copy, d->stream[0].feature + (size_t)i * copy.dim, from);
	}
	net_copy_end(&copy);
	*out = (struct grow_pass){ f->logits, f->stats };
	return net_run(&d->net, e);
}

static int eagle_propose(struct drafter *d, const struct draft_job *job, int32_t n, struct err *e)
{
	grow_begin(&d->net.grow, job, n);
	slots_begin(&d->slots);
	net_begin(&d->net);
	for (int32_t i = 0; i < n; i++) {
		d->of[i] = slot_of(d, &job[i]);
		if (d->of[i] && put_waiting(d, d->of[i], e))
			return -1;
	}
	if (run_rows(d, e))
		return -1;
	for (int32_t i = 0; i < n; i++) {
		size_t at = d->of[i] ? index_of(d, d->of[i]) : 0;

		if (d->of[i] && d->root_n[at] == job[i].n) /* else learn() gets it after this step */
			grow_offer(&d->net.grow, i, -1, d->logits + at * (size_t)d->net.head.n, &d->stats[at]);
	}
	return net_grow(&d->net, e);
}

static void eagle_forget(struct drafter *d, int64_t request)
{
	slots_end(&d->slots, request);
}

const struct draft_ops draft_eagle = {
	DRAFTER(eagle, "eagle", "[FILE,]k[,nodes[,least]]",
		"one trained layer on the model's own features: a chain, or a tree of so many nodes"),
	.variants = (const struct draft_variant[]){ { "eagle", "eagle:$n,$n,0", false, 0.1 },
		{ "eagle tree", "eagle:$h,$n,0", false, 0.1 }, { 0 } },
	.alone = NET_ALONE,
	.computes = true,
	.cost_rows = NET_COST_ROWS,
	.learn = eagle_learn,
	.forget = eagle_forget,
};
