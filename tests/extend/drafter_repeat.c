/* Guesses that the newest token comes again: what is guessed is a chain of it. Thread: the
 * engine's. */
#include <stdlib.h>

#include "engine/draft/draft.h"

struct drafter {
	int32_t k;
};

static int repeat_open(
	struct drafter **out, const struct draft_env *env, const char *args, struct err *e)
{
	int32_t k = 2;
	struct drafter *d;

	(void)env; /* its guesses need no model, so what-if can ask about it */
	if (draft_numbers(args, 1, DRAFT_MAX, &k, 1) < (args != NULL))
		return err_set(
			e, ERR_USAGE, "repeat:%.40s is not repeat:k with k from 1 to %d", args, DRAFT_MAX);
	d = calloc(1, sizeof *d);
	if (!d)
		return err_set(e, ERR_MEMORY, "no memory for a drafter");
	d->k = k;
	*out = d;
	return 0;
}

static void repeat_close(struct drafter *d)
{
	free(d);
}

static int repeat_propose(struct drafter *d, const struct draft_job *job, int32_t n, struct err *e)
{
	(void)e;
	for (int32_t i = 0; i < n; i++) {
		struct draft *t = job[i].out;

		t->n = 0;
		while (t->n < d->k && t->n < job[i].nodes && t->n < job[i].depth)
			draft_add(t, t->n - 1, job[i].ids[job[i].n - 1], 1);
	}
	return 0;
}

static int32_t repeat_width(const struct drafter *d)
{
	return d->k;
}

static const struct draft_variant variants[] = {
	{ "repeat", "repeat:$n", false, 0.1 },
	{ NULL, NULL, false, 0 },
};

const struct draft_ops draft_repeat = {
	DRAFTER(repeat, "repeat", "k", "the newest token once more, k times"),
};
