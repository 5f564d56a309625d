/* The setting `importance`: measures how much each layer, each head and the channels of each
 * feed-forward do over the shipped prompts, and tells of each layer (event importance). It is what
 * `cutaway prune` goes by. Thread: the engine's. */
#include "base/median.h"
#include "engine/core/engine_impl.h"
#include "engine/observe/influence.h"
#include "engine/observe/channels.h"
#include "engine/observe/pass.h"
#include "engine/run/program.h"

enum { SIXTEENTHS = 16 };

struct one {
	double influence;                  /* sum over the tokens */
	const struct k_matrix *out, *down; /* NULL: it has none */
	int32_t n_heads, head_dim;
	float *products; /* [n_heads, head_dim, head_dim] sum of x transpose(x) of a head's outputs */
	double *squares; /* [down->n_cols] of its inputs */
};

struct measuring {
	struct one *of; /* [n] layers */
	int32_t n, dim, head_dim, now;
	float *before; /* [PASS_ROWS, dim] what entered layer `now` */
	struct forward *f;
	int32_t rows;
	struct err *err;
};

/* ---- during the pass ---- */

static void begin(void *arg, struct forward *f, int32_t rows)
{
	struct measuring *m = arg;

	m->f = f;
	m->rows = rows;
	m->now = -1;
}

/* The stream has left layer `now`, and enters another. */
static void enter(struct measuring *m, int32_t layer)
{
	if (m->now >= 0)
		m->of[m->now].influence += influence_sum(m->before, m->f->x, m->rows, m->dim);
	memcpy(m->before, m->f->x, (size_t)m->rows * (size_t)m->dim * sizeof *m->before);
	m->now = layer;
}

/* No op follows the last layer, since no logits are wanted. */
static void end(void *arg)
{
	enter(arg, -1);
}

static void add_heads(struct one *o, const float *x)
{
	for (int32_t h = 0; h < o->n_heads; h++, x += o->head_dim) {
		float *p = o->products + (size_t)h * (size_t)o->head_dim * (size_t)o->head_dim;

		for (int32_t i = 0; i < o->head_dim; i++)
			for (int32_t j = 0; j < o->head_dim; j++)
				*p++ += x[i] * x[j];
	}
}

static int open_sums(struct measuring *m, struct one *o, const struct k_op *op)
{
	const struct k_matmul *mm = &op->u.matmul;
	const size_t dim = (size_t)mm->in.dim, head = (size_t)m->head_dim;

	if (op->stage == K_STAGE_down && !o->down) {
		o->down = mm->part[0].w;
		o->squares = calloc(dim, sizeof *o->squares);
	} else if (op->stage == K_STAGE_out && !o->out) {
		o->out = mm->part[0].w;
		o->head_dim = m->head_dim;
		o->n_heads = mm->in.dim / m->head_dim;
		o->products = calloc(dim * head, sizeof *o->products);
	}
	return (o->down && !o->squares) || (o->out && !o->products)
			   ? err_no_memory(m->err, "the sums of a layer")
			   : 0;
}

static int add_product(struct measuring *m, struct one *o, const struct k_op *op)
{
	const struct k_acts *in = &op->u.matmul.in;
	float *x = malloc((size_t)in->dim * sizeof *x);

	if (!x || open_sums(m, o, op)) {
		free(x);
		return m->err->code ? -1 : err_no_memory(m->err, "a row");
	}
	for (int32_t r = 0; r < op->u.matmul.n; r++) {
		const struct k_acts row = k_acts_row(in, r);

		for (int32_t i = 0; i < in->dim; i++)
			x[i] = k_acts_value(&row, i);
		for (int32_t i = 0; op->stage == K_STAGE_down && i < in->dim; i++)
			o->squares[i] += (double)x[i] * (double)x[i];
		if (op->stage == K_STAGE_out)
			add_heads(o, x);
	}
	free(x);
	return 0;
}

static bool see(void *arg, const struct k_op *op, int32_t layer)
{
	struct measuring *m = arg;

	if (layer != m->now)
		enter(m, layer < m->n ? layer : -1);
	if (m->now < 0 || op->kind != K_OP_matmul ||
		(op->stage != K_STAGE_down &&
			(op->stage != K_STAGE_out || op->u.matmul.in.dim % m->head_dim)))
		return true;
	return !add_product(m, &m->of[layer], op);
}

/* ---- what it says ---- */

/* Shares [n_heads] of the squares. */
static int measure_heads(struct engine *e, const struct one *o, float *share, struct err *err)
{
	float *w = o->out ? program_read_matrix(e->kernels, o->out, err) : NULL;
	double all = 0;

	for (int32_t h = 0; w && h < o->n_heads; h++) {
		const size_t square = (size_t)o->head_dim * (size_t)o->head_dim;

		share[h] = (float)columns_importance(w, o->out->n_rows, o->out->n_cols, h * o->head_dim,
			o->head_dim, o->products + (size_t)h * square, o->head_dim);
		all += (double)share[h];
	}
	for (int32_t h = 0; h < o->n_heads; h++)
		share[h] = all > 0 ? (float)((double)share[h] / all) : 0;
	free(w);
	return err->code ? -1 : 0;
}

/* squares become what each channel adds, ascending; least [SIXTEENTHS]: see the event. */
static int measure_channels(struct engine *e, const struct one *o, float *least, struct err *err)
{
	float *w = program_read_matrix(e->kernels, o->down, err);
	const int32_t n = o->down->n_cols;
	double all = 0, sum = 0;

	if (!w)
		return -1;
	for (int32_t i = 0; i < n; i++) {
		const float h = (float)o->squares[i];

		o->squares[i] = columns_importance(w, o->down->n_rows, n, i, 1, &h, 1);
		all += o->squares[i];
	}
	sorted_of(o->squares, n);
	for (int32_t i = 0, k = 0; k < SIXTEENTHS; k++) {
		for (; i < (int64_t)n * (k + 1) / SIXTEENTHS; i++)
			sum += o->squares[i];
		least[k] = all > 0 ? (float)(sum / all) : 0;
	}
	free(w);
	return 0;
}

static int emit(
	struct engine *e, const struct measuring *m, int32_t i, int32_t n_tokens, struct err *err)
{
	const struct one *o = &m->of[i];
	float *share = calloc((size_t)o->n_heads + 1, sizeof *share), least[SIXTEENTHS];

	if (!share)
		return err_no_memory(err, "%d heads", o->n_heads);
	if (!measure_heads(e, o, share, err) && !(o->down && measure_channels(e, o, least, err)))
		STREAM_EMIT(&e->stream, importance, .nth = i, .layer = i,
			.influence = o->influence / n_tokens,
			.heads = { share, (size_t)o->n_heads * sizeof *share },
			.channels = o->down ? o->down->n_cols : 0,
			.least = { least, o->down ? sizeof least : 0 });
	free(share);
	return err->code ? -1 : 0;
}

static int measure(struct engine *e, struct err *err)
{
	const struct model_config *c = &e->model->config;
	struct measuring m = { .n = c->n_layers, .dim = c->dim, .head_dim = c->head_dim, .err = err };
	const struct shipped_pass with = { begin, end, see, &m };
	int32_t n = -1;

	m.head_dim = m.head_dim > 0 ? m.head_dim : 1; /* a family without heads */
	m.of = calloc((size_t)m.n, sizeof *m.of);
	m.before = malloc((size_t)PASS_ROWS * (size_t)m.dim * sizeof *m.before);
	if (m.of && m.before)
		n = shipped_text_run(e, &with, err);
	else
		err_no_memory(err, "%d layers", m.n);
	for (int32_t i = 0; n > 0 && i < m.n && !err->code; i++)
		emit(e, &m, i, n, err);
	for (int32_t i = 0; m.of && i < m.n; i++) {
		free(m.of[i].products);
		free(m.of[i].squares);
	}
	free(m.of);
	free(m.before);
	return err->code ? -1 : 0;
}

int engine_apply_importance(struct engine *e, struct engine_options *to, struct err *err)
{
	return channels_setting(e, &to->importance, "importance", measure, err);
}
