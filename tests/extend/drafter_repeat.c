/* Guesses that the newest token comes again: what is guessed is a chain of it. Thread: the
 * engine's. */
#include "engine/draft/draft.h"

struct drafter {
	int32_t width;
};

static int repeat_open(
	struct drafter *d, const struct draft_env *env, const char *args, struct err *e)
{
	(void)env; /* its guesses need no model, so what-if can ask about it */
	d->width = 2;
	if (draft_numbers(args, 1, DRAFT_MAX, &d->width, 1) < (args != NULL))
		return err_set(
			e, ERR_USAGE, "repeat:%.40s is not repeat:k with k from 1 to %d", args, DRAFT_MAX);
	return 0;
}

static void repeat_close(struct drafter *d)
{
	(void)d; /* it holds nothing */
}

static int repeat_propose(struct drafter *d, const struct draft_job *job, int32_t n, struct err *e)
{
	(void)e;
	for (int32_t i = 0; i < n; i++) {
		struct draft *t = job[i].out;

		t->n = 0;
		while (t->n < d->width && t->n < job[i].nodes && t->n < job[i].depth)
			draft_add(t, t->n - 1, job[i].ids[job[i].n - 1], 1);
	}
	return 0;
}

const struct draft_ops draft_repeat = {
	DRAFTER(repeat, "repeat", "k", "the newest token once more, k times"),
	.variants = (const struct draft_variant[]){ { "repeat", "repeat:$n", false, 0.1 }, { 0 } },
};
