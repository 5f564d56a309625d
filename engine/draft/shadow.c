/* See shadow.h. An open guess is kept until the text settles it; nothing is counted before, so a
 * rewind drops the request's open guesses. */
#include "engine/draft/shadow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/draft/owners.h"
#include "engine/model/model.h"

struct open_guess { /* of one drafter for one request */
	int32_t n;      /* tokens before the guess; 0: none is open */
	int32_t next;   /* length of the text at which it guesses again */
	bool checked;   /* its draft is in the step that runs */
	int64_t propose_ns;
	struct draft draft;
};

struct shadow {
	int32_t n, slots;
	struct owners owners;
	const struct draft_cost *cost; /* whose clock is used; may be NULL */
	struct shadow_drafter drafter[SHADOW_MOST];
	struct open_guess *guess; /* [n][slots], by owner */
	struct draft_job *job;    /* [slots] scratch */
	struct draft_seen *seen;  /* likewise */
};

/* ---- opening ---- */

static int open_one(
	struct shadow *s, const char *spec, size_t size, const struct draft_env *env, struct err *e)
{
	struct shadow_drafter *d = &s->drafter[s->n];
	const struct draft_ops *ops;

	if (s->n == SHADOW_MOST || size >= sizeof d->spec)
		return err_set(e, ERR_USAGE, "shadow: at most %d drafters with names under %d letters",
			SHADOW_MOST, SHADOW_SPEC);
	snprintf(d->spec, sizeof d->spec, "%.*s", (int)size, spec);
	ops = draft_find(d->spec);
	if (!strcmp(d->spec, "off") || (ops && ops->weighed))
		return err_set(e, ERR_USAGE, "shadow: '%s' guesses nothing of its own", d->spec);
	if (draft_open(d->spec, env, &d->ops, &d->d, e))
		return -1;
	d->free = !d->ops->computes;
	s->n++;
	return 0;
}

/* Opens every drafter that can be opened, of those that compute nothing, or of all. */
static void open_known(struct shadow *s, const struct draft_env *env, bool free_only)
{
	for (int i = 0; draft_table[i] && s->n < SHADOW_MOST; i++) {
		const struct draft_ops *ops = draft_table[i];
		struct err unused = { 0 };
		char spec[SHADOW_SPEC];

		if (free_only && ops->computes)
			continue;
		draft_spec(ops->shadowed ? ops->shadowed : ops->name, 0,
			env->model ? env->model->config.n_layers : 0, "", spec, sizeof spec);
		if (*spec)
			open_one(s, spec, strlen(spec), env, &unused);
	}
}

static int open_listed(
	struct shadow *s, const char *list, const struct draft_env *env, struct err *e)
{
	for (;;) {
		size_t size = strcspn(list, "+");

		if (open_one(s, list, size, env, e))
			return -1;
		if (!list[size])
			return 0;
		list += size + 1;
	}
}

int shadow_open(struct shadow **out, const char *list, const struct draft_env *env, struct err *e)
{
	struct shadow *s = calloc(1, sizeof *s);
	bool free_only = !strcmp(list, "free");

	*out = NULL;
	if (!s)
		return err_no_memory(e, "drafters in the shadow");
	s->slots = env->slots > 0 ? env->slots : 1;
	s->cost = env->cost;
	if (free_only || !strcmp(list, "all"))
		open_known(s, env, free_only);
	else if (open_listed(s, list, env, e))
		goto failed;
	s->guess = calloc((size_t)(s->n ? s->n : 1) * (size_t)s->slots, sizeof *s->guess);
	s->job = calloc((size_t)s->slots, sizeof *s->job);
	s->seen = calloc((size_t)s->slots, sizeof *s->seen);
	if (owners_open(&s->owners, s->slots, 0) && s->guess && s->job && s->seen) {
		*out = s;
		return 0;
	}
	err_no_memory(e, "drafters in the shadow");
failed:
	shadow_close(s);
	return -1;
}

void shadow_close(struct shadow *s)
{
	if (!s)
		return;
	for (int32_t i = 0; i < s->n; i++)
		draft_close(s->drafter[i].ops, s->drafter[i].d);
	owners_close(&s->owners);
	free(s->guess);
	free(s->job);
	free(s->seen);
	free(s);
}

int32_t shadow_count(const struct shadow *s)
{
	return s->n;
}

struct shadow_drafter *shadow_at(struct shadow *s, int32_t i)
{
	return &s->drafter[i];
}

bool shadow_needs_pages(const struct shadow *s)
{
	for (int32_t i = 0; i < s->n; i++)
		if (s->drafter[i].ops->needs_pages)
			return true;
	return false;
}

/* ---- guessing ---- */

/* Drafter i's guess for this request, or NULL. */
static struct open_guess *find_guess(struct shadow *s, int32_t i, int64_t request)
{
	int32_t at = owners_find(&s->owners, request);

	return at < 0 ? NULL : &s->guess[(size_t)i * (size_t)s->slots + (size_t)at];
}

static struct open_guess *take_guess(struct shadow *s, int32_t i, int64_t request)
{
	bool is_new;
	size_t at = (size_t)owners_take(&s->owners, request, &is_new);

	for (int32_t k = 0; is_new && k < s->n; k++) {
		struct open_guess *g = &s->guess[(size_t)k * (size_t)s->slots + at];

		g->n = g->next = 0;
		g->checked = false;
	}
	return &s->guess[(size_t)i * (size_t)s->slots + at];
}

/* A text that is shorter than before was rewound. */
static bool is_due(struct open_guess *g, int32_t n)
{
	if (g->n > n)
		g->n = g->next = 0;
	if (g->next > n + DRAFT_MAX)
		g->next = 0;
	return !g->n && n >= g->next;
}

static int ask_one(
	struct shadow *s, int32_t i, const struct draft_job *job, int32_t n, struct err *e)
{
	struct shadow_drafter *d = &s->drafter[i];
	int32_t width = draft_width(d->ops, d->d), asked = 0;
	int64_t start;

	for (int32_t k = 0; k < n; k++) {
		struct open_guess *g = take_guess(s, i, job[k].request);

		if (!is_due(g, job[k].n))
			continue;
		g->n = job[k].n;
		g->draft.n = 0;
		s->job[asked] = job[k];
		s->job[asked].nodes = job[k].nodes < width ? job[k].nodes : width;
		s->job[asked].rejection = false;
		s->job[asked++].out = &g->draft;
	}
	if (!asked)
		return 0;
	start = draft_cost_now(s->cost);
	if (d->ops->propose(d->d, s->job, asked, e))
		return -1;
	start = (draft_cost_now(s->cost) - start) / asked;
	for (int32_t k = 0; k < asked; k++) {
		take_guess(s, i, s->job[k].request)->propose_ns = start;
		draft_prune(s->job[k].out, s->job[k].nodes, s->job[k].depth, DRAFT_LEAVES);
	}
	return 0;
}

int shadow_ask(struct shadow *s, int32_t i, const struct draft_job *job, int32_t n, struct err *e)
{
	if (i >= 0)
		return ask_one(s, i, job, n, e);
	for (i = 0; i < s->n; i++)
		if (!s->drafter[i].elsewhere && ask_one(s, i, job, n, e))
			return -1;
	return 0;
}

void shadow_note(
	struct shadow *s, int32_t i, const struct draft_job *job, int64_t propose_ns, bool scored)
{
	struct open_guess *g = take_guess(s, i, job->request);

	g->checked = job->out->n > 0;
	if (!scored || !is_due(g, job->n))
		return;
	g->n = job->n;
	g->propose_ns = propose_ns;
	g->draft = *job->out;
}

/* ---- settling ---- */

static void fade(struct shadow_sums *s, double tokens)
{
	double left = exp2(-tokens / SHADOW_HALF);
	double *v = (double *)(void *)s;

	for (size_t i = 0; i < sizeof *s / sizeof *v; i++)
		v[i] *= left;
}
_Static_assert(sizeof(struct shadow_sums) % sizeof(double) == 0, "sums are nothing but doubles");

/* path[d]: the node d tokens ahead that was kept; `kept` of them; missed: the next one had nodes,
 * too. */
static void add_step(struct shadow_sums *s, const struct open_guess *g, const int32_t *path,
	int32_t kept, bool missed)
{
	const struct draft *t = &g->draft;

	s->steps++;
	s->tokens += kept + 1;
	s->propose_ns += (double)g->propose_ns;
	s->depth += g->n;
	for (int32_t i = 0; i < t->n; i++)
		s->have[i]++;
	for (int32_t d = 0; d < kept; d++) {
		s->hit[path[d]]++;
		s->tried[d]++;
		s->accepted[d]++;
	}
	if (missed)
		s->tried[kept]++;
}

/* Counts a guess, if the text is long enough to decide which nodes would have been kept. */
static void settle(struct shadow_drafter *d, struct open_guess *g, const int32_t *ids, int32_t n)
{
	int32_t path[DRAFT_MAX], kept = 0, node = -1;
	bool any;

	if (!g->n || g->n >= n)
		return;
	for (;; kept++) {
		int32_t at = g->n + kept, next;

		any = draft_has_child(&g->draft, node);
		if (!any || kept == DRAFT_MAX)
			break; /* the last of its path was kept */
		if (at >= n)
			return; /* the text is not long enough yet */
		next = draft_child(&g->draft, node, ids[at]);
		if (next < 0)
			break;
		path[kept] = node = next;
	}
	fade(&d->recent, kept + 1);
	add_step(&d->recent, g, path, kept, any && kept < DRAFT_MAX);
	add_step(&d->all, g, path, kept, any && kept < DRAFT_MAX);
	g->next = g->n + kept + 1;
	g->n = 0;
}

/* asked: it had a guess open for each of them. Only then learn() counts as cost: a prompt's is no
 * part of a step's, nor is that without a guess. */
static int emit_one(struct shadow *s, int32_t i, int32_t n, bool asked, struct err *e)
{
	struct shadow_drafter *d = &s->drafter[i];
	int64_t start = draft_cost_now(s->cost);
	double ns;

	if (!d->ops->learn)
		return 0;
	if (d->ops->learn(d->d, s->seen, n, e))
		return -1;
	ns = (double)(draft_cost_now(s->cost) - start);
	if (asked) {
		d->recent.learn_ns += ns / n;
		d->all.learn_ns += ns / n;
	}
	return 0;
}

int shadow_learn(struct shadow *s, const struct draft_seen *seen, int32_t n, struct err *e)
{
	for (int32_t i = 0; i < s->n; i++) {
		bool asked = true;

		for (int32_t k = 0; k < n; k++) {
			struct open_guess *g = find_guess(s, i, seen[k].request);

			s->seen[k] = seen[k];
			if (!g || !g->checked) { /* the draft that was verified was not its own */
				s->seen[k].draft = NULL;
				s->seen[k].top = NULL;
				s->seen[k].n_kept = 0;
			}
			asked = asked && g && g->n;
			if (!g)
				continue;
			g->checked = false;
			settle(&s->drafter[i], g, seen[k].ids, seen[k].n);
		}
		if (n && !s->drafter[i].elsewhere && emit_one(s, i, n, asked, e))
			return -1;
	}
	return 0;
}

void shadow_forget(struct shadow *s, int64_t request)
{
	owners_drop(&s->owners, request);
	for (int32_t i = 0; i < s->n; i++)
		if (s->drafter[i].ops->forget)
			s->drafter[i].ops->forget(s->drafter[i].d, request);
}

/* ---- predicting ---- */

/* One request's part of a step of n requests with `rows` rows each. */
static double part_ns(const struct draft_cost *c, double rows, double depth, int32_t n)
{
	return draft_cost_ns(c, rows * n, depth) / n;
}

/* Sums tokens and time, node by node; best != NULL: finds the number of nodes with the best
 * speed. */
static double speed_at(const struct shadow_sums *s, const struct draft_cost *c, int32_t nodes,
	int32_t n, int32_t *best)
{
	double depth = s->steps > 0 ? s->depth / s->steps : 0, one = part_ns(c, 1, depth, n),
		   below = one;
	double guesses = 0, tokens = s->steps, checking = s->steps * one, fastest = 1;
	double each, speed = (double)NAN;

	if (s->steps <= 0 || one <= 0 || n < 1)
		return (double)NAN;
	for (int32_t i = 0; i < DRAFT_NODES; i++)
		guesses += s->have[i];
	each = guesses > 0 ? s->propose_ns / guesses : 0; /* the cost of a guess, whatever its size */
	if (best)
		*best = 0;
	for (int32_t i = 0; i < nodes && s->have[i] > 0; i++) {
		double more = part_ns(c, i + 2, depth, n);
		double told;

		tokens += s->hit[i];
		checking += s->have[i] * (more - below + each);
		below = more;
		told = s->learn_ns * (s->tokens > 0 ? tokens / s->tokens : 1);
		speed = tokens * (one + c->token_ns) / (checking + told + tokens * c->token_ns);
		if (best && speed > fastest) {
			fastest = speed;
			*best = i + 1;
		}
	}
	if (isnan(speed)) /* it never guessed: plain decoding, plus the time it searched */
		speed = s->steps * one / (s->steps * one + s->propose_ns + s->learn_ns);
	return best ? fastest : speed;
}

double shadow_speed(
	const struct shadow_sums *sums, const struct draft_cost *c, int32_t nodes, int32_t n)
{
	return speed_at(sums, c, nodes, n, NULL);
}

int32_t shadow_best(const struct shadow_sums *sums, const struct draft_cost *c, int32_t most,
	int32_t n, double *speed)
{
	int32_t best = 0;

	*speed = speed_at(sums, c, most, n, &best);
	return best;
}
