/* See layer_part.h: inputs are collected from the layer as it is, its matrices are rounded, and the
 * text goes through the rounded layer to the next. */
#include "engine/core/engine_impl.h"
#include "lab/gptq.h"
#include "lab/prune_impl.h"

struct job {
	const struct quant_options *o;
	struct layer_parts *p;
	struct k_ctx *kernels; /* of the calibration's engine */
	struct quant_input in[CALIBRATION_INPUTS];
	struct layer_sums *sums;
	float *alpha;
};

/* ---- rounding ---- */

struct rows_job {
	struct layer_part *p;
	const struct form_scales *scales;
	const bool *apart; /* [cols] columns that stay; NULL: none */
};

static void round_row(void *arg, int64_t r, void *scratch)
{
	const struct rows_job *j = arg;
	struct layer_part *p = j->p;
	const float *w = p->w + r * p->cols;
	uint8_t *out = p->out + (size_t)r * (p->t->to.bytes / (size_t)p->rows);

	if (j->apart)
		form_row_apart(&p->t->form, j->apart, w, p->cols, scratch, out);
	else
		form_row(&p->t->form, j->scales, r, w, p->cols, out);
}

/* Which columns of an input stay: by their greatest value, or a share of them by their mean
 * magnitude (Lin et al. 2023, AWQ, section 3.1). *apart is the caller's to free. */
static int set_apart(
	const struct quant_options *o, const struct quant_input *in, bool **apart, struct err *e)
{
	float *score = malloc(2 * (size_t)in->n * sizeof *score);

	*apart = calloc((size_t)in->n, sizeof **apart);
	if (!score || !*apart) {
		free(score);
		return err_no_memory(e, "%d columns", in->n);
	}
	for (int32_t c = 0; c < in->n; c++) {
		score[c] = (float)-in->sum_abs[c];
		(*apart)[c] = in->max_abs[c] > K_OUTLIER;
	}
	if (o->method == QUANT_SALIENT)
		prune_least(score, in->n, (int64_t)(o->apart * in->n + 0.5), *apart, score + in->n);
	free(score);
	return 0;
}

static int round_part(struct job *job, struct layer_part *p, const struct gptq *g, struct err *e)
{
	const enum quant_method method = job->o->method;
	struct form_scales scales;
	bool *apart = NULL;
	int rc = form_scales_make(&p->t->form, &scales, p->w, p->rows, p->cols, e);

	if (!rc && quant_method_sets_apart(method) && p->input >= 0)
		rc = set_apart(job->o, &job->in[p->input], &apart, e);
	if (!rc && method == QUANT_GPTQ && p->input >= 0)
		rc = gptq_round(&g[p->input], &p->t->form, &scales, p->w, p->rows, p->out, e);
	else if (!rc)
		k_deal(job->kernels, p->rows, round_row, &(struct rows_job){ p, &scales, apart });
	for (int32_t c = 0; apart && c < p->cols; c++) {
		job->sums->kept += apart[c] ? p->rows : 0;
		job->sums->columns += apart[c];
	}
	free(apart);
	free(scales.unit);
	return rc;
}

static int round_parts(struct job *job, struct err *e)
{
	const struct quant_options *o = job->o;
	struct gptq g[CALIBRATION_INPUTS] = { 0 };

	for (int i = 0; i < CALIBRATION_INPUTS && o->method == QUANT_GPTQ && !e->code; i++)
		gptq_open(
			&g[i], job->kernels, job->in[i].hessian, job->in[i].n, o->damping, o->act_order, e);
	for (int32_t i = 0; i < job->p->n && !e->code; i++) {
		struct layer_part *p = &job->p->part[i];

		if (p->t->changed)
			round_part(job, p, g, e);
		else if (p->t->to.type == K_F32) /* a norm may have taken factors of columns */
			memcpy(p->out, p->w, p->t->to.bytes);
	}
	for (int i = 0; i < CALIBRATION_INPUTS; i++)
		gptq_close(&g[i]);
	return e->code ? -1 : 0;
}

/* ---- factors of columns ---- */

static struct layer_part *norm_of(const struct layer_parts *p, const char *name, int32_t columns)
{
	struct layer_part *norm = name ? layer_part_find(p, name) : NULL;

	return norm && norm->rows == 1 && norm->cols == columns ? norm : NULL;
}

/* What writes the columns of an input: a norm that no other input reads, or the last rows of a
 * matrix. NULL: nothing that could take the factors. */
static struct layer_part *writer_of(const struct layer_parts *p, int32_t input, int32_t columns)
{
	const struct layer *l = &p->change->text.engine->model->layer[p->layer];
	const struct attention *a = l->mixer.params;
	const struct feed_forward *f = l->ffn.params;
	const bool shared = a->on.pre && f->on.pre && !strcmp(a->on.pre, f->on.pre);
	struct layer_part *w = NULL;

	if (input == INPUT_QKV || input == INPUT_GATE_UP)
		return shared ? NULL : norm_of(p, input == INPUT_QKV ? a->on.pre : f->on.pre, columns);
	if (input == INPUT_OUT ? a->on.inner : f->on.inner)
		return norm_of(p, input == INPUT_OUT ? a->on.inner : f->on.inner, columns);
	if (input == INPUT_OUT && a->n_heads == a->n_kv_heads) /* else heads share a value */
		w = layer_part_find(p, "attn_v.weight");
	if (input == INPUT_DOWN && !f->plain)
		w = layer_part_find(p, "ffn_up.weight");
	return w && w->t->changed && w->rows >= columns ? w : NULL;
}

/* The last n rows of a matrix, the last n values of a vector. */
static void divide(struct layer_part *w, const float *s, int32_t n)
{
	const int64_t cols = w->rows > 1 ? w->cols : 1;
	float *last = w->w + w->rows * w->cols - n * cols;

	for (int64_t j = 0; j < n; j++)
		for (int64_t k = 0; k < cols; k++)
			last[j * cols + k] /= s[j];
}

/* "attn_v.bias" of "attn_v.weight". */
static struct layer_part *bias_of(
	const struct layer_parts *p, const struct layer_part *writer, int32_t columns)
{
	const char *name = strchr(strchr(writer->t->from->name, '.') + 1, '.') + 1;
	struct layer_part *bias;
	char buf[64];

	snprintf(buf, sizeof buf, "%.*sbias", (int)(strlen(name) - strlen("weight")), name);
	bias = layer_part_find(p, buf);
	return bias && bias->rows == 1 && bias->cols >= columns ? bias : NULL;
}

static void fold(struct layer_parts *p, int32_t input, struct layer_part *writer, const float *s,
	int32_t columns)
{
	struct layer_part *bias = bias_of(p, writer, columns);

	for (struct layer_part *r = p->part; r < p->part + p->n; r++)
		for (int64_t k = 0; r->input == input && k < r->rows * r->cols; k++)
			r->w[k] *= s[k % r->cols];
	divide(writer, s, columns);
	if (bias)
		divide(bias, s, columns);
}

/* The factors of one input, applied. Where a matrix that reads it stays as it is, there are none.
 */
static int scale_input(struct job *job, int32_t input, struct err *e)
{
	const struct quant_input *in = &job->in[input];
	struct layer_part *writer = writer_of(job->p, input, in->n);
	struct quant_reader readers[CALIBRATION_INPUTS];
	float *s = malloc((size_t)in->n * sizeof *s);
	struct awq_found found = { .alpha = job->o->alpha };
	int32_t n_readers = 0;
	bool all = writer;

	if (!s)
		return err_no_memory(e, "%d factors", in->n);
	for (int32_t i = 0; i < job->p->n; i++) {
		const struct layer_part *p = &job->p->part[i];

		if (p->input != input)
			continue;
		all = all && p->t->changed;
		readers[n_readers++] = (struct quant_reader){ p->w, p->rows, &p->t->form };
	}
	if (all && job->o->method == QUANT_AWQ)
		awq_scales(job->kernels, in, readers, n_readers, s, &found, e);
	else if (all)
		smooth_scales(in, readers, n_readers, found.alpha, s);
	if (all && !e->code) {
		job->alpha[input] = (float)found.alpha;
		fold(job->p, input, writer, s, in->n);
	}
	free(s);
	return e->code ? -1 : 0;
}

/* SmoothQuant takes the inputs that a norm writes; AWQ all that something can take factors for. */
static int scale_inputs(struct job *job, struct err *e)
{
	const enum quant_method method = job->o->method;

	for (int32_t i = 0; i < CALIBRATION_INPUTS; i++)
		if ((method == QUANT_AWQ ||
				(method == QUANT_SMOOTHQUANT && (i == INPUT_QKV || i == INPUT_GATE_UP))) &&
			scale_input(job, i, e))
			return -1;
	return 0;
}

/* The weights become those of the result. */
static int take_result(struct layer_part *p, struct layer_sums *sums, struct err *e)
{
	float *before = p->w;

	p->w = NULL;
	if (layer_part_take(p, e)) {
		p->w = before;
		return -1;
	}
	if (p->t->changed)
		change_sum(before, p->w, p->rows * p->cols, &sums->error, &sums->size);
	free(before);
	return 0;
}

int layer_job_run(const struct quant_options *o, struct layer_parts *p, struct layer_sums *sums,
	float *alpha, struct err *e)
{
	struct job job = {
		.o = o, .p = p, .kernels = p->change->text.engine->kernels, .sums = sums, .alpha = alpha
	};
	const bool hessians = o->method == QUANT_GPTQ || o->method == QUANT_AWQ;
	int rc = layer_pass(p, job.in, hessians ? ~0u : 0, e);

	/* a matrix of another width is none of those that the model reads */
	for (struct layer_part *w = p->part; !rc && w < p->part + p->n; w++)
		if (w->input >= 0 && w->cols != job.in[w->input].n)
			w->input = -1;
	rc = rc || scale_inputs(&job, e) || round_parts(&job, e) ? -1 : 0;
	calibration_free(job.in);
	for (int32_t i = 0; i < p->n && !rc; i++)
		rc = take_result(&p->part[i], sums, e);
	return rc ? -1 : layer_pass(p, NULL, 0, e);
}
