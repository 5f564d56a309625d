/* What the events of an engine mean to its jobs: tokens, ends, pins, metrics. See serve_impl.h.
 * Thread: that of the engine. */
#include "serve/serve_impl.h"

#include "base/array.h"

enum { FEW = 4 };

#define LEAST (-9999.0) /* of no probability, as OpenAI has it: JSON has no infinity */

static struct choice *choice_of(const struct replica *r, int64_t request)
{
	for (size_t i = 0; i < r->n_live; i++)
		if (r->live[i]->request == request)
			return r->live[i];
	return NULL;
}

/* Out of memory, the token is lost and the answer fails rather than lacks it. */
static struct served *new_token(struct choice *c)
{
	if (!ARRAY_ROOM(c->come, c->cap_come, c->n_come + 1)) {
		c->job->failed = true;
		return NULL;
	}
	memset(&c->come[c->n_come], 0, sizeof *c->come);
	return &c->come[c->n_come++];
}

/* Of the candidates those of greatest logit, which a row with bias or penalties has not first. */
static void take_top(struct served *n, struct ev_span candidates, int32_t most)
{
	struct ev_candidate c;

	for (size_t i = 0; i < candidates.size / sizeof c; i++) {
		int32_t at = n->n_top;

		memcpy(&c, (const char *)candidates.data + i * sizeof c, sizeof c);
		if (c.id == (uint32_t)n->id)
			n->logit = c.logit;
		while (at && (n->top[at - 1].logit < c.logit ||
						 (n->top[at - 1].logit == c.logit && n->top[at - 1].id > (int32_t)c.id)))
			at--;
		if (at == most)
			continue;
		n->n_top += n->n_top < most;
		memmove(n->top + at + 1, n->top + at, (size_t)(n->n_top - 1 - at) * sizeof *n->top);
		n->top[at] = (struct k_draw_entry){ (int32_t)c.id, c.logit };
	}
}

static void add_token(struct choice *c, const struct ev_token *t)
{
	struct served *n = new_token(c);

	if (!n)
		return;
	n->id = (int32_t)t->id;
	n->logp = t->p > 0 ? log(t->p) : LEAST;
	n->hash = (uint64_t)t->hash;
	n->is_end = t->is_end == 1;
	if (c->job->query.top)
		take_top(n, t->candidates, c->job->query.top);
	if (c->generated++)
		metrics_add_gap(&c->replica->metrics, t->ns);
}

static void add_score(struct choice *c, const struct ev_score *sc)
{
	struct served *n = new_token(c);

	if (!n)
		return;
	*n = (struct served){ .id = (int32_t)sc->id, .logp = sc->logp, .hash = (uint64_t)sc->hash };
	take_top(n, sc->candidates, c->job->query.top);
}

static void add_vector(struct choice *c, const struct ev_embedding *v)
{
	c->vector = (struct served_vector){ .v = malloc(v->vector.size + 1),
		.n = (int32_t)(v->vector.size / sizeof(float)),
		.pooling = (enum ev_code_pooling)v->pooling,
		.hash = (uint64_t)v->hash };
	c->job->failed |= !c->vector.v;
	if (c->vector.v)
		memcpy(c->vector.v, v->vector.data, v->vector.size);
}

static void add_finish(struct choice *c, const struct ev_finish *f)
{
	c->hit = f->hit == EV_NULL_I ? 0 : f->hit;
	c->generated = f->generated;
	ev_copy(c->why, sizeof c->why, f->why);
	choice_end(c, (enum ev_code_finish)f->reason);
}

static int64_t request_of(const struct event *ev)
{
	switch (ev->kind) {
	case EV_lookup: return ev->u.lookup.request;
	case EV_pin: return ev->u.pin.request == EV_NULL_I ? 0 : ev->u.pin.request;
	case EV_preempt: return ev->u.preempt.request;
	case EV_token: return ev->u.token.request;
	case EV_draft: return ev->u.draft.request;
	case EV_score: return ev->u.score.request;
	case EV_embedding: return ev->u.embedding.request;
	case EV_finish: return ev->u.finish.request;
	default: return 0;
	}
}

/* Under the lock: a stream that waits for tokens, and has some. */
static struct job *unnotified(const struct replica *r)
{
	for (size_t i = 0; i < r->n_live; i++) {
		struct job *j = r->live[i]->job;

		if (r->live[i]->n_come && j->settled && j->suspended && j->query.stream)
			return j;
	}
	return NULL;
}

/* The tokens of a step are told at its end. Of few answers the pieces are sent here; of many, and
 * of a job on several replicas, whose threads would meet, the HTTP thread makes and sends them
 * beside the next step. */
static void unlock_notify(struct replica *r)
{
	struct serve *s = r->s;
	const bool few = r->n_live <= FEW;
	struct job *j;

	while ((j = unnotified(r))) {
		bool sent = false;

		if (few && !j->spread) {
			pthread_mutex_unlock(&s->lock);
			sent = stream_send(j);
			pthread_mutex_lock(&s->lock);
		}
		if (!sent) {
			job_resume(j);
			pthread_mutex_lock(&s->lock);
		}
	}
	pthread_mutex_unlock(&s->lock);
}

static bool is_pinning(const struct event *ev)
{
	return ev->kind == EV_page &&
		   (ev->u.page.action == EV_PAGE_pin || ev->u.page.action == EV_PAGE_unpin);
}

/* One that was preempted is looked up again, and counts once. */
static void add_metrics(struct replica *r, struct choice *c, const struct event *ev)
{
	if (c && ev->kind == EV_lookup && !c->looked_up) {
		c->looked_up = true;
		metrics_add_prompt(&r->metrics, &ev->u.lookup, (int64_t)choice_prompt(c)->n);
	}
	if (ev->kind == EV_request || ev->kind == EV_finish)
		metrics_count(&r->metrics, ev);
	if (c || ev->kind == EV_step || ev->kind == EV_page || ev->kind == EV_memory)
		metrics_add(&r->metrics, ev);
}

static void add_event(struct replica *r, struct choice *c, const struct event *ev)
{
	if (ev->kind == EV_request && r->submitting)
		r->submitting->request = ev->u.request.request;
	add_metrics(r, c, ev);
	if (c && ev->kind == EV_token)
		add_token(c, &ev->u.token);
	if (c && ev->kind == EV_score)
		add_score(c, &ev->u.score);
	if (c && ev->kind == EV_embedding)
		add_vector(c, &ev->u.embedding);
	if (ev->kind == EV_pin || ev->kind == EV_lookup)
		pins_add(r, c, ev);
	if (c && ev->kind == EV_finish)
		add_finish(c, &ev->u.finish);
}

void serve_sink(void *replica, const struct event *ev)
{
	struct replica *r = replica;
	const int64_t request = request_of(ev);

	if (!request && ev->kind != EV_request && ev->kind != EV_step && ev->kind != EV_memory &&
		ev->kind != EV_pin && !is_pinning(ev))
		return;
	pthread_mutex_lock(&r->s->lock);
	add_event(r, request ? choice_of(r, request) : NULL, ev);
	if (ev->kind == EV_step)
		unlock_notify(r);
	else
		jobs_unlock(r->s);
}
