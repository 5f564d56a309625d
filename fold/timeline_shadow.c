/* Part of the timeline: drafters that guess beside the run, what steps cost, and what `auto` chose.
 * Kept like steps: what was told TL_WINDOW steps ago is let go of, but for the cost, which is
 * measured once. */
#include <stdio.h>

#include "fold/timeline_fold.h"

/* By rows within a depth, as they are told; a point that is told again is measured anew. */
bool tl_fold_cost(struct timeline *t, const struct event *ev)
{
	const struct ev_cost *e = &ev->u.cost;
	int32_t i = 0;

	if (e->rows < 1 || e->rows > INT32_MAX || e->depth < 0 || e->depth > INT32_MAX || e->ns <= 0)
		return false;
	while (i < t->n_costs && (t->cost[i].rows != e->rows || t->cost[i].depth != e->depth))
		i++;
	if (i == TL_COSTS)
		return true;
	t->n_costs += i == t->n_costs;
	t->cost[i] = *e;
	return true;
}

static double or_nan(double v)
{
	return isfinite(v) && v >= 0 ? v : (double)NAN;
}

static void unpack_counts(uint32_t out[TL_PLACES], struct ev_span s)
{
	memset(out, 0, TL_PLACES * sizeof *out);
	ev_items(s, out, sizeof *out, TL_PLACES);
}

/* The one that was told of longest ago. */
static void drop_oldest(struct timeline *t)
{
	struct tl_shadow *oldest = t->shadow;

	for (struct tl_shadow *s = t->shadow; s < t->shadow + t->n_shadows; s++)
		if (s->step < oldest->step)
			oldest = s;
	memmove(oldest, oldest + 1, (size_t)(t->shadow + --t->n_shadows - oldest) * sizeof *oldest);
}

/* The one of that name, in the order of names. */
static struct tl_shadow *shadow_of(struct timeline *t, const char *name)
{
	int32_t i = 0;

	while (i < t->n_shadows && strcmp(t->shadow[i].drafter, name) < 0)
		i++;
	if (i < t->n_shadows && !strcmp(t->shadow[i].drafter, name))
		return &t->shadow[i];
	if (t->n_shadows == TL_SHADOWS) {
		drop_oldest(t);
		return shadow_of(t, name);
	}
	memmove(&t->shadow[i + 1], &t->shadow[i], (size_t)(t->n_shadows++ - i) * sizeof *t->shadow);
	t->shadow[i] = (struct tl_shadow){ .measured = (double)NAN };
	snprintf(t->shadow[i].drafter, TL_DRAFTER, "%s", name);
	return &t->shadow[i];
}

bool tl_fold_shadow(struct timeline *t, const struct event *ev)
{
	const struct ev_shadow *e = &ev->u.shadow;
	char name[TL_DRAFTER];
	struct tl_shadow *s;

	ev_copy(name, sizeof name, e->drafter);
	if (!*name || !tl_step_is_now(t, e->step))
		return false;
	s = shadow_of(t, name);
	s->step = e->step;
	s->used = e->used == 1;
	s->steps = tl_or_0(e->steps);
	s->tokens = tl_or_0(e->tokens);
	s->nodes = tl_or_0(e->nodes);
	s->propose_ns = tl_or_0(e->propose_ns);
	s->learn_ns = tl_or_0(e->learn_ns);
	s->best_nodes = tl_int32(e->best_nodes);
	s->tokens_ema = or_nan(e->tokens_ema);
	s->predicted = or_nan(e->predicted);
	if (!isnan(or_nan(e->measured))) {
		s->measured = e->measured;
		s->measured_step = e->step;
	}
	unpack_counts(s->verified, e->verified);
	unpack_counts(s->accepted, e->accepted);
	return true;
}

bool tl_fold_choice(struct timeline *t, const struct event *ev)
{
	const struct ev_choice *e = &ev->u.choice;
	struct tl_choice *c;

	if (!tl_step_is_now(t, e->step))
		return false;
	c = tl_push(t->choice, &t->n_choices, TL_CHOICES, sizeof *c);
	*c = (struct tl_choice){ .step = e->step,
		.nodes = tl_int32(e->nodes),
		.speed = or_nan(e->speed),
		.speed_before = or_nan(e->speed_before) };
	ev_copy(c->drafter, sizeof c->drafter, e->drafter);
	ev_copy(c->before, sizeof c->before, e->before);
	return true;
}

void tl_drop_shadows(struct timeline *t, int64_t before)
{
	int32_t n = 0;

	for (int32_t i = 0; i < t->n_shadows; i++) {
		struct tl_shadow s = t->shadow[i];

		if (s.step <= before)
			continue;
		if (s.measured_step <= before) {
			s.measured = (double)NAN;
			s.measured_step = 0;
		}
		t->shadow[n++] = s;
	}
	t->n_shadows = n;
	for (n = 0; n < t->n_choices && t->choice[n].step <= before;)
		n++;
	t->n_choices -= n;
	memmove(t->choice, t->choice + n, (size_t)t->n_choices * sizeof *t->choice);
}

const struct tl_shadow *timeline_shadow(const struct timeline *t, const char *drafter)
{
	for (int32_t i = 0; i < t->n_shadows; i++)
		if (!strcmp(t->shadow[i].drafter, drafter))
			return &t->shadow[i];
	return NULL;
}
