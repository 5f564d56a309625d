/* See apart.h. */
#include "sessions/price/apart.h"

#include <stdlib.h>
#include <string.h>

static struct apart_case *add(struct apart *a, struct lossy_settings set, const char *how)
{
	struct apart_case *c = &a->one[a->n++];
	char names[96];

	*c = (struct apart_case){ .set = set };
	lossy_print(&set, names, sizeof names);
	snprintf(c->name, sizeof c->name, "%s%s", how, *names ? names : "no setting");
	return c;
}

/* With setting i, and what says more of it, as `from` has it, the others as `rest` has them. */
static struct lossy_settings mixed(
	const struct lossy_settings *rest, const struct lossy_settings *from, int i)
{
	struct lossy_settings s = *rest;

	do
		memcpy(s.value[i], from->value[i], sizeof s.value[i]);
	while (++i < s.n && s.row[i]->part);
	return s;
}

int apart_begin(
	struct apart *a, struct engine *e, const int32_t *ids, int32_t n_ids, struct err *err)
{
	const struct lossy_settings exact = lossy_query(NULL, NULL);
	int lossy[LOSSY_SETTINGS], n = 0;
	bool weights;

	*a = (struct apart){ .before = lossy_of(e), .ids = ids, .n_ids = n_ids };
	engine_get(e, "twin", a->twin, sizeof a->twin);
	weights = strcmp(a->twin, "on") != 0 && strcmp(a->twin, "off") != 0;
	for (int i = 0; i < exact.n; i++)
		if (strcmp(exact.value[i], a->before.value[i]) != 0 && !exact.row[i]->part)
			lossy[n++] = i;
	if (!n && !weights)
		return err_set(err, ERR_USAGE,
			"nothing lossy is set, so there is nothing to take apart: see --cache-format, "
			"--visible");
	add(a, a->before, "all: ");
	for (int i = 0; n > 1 && i < n; i++)
		add(a, mixed(&exact, &a->before, lossy[i]), "alone: ");
	if (weights && n)
		add(a, exact, "weights alone: ");
	for (int i = 0; n > 2 && i < n; i++)
		add(a, mixed(&a->before, &exact, lossy[i]), "all but one: ");
	return 0;
}

int apart_end(struct apart *a, struct engine *e, struct err *err)
{
	const int failed = lossy_apply(&a->before, e, err);

	return engine_set(e, "twin", a->twin, err) || failed ? -1 : 0;
}

int apart_next(struct apart *a, struct engine *e, struct err *err)
{
	const struct engine_request q =
		engine_own_request(EV_REQUEST_KIND_score, a->ids, a->n_ids, 0, "price");
	struct apart_case *c = &a->one[a->next];
	struct err undo = { 0 };

	if (a->next == a->n)
		return apart_end(a, e, err) ? -1 : 0;
	if ((!a->next && !strcmp(a->twin, "off") && engine_set(e, "twin", "on", err)) ||
		lossy_apply(&c->set, e, err) || (c->request = engine_submit(e, &q, err)) < 0) {
		apart_end(a, e, &undo);
		return -1;
	}
	a->next++;
	return 1;
}

void apart_see(struct apart *a, const struct event *ev)
{
	for (int i = 0; ev->kind == EV_price && i < a->n; i++)
		if (a->one[i].request && a->one[i].request == ev->u.price.request)
			prices_add(&a->one[i].sum, ev);
}

static int by_kl(const void *a, const void *b)
{
	const struct apart_case *const *x = a, *const *y = b;

	return ((*x)->sum.kl < (*y)->sum.kl) - ((*x)->sum.kl > (*y)->sum.kl);
}

void apart_print(const struct apart *a, FILE *out)
{
	const struct apart_case *order[APART_CASES];
	int n = 0;

	for (int i = 0; i < a->n; i++)
		if (a->one[i].sum.n)
			order[n++] = &a->one[i];
	if (n > 1) /* the first is all of them */
		qsort(order + 1, (size_t)(n - 1), sizeof *order, by_kl);
	fprintf(out, "%10s %10s %10s %6s\n", "KL, nats", "perplexity", "exact", "best");
	for (int i = 0; i < n; i++) {
		const struct prices *s = &order[i]->sum;

		fprintf(out, "%10.5f %10.4f %10.4f %4.0f %%  %s\n", prices_kl(s), prices_perplexity(s),
			prices_exact_perplexity(s), 100.0 * s->n_equal / s->n, order[i]->name);
	}
}
