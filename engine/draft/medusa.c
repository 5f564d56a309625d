/* Medusa: heads on the target's newest feature, each of which guesses one position further ahead
 * (Cai et al. 2024, "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding
 * Heads"). A head does not see what the others guess, so one pass gives all positions, and a tree
 * is the product of their best guesses, of which the worthiest are proposed. The residual block of
 * each head is a gated one, since the kernels have that op: y = h + down · (silu(gate · norm(h)) *
 * (up · norm(h))), logits = Head · norm(y). Thread: the engine's. */
#include "engine/draft/net.h"
#include "engine/draft/owners.h"
#include "engine/draft/draft_cost.h"

enum { MOST_HEADS = 8, OPS_A_HEAD = 5 };

struct medusa_head {
	const float *norm, *output_norm;
	struct k_matrix gate, up, down;
};

/* What is kept of a request: the feature before its newest token. */
struct seat {
	int32_t n, newest; /* tokens of the text, the last of them; n 0: nothing is known */
};

struct drafter {
	struct net net;
	struct medusa_head head[MOST_HEADS];
	int32_t n_heads, ffn, width;

	void *work, *shared;                       /* the kernels' */
	float *seat_feature;                       /* [slots, dim] */
	float *feature, *gate, *up, *y, *computed; /* [jobs, …], y and logits [heads, jobs, …] */
	struct k_acts normed, act, output;
	float *logits;
	struct k_logit_stats *stats;
	struct k_program program;
	int32_t written;   /* jobs that the program is for */
	uint64_t *version; /* [slots + 1] of the program for so many */

	struct owners owners;
	struct seat *seat; /* [slots] */
	int32_t *job;      /* [slots] the jobs that are known, in the order of their rows */
};

/* ---- opening ---- */

static void cut_work(struct drafter *d, struct cutter *c)
{
	const struct model *m = &d->net.model;
	size_t slots = (size_t)d->net.env.slots, dim = (size_t)m->config.dim, ffn = (size_t)d->ffn;
	size_t rows = slots * (size_t)d->n_heads;
	bool in_x = false, in_q = false, act_x = false, act_q = false,
		 out_x = program_wants_floats(&m->output);

	for (int32_t i = 0; i < d->n_heads; i++) {
		in_x |= program_wants_floats(&d->head[i].gate) || program_wants_floats(&d->head[i].up);
		in_q |= !program_wants_floats(&d->head[i].gate) || !program_wants_floats(&d->head[i].up);
		act_x |= program_wants_floats(&d->head[i].down);
		act_q |= !program_wants_floats(&d->head[i].down);
	}
	CUT(c, d->seat_feature, slots * dim);
	CUT(c, d->feature, slots * dim);
	CUT(c, d->gate, slots * ffn);
	CUT(c, d->up, slots * ffn);
	CUT(c, d->y, rows * dim);
	d->normed = program_cut_acts(c, slots, (int32_t)dim, in_x, in_q);
	d->act = program_cut_acts(c, slots, d->ffn, act_x, act_q);
	d->output = program_cut_acts(c, rows, (int32_t)dim, out_x, !out_x);
	CUT(c, d->computed, rows * (size_t)d->net.head.n);
	if (k_is_host(m->kernels))
		d->logits = d->computed;
}

static void cut_shared(struct drafter *d, struct cutter *c)
{
	size_t rows = (size_t)d->net.env.slots * (size_t)d->n_heads;

	CUT(c, d->stats, rows);
	CUT(c, d->program.op, OPS_A_HEAD * (size_t)d->n_heads + 2);
	if (!k_is_host(d->net.env.kernels))
		CUT(c, d->logits, rows * (size_t)d->net.head.n);
}

static int take_memory(struct drafter *d, struct err *e)
{
	static const char what[] = "Medusa heads; try fewer --slots";
	size_t slots = (size_t)d->net.env.slots;

	d->work = net_take(&d->net, cut_work, d, K_WORK, what, e);
	d->shared = d->work ? net_take(&d->net, cut_shared, d, K_SHARED, what, e) : NULL;
	if (!d->shared)
		return -1;
	d->seat = calloc(slots, sizeof *d->seat);
	d->job = calloc(slots, sizeof *d->job);
	d->version = calloc(slots + 1, sizeof *d->version);
	if (!owners_open(&d->owners, d->net.env.slots, 0) || !d->seat || !d->job || !d->version)
		return err_no_memory(e, "Medusa heads");
	return 0;
}

static const char *name_of(char buf[64], int32_t head, const char *part)
{
	snprintf(buf, 64, "medusa.%d.%s.weight", head, part);
	return buf;
}

/* The hidden width is that of the first head's matrix. */
static int read_sizes(struct drafter *d, const struct gguf *g, struct err *e)
{
	const struct gguf_tensor *t = gguf_find(g, "medusa.0.gate.weight");
	int64_t n = 0;

	if (gguf_get_i64(g, "cutaway.draft.heads", &n, e))
		return -1;
	if (n < 1 || n > MOST_HEADS)
		return gguf_bad(
			g, e, "cutaway.draft.heads is %lld; 1 to %d is possible", (long long)n, MOST_HEADS);
	if (!t || t->n_dims != 2 || t->dim[1] < K_QBLOCK || t->dim[1] > 1 << 16 || t->dim[1] % K_QBLOCK)
		return gguf_bad(g, e,
			"tensor medusa.0.gate.weight is missing, or its rows are no multiple of %d", K_QBLOCK);
	d->n_heads = (int32_t)n;
	d->ffn = (int32_t)t->dim[1];
	return 0;
}

static void medusa_load(void *arg, const struct gguf *g, struct model_loader *l)
{
	struct drafter *d = arg;
	int32_t dim = d->net.model.config.dim;
	char name[64];

	if (read_sizes(d, g, l->e))
		return;
	for (int32_t i = 0; i < d->n_heads && !l->e->code; i++) {
		struct medusa_head *h = &d->head[i];

		h->norm = model_vector(l, name_of(name, i, "norm"), dim, true);
		h->output_norm = model_vector(l, name_of(name, i, "output_norm"), dim, true);
		model_matrix(l, &h->gate, name_of(name, i, "gate"), d->ffn, dim);
		model_matrix(l, &h->up, name_of(name, i, "up"), d->ffn, dim);
		model_matrix(l, &h->down, name_of(name, i, "down"), dim, d->ffn);
	}
}

static int medusa_open(
	struct drafter *d, const struct draft_env *env, const char *args, struct err *e)
{
	char path[DRAFT_PATH];

	d->net.args = (struct net_args){ 2, 3, 12, true, 1 };
	if (net_read_args(&d->net, "medusa", args, path, e) ||
		net_open_file(&d->net, env, "medusa", path, medusa_load, d, e))
		return -1;
	if (d->net.args.depth > d->n_heads)
		d->net.args.depth = d->n_heads;
	d->width = d->net.args.nodes;
	return net_open_trees(&d->net, NULL, NULL, e) || take_memory(d, e) ? -1 : 0;
}

static void medusa_close(struct drafter *d)
{
	k_free(d->net.env.kernels, d->work);
	k_free(d->net.env.kernels, d->shared);
	net_close(&d->net);
	owners_close(&d->owners);
	free(d->seat);
	free(d->job);
	free(d->version);
}

/* ---- what a step computed ---- */

static int medusa_learn(struct drafter *d, const struct draft_seen *seen, int32_t n, struct err *e)
{
	size_t dim = (size_t)d->net.model.config.dim;
	struct net_copy copy = { .kernels = d->net.env.kernels, .dim = dim };

	(void)e;
	for (int32_t i = 0; i < n; i++) {
		const struct draft_seen *s = &seen[i];
		bool is_new;
		struct seat *seat = &d->seat[owners_take(&d->owners, s->request, &is_new)];

		seat->n = s->pos + s->n_rows == s->n - 1 ? s->n : 0;
		if (!seat->n)
			continue;
		seat->newest = s->ids[s->n - 1];
		net_copy_row(&copy, d->seat_feature + (size_t)(seat - d->seat) * dim,
			d->net.env.forward->x + (size_t)s->row[s->n_rows - 1] * dim);
	}
	net_copy_end(&copy);
	return 0;
}

/* ---- guessing ---- */

static void write_program(struct drafter *d, int32_t n)
{
	struct k_program *p = &d->program;
	const struct model *m = &d->net.model;
	size_t dim = (size_t)m->config.dim;
	struct k_matmul *mul;

	p->n_ops = 0;
	for (int32_t i = 0; i < d->net.args.depth; i++) {
		const struct medusa_head *h = &d->head[i];
		float *y = d->y + (size_t)i * (size_t)n * dim;

		program_norm(p, d->feature, NULL, h->norm, m->config.norm_eps, d->normed, n);
		mul = program_matmul(p, K_STAGE_gate_up, d->normed, n);
		program_part(mul, &h->gate, NULL, NULL, d->gate);
		program_part(mul, &h->up, NULL, NULL, d->up);
		program_glu(p, K_ACT_silu, d->gate, d->up, d->act, n);
		mul = program_matmul(p, K_STAGE_down, d->act, n);
		program_part(mul, &h->down, NULL, d->feature, y);
		program_norm(
			p, y, NULL, h->output_norm, m->config.norm_eps, program_acts_from(d->output, i * n), n);
	}
	mul = program_matmul(p, K_STAGE_head, d->output, n * d->net.args.depth);
	program_part(mul, &m->output, NULL, NULL, d->computed);
	program_stats(p, d->computed, d->net.head.n, n * d->net.args.depth, d->stats);
	if (!d->version[n])
		d->version[n] = k_new_version();
	p->version = d->version[n];
	d->written = n;
}

static int medusa_run(struct drafter *d, int32_t n, struct err *e)
{
	size_t bytes =
		(size_t)n * (size_t)d->net.args.depth * (size_t)d->net.head.n * sizeof *d->logits;

	if (d->written != n)
		write_program(d, n);
	if (k_run(d->net.env.kernels, &d->program, e))
		return -1;
	draft_cost_pass(d->net.env.cost, &d->program);
	return d->logits == d->computed ? 0
									: k_fetch(d->net.env.kernels, d->logits, d->computed, bytes, e);
}

/* Each level is the product of the level before it and the guesses of its head. */
static void grow_tree(struct drafter *d, int32_t row, int32_t n)
{
	struct grow *g = &d->net.grow;
	int32_t index = d->job[row], from = -1, end = 0;
	const struct draft_job *job = g->tree[index].job;

	for (int32_t i = 0; i < d->net.args.depth && i < job->depth; i++) {
		size_t at = (size_t)i * (size_t)n + (size_t)row;
		struct draft_guess guess[GROW_FAN];
		int32_t many = guess_row(g->guesser, job, NULL, i, d->logits + at * (size_t)d->net.head.n,
			&d->stats[at], g->fan, guess);

		for (int32_t node = from; node < end; node++)
			grow_add(g, index, node, guess, many);
		from = end;
		end = g->tree[index].n;
	}
}

static int medusa_propose(struct drafter *d, const struct draft_job *job, int32_t n, struct err *e)
{
	size_t dim = (size_t)d->net.model.config.dim;
	struct net_copy copy = { .kernels = d->net.env.kernels, .dim = dim };
	int32_t known = 0;

	grow_begin(&d->net.grow, job, n);
	for (int32_t i = 0; i < n; i++) {
		int32_t at = owners_find(&d->owners, job[i].request);
		const struct seat *seat = &d->seat[at < 0 ? 0 : at];

		if (at < 0 || seat->n != job[i].n || seat->newest != job[i].ids[job[i].n - 1])
			continue; /* learn() gets it after this step */
		d->job[known] = i;
		net_copy_row(&copy, d->feature + (size_t)known++ * dim,
			d->seat_feature + (size_t)(seat - d->seat) * dim);
	}
	net_copy_end(&copy);
	if (known && medusa_run(d, known, e))
		return -1;
	for (int32_t i = 0; i < known; i++)
		grow_tree(d, i, known);
	grow_write(&d->net.grow);
	return 0;
}

static void medusa_forget(struct drafter *d, int64_t request)
{
	owners_drop(&d->owners, request);
}

const struct draft_ops draft_medusa = {
	DRAFTER(medusa, "medusa", "[FILE,]k[,nodes[,least]]",
		"trained heads on the newest feature, one for each position ahead"),
	.variants = (const struct draft_variant[]){ { "medusa", "medusa:$n,$n,0", false, 0.1 }, { 0 } },
	.alone = NET_ALONE,
	.computes = true,
	.cost_rows = NET_COST_ROWS,
	.learn = medusa_learn,
	.forget = medusa_forget,
};
