/* See cost_ranks.h. */
#include "sessions/whatif/cost_ranks.h"

#include <math.h>

#include "fold/timeline.h"

enum {
	LEAST = 32,  /* rows that a rank of sequence parallelism has at least */
	CONTROL = 2, /* messages of a step beside the exchanges: what its rows are, and what came out */
};

/* ---- what is computed ---- */

static struct formula_split split_of(
	const struct cost *c, const struct cost_ranks *k, int64_t rows, int64_t outs)
{
	const struct cost_model *m = &c->model;

	return (struct formula_split){ .product = m->product,
		.n_products = m->n_products,
		.layers = (int32_t)m->layers,
		.kv_heads = (int32_t)m->kv_heads,
		.head_dim = (int32_t)m->head_dim,
		.ranks = k->tensor,
		.rows = rows,
		.out_rows = outs,
		.form = k->form };
}

static const struct tl_product *head_of(const struct cost_model *m)
{
	for (int32_t i = 0; i < m->n_products; i++)
		if (m->product[i].stage == EV_STAGE_head)
			return &m->product[i];
	return NULL;
}

static double weights_of(const struct cost_model *m)
{
	double bytes = 0;

	for (int32_t i = 0; i < m->n_products; i++)
		bytes += (double)m->product[i].bytes;
	return bytes;
}

/* Of the layers' products, what the rank with the most does. */
static double products_share(const struct cost_model *m, const struct formula_split *of)
{
	double all = 0, own = 0;

	for (int32_t i = 0; i < m->n_products; i++)
		if (m->product[i].stage != EV_STAGE_head) {
			all += (double)m->product[i].bytes;
			own += (double)m->product[i].bytes * formula_product_share(of, &m->product[i]);
		}
	return own / all;
}

/* Nanoseconds of one rank: in the layers' products, in their attention, in the head. */
struct work {
	double products, attention, head;
};

static struct work work_of(const struct cost *c, const struct step_shape *s)
{
	const double head =
		c->ns[COST_step] * (double)head_of(&c->model)->bytes / weights_of(&c->model);
	const double logits = c->ns[COST_logits] * s->outs;
	struct work w;

	w.attention = c->ns[COST_position] * (double)s->positions + c->ns[COST_pair] * (double)s->pairs;
	w.products = cost_step_s(c, s) * 1e9 - w.attention - logits - head;
	w.head = logits + (s->outs ? head : 0);
	return w;
}

/* Of ns, the rank's share of what is split, and all of what is not. */
static double part_of(const struct cost *c, double ns, double share)
{
	return ns * (1 - c->model.parallel * (1 - share));
}

/* ---- what is exchanged ---- */

static double exchange_ns(
	const struct cost *c, const struct cost_ranks *k, double exchanges, double bytes)
{
	const double link = exchanges * (double)k->link.latency_ns +
						(k->link.rate > 0 ? bytes / k->link.rate * 1e9 : 0);

	return fmax(link, exchanges * c->model.exchange_ns + bytes * c->model.byte_ns);
}

/* Of a step's exchanges. */
struct moved {
	double ns, sent; /* sent: by all ranks */
};

static void add(struct moved *to, struct moved m, double times)
{
	to->ns += times * m.ns;
	to->sent += times * m.sent;
}

/* One exchange, in which so many ranks send bytes each. */
static struct moved one_exchange(
	const struct cost *c, const struct cost_ranks *k, double bytes, double ranks)
{
	return (struct moved){ exchange_ns(c, k, 1, bytes), bytes * ranks };
}

/* Those of all layers, or with outs of all layers and the head. */
static struct moved tensor_exchanges(
	const struct cost *c, const struct cost_ranks *k, int64_t rows, int64_t outs)
{
	const struct formula_split of = split_of(c, k, rows, outs);
	double most = 0, exchanges = 0, sent = 0;

	for (int32_t r = 0; r < k->tensor && k->tensor > 1; r++) {
		const struct formula_exchanged x = formula_exchanged(&of, r);

		most = fmax(most, (double)x.sent / (k->tensor - 1));
		exchanges = (double)x.exchanges;
		sent += (double)x.sent;
	}
	return (struct moved){ exchange_ns(c, k, exchanges, most), sent };
}

/* ---- a step ---- */

static struct step_shape piece_of(const struct step_shape *s, int32_t n)
{
	return (struct step_shape){ .rows = (s->rows + n - 1) / n,
		.requests = (s->requests + n - 1) / n,
		.pairs = (s->pairs + n - 1) / n,
		.positions = (s->positions + n - 1) / n };
}

/* Layers of stage s, of so many: engine/ranks/pipeline.c. */
static double stage_layers(const struct cost *c, const struct cost_ranks *k, int32_t s)
{
	const struct cost_model *m = &c->model;
	const double all = weights_of(m), layer = (all - (double)head_of(m)->bytes) / m->layers;
	const double first = ceil(all * s / k->pipeline / layer);

	return (s + 1 < k->pipeline ? fmin(ceil(all * (s + 1) / k->pipeline / layer), m->layers)
								: m->layers) -
		   fmin(first, m->layers - 1);
}

/* Of the layers of one micro-batch. */
static double compute_ns(
	const struct cost *c, const struct cost_ranks *k, const struct step_shape *piece)
{
	const struct formula_split of = split_of(c, k, piece->rows, 0);
	const struct work w = work_of(c, piece);

	if (k->tensor < 2)
		return w.products + w.attention;
	return part_of(c, w.products, products_share(&c->model, &of)) +
		   part_of(c, w.attention, formula_attention_share(&of));
}

/* n micro-batches through the stages. The last stage sends its rows to rank 0, for drafters. */
static double layers_ns(const struct cost *c, const struct cost_ranks *k,
	const struct step_shape *s, double wide, struct cost_ranks_step *out)
{
	const int32_t most = k->micro_batches ? k->micro_batches : 2 * k->pipeline;
	const int32_t n = k->pipeline < 2 ? 1 : s->rows < most ? s->rows : most;
	const struct step_shape piece = piece_of(s, n);
	const struct moved inside = tensor_exchanges(c, k, piece.rows, 0),
					   between = one_exchange(c, k, 4 * piece.rows * wide, k->tensor);
	const double compute = compute_ns(c, k, &piece);
	struct moved all = { 0 };
	double sum = 0, longest = 0;

	for (int32_t i = 0; i < k->pipeline; i++) {
		const double share = stage_layers(c, k, i) / c->model.layers;
		struct moved m = { 0 };

		add(&m, inside, share);
		add(&m, between, k->pipeline > 1);
		add(&all, m, n);
		sum += share * compute + m.ns;
		longest = fmax(longest, share * compute + m.ns);
	}
	out->exchange_s = all.ns * 1e-9 / k->pipeline;
	out->sent = all.sent;
	out->bubble_s = (sum + (n - 1) * longest - n * sum / k->pipeline) * 1e-9;
	return sum + (n - 1) * longest;
}

static double head_ns(const struct cost *c, const struct cost_ranks *k, const struct step_shape *s,
	struct cost_ranks_step *out)
{
	const struct formula_split of = split_of(c, k, s->rows, s->outs);
	const struct tl_product *head = head_of(&c->model);
	struct moved m = { 0 };

	if (k->pipeline > 1) {
		m = one_exchange(c, k, 4.0 * s->outs * head->outputs / k->tensor, k->tensor);
	} else {
		add(&m, tensor_exchanges(c, k, s->rows, s->outs), 1);
		add(&m, tensor_exchanges(c, k, s->rows, 0), -1);
	}
	out->exchange_s += m.ns * 1e-9;
	out->sent += m.sent;
	return m.ns +
		   part_of(c, work_of(c, s).head, k->tensor > 1 ? formula_product_share(&of, head) : 1);
}

/* Each rank has some of the rows, and the last one those that see most. */
static double sequence_ns(const struct cost *c, const struct cost_ranks *k,
	const struct step_shape *s, double wide, struct cost_ranks_step *out)
{
	const int32_t n = k->sequence;
	const double kept = c->token_bytes;
	const bool alone = s->rows < LEAST * n;
	struct step_shape part = alone ? *s : piece_of(s, n);
	struct moved m = { 0 };
	struct work w;

	if (alone) {
		m = one_exchange(c, k, kept * s->rows, n - 1);
	} else {
		part.positions = s->positions;
		part.pairs = s->pairs * (2 * n - 1) / n / n;
		m = one_exchange(c, k, kept / c->model.layers * part.rows, n * (n - 1));
		m = (struct moved){ m.ns * c->model.layers, m.sent * c->model.layers };
		add(&m, one_exchange(c, k, 4 * part.rows * wide, n - 1), 1);
	}
	out->sent = m.sent;
	out->exchange_s = m.ns * 1e-9;
	w = work_of(c, &part);
	return w.products + w.attention + work_of(c, s).head + m.ns;
}

int32_t cost_ranks_number(const struct cost_ranks *k)
{
	return k->sequence > 1               ? k->sequence
		   : k->tensor * k->pipeline > 1 ? k->tensor * k->pipeline
										 : 1;
}

struct cost_ranks_step cost_ranks_step(
	const struct cost *c, const struct cost_ranks *k, const struct step_shape *s)
{
	struct cost_ranks_step out = { 0 };
	double wide, ns;

	if (cost_ranks_number(k) < 2)
		return (struct cost_ranks_step){ .s = cost_step_s(c, s) };
	wide = head_of(&c->model)->inputs;
	ns = CONTROL * c->model.exchange_ns;
	ns += k->sequence > 1 ? sequence_ns(c, k, s, wide, &out)
						  : layers_ns(c, k, s, wide, &out) + head_ns(c, k, s, &out);
	out.s = ns * 1e-9;
	return out;
}

/* ---- whether that can be told ---- */

static bool is_size(double n)
{
	return n >= 1 && n <= 1 << 16;
}

static bool is_known(const struct cost *c, const struct cost_ranks *k)
{
	const struct cost_model *m = &c->model;
	struct cost_ranks two = *k;
	struct formula_split of;

	if (!is_size(m->layers) || !is_size(m->kv_heads) || !is_size(m->head_dim) ||
		!(m->parallel > 0 && m->parallel <= 1) || !head_of(m))
		return false;
	two.tensor = k->tensor > 1 ? k->tensor : 2;
	of = split_of(c, &two, 1, 1);
	return formula_is_dense(&of);
}

int cost_ranks_calibrate(struct cost *c, const struct cost_rows *rows, struct err *e)
{
	struct cost_ranks k = { .pipeline = 1 };
	double one = 0, shared = 0, was = 0;
	struct cost_model of;

	cost_model_of(&of, rows);
	k.tensor = of.split.tensor;
	if (of.split.ranks < 2 || k.tensor != of.split.ranks || !(of.exchange_ns > 0))
		return err_set(e, ERR_INPUT, "it is no recording of tensor-parallel ranks that exchanged");
	c->model.exchange_ns = of.exchange_ns;
	c->model.byte_ns = of.byte_ns;
	if (!is_known(c, &k))
		return 0; /* cost_ranks_check() says so */
	c->model.parallel = 1;
	for (int32_t i = 0; i < rows->n; i++) {
		const struct step_shape *s = &rows->row[i].shape;
		const struct cost_ranks_step step = cost_ranks_step(c, &k, s);

		one += cost_step_s(c, s);
		shared += step.s - step.exchange_s;
		was += (rows->row[i].ns - rows->row[i].exchange_ns) * 1e-9;
	}
	c->model.parallel = one > shared ? fmin(fmax((one - was) / (one - shared), 0.01), 1) : 1;
	return 0;
}

int cost_ranks_check(const struct cost *c, const struct cost_ranks *k, struct err *e)
{
	const struct cost_model *m = &c->model;

	if (cost_ranks_number(k) < 2)
		return 0;
	if (k->sequence > 1 && k->tensor * k->pipeline > 1)
		return err_set(e, ERR_USAGE,
			"--sequence-parallel has the whole model on each rank: not together with the others");
	if (cost_ranks_number(k) > TL_MOST_RANKS)
		return err_set(e, ERR_USAGE, "%d ranks: %d at most", cost_ranks_number(k), TL_MOST_RANKS);
	if (m->split.ranks > 1)
		return err_set(e, ERR_USAGE,
			"these prices are of steps of %d ranks: fit them to a recording of one",
			m->split.ranks);
	if (!m->n_products)
		return err_set(e, ERR_USAGE,
			"ranks split a model's products, and these prices have none: --fit a recording, or use "
			"a file that --save-cost made of one");
	if (!is_known(c, k))
		return err_set(e, ERR_USAGE,
			"how ranks share this model is not simulated: only decoders with one feed-forward a "
			"layer");
	if (m->layers < k->pipeline)
		return err_set(e, ERR_USAGE, "--pipeline-parallel %d: the model has %.0f layers",
			k->pipeline, m->layers);
	if (!(k->link.rate > 0) && !k->link.latency_ns && !(m->exchange_ns > 0))
		return err_set(e, ERR_USAGE,
			"what is between the ranks? --link 10gbit,20us says it, --link-of FILE takes it from a "
			"recording of ranks");
	return 0;
}
