/* See fit.h. */
#include "engine/text/fit.h"

#include <stdlib.h>
#include <string.h>

struct fit {
	const struct chat_input *of;
	const int32_t *kept;
	size_t n_kept;
	int32_t *ids; /* of what is left, so far */
	size_t n;
};

bool fit_stays(const struct chat_message *m)
{
	return !strcmp(m->role, "system") || !strcmp(m->role, "developer");
}

static bool begins_turn(const struct chat_message *m)
{
	return !strcmp(m->role, "user");
}

static size_t count_turns(const struct chat_input *of)
{
	size_t n = 0;

	for (size_t i = 0; i < of->n; i++)
		n += begins_turn(&of->message[i]);
	return n;
}

/* The first message of a turn that there is. */
static size_t turn_at(const struct chat_input *of, size_t turn)
{
	size_t at = 0;

	for (size_t i = 0, n = 0; turn && n <= turn; i++)
		if (begins_turn(&of->message[i])) {
			at = i;
			n++;
		}
	return at;
}

static int without(struct fit *f, size_t before, struct err *e)
{
	struct chat_message *m = calloc(f->of->n + 1, sizeof *m);
	struct chat_input rest = *f->of;
	size_t cap = 0;
	int rc;

	if (!m)
		return err_no_memory(e, "the conversation");
	rest.message = m;
	rest.n = 0;
	for (size_t i = 0; i < f->of->n; i++)
		if (i >= before || fit_stays(&f->of->message[i]))
			m[rest.n++] = f->of->message[i];
	free(f->ids);
	f->ids = NULL;
	f->n = 0;
	rc = template_ids(&rest, f->kept, f->n_kept, &f->ids, &f->n, &cap, e);
	free(m);
	return rc;
}

/* The fewest turns, more than none and at most `turns`: by halves, since each try is a whole
 * rendering. */
static int fewest(struct fit *f, size_t turns, size_t most, struct fit_left *left, struct err *e)
{
	size_t too_few = 0, tried = 0;

	left->turns = turns;
	for (size_t now = turns;; now = (too_few + left->turns) / 2) {
		if (without(f, turn_at(f->of, now), e))
			return -1;
		tried = now;
		if (f->n <= most || now == turns)
			left->turns = now;
		else
			too_few = now;
		if ((now == turns && f->n > most) || left->turns - too_few <= 1)
			break;
	}
	return tried == left->turns ? 0 : without(f, turn_at(f->of, left->turns), e);
}

static void count(const struct chat_input *of, struct fit_left *left)
{
	left->before = turn_at(of, left->turns);
	for (size_t i = 0; i < left->before; i++)
		left->messages += !fit_stays(&of->message[i]);
}

int fit_ids(const struct chat_input *of, size_t most, const int32_t *kept, size_t n_kept,
	int32_t **ids, size_t *n, struct fit_left *left, struct err *e)
{
	struct fit f = { .of = of, .kept = kept, .n_kept = n_kept };
	const size_t turns = count_turns(of);
	size_t whole;
	int rc;

	*left = (struct fit_left){ 0 };
	rc = without(&f, 0, e);
	whole = f.n;
	if (!rc && whole > most && turns > 1)
		rc = fewest(&f, turns - 1, most, left, e);
	count(of, left);
	left->tokens = rc || whole < f.n ? 0 : whole - f.n;
	if (rc)
		free(f.ids);
	*ids = rc ? NULL : f.ids;
	*n = rc ? 0 : f.n;
	return rc;
}
