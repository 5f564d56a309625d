/* Selects the drafter with the highest predicted speedup: compares the others by shadow mode's
 * decayed averages and the measured cost of a step's rows (engine/draft/shadow.h, draft_cost.h),
 * and chooses again as the text changes.
 *
 * Prompt lookup costs nothing, so it guesses at every step. Where it has a guess, and its guesses
 * have on average given more speedup than the best of the others, it is used; elsewhere the best of
 * the others, if that is faster than plain decoding. The same sums limit the tokens of a guess:
 * those whose probability is worth a row.
 *
 * The others compute, or depend on being verified: only one of them guesses in a step, and its
 * speed is measured then. A guess in use costs what one in the shadow does, and may win; and it is
 * measured where it matters, at the steps without a prompt-lookup guess. The choice is a
 * multi-armed bandit: each is chosen as often as it is likely to be the best, by a draw from the
 * distribution of its estimated speed (Thompson 1933; Chapelle and Li 2011, "An Empirical
 * Evaluation of Thompson Sampling"), against plain decoding, whose speed is 1. So close drafters
 * take turns on the same text, and slow ones are seldom used. Old measurements decay, and count
 * less with time. Thread: the engine's. */
#include <math.h>
#include <stdlib.h>

#include "engine/draft/shadow.h"

enum {
	FIRST = 2, /* virtual steps before a drafter that computes has an estimate */
	/* steps without it after which half of its measurements no longer count … */
	STALE = 128,
	KEPT = 6, /* … but so many virtual steps are kept: a very slow drafter stays known as slow */
	WEIGH_EVERY = 2,
	/* every so many steps a few more tokens are guessed, to measure whether they pay off */
	WIDER_EVERY = 8,
	WIDER = 2,
	OFF = -1,
};
#define SPREAD 0.3  /* standard deviation of the speed after one virtual step; half after four */
#define DOUBT 2.0   /* virtual steps without gain, added to the measured ones */
#define MARGIN 1.04 /* a lead that is worth reporting */

struct weighed {        /* of a drafter */
	double speed;       /* of it alone; 0: not known */
	int32_t nodes;      /* the best number of nodes; 0: plain decoding is faster */
	double guess_speed; /* of the steps in which it guessed; 0: not known */
	int32_t guess_nodes;
	double known; /* virtual steps measured, less those that no longer count */
	int64_t used; /* step of its last use */
};

struct drafter {
	struct shadow *shadow;
	const struct draft_cost *cost;
	struct weighed w[SHADOW_MOST];
	int32_t width, n, now;                    /* the best that computes, or OFF */
	int32_t reported, reported_nodes, before; /* the best of all: the reported choice */
	double reported_speed, before_speed;
	bool changed;
	int64_t step;
	struct draft_job *job; /* [slots] scratch */
	int32_t slots;
};

static int32_t min32(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

static void auto_close(struct drafter *d)
{
	shadow_close(d->shadow);
	free(d->job);
}

static int auto_open(
	struct drafter *d, const struct draft_env *env, const char *args, struct err *e)
{
	if (!env || !env->model || !env->cost)
		return err_set(e, ERR_USAGE, "auto weighs drafters on a running model; there is none here");
	d->slots = env->slots;
	d->job = calloc((size_t)env->slots, sizeof *d->job);
	d->cost = env->cost;
	d->now = d->reported = d->before = OFF;
	d->reported_speed = d->width = 1;
	if (!d->job)
		return err_no_memory(e, "auto");
	if (shadow_open(&d->shadow, args && *args ? args : "all", env, e))
		return -1;
	d->n = shadow_count(d->shadow);
	for (int32_t i = 0; i < d->n; i++) {
		const struct shadow_drafter *s = shadow_at(d->shadow, i);
		const int32_t width = min32(draft_width(s->ops, s->d), DRAFT_NODES);

		d->width = width > d->width ? width : d->width;
	}
	return 0;
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

static struct shadow_sums doubted(struct shadow_sums s)
{
	s.depth *= s.steps > 0 ? 1 + DOUBT / s.steps : 0;
	s.steps += DOUBT;
	s.tokens += DOUBT;
	return s;
}

static void weigh_one(struct drafter *d, int32_t i, int32_t requests)
{
	const struct shadow_drafter *s = shadow_at(d->shadow, i);
	struct shadow_sums all = doubted(s->recent), guesses = doubted(with_guess(&s->recent));
	struct weighed *w = &d->w[i];

	w->nodes = shadow_best(&all, d->cost, DRAFT_NODES, requests, &w->speed);
	w->guess_nodes = shadow_best(&guesses, d->cost, DRAFT_NODES, requests, &w->guess_speed);
	if (!w->nodes)
		w->speed = shadow_speed(&all, d->cost, DRAFT_NODES, requests);
	w->known = s->recent.steps * exp2(-(double)(d->step - w->used) / STALE);
	w->known = fmax(w->known, fmin(s->recent.steps, KEPT));
}

/* About a normal draw: the sum of four uniform ones. */
static double draw(const struct drafter *d, int32_t i)
{
	uint64_t h = ((uint64_t)d->step * SHADOW_MOST + (uint64_t)i + 1) * 0x9e3779b97f4a7c15u;
	double sum = 0;

	h ^= h >> 31;
	h *= 0xbf58476d1ce4e5b9u;
	h ^= h >> 29;
	for (int k = 0; k < 64; k += 16)
		sum += (double)(h >> k & 0xffff) / 65536;
	return (sum - 2) * sqrt(3);
}

/* A drafter that guesses only when used. */
static bool is_rival(const struct drafter *d, int32_t i)
{
	const struct shadow_drafter *s = shadow_at(d->shadow, i);

	return !s->free || s->ops->window;
}

static int32_t choose_rival(const struct drafter *d)
{
	int32_t best = OFF;
	double most = 1;

	for (int32_t i = 0; i < d->n; i++) {
		const struct weighed *w = &d->w[i];
		double speed;

		if (!is_rival(d, i))
			continue;
		speed = w->known < FIRST ? INFINITY : w->speed + SPREAD * draw(d, i) / sqrt(w->known);
		if (speed > most) {
			most = speed;
			best = i;
		}
	}
	return best;
}

/* The best of those faster than plain decoding; one other than `now` needs a lead. */
static int32_t best_of(const struct drafter *d, int32_t now)
{
	int32_t best = now >= 0 && d->w[now].nodes > 0 ? now : OFF;
	double least = best >= 0 ? d->w[best].speed * MARGIN : 1;

	for (int32_t i = 0; i < d->n; i++)
		if (d->w[i].nodes > 0 && d->w[i].speed > least) {
			least = d->w[i].speed;
			best = i;
		}
	return best;
}

static double speed_of(const struct drafter *d, int32_t i)
{
	return i < 0 ? 1 : d->w[i].speed;
}

static void choose(struct drafter *d)
{
	int32_t reported = best_of(d, d->reported);

	d->now = choose_rival(d);
	if (reported != d->reported) {
		d->before = d->reported;
		d->before_speed = speed_of(d, d->before);
		d->reported = reported;
		d->changed = true;
	}
	d->reported_nodes = reported >= 0 ? d->w[reported].nodes : 0;
	d->reported_speed = speed_of(d, reported);
}

/* ---- guessing ---- */

/* Drafter i guesses, at most so many nodes, for those of the jobs that have no guess yet. */
static int use(struct drafter *d, int32_t i, int32_t nodes, const struct draft_job *job, int32_t n,
	struct err *e)
{
	struct shadow_drafter *s = shadow_at(d->shadow, i);
	int32_t asked = 0, width = min32(nodes, draft_width(s->ops, s->d));
	int64_t start;

	for (int32_t k = 0; k < n; k++)
		if (!job[k].out->n) {
			d->job[asked] = job[k];
			d->job[asked++].nodes = min32(width, job[k].nodes);
		}
	if (!asked || width < 1)
		return 0;
	d->w[i].used = d->step;
	start = draft_cost_now(d->cost);
	if (s->ops->propose(s->d, d->job, asked, e))
		return -1;
	start = (draft_cost_now(d->cost) - start) / asked;
	for (int32_t k = 0; k < asked; k++) {
		draft_prune(d->job[k].out, d->job[k].nodes, d->job[k].depth, DRAFT_LEAVES);
		d->job[k].out->by = s->ops->name;
		/* the others are scored at their full width, in the shadow */
		if (is_rival(d, i) || d->job[k].out->n)
			shadow_note(d->shadow, i, &d->job[k], start, is_rival(d, i));
	}
	return 0;
}

/* The free drafter with the best speed of guesses, above `least` and below `below`: calls go from
 * the best down. */
static int32_t next_free(const struct drafter *d, double least, double below)
{
	int32_t best = OFF;

	for (int32_t i = 0; i < d->n; i++)
		if (!is_rival(d, i) && d->w[i].guess_nodes > 0 && d->w[i].guess_speed > least &&
			d->w[i].guess_speed < below &&
			(best < 0 || d->w[i].guess_speed > d->w[best].guess_speed))
			best = i;
	return best;
}

static int guess(struct drafter *d, const struct draft_job *job, int32_t n, struct err *e)
{
	const struct weighed *now = d->now >= 0 ? &d->w[d->now] : NULL;
	double least = now && now->speed > 1 ? now->speed : 1;
	int32_t wider = d->step % WIDER_EVERY ? 0 : WIDER;
	int32_t i;

	for (double below = INFINITY; (i = next_free(d, least, below)) >= 0;
		 below = d->w[i].guess_speed)
		if (use(d, i, d->w[i].guess_nodes, job, n, e))
			return -1;
	return now ? use(d, d->now, now->nodes ? now->nodes + wider : DRAFT_NODES, job, n, e) : 0;
}

/* Lets the drafters guess that are measured in the shadow. */
static int ask_others(struct drafter *d, const struct draft_job *job, int32_t n, struct err *e)
{
	for (int32_t i = 0; i < d->n; i++)
		if (!is_rival(d, i) && shadow_ask(d->shadow, i, job, n, e))
			return -1;
	return 0;
}

static int auto_propose(struct drafter *d, const struct draft_job *job, int32_t n, struct err *e)
{
	for (int32_t k = 0; k < n; k++)
		job[k].out->n = 0;
	if (d->step++ % WEIGH_EVERY == 0) {
		for (int32_t i = 0; i < d->n; i++)
			weigh_one(d, i, n);
		choose(d);
	}
	return guess(d, job, n, e) || ask_others(d, job, n, e) ? -1 : 0;
}

static int auto_learn(struct drafter *d, const struct draft_seen *seen, int32_t n, struct err *e)
{
	return shadow_learn(d->shadow, seen, n, e);
}

static void auto_forget(struct drafter *d, int64_t request)
{
	shadow_forget(d->shadow, request);
}

static const char *name_of(const struct drafter *d, int32_t i)
{
	return i < 0 ? "off" : shadow_at(d->shadow, i)->spec;
}

static bool auto_chose(struct drafter *d, struct draft_choice *out)
{
	bool changed = d->changed;

	d->changed = false;
	*out = (struct draft_choice){ name_of(d, d->reported), name_of(d, d->before), d->reported_nodes,
		d->reported_speed, d->before_speed };
	return changed;
}

static struct shadow *auto_weighed(struct drafter *d)
{
	return d->shadow;
}

const struct draft_ops draft_auto = {
	DRAFTER(auto, "auto", "NAME+NAME",
		"selects the drafter with the highest predicted speedup, by shadow mode and the measured "
		"cost of rows"),
	.variants = (const struct draft_variant[]){ { "auto", "auto", true, 0.1 }, { 0 } },
	.needs_pages = true,
	.cost_rows = DRAFT_COST_ROWS,
	.learn = auto_learn,
	.forget = auto_forget,
	.weighed = auto_weighed,
	.chose = auto_chose,
};
