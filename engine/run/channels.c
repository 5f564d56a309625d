/* See channels.h. */
#include "engine/run/channels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/prompts.h"
#include "engine/core/engine_impl.h"
#include "engine/run/pass.h"

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

		for (int32_t i = 0; i < in->dim; i++) {
			const float v = row.x ? row.x[i] : row.d[i / K_QBLOCK] * (float)row.q[i];

			in->largest[i] = fmaxf(in->largest[i], fabsf(v));
		}
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
		err_set(s->err, ERR_MEMORY, "no memory for the channels of activations");
	return in;
}

static int see_text(struct channels *c, struct engine *e, const int32_t *ids, struct err *err)
{
	struct seeing s = { .c = c, .err = err };
	struct pass p;
	int failed = pass_open(&p, e, c->n_tokens, err);

	if (failed)
		return -1;
	p.f.floats = NULL;
	p.f.least = 0;
	for (int32_t pos = 0; !failed && pos < c->n_tokens; pos += PASS_ROWS) {
		const int32_t left = c->n_tokens - pos;

		pass_rows(&p, ids, pos, left < PASS_ROWS ? left : PASS_ROWS, false);
		c->next = 0;
		failed = forward_run_each(&p.f, see, &s, err) || err->code;
	}
	pass_close(&p);
	return failed ? -1 : 0;
}

int channels_measure(struct channels *c, struct engine *e, struct err *err)
{
	const int32_t most = e->info.ctx < TOKENS ? e->info.ctx : TOKENS;
	size_t n = 0, cap = 0;
	int32_t *ids = NULL;
	int failed;

	*c = (struct channels){ 0 };
	failed = tokenizer_encode(
		e->tokenizer, shipped_prompts, strlen(shipped_prompts), false, &ids, &n, &cap, err);
	c->n_tokens = (int32_t)n < most ? (int32_t)n : most;
	failed = failed || see_text(c, e, ids, err);
	free(ids);
	if (failed)
		channels_free(c);
	return failed ? -1 : 0;
}

void channels_free(struct channels *c)
{
	for (int32_t i = 0; i < c->n; i++)
		free(c->input[i].largest);
	free(c->input);
	*c = (struct channels){ 0 };
}
