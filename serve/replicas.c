/* The engines of a server: which one gets a prompt, and what becomes of the others when one fails.
 * See serve_impl.h. */
#include "serve/serve_impl.h"

#include <stdio.h>
#include <stdlib.h>

int32_t replicas_live(const struct serve *s)
{
	int32_t n = 0;

	for (int32_t i = 0; i < s->n_replicas; i++)
		n += !s->replica[i].failed;
	return n;
}

void *serve_replica(struct serve *s, int32_t i)
{
	return &s->replica[i];
}

bool serve_failed(struct serve *s, int32_t i, const struct err *why)
{
	char line[640];
	int32_t left;

	pthread_mutex_lock(&s->lock);
	s->replica[i].failed = true;
	if (s->n_replicas > 1)
		router_leave_out(&s->router, i);
	left = replicas_live(s);
	pthread_mutex_unlock(&s->lock);
	snprintf(line, sizeof line, "replica %d of %d has stopped, and gets no more requests: %s", i,
		s->n_replicas, why->text);
	if (left && s->o.note)
		s->o.note(s->o.arg, line);
	return left;
}

/* ---- routes ---- */

/* As a JSON array; NULL without memory: then the log does not know them. */
static char *loads_of(const struct router *r)
{
	struct json j = { 0 };
	size_t size;

	json_ids(&j, NULL, r->requests, (size_t)r->n);
	return json_take(&j, &size);
}

/* Under the lock. NULL: no replica is left. */
static struct replica *route(struct job *j, int32_t prompt)
{
	struct serve *s = j->s;
	const struct query *a = &j->query;
	const struct router_request q = { .ids = a->prompt[prompt].ids,
		.n_ids = (int32_t)a->prompt[prompt].n,
		.number = s->n_routed,
		.answers = a->best_of + query_scores(a) };
	int32_t at;

	if (!j->routed)
		return &s->replica[0];
	j->routed[prompt].loads = loads_of(&s->router);
	at = router_send(&s->router, &q, &j->routed[prompt].why);
	s->n_routed++;
	return at < 0 ? NULL : &s->replica[at];
}

int job_route(struct job *j, struct err *e)
{
	struct serve *s = j->s;
	struct replica *r[QUERY_PROMPTS];
	const int32_t n = j->query.n_prompts;

	if (s->n_replicas > 1 && !(j->routed = calloc((size_t)n, sizeof *j->routed)))
		return err_set(e, ERR_MEMORY, "out of memory for the routes of %d prompts", n);
	pthread_mutex_lock(&s->lock);
	for (int32_t i = 0; i < n; i++)
		if (!(r[i] = route(j, i))) {
			pthread_mutex_unlock(&s->lock);
			return err_set(e, ERR_INTERRUPTED, "all replicas have stopped");
		}
	for (int32_t i = 0; i < j->n_all; i++)
		j->choice[i].replica = r[j->choice[i].index / j->query.best_of];
	s->n_open += j->n_all;
	j->n_open = j->n_all;
	for (int32_t i = 0; i < s->n_replicas; i++)
		j->unsettled += job_uses(j, &s->replica[i]);
	j->spread = j->unsettled > 1;
	pthread_mutex_unlock(&s->lock);
	return 0;
}

void routes_free(struct job *j)
{
	for (int32_t i = 0; j->routed && i < j->query.n_prompts; i++)
		free(j->routed[i].loads);
	free(j->routed);
}

bool job_uses(const struct job *j, const struct replica *r)
{
	for (int32_t i = 0; i < j->n_all; i++)
		if (j->choice[i].replica == r)
			return true;
	return false;
}

void replica_ended(struct replica *r, const struct choice *c)
{
	if (r->s->n_replicas > 1)
		router_ended(&r->s->router, r->index, (int32_t)choice_prompt(c)->n);
}

void replica_note(struct engine *engine, const struct choice *c)
{
	const struct serve *s = c->job->s;
	const struct job_route *r;
	struct event ev;

	if (!c->job->routed)
		return;
	r = &c->job->routed[choice_prompt(c) - c->job->query.prompt];
	ev_init(&ev, EV_route);
	ev.u.route.request = c->request;
	ev.u.route.asked = c->job->number;
	ev.u.route.replica = c->replica->index;
	ev.u.route.replicas = s->n_replicas;
	ev.u.route.router = ev_text(s->router.kind->name);
	ev.u.route.reason = ev_text(r->why.reason);
	if (r->why.matched >= 0)
		ev.u.route.matched = r->why.matched;
	if (r->why.last >= 0)
		ev.u.route.last = r->why.last;
	if (r->loads)
		ev.u.route.loads = ev_text(r->loads);
	engine_note(engine, &ev);
}

void reply_replica(struct json *j, const struct replica *r)
{
	if (r->s->n_replicas > 1)
		json_int(j, "replica", r->index);
}
