/* Part of the timeline: trainings, and files that are quantised or pruned, layer by layer. */
#include "fold/timeline_fold.h"

bool tl_fold_training(struct timeline *t, const struct event *ev)
{
	const struct ev_training *e = &ev->u.training;
	struct tl_training *to = &t->training;

	*to = (struct tl_training){ .e = *e };
	ev_copy(to->name, sizeof to->name, e->name);
	ev_copy(to->teacher, sizeof to->teacher, e->teacher);
	return true;
}

static void thin(struct timeline *t)
{
	for (int32_t i = 0; i < t->n_trained / 2; i++)
		t->trained[i] = t->trained[2 * i];
	t->n_trained /= 2;
}

bool tl_fold_trained(struct timeline *t, const struct event *ev)
{
	const struct ev_trained *e = &ev->u.trained;
	struct ev_trained *to;

	if (e->step < 1 || e->nth < 0)
		return false;
	if (t->n_trained == TL_MOST_TRAINED)
		thin(t);
	to = tl_add(t, &t->trained, &t->n_trained, &t->cap_trained, sizeof *to);
	if (to)
		*to = *e;
	return true;
}

bool tl_fold_changed(struct timeline *t, const struct event *ev)
{
	const struct ev_changed *e = &ev->u.changed;
	struct tl_changed *to;

	if (e->step < 1 || !is_index(e->layer, TL_MAX_LAYERS) || e->layers <= e->layer)
		return false;
	if (t->n_changed == TL_MAX_LAYERS)
		return true;
	to = tl_add(t, &t->changed, &t->n_changed, &t->cap_changed, sizeof *to);
	if (!to)
		return true;
	*to = (struct tl_changed){ .e = *e, .alpha = { NAN, NAN, NAN, NAN } };
	ev_copy(to->method, sizeof to->method, e->method);
	if (e->alphas.data && e->alphas.size == sizeof to->alpha)
		memcpy(to->alpha, e->alphas.data, sizeof to->alpha);
	return true;
}
