/* Whoever pays most, here and now: weighs the other drafters by shadow mode's scores of lately and the measured cost of
 * a step's rows (engine/shadow.h, draft_cost.h), and changes its mind when the text does.
 *
 * Those that compute nothing guess at every step. Where one of them has a guess, and guesses of its kind have lately
 * paid more than the best of the others, it is used; elsewhere the best of the others, if that pays. How many
 * tokens each may guess comes from the same sums: those whose chance is worth a row. Drafters that compute and are
 * not in use are tried now and then in the shadow, for PRICE of the time, the one first whose turn is longest ago.
 * A change needs a lead of MARGIN, and sums that mean something; so it does not flutter.
 * Thread: the engine's. */
#include "engine/draft/auto.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/shadow.h"

enum {
	ENOUGH = 6,   /* virtual steps behind a prediction */
	BURST = 8,    /* steps of a trial */
	WEIGH_EVERY = 4,
	WIDER_EVERY = 8, /* steps between two in which a few tokens more are guessed, to see whether they would pay */
	WIDER = 2,
	OFF = -1,
};
#define MARGIN 1.04
#define PRICE 0.01
#define FIRST_NS 30e6 /* for trials at the start */

struct weighed { /* of a drafter */
	double speed;        /* of it alone; 0: not known */
	int32_t nodes;
	double guess_speed;  /* of its steps in which it guessed; 0: not known */
	int32_t guess_nodes;
	int64_t tried;       /* step of its last trial */
};

struct drafter {
	struct shadow *shadow;
	const struct draft_cost *cost;
	struct weighed w[SHADOW_MOST];
	int32_t n, now;    /* the best that computes, or OFF */
	int32_t told, told_nodes, before; /* the best of all, for the eyes of people */
	double told_speed, before_speed;
	bool changed;
	int32_t trial, trial_left; /* who is being tried; OFF */
	double trial_ns;           /* time that may go into trials */
	int64_t step;
	struct draft_job *job; /* [slots] scratch */
	int32_t slots;
};

static void auto_close(struct drafter *d)
{
	shadow_close(d->shadow);
	free(d->job);
	free(d);
}

static int auto_open(struct drafter **out, const struct draft_env *env, const char *args, struct err *e)
{
	struct drafter *d;

	if (!env || !env->model || !env->cost)
		return err_set(e, ERR_USAGE, "auto weighs drafters on a running model; there is none here");
	d = calloc(1, sizeof *d);
	if (!d)
		return err_set(e, ERR_MEMORY, "no memory for auto");
	d->slots = env->slots;
	d->job = calloc((size_t)env->slots, sizeof *d->job);
	d->cost = env->cost;
	d->now = d->told = d->before = d->trial = OFF;
	d->told_speed = 1;
	d->trial_ns = FIRST_NS;
	if (!d->job)
		err_set(e, ERR_MEMORY, "no memory for auto");
	else if (!shadow_open(&d->shadow, args && *args ? args : "all", env, e)) {
		d->n = shadow_count(d->shadow);
		*out = d;
		return 0;
	}
	auto_close(d);
	return -1;
}

/* ---- weighing ---- */

/* The same sums of those steps alone in which it guessed. */
static struct shadow_sums with_guess(const struct shadow_sums *s)
{
	struct shadow_sums g = *s;

	g.steps = g.tokens = s->have[0];
	for (int i = 0; i < DRAFT_NODES; i++)
		g.tokens += s->hit[i];
	g.depth = s->steps > 0 ? s->depth * s->have[0] / s->steps : 0;
	return g;
}

static void weigh(struct drafter *d, int32_t requests)
{
	for (int32_t i = 0; i < d->n; i++) {
		struct shadow_drafter *s = shadow_at(d->shadow, i);
		struct shadow_sums g = with_guess(&s->lately);
		struct weighed *w = &d->w[i];

		w->speed = w->guess_speed = 0;
		w->nodes = w->guess_nodes = 0;
		if (s->lately.steps >= ENOUGH)
			w->nodes = shadow_best(&s->lately, d->cost, DRAFT_NODES, requests, &w->speed);
		if (g.steps >= 2)
			w->guess_nodes = shadow_best(&g, d->cost, DRAFT_NODES, requests, &w->guess_speed);
		/* a sum that has faded is no reason against it: it will be tried again */
	}
}

static int32_t best_of(const struct drafter *d, bool computing, int32_t now)
{
	int32_t best = now >= 0 && d->w[now].nodes > 0 ? now : OFF;
	double least = best >= 0 ? d->w[best].speed * MARGIN : 1;

	for (int32_t i = 0; i < d->n; i++)
		if ((!computing || !shadow_at(d->shadow, i)->free) && d->w[i].nodes > 0 && d->w[i].speed > least) {
			least = d->w[i].speed;
			best = i;
		}
	return best;
}

static void choose(struct drafter *d)
{
	int32_t told = best_of(d, false, d->told);

	d->now = best_of(d, true, d->now);
	d->told_nodes = told >= 0 ? d->w[told].nodes : 0;
	if (told == d->told) {
		d->told_speed = told >= 0 ? d->w[told].speed : 1;
		return;
	}
	d->before = d->told;
	d->before_speed = d->told >= 0 ? d->w[d->told].speed : 1;
	d->told = told;
	d->told_speed = told >= 0 ? d->w[told].speed : 1;
	d->changed = true;
}

/* ---- guessing ---- */

static int32_t min32(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

/* Drafter i guesses, at most so many nodes, for those of the jobs that have no guess yet. */
static int use(struct drafter *d, int32_t i, int32_t nodes, const struct draft_job *job, int32_t n, struct err *e)
{
	struct shadow_drafter *s = shadow_at(d->shadow, i);
	int32_t asked = 0, width = min32(nodes, s->ops->width(s->d));
	int64_t start;

	for (int32_t k = 0; k < n; k++)
		if (!job[k].out->n) {
			d->job[asked] = job[k];
			d->job[asked++].nodes = min32(width, job[k].nodes);
		}
	if (!asked || width < 1)
		return 0;
	start = now_ns();
	if (s->ops->propose(s->d, d->job, asked, e))
		return -1;
	start = (now_ns() - start) / asked;
	for (int32_t k = 0; k < asked; k++) {
		draft_prune(d->job[k].out, d->job[k].nodes, d->job[k].depth, DRAFT_LEAVES);
		d->job[k].out->by = s->ops->name;
		if (!s->free || d->job[k].out->n) /* the free ones are scored at their full width, in the shadow */
			shadow_note(d->shadow, i, &d->job[k], start, !s->free);
	}
	return 0;
}

/* The free one whose guesses pay best, better than `least`, and worse than the one before: best first. */
static int32_t next_free(const struct drafter *d, double least, double below)
{
	int32_t best = OFF;

	for (int32_t i = 0; i < d->n; i++)
		if (shadow_at(d->shadow, i)->free && d->w[i].guess_nodes > 0 && d->w[i].guess_speed > least &&
			d->w[i].guess_speed < below && (best < 0 || d->w[i].guess_speed > d->w[best].guess_speed))
			best = i;
	return best;
}

static int guess(struct drafter *d, const struct draft_job *job, int32_t n, struct err *e)
{
	double least = d->now >= 0 ? d->w[d->now].speed : 1;
	int32_t wider = d->step % WIDER_EVERY ? 0 : WIDER;
	int32_t i;

	for (double below = INFINITY; (i = next_free(d, least, below)) >= 0; below = d->w[i].guess_speed)
		if (use(d, i, d->w[i].guess_nodes, job, n, e))
			return -1;
	return d->now >= 0 ? use(d, d->now, d->w[d->now].nodes + wider, job, n, e) : 0;
}

/* Whose turn it is to be tried: who computes, is not in use, and was not for longest. */
static int32_t next_trial(const struct drafter *d)
{
	int32_t next = OFF;

	for (int32_t i = 0; i < d->n; i++)
		if (!shadow_at(d->shadow, i)->free && i != d->now && (next < 0 || d->w[i].tried < d->w[next].tried))
			next = i;
	return next;
}

static int try_others(struct drafter *d, const struct draft_job *job, int32_t n, struct err *e)
{
	int64_t start;

	for (int32_t i = 0; i < d->n; i++)
		if (shadow_at(d->shadow, i)->free && shadow_ask(d->shadow, i, job, n, e))
			return -1;
	d->trial_ns += PRICE * draft_cost_ns(d->cost, n, job->n);
	if (d->trial < 0 && d->trial_ns > 0) {
		d->trial = next_trial(d);
		d->trial_left = BURST;
	}
	if (d->trial < 0 || d->trial == d->now) {
		d->trial = OFF;
		return 0;
	}
	start = now_ns();
	if (shadow_ask(d->shadow, d->trial, job, n, e))
		return -1;
	d->trial_ns -= (double)(now_ns() - start);
	d->w[d->trial].tried = d->step;
	if (--d->trial_left <= 0)
		d->trial = OFF;
	return 0;
}

static int auto_propose(struct drafter *d, const struct draft_job *job, int32_t n, struct err *e)
{
	for (int32_t k = 0; k < n; k++)
		job[k].out->n = 0;
	if (d->step++ % WEIGH_EVERY == 0) {
		weigh(d, n);
		choose(d);
	}
	return guess(d, job, n, e) || try_others(d, job, n, e) ? -1 : 0;
}

static int auto_learn(struct drafter *d, const struct draft_seen *seen, int32_t n, struct err *e)
{
	return shadow_learn(d->shadow, seen, n, e);
}

static void auto_forget(struct drafter *d, int64_t request)
{
	shadow_forget(d->shadow, request);
}

static int32_t auto_width(const struct drafter *d)
{
	int32_t width = 1;

	for (int32_t i = 0; i < d->n; i++) {
		const struct shadow_drafter *s = shadow_at(d->shadow, i);
		int32_t w = s->ops->width(s->d);

		width = w > width ? w : width;
	}
	return min32(width, DRAFT_NODES);
}

static const char *name_of(const struct drafter *d, int32_t i)
{
	return i < 0 ? "off" : shadow_at(d->shadow, i)->spec;
}

bool auto_changed(struct drafter *d, struct auto_choice *out)
{
	bool changed = d->changed;

	d->changed = false;
	*out = (struct auto_choice){ name_of(d, d->told), name_of(d, d->before), d->told_nodes, d->told_speed,
								 d->before_speed };
	return changed;
}

struct shadow *auto_shadow(struct drafter *d)
{
	return d->shadow;
}

const struct draft_ops draft_auto = {
	.name = "auto",
	.args = "NAME+NAME",
	.doc = "whoever pays most, here and now, by shadow mode's scores and the measured cost of rows",
	.needs_pages = true,
	.open = auto_open,
	.close = auto_close,
	.propose = auto_propose,
	.learn = auto_learn,
	.forget = auto_forget,
	.width = auto_width,
};
