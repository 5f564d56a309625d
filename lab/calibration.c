/* See calibration.h. */
#include "lab/calibration.h"

#include <xxhash.h>

#include "engine/core/engine_impl.h"
#include "engine/model/model_tensors.h"

enum { PAGE = 64 };

/* ---- a layer of its own ---- */

struct one_layer {
	struct layer layer;
	struct weights weights;
	struct model model; /* the engine's, with this layer alone */
	struct forward f;
};

static void write_nothing(void *arg, struct forward *f)
{
	(void)arg;
	(void)f; /* x is filled in by the caller */
}

static void one_close(struct one_layer *o)
{
	forward_close(&o->f);
	layer_free(&o->layer);
	weights_close(&o->weights);
}

static int one_load(struct one_layer *o, const struct calibration *c, int32_t i,
	const struct gguf *g, struct err *e)
{
	const struct model *m = c->engine->model;
	struct model_loader l = { g, &o->weights, &m->config, e, i, NULL };

	if (layer_like(&o->layer, &m->layer[i]))
		return err_no_memory(e, "a layer");
	if (weights_open(&o->weights, g, m->kernels, e))
		return -1;
	model_load_layer(&l, &o->layer, i);
	return e->code ? -1 : weights_load(&o->weights, g, WEIGHTS_CACHE_OFF, NULL, e);
}

/* g NULL: of no layer, for the embedding. */
static int one_open(struct one_layer *o, const struct calibration *c, int32_t i,
	const struct gguf *g, struct err *e)
{
	memset(o, 0, sizeof *o);
	o->model = *c->engine->model;
	o->model.layer = &o->layer;
	o->model.config.n_layers = g ? 1 : 0;
	if ((g && one_load(o, c, i, g, e)) ||
		forward_open(&o->f, &o->model, c->store,
			(struct forward_sizes){ .rows = c->length, .out = 1, .observed = 1, .ctx = c->length },
			e)) {
		one_close(o);
		return -1;
	}
	o->f.begin = g ? write_nothing : NULL;
	o->f.visible = c->engine->forward.visible;
	return 0;
}

/* ---- what matrices read ---- */

struct seeing {
	struct quant_input *in;
	struct k_ctx *kernels;
	unsigned hessians; /* a bit for each input */
	struct err *e;
};

static int input_of(enum k_stage stage)
{
	return stage == K_STAGE_qkv       ? INPUT_QKV
		   : stage == K_STAGE_out     ? INPUT_OUT
		   : stage == K_STAGE_gate_up ? INPUT_GATE_UP
									  : INPUT_DOWN;
}

static int input_open(struct quant_input *in, int32_t n, bool hessian, struct err *e)
{
	const size_t cols = (size_t)n;

	in->n = n;
	in->sum_abs = calloc(cols, sizeof *in->sum_abs);
	in->sum_squares = calloc(cols, sizeof *in->sum_squares);
	in->max_abs = calloc(cols, sizeof *in->max_abs);
	in->hessian = hessian ? calloc(cols * cols, sizeof *in->hessian) : NULL;
	if (in->sum_abs && in->sum_squares && in->max_abs && (in->hessian || !hessian))
		return 0;
	return err_no_memory(e, "a Hessian of %d columns", n);
}

void calibration_free(struct quant_input in[CALIBRATION_INPUTS])
{
	for (int i = 0; i < CALIBRATION_INPUTS; i++) {
		free(in[i].sum_abs);
		free(in[i].sum_squares);
		free(in[i].max_abs);
		free(in[i].hessian);
		in[i] = (struct quant_input){ 0 };
	}
}

/* The product with the rows' transpose: a matrix product of the kernels, whose weights are the rows
 * themselves. t [n, rows] is the transpose. */
static int add_product(
	struct k_ctx *kernels, struct quant_input *in, const float *t, int32_t rows, struct err *e)
{
	struct k_matrix w = { .type = K_F32, .n_rows = in->n, .n_cols = rows };
	struct k_op op = { .kind = K_OP_matmul,
		.u.matmul = { .in = { .x = (float *)(uintptr_t)t, .dim = rows },
			.part = { { .w = &w, .residual = in->hessian, .out = in->hessian } },
			.n_parts = 1,
			.n = in->n } };
	struct k_program p = { .op = &op, .n_ops = 1, .version = k_new_version() };
	int rc = -1;

	w.data = k_alloc(kernels, k_packed_bytes(kernels, K_F32, in->n, rows), K_WORK, "inputs", e);
	if (w.data) {
		k_pack(kernels, &w, t);
		rc = k_run(kernels, &p, e);
	}
	k_free(kernels, w.data);
	return rc;
}

/* Adds up rows x [rows, n]. */
static int input_add(struct k_ctx *kernels, struct quant_input *in, const float *x, int32_t rows,
	bool hessian, struct err *e)
{
	float *t = hessian ? malloc((size_t)in->n * (size_t)rows * sizeof *t) : NULL;
	int rc = 0;

	if (hessian && !t)
		return err_no_memory(e, "%d inputs", rows);
	for (int32_t r = 0; r < rows; r++)
		for (int32_t j = 0; j < in->n; j++) {
			const float v = x[(size_t)r * (size_t)in->n + (size_t)j], a = fabsf(v);

			in->sum_abs[j] += (double)a;
			in->sum_squares[j] += (double)a * (double)a;
			in->max_abs[j] = a > in->max_abs[j] ? a : in->max_abs[j];
			if (t)
				t[(size_t)j * (size_t)rows + (size_t)r] = v;
		}
	in->rows += rows;
	if (t)
		rc = add_product(kernels, in, t, rows, e);
	free(t);
	return rc;
}

static bool see(void *arg, const struct k_op *op, int32_t layer)
{
	struct seeing *s = arg;
	const struct k_matmul *m = &op->u.matmul;
	const int input = input_of(op->stage);
	const bool hessian = s->hessians >> input & 1;

	if (op->kind != K_OP_matmul || layer < 0)
		return true;
	if (!s->in[input].n && input_open(&s->in[input], m->in.dim, hessian, s->e))
		return false;
	return !input_add(s->kernels, &s->in[input], m->in.x, m->n, hessian, s->e);
}

/* ---- the text ---- */

/* One sequence: x is filled in from c->x (or, with no layer, from the ids), and kept if wanted. */
static int run_sequence(struct calibration *c, struct one_layer *o, int32_t i, struct seeing *s,
	bool keep, struct err *e)
{
	struct forward *f = &o->f;
	const size_t n = (size_t)c->length * (size_t)o->model.config.dim;
	float *x = c->x + (size_t)i * n;

	f->n_rows = c->length;
	f->n_out = f->n_observed = 0;
	forward_chain(f, c->pages, 0, c->length);
	memcpy(f->ids, c->ids + (size_t)i * (size_t)c->length, (size_t)c->length * sizeof *f->ids);
	memcpy(f->x, x, n * sizeof *x);
	if (s->in ? forward_run_each(f, see, s, e) || s->e->code : forward_run(f, false, e))
		return -1;
	if (keep)
		memcpy(x, f->x, n * sizeof *x);
	return 0;
}

int calibration_run(struct calibration *c, int32_t layer, const struct gguf *g,
	struct quant_input *in, unsigned hessians, bool keep, struct err *e)
{
	struct seeing s = { in, c->engine->kernels, hessians, e };
	struct one_layer o;
	int rc = 0;

	if (one_open(&o, c, layer, g, e))
		return -1;
	for (int32_t i = 0; i < c->n && !rc; i++)
		rc = run_sequence(c, &o, i, &s, keep, e);
	one_close(&o);
	return rc;
}

/* ---- opening ---- */

/* Sequences of equal length from all over the text. */
static int read_text(struct calibration *c, const struct change_options *o, struct err *e)
{
	const struct tokenizer *t = engine_tokenizer(c->engine);
	const bool bos = tokenizer_adds_bos(t) && tokenizer_bos(t) >= 0;
	const int32_t fresh = c->length - bos;
	int32_t *ids = NULL;
	size_t n = 0, cap = 0;
	int rc = tokenizer_encode(t, o->text, o->size, false, &ids, &n, &cap, e);

	c->n = (int32_t)(n / (size_t)fresh < CALIBRATION_MOST ? n / (size_t)fresh : CALIBRATION_MOST);
	if (!rc && c->n < CALIBRATION_LEAST)
		rc = err_set(e, ERR_USAGE,
			"the calibration text has %zu tokens, and %d are needed: give a longer one, or none, "
			"and the model writes it itself",
			n, CALIBRATION_LEAST * fresh);
	for (int32_t i = 0; !rc && i < c->n; i++) {
		int32_t *to = c->ids + (size_t)i * (size_t)c->length;

		if (bos)
			to[0] = tokenizer_bos(t);
		memcpy(to + bos, ids + (n - (size_t)fresh) * (size_t)i / (size_t)(c->n > 1 ? c->n - 1 : 1),
			(size_t)fresh * sizeof *ids);
	}
	free(ids);
	return rc;
}

static void on_token(void *arg, const struct event *ev)
{
	struct calibration *c = arg;
	const int64_t i = ev->kind == EV_token ? ev->u.token.request - 1 : -1;

	if (i >= 0 && i < c->n && ev->u.token.pos < c->length)
		c->ids[i * c->length + ev->u.token.pos] = (int32_t)ev->u.token.id;
}

/* The model's own text, at temperature 1, each sequence from a token drawn by the seed: no prompt
 * of ours decides what it is about (Liu et al. 2023, LLM-QAT, section 3.1). */
static int write_text(struct calibration *c, const struct change_options *o, struct err *e)
{
	const struct tokenizer *t = engine_tokenizer(c->engine);
	const bool bos = tokenizer_adds_bos(t) && tokenizer_bos(t) >= 0;
	int more = 1;

	c->n = CALIBRATION_MOST;
	for (int32_t i = 0; i < c->n && more > 0; i++) {
		int32_t *ids = c->ids + (size_t)i * (size_t)c->length;
		struct engine_request q = engine_own_request(
			EV_REQUEST_KIND_load, ids, 1 + bos, c->length - 1 - bos, "calibration");
		const uint64_t key[] = { o->seed, (uint64_t)i };

		if (bos)
			ids[0] = tokenizer_bos(t);
		do
			ids[bos] = (int32_t)(XXH64(key, sizeof key, (uint64_t)ids[bos] + 1) %
								 (uint64_t)tokenizer_n_vocab(t));
		while (tokenizer_is_special(t, ids[bos]));
		q.sample = i;
		q.params.temperature = 1;
		q.params.top_p = 1;
		q.params.seed = o->seed;
		more = engine_submit(c->engine, &q, e) < 0 ? -1 : 1;
	}
	for (int64_t steps = 0; more > 0; steps++) {
		const int64_t all = (int64_t)c->n * c->length / engine_info(c->engine)->slots;

		more = engine_step(c->engine, e);
		if (o->progress && !o->progress(o->arg, "the model writes a calibration text", steps, all))
			return err_set(e, ERR_INTERRUPTED, "stopped");
	}
	return more;
}

static int check_layers(const struct model *m, struct err *e)
{
	for (int32_t i = 0; i < m->config.n_layers; i++)
		if (m->layer[i].mixer.kind != &layer_attention ||
			((const struct attention *)m->layer[i].mixer.params)->from ||
			m->layer[i].ffn.kind != &layer_feed_forward)
			return err_set(e, ERR_USAGE,
				"layer %d is not one of attention to its own keys and a gated feed-forward, so no "
				"text can go through it alone: choose a method that reads none",
				i);
	return 0;
}

static int open_engine(
	struct calibration *c, const char *model, const struct change_options *o, struct err *e)
{
	struct engine_options with = ENGINE_DEFAULTS;

	with.model = model;
	with.backend = "cpu";
	with.threads = o->threads;
	with.ctx = CALIBRATION_LENGTH;
	if (engine_open(&c->engine, &with, e))
		return -1;
	c->length = engine_info(c->engine)->ctx;
	return check_layers(c->engine->model, e) || engine_add_sink(c->engine, on_token, c);
}

static int open_memory(struct calibration *c, struct err *e)
{
	const struct model *m = c->engine->model;
	const int32_t n_pages = (c->length + PAGE - 1) / PAGE;
	const size_t tokens = (size_t)CALIBRATION_MOST * (size_t)c->length;

	c->ids = calloc(tokens, sizeof *c->ids);
	c->x = calloc(tokens * (size_t)m->config.dim, sizeof *c->x);
	c->pages = calloc((size_t)n_pages, sizeof *c->pages);
	if (!c->ids || !c->x || !c->pages)
		return err_no_memory(e, "%zu tokens of calibration", tokens);
	for (int32_t i = 0; i < n_pages; i++)
		c->pages[i] = i;
	c->specs = c->engine->specs;
	return memory_stores_open(
		c->store, &c->specs, m->kernels, PAGE, n_pages, "the pages of a calibration text", e);
}

int calibration_open(
	struct calibration *c, const char *model, const struct change_options *o, struct err *e)
{
	*c = (struct calibration){ 0 };
	if (!open_engine(c, model, o, e) && !open_memory(c, e)) {
		engine_begin(c->engine, NULL);
		engine_observe(c->engine, false);
		if (!(o->text ? read_text(c, o, e) : write_text(c, o, e)) &&
			!calibration_run(c, -1, NULL, NULL, 0, true, e)) {
			c->hash = XXH64(c->ids, (size_t)c->n * (size_t)c->length * sizeof *c->ids, 0);
			return 0;
		}
	}
	calibration_close(c);
	return -1;
}

void calibration_close(struct calibration *c)
{
	if (c->engine && c->engine->model)
		memory_stores_close(c->store, &c->specs, c->engine->model->kernels);
	free(c->ids);
	free(c->x);
	free(c->pages);
	engine_close(c->engine);
	*c = (struct calibration){ 0 };
}
