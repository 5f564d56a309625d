/* Jacobi decoding: k guesses are iterated by the target's own predictions until they are stable.
 * (Song et al. 2021, "Accelerating Feedforward Computation via Parallel Nonlinear Equation
 * Solving"; Santilli et al. 2023, "Accelerating Transformer Inference for Translation via Parallel
 * Decoding".)
 *
 * Greedy decoding solves y[i] = argmax p(. | y[< i]) for i = 1 … k one by one. Jacobi's method
 * solves all at once: every guess is replaced by the target's prediction after the guesses before
 * it, in one step for all of them, and that is repeated. A prefix that is right stays right: it
 * freezes, and is the text. Here freezing is the verification of a draft, and the predictions are
 * draft_seen.top, computed anyway. New positions at the far end begin with a token of the text,
 * pseudo-random by position. Thread: the engine's. */
#include "engine/draft/draft.h"

#include <string.h>

#include "engine/draft/owners.h"

enum { DEFAULT_K = 4 };

struct line {          /* of a request */
	int32_t n, newest; /* the text that the guesses are for */
	int32_t n_guess, guess[DRAFT_MAX];
	/* the step that was learnt from */
	bool shown;
	int32_t pos, cell[DRAFT_MAX], next[DRAFT_MAX];
};

struct drafter {
	int32_t width;
	struct owners owners; /* of struct line */
	struct draft_window window;
};

static void jacobi_close(struct drafter *d)
{
	owners_close(&d->owners);
}

static int jacobi_open(
	struct drafter *d, const struct draft_env *env, const char *args, struct err *e)
{
	d->width = DEFAULT_K;
	if (draft_numbers(args, 1, DRAFT_MAX, &d->width, 1) < (args ? 1 : 0))
		return err_set(e, ERR_USAGE,
			"jacobi:%.40s is not jacobi:k with k from 1 to %d tokens iterated", args, DRAFT_MAX);
	return owners_open(&d->owners, env->slots, sizeof(struct line))
			   ? 0
			   : err_no_memory(e, "the Jacobi drafter");
}

static void guess(struct drafter *d, const struct draft_job *job)
{
	struct line *l = owners_take_place(&d->owners, job->request);
	int32_t k = job->depth < job->nodes ? job->depth : job->nodes;

	if (l->n != job->n || l->newest != job->ids[job->n - 1]) /* it is new, or was rewound */
		l->n_guess = 0;
	job->out->n = 0;
	for (int32_t i = 0; i < k && i < d->width; i++)
		draft_add(job->out, i - 1,
			i < l->n_guess ? l->guess[i] : draft_random(job->ids, job->n, job->n + i), 1);
}

static int jacobi_propose(struct drafter *d, const struct draft_job *job, int32_t n, struct err *e)
{
	(void)e;
	for (int32_t i = 0; i < n; i++)
		guess(d, &job[i]);
	return 0;
}

/* The guesses after the newest token become the predictions that followed the guesses from its
 * position on. */
static void iterate(struct line *l, const struct draft_seen *s)
{
	l->n = s->n;
	l->newest = s->ids[s->n - 1];
	l->n_guess = 0;
	for (int32_t i = s->n_kept + 1; i <= s->draft->n; i++)
		l->guess[l->n_guess++] = s->top[i];
	l->shown = true;
	l->pos = s->pos + 1;
	memset(l->cell, -1, sizeof l->cell);
	for (int32_t i = 0; i < s->draft->n; i++) {
		l->cell[i] = s->draft->id[i];
		l->next[i] = s->top[i + 1];
	}
}

static int jacobi_learn(struct drafter *d, const struct draft_seen *seen, int32_t n, struct err *e)
{
	(void)e;
	for (int32_t i = 0; i < n; i++) {
		struct line *l = owners_place(&d->owners, seen[i].request);

		if (l && seen[i].draft)
			iterate(l, &seen[i]);
		else if (l)
			l->shown = false;
	}
	return 0;
}

static void jacobi_forget(struct drafter *d, int64_t request)
{
	owners_drop(&d->owners, request);
}

static const struct draft_window *jacobi_window(struct drafter *d, int64_t request)
{
	const struct line *l = owners_place(&d->owners, request);
	int32_t n = 0;

	while (l && n < d->width && l->cell[n] >= 0)
		n++;
	if (!l || !l->shown || !n)
		return NULL;
	d->window = (struct draft_window){
		.levels = 1, .columns = n, .pos = l->pos, .cell = l->cell, .next = l->next
	};
	return &d->window;
}

const struct draft_ops draft_jacobi = {
	DRAFTER(jacobi, "jacobi", "k",
		"the model's own predictions of the last step, iterated until they stand"),
	.variants = (const struct draft_variant[]){ { "jacobi", "jacobi:$n", false, 0.1 }, { 0 } },
	.alone = "guesses by the model's own predictions: it needs the model",
	.learn = jacobi_learn,
	.forget = jacobi_forget,
	.window = jacobi_window,
	/* its guesses come from verifying its last ones: without that it has none */
	.shadowed = "",
};
