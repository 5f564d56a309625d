/* See channels.h. */
#include "engine/observe/channels.h"

#include "base/array.h"
#include "base/prompts.h"
#include "engine/core/engine_impl.h"
#include "engine/observe/pass.h"

enum { TOKENS = 512 };

/* The inputs of products of the layers, one after the other, in each chunk of the text again. */
static struct channel_input *input_at(struct channels *c, const struct k_op *op)
{
	const struct k_matmul *m = &op->u.matmul;
	struct channel_input *in;

	if (c->next < c->n)
		return &c->input[c->next++];
	if (!ARRAY_ROOM(c->input, c->cap, c->n + 1))
		return NULL;
	in = &c->input[c->n++];
	c->next = c->n;
	*in = (struct channel_input){ .layer = op->layer, .stage = op->stage, .dim = m->in.dim };
	in->n_w = m->n_parts;
	for (int32_t i = 0; i < m->n_parts; i++)
		in->w[i] = m->part[i].w;
	in->largest = calloc((size_t)in->dim, sizeof *in->largest);
	return in->largest ? in : NULL;
}

static void see_rows(struct channel_input *in, const struct k_acts *a, int32_t n)
{
	for (int32_t r = 0; r < n; r++) {
		const struct k_acts row = k_acts_row(a, r);

		for (int32_t i = 0; i < in->dim; i++)
			in->largest[i] = fmaxf(in->largest[i], fabsf(k_acts_value(&row, i)));
	}
}

struct seeing {
	struct channels *c;
	struct err *err;
};

static bool see(void *arg, const struct k_op *op, int32_t layer)
{
	struct seeing *s = arg;
	const struct k_acts *a = &op->u.matmul.in;
	struct channel_input *in;

	if (op->kind != K_OP_matmul || layer < 0)
		return true;
	in = input_at(s->c, op);
	if (in)
		see_rows(in, a, op->u.matmul.n);
	else
		err_no_memory(s->err, "the channels of activations");
	return in;
}

/* One text of the shipped prompts, chunk by chunk. */
static int run_text(struct engine *e, const int32_t *ids, int32_t n,
	const struct shipped_pass *with, struct err *err)
{
	struct pass p;
	int failed = pass_open(&p, e, n, err);

	if (failed)
		return -1;
	p.f.rewriter[FORWARD_FLOATS].fn = NULL;
	p.f.least = 0;
	for (int32_t pos = 0, rows; !failed && pos < n; pos += rows) {
		rows = pass_most(&p, pos, n);
		pass_rows(&p, ids, pos, rows, false);
		with->begin(with->arg, &p.f, rows);
		failed = forward_run_each(&p.f, with->see, with->arg, err) || err->code;
		if (!failed && with->end)
			with->end(with->arg);
	}
	pass_close(&p);
	return failed ? -1 : 0;
}

int32_t shipped_text_run(struct engine *e, const struct shipped_pass *with, struct err *err)
{
	const int32_t most = e->info.ctx < TOKENS ? e->info.ctx : TOKENS;
	size_t n = 0, cap = 0;
	int32_t *ids = NULL;
	int failed = tokenizer_encode(
		e->tokenizer, shipped_prompts, strlen(shipped_prompts), false, &ids, &n, &cap, err);

	n = (int32_t)n < most ? n : (size_t)most;
	failed = failed || run_text(e, ids, (int32_t)n, with, err);
	free(ids);
	return failed ? -1 : (int32_t)n;
}

static void begin(void *arg, struct forward *f, int32_t rows)
{
	struct seeing *s = arg;

	(void)f;
	(void)rows;
	s->c->next = 0;
}

int channels_measure(struct channels *c, struct engine *e, struct err *err)
{
	struct seeing s = { .c = c, .err = err };
	const struct shipped_pass with = { begin, NULL, see, &s };

	*c = (struct channels){ 0 };
	c->n_tokens = shipped_text_run(e, &with, err);
	if (c->n_tokens >= 0)
		return 0;
	channels_free(c);
	return -1;
}

void channels_free(struct channels *c)
{
	for (int32_t i = 0; i < c->n; i++)
		free(c->input[i].largest);
	free(c->input);
	*c = (struct channels){ 0 };
}

int channels_setting(struct engine *e, const char **value, const char *name,
	int (*measure_fn)(struct engine *e, struct err *err), struct err *err)
{
	if (!*value || !**value)
		return 0;
	if (strcmp(*value, "measure") != 0)
		return err_set(
			err, ERR_USAGE, "%s %.40s: this is measured, not set: measure does it", name, *value);
	if (!e->begun) /* its events would come before the session's */
		return 0;
	*value = "";
	return e->model ? measure_fn(e, err) : 0;
}

/* What is measured as a session begins; a failure leaves the events out. */
static void begun(struct engine *e, void *state)
{
	struct err ignored = { 0 };

	(void)state;
	engine_apply_outliers(e, &e->set, &ignored);
	ignored.code = ERR_NONE;
	engine_apply_importance(e, &e->set, &ignored);
}

const struct step_hooks measured_hooks = { .name = "measured", .begun = begun };
