/* See net.h. */
#include "engine/draft/net.h"

#include "engine/draft/draft_cost.h"

int net_read_args(
	struct net *net, const char *name, const char *args, char path[DRAFT_PATH], struct err *e)
{
	struct net_args *a = &net->args;
	int32_t v[3] = { a->depth, a->nodes, a->least };
	const char *numbers;
	int n;

	if (draft_find_file(name, args, path, &numbers, e))
		return -1;
	n = draft_numbers(numbers, 0, 100, v, 3);
	*a = (struct net_args){ v[0], n == 1 ? v[0] : v[1], v[2], n < 3 && a->measured, a->deeper };
	if (n < 0 || a->depth < 1 || a->depth > DRAFT_MAX || a->nodes < 1 || a->nodes > DRAFT_NODES)
		return err_set(e, ERR_USAGE,
			"%s[:FILE][,k[,nodes[,least]]] is what is needed, with k from 1 to %d tokens "
			"ahead, from 1 to %d nodes of a tree (k of them are a chain), and the least worth of "
			"a node in percent",
			name, DRAFT_MAX, DRAFT_NODES);
	return 0;
}

static int load_file(
	struct net *net, const struct gguf *g, net_load_fn *load, void *drafter, struct err *e)
{
	struct model_loader l = { g, &net->weights, &net->model.config, e, 0, NULL };

	if (weights_open(&net->weights, g, net->env.kernels, e))
		return -1;
	load(drafter, g, &l);
	return e->code ? -1 : weights_load(&net->weights, g, WEIGHTS_CACHE_OFF, NULL, e);
}

int net_open_file(struct net *net, const struct draft_env *env, const char *kind, const char *path,
	net_load_fn *load, void *drafter, struct err *e)
{
	struct gguf *g;
	int32_t *ids, n;
	int failed;

	if (draft_open_file(&g, path, kind, env, e))
		return -1;
	failed = draft_read_ids(g, env->vocab, &ids, &n, e) || net_open(net, env, ids, n, e) ||
			 load_file(net, g, load, drafter, e);
	gguf_close(g);
	return failed ? -1 : 0;
}

void net_load_layers(struct net *net, struct model_loader *l, int32_t n)
{
	struct model *m = &net->model;

	net->layer = calloc((size_t)n, sizeof *net->layer);
	if (!net->layer) {
		err_no_memory(l->e, "%d layers", n);
		return;
	}
	net->n_layers = n;
	m->output_norm = model_vector(l, "output_norm.weight", m->config.dim, true);
	model_load_layers(l, &m->layer[0], net->layer, n);
	m->layer = net->layer;
	m->config.n_layers = n;
	if (!l->e->code)
		model_join_memory(m, l->e);
}

int net_open(struct net *net, const struct draft_env *env, int32_t *ids, int32_t n, struct err *e)
{
	net->env = *env;
	if (draft_open_head(&net->head, env, ids, n, e))
		return -1;
	net->model = *env->model;
	net->model.kernels = env->kernels;
	net->model.output = net->head.matrix;
	net->model.config.vocab = net->head.n;
	return guesser_open(&net->guesser, &net->head, env, e);
}

int net_open_trees(struct net *net, grow_pass_fn *pass, void *arg, struct err *e)
{
	const struct net_args a = net->args;
	bool tree = a.nodes > a.depth;
	float least = (float)a.least / 100;

	net->grow = (struct grow){ .depth = a.depth,
		.nodes = a.nodes,
		.gain = { .cost = a.measured && net->env.cost && net->env.cost->n ? net->env.cost : NULL,
			.least = least,
			.deeper = least * (float)a.deeper },
		.width = tree ? GROW_WIDTH : 1,
		.fan = tree ? GROW_FAN : 1,
		.guesser = &net->guesser,
		.stop = net->env.stop,
		.pass = pass,
		.arg = arg,
		.vocab = net->head.n };
	return grow_open(&net->grow, &net->env, e);
}

int net_open_pass(
	struct net *net, const struct memory_store *store, grow_pass_fn *pass, void *arg, struct err *e)
{
	int32_t out = net->env.slots * GROW_WIDTH;
	/* an encoder reads its input in one pass */
	const int32_t least = net->model.n_encoder && net->env.ctx > NET_ROWS ? net->env.ctx : NET_ROWS;
	struct forward_sizes most = {
		.rows = out > least ? out : least, .out = out, .ctx = net->env.ctx
	};

	return net_open_trees(net, pass, arg, e) ||
				   forward_open(&net->forward, &net->model, store, most, e)
			   ? -1
			   : 0;
}

void *net_take(struct net *net, void (*cut)(struct drafter *d, struct cutter *c), struct drafter *d,
	enum k_memory where, const char *what, struct err *e)
{
	struct cutter c = { 0 };

	cut(d, &c);
	c.base = k_alloc(net->env.kernels, c.used, where, what, e);
	c.used = 0;
	if (c.base)
		cut(d, &c);
	return c.base;
}

void net_close(struct net *net)
{
	forward_close(&net->forward);
	grow_close(&net->grow);
	guesser_close(&net->guesser);
	draft_close_head(&net->head);
	weights_close(&net->weights);
	for (int32_t i = 0; i < net->n_layers; i++)
		layer_free(&net->layer[i]);
	free(net->layer);
	memset(net, 0, sizeof *net);
}

void net_begin(struct net *net)
{
	net->n_seqs = net->forward.n_rows = net->forward.n_out = 0;
}

int32_t net_seq(struct net *net, const int32_t *table)
{
	for (int32_t g = 0; g < MEMORY_GROUPS; g++)
		net->forward.pages[g][net->n_seqs] = table;
	return net->n_seqs++;
}

int32_t net_seq_of(struct net *net, const struct memory_table *table)
{
	for (int32_t g = 0; g < MEMORY_GROUPS; g++)
		net->forward.pages[g][net->n_seqs] = table->page[g];
	return net->n_seqs++;
}

int32_t net_row(struct net *net, int32_t id, int32_t pos, int32_t seq, bool out)
{
	struct forward *f = &net->forward;
	int32_t row = f->n_rows++;

	f->ids[row] = id;
	f->rows[row] = (struct k_row){ .pos = pos, .seq = seq, .observe = -1 };
	if (out)
		f->out_row[f->n_out++] = row;
	return row;
}

int net_run(struct net *net, struct err *e)
{
	if (forward_run(&net->forward, false, e))
		return -1;
	draft_cost_pass(net->env.cost, &net->forward.program);
	return 0;
}

void net_copy_end(struct net_copy *c)
{
	if (c->n)
		k_copy(c->kernels, c->to, c->from, c->n * c->dim * sizeof *c->to);
	c->n = 0;
}

void net_copy_row(struct net_copy *c, float *to, const float *from)
{
	if (c->n && (to != c->to + c->n * c->dim || from != c->from + c->n * c->dim))
		net_copy_end(c);
	if (!c->n) {
		c->to = to;
		c->from = from;
	}
	c->n++;
}

int net_grow(struct net *net, struct err *e)
{
	if (grow_levels(&net->grow, e))
		return -1;
	grow_write(&net->grow);
	return 0;
}
