/* Requests of an encoder-decoder model: the first token that begins an answer (engine.h, start)
 * ends the input. So what is input follows from the tokens, as logits must. Thread: the engine's.
 */
#include "engine/core/engine_impl.h"

/* Tokens before the first that begins an answer; n: there is none. */
static int32_t input_of(const struct engine *e, const int32_t *ids, int32_t n)
{
	int32_t i = 0;

	while (i < n && ids[i] != e->info.start)
		i++;
	return i;
}

static int check_input(const struct engine *e, const struct engine_request *q, struct err *err)
{
	const int32_t n = input_of(e, q->ids, q->n_ids);

	if (!n)
		return err_set(err, ERR_USAGE, "the input is empty; an encoder needs at least one token");
	if (n > ENGINE_MAX_BUDGET)
		return err_set(err, ERR_USAGE,
			"an input of %d tokens: an encoder reads all of it in one step, of at most %d", n,
			ENGINE_MAX_BUDGET);
	if (q->kind == EV_REQUEST_KIND_score && n + 1 >= q->n_ids)
		return err_set(err, ERR_USAGE,
			"this model answers an input: an input alone has nothing to score; after it must come "
			"the token that begins an answer (id %d), and the answer",
			e->info.start);
	if (q->kind == EV_REQUEST_KIND_embed)
		return err_set(err, ERR_USAGE,
			"an encoder-decoder model has no final state of its input that stands for a text");
	if (q->kind == EV_REQUEST_KIND_pin || q->pin)
		return err_set(err, ERR_USAGE,
			"what an encoder keeps of a token depends on its whole input: no prefix can be kept");
	if ((q->parent && q->fork_pos && q->fork_pos <= n) ||
		(q->kind == EV_REQUEST_KIND_verify && q->n_prompt <= n))
		return err_set(err, ERR_USAGE,
			"position %d is in the input of %d tokens, which an encoder reads as a whole",
			q->parent ? q->fork_pos : q->n_prompt, n);
	return 0;
}

/* An input that nothing follows ends as the file says (add_eos_token), and gets the token that
 * begins the answer. Room for two more ids. */
static int32_t close_input(const struct engine *e, int32_t *ids, int32_t n)
{
	const struct tokenizer *t = e->tokenizer;

	if (t && tokenizer_adds_eos(t) && ids[n - 1] != tokenizer_eos(t))
		ids[n++] = tokenizer_eos(t);
	ids[n++] = e->info.start;
	return n;
}

static bool has_encoder(const struct engine *e)
{
	return e->info.start >= 0;
}

static int vet(
	const struct engine *e, struct engine_request *q, bool owned, int32_t **ids, struct err *err)
{
	(void)owned;
	if (q->n_ids < 1)
		return 0;
	if (input_of(e, q->ids, q->n_ids) == q->n_ids) {
		*ids = malloc(((size_t)q->n_ids + 2) * sizeof **ids);
		if (!*ids)
			return err_no_memory(err, "a request of %d tokens", q->n_ids);
		memcpy(*ids, q->ids, (size_t)q->n_ids * sizeof **ids);
		q->n_ids = close_input(e, *ids, q->n_ids);
		q->ids = *ids;
	}
	return check_input(e, q, err);
}

static int open_input(struct engine *e, struct request *r, struct err *err)
{
	(void)err;
	r->n_input = input_of(e, r->ids, r->n_ids);
	return 0;
}

/* Inputs of encoders, each whole, since all its rows see all of it: a step of their own, in which
 * one may have more rows than the budget. */
static void plan_inputs(struct sched *s, struct plan *p)
{
	struct request *r;

	for (int64_t at = 0; (r = sched_next_oldest(s, at)); at = r->admitted) {
		if (r->computed >= r->n_input || (p->n_items && p->n_rows + r->n_input > s->budget))
			continue;
		if (sched_ensure_pages(s, p, r, 0, r->n_input))
			plan_add(p, r, EV_WORK_prefill, r->n_input, 0, 0);
		else
			sched_denied(s, p, r);
	}
}

const struct request_form encoder_form = {
	.of = has_encoder,
	.vet = vet,
	.open = open_input,
	.plan_first = plan_inputs,
};
