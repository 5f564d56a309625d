/* The life of a job: handed to the engine, filled by its events, taken by its connection. See
 * serve_impl.h. */
#include "serve/serve_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "engine/lossy.h"

enum { FEW = 4 };

#define LEAST (-9999.0) /* of no probability, as OpenAI has it: JSON has no infinity */

struct job *job_new(struct serve *s, struct MHD_Connection *c, const char *method, const char *path)
{
	struct job *j = calloc(1, sizeof *j);
	const union MHD_ConnectionInfo *peer =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	struct client *client =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;

	if (!j || !client || asprintf(&j->asked, "%s %s", method, path) < 0) {
		free(j);
		return NULL;
	}
	j->client = client;
	j->s = s;
	j->connection = c;
	if (peer)
		where_text(peer->client_addr, j->peer);
	j->refs = 1;
	j->created = (int64_t)time(NULL);
	pthread_mutex_lock(&s->lock);
	j->number = ++s->n_jobs;
	LIST_INSERT_HEAD(&s->jobs, j, link);
	pthread_mutex_unlock(&s->lock);
	return j;
}

static void free_choice(struct choice *c)
{
	free(c->come);
	free(c->token);
	free(c->held.text);
	free(c->text);
}

void job_unref(struct job *j)
{
	struct serve *s = j->s;
	bool last;

	pthread_mutex_lock(&s->lock);
	last = !--j->refs;
	if (last)
		LIST_REMOVE(j, link);
	pthread_mutex_unlock(&s->lock);
	if (!last)
		return;
	for (int32_t i = 0; i < j->n_all; i++)
		free_choice(&j->choice[i]);
	free(j->choice);
	query_free(&j->query);
	free(j->asked);
	free(j->body);
	free(j->out);
	free(j->lead);
	free(j);
}

/* Under the lock: its connection has something to do, and is resumed by unlock_wake(), since its
 * thread would only wait for the lock. One call of this file wakes one job. */
static void wake(struct job *j)
{
	if (!j->suspended)
		return;
	j->suspended = false;
	j->s->waking = j->connection;
}

/* A suspended connection, and so its job, stays until it is resumed; the daemon, until `resuming`
 * is 0. */
static void unlock_wake(struct serve *s)
{
	struct MHD_Connection *c = s->waking;

	s->waking = NULL;
	atomic_fetch_add(&s->resuming, c != NULL);
	pthread_mutex_unlock(&s->lock);
	if (!c)
		return;
	MHD_resume_connection(c);
	http_wake(s);
	atomic_fetch_sub(&s->resuming, 1);
}

void job_resume(struct job *j)
{
	wake(j);
	unlock_wake(j->s);
}

/* Under the lock. */
static void end_choice(struct choice *c, enum ev_code_finish reason)
{
	struct serve *s = c->job->s;

	c->finished = true;
	c->reason = reason;
	s->n_open--;
	for (size_t i = 0; i < s->n_live; i++)
		if (s->live[i] == c)
			s->live[i] = s->live[--s->n_live];
	if (!--c->job->n_open || c->job->query.stream)
		wake(c->job);
}

/* ---- events, on the engine's thread ---- */

static struct choice *choice_of(const struct serve *s, int64_t request)
{
	for (size_t i = 0; i < s->n_live; i++)
		if (s->live[i]->request == request)
			return s->live[i];
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
		metrics_add_gap(&c->job->s->metrics, t->ns);
}

static void add_score(struct choice *c, const struct ev_score *sc)
{
	struct served *n = new_token(c);

	if (!n)
		return;
	*n = (struct served){ .id = (int32_t)sc->id, .logp = sc->logp, .hash = (uint64_t)sc->hash };
	take_top(n, sc->candidates, c->job->query.top);
}

static void add_finish(struct choice *c, const struct ev_finish *f)
{
	c->hit = f->hit == EV_NULL_I ? 0 : f->hit;
	c->generated = f->generated;
	snprintf(c->why, sizeof c->why, "%.*s", (int)f->why.size,
		f->why.data ? (const char *)f->why.data : "");
	end_choice(c, (enum ev_code_finish)f->reason);
}

static int64_t request_of(const struct event *ev)
{
	switch (ev->kind) {
	case EV_lookup: return ev->u.lookup.request;
	case EV_pin: return ev->u.pin.request == EV_NULL_I ? 0 : ev->u.pin.request;
	case EV_preempt: return ev->u.preempt.request;
	case EV_token: return ev->u.token.request;
	case EV_score: return ev->u.score.request;
	case EV_finish: return ev->u.finish.request;
	default: return 0;
	}
}

/* Under the lock: a stream that waits for tokens, and has some. */
static struct job *unnotified(const struct serve *s)
{
	for (size_t i = 0; i < s->n_live; i++)
		if (s->live[i]->n_come && s->live[i]->job->suspended && s->live[i]->job->query.stream)
			return s->live[i]->job;
	return NULL;
}

/* The tokens of a step are told at its end. Of few answers the pieces are sent here; of many the
 * HTTP thread makes and sends them beside the next step. */
static void unlock_notify(struct serve *s)
{
	const bool few = s->n_live <= FEW;
	struct job *j;

	while ((j = unnotified(s))) {
		pthread_mutex_unlock(&s->lock);
		if (!few || !stream_send(j)) {
			pthread_mutex_lock(&s->lock);
			job_resume(j);
		}
		pthread_mutex_lock(&s->lock);
	}
	pthread_mutex_unlock(&s->lock);
}

static bool is_pinning(const struct event *ev)
{
	return ev->kind == EV_page &&
		   (ev->u.page.action == EV_PAGE_pin || ev->u.page.action == EV_PAGE_unpin);
}

void serve_sink(void *serve, const struct event *ev)
{
	struct serve *s = serve;
	const int64_t request = request_of(ev);
	struct choice *c;

	if (!request && ev->kind != EV_request && ev->kind != EV_step && ev->kind != EV_memory &&
		ev->kind != EV_pin && !is_pinning(ev))
		return;
	pthread_mutex_lock(&s->lock);
	if (ev->kind == EV_request && s->submitting)
		s->submitting->request = ev->u.request.request;
	c = request ? choice_of(s, request) : NULL;
	if (ev->kind == EV_request || ev->kind == EV_finish)
		metrics_count(&s->metrics, ev);
	if (c || ev->kind == EV_step || ev->kind == EV_page || ev->kind == EV_memory ||
		(ev->kind == EV_request && s->submitting))
		metrics_add(&s->metrics, ev);
	if (c && ev->kind == EV_token)
		add_token(c, &ev->u.token);
	if (c && ev->kind == EV_score)
		add_score(c, &ev->u.score);
	if (ev->kind == EV_pin || ev->kind == EV_lookup)
		pins_add(s, c, ev);
	if (c && ev->kind == EV_finish)
		add_finish(c, &ev->u.finish);
	if (ev->kind == EV_step)
		unlock_notify(s);
	else
		unlock_wake(s);
}

/* ---- calls that run on the engine's thread ---- */

static int submit_choice(struct engine *engine, struct choice *c, struct err *e)
{
	const struct job *j = c->job;
	const struct query *a = &j->query;
	const struct query_prompt *p = choice_prompt(c);
	struct engine_request q = engine_answer_request(&a->set);

	q.kind = a->kind == QUERY_SCORE || c->scores ? EV_REQUEST_KIND_score
			 : a->kind == QUERY_PIN              ? EV_REQUEST_KIND_pin
												 : EV_REQUEST_KIND_served;
	if (!c->scores) {
		q.pin = a->pin[p - a->prompt];
		q.pin_ttl_ns = a->pin_ttl_ns;
	}
	q.ids = p->ids;
	q.n_ids = (int32_t)p->n;
	q.sample = a->seeded ? c->index % a->best_of : (j->number << 16) + c->index;
	q.text = a->label;
	q.user = q.user ? q.user : j->peer;
	q.top = a->top;
	q.ignore_end = a->ignore_end;
	q.stop_ids = a->stop_id;
	q.n_stop_ids = a->n_stop_ids;
	return engine_submit(engine, &q, e) < 0 ? -1 : 0;
}

static bool computes_nothing(const struct choice *c)
{
	return c->scores ? choice_prompt(c)->n < 2 : c->job->query.silent;
}

/* Under the lock but for engine_submit(), whose events come back here. */
static void submit(struct engine *engine, void *arg)
{
	struct job *j = *(struct job **)arg;
	struct serve *s = j->s;
	const struct lossy_settings lossy = lossy_of(engine);
	struct err e = { 0 };

	pthread_mutex_lock(&s->lock);
	lossy_print(&lossy, j->lossy, sizeof j->lossy);
	for (int32_t i = 0; i < j->n_all; i++) {
		struct choice *c = &j->choice[i];
		bool ok = !e.code && !j->gone && ARRAY_ROOM(s->live, s->cap_live, s->n_live + 1);

		if (ok && computes_nothing(c)) {
			end_choice(c, EV_FINISH_length);
		} else if (ok) {
			s->live[s->n_live++] = s->submitting = c;
			unlock_wake(s);
			ok = !submit_choice(engine, c, &e);
			pthread_mutex_lock(&s->lock);
			s->submitting = NULL;
		}
		if (!ok && !c->finished)
			end_choice(c, EV_FINISH_failed);
	}
	j->error = e;
	j->settled = true;
	if (!j->n_open || j->query.stream)
		wake(j);
	unlock_wake(s);
	job_unref(j);
}

static void cancel(struct engine *engine, void *arg)
{
	struct job *j = *(struct job **)arg;

	for (int32_t i = 0; i < j->n_all; i++) /* this thread alone finishes choices */
		if (!j->choice[i].finished && j->choice[i].request)
			engine_cancel(engine, j->choice[i].request);
	job_unref(j);
}

/* The call has a reference of its own. False: the engine takes no more calls. */
static bool post(struct job *j, void (*fn)(struct engine *e, void *arg))
{
	pthread_mutex_lock(&j->s->lock);
	j->refs++;
	pthread_mutex_unlock(&j->s->lock);
	if (actor_post(j->s->session->actor, fn, NULL, &j, sizeof(struct job *)))
		return true;
	job_unref(j);
	return false;
}

/* ---- the HTTP thread ---- */

static int32_t count_choices(const struct query *a)
{
	return a->n_prompts * (a->best_of + query_scores(a));
}

static bool open_choices(struct job *j)
{
	const struct query *a = &j->query;
	const int32_t answers = a->n_prompts * a->best_of, n = count_choices(a);

	j->choice = calloc((size_t)n, sizeof *j->choice);
	for (int32_t i = 0; j->choice && i < n; i++)
		j->choice[i] = (struct choice){
			.job = j, .index = i < answers ? i : (i - answers) * a->best_of, .scores = i >= answers
		};
	j->n_choices = j->choice ? answers : 0;
	j->n_all = j->choice ? n : 0;
	return j->choice;
}

bool jobs_room(struct serve *s, int32_t n, int32_t before)
{
	bool room;

	pthread_mutex_lock(&s->lock);
	room = s->n_open + before + n <= s->info->slots + s->o.queue ||
		   (!s->n_open && n <= 2 * QUERY_CHOICES);
	s->metrics.refused += !room;
	pthread_mutex_unlock(&s->lock);
	return room;
}

bool job_submit(struct job *j)
{
	struct serve *s = j->s;
	const int32_t n = count_choices(&j->query);

	if (!jobs_room(s, n, 0))
		return false;
	pthread_mutex_lock(&s->lock);
	s->n_open += n;
	pthread_mutex_unlock(&s->lock);
	j->submitted = true;
	if (!open_choices(j)) {
		pthread_mutex_lock(&s->lock);
		s->n_open -= n;
		err_set(&j->error, ERR_MEMORY, "out of memory for %d answers", n);
		j->settled = true;
		pthread_mutex_unlock(&s->lock);
		return true;
	}
	j->n_open = n;
	if (!post(j, submit)) {
		pthread_mutex_lock(&s->lock);
		for (int32_t i = 0; i < n; i++)
			end_choice(&j->choice[i], EV_FINISH_failed);
		err_set(&j->error, ERR_DEVICE, "the engine has stopped");
		j->settled = true;
		unlock_wake(s);
	}
	return true;
}

void job_leave(struct job *j)
{
	bool runs;

	pthread_mutex_lock(&j->s->lock);
	runs = !j->gone && j->n_open;
	j->gone = true;
	pthread_mutex_unlock(&j->s->lock);
	if (runs)
		post(j, cancel);
}

/* Under the lock: whether there is something for its connection to do. */
static bool is_ready(const struct job *j, bool stream)
{
	if (!j->n_open && j->settled)
		return true;
	if (!stream || !j->settled)
		return false;
	for (int32_t i = 0; i < j->n_all; i++)
		if (j->choice[i].n_come)
			return true;
	return false;
}

bool job_wait(struct job *j, bool stream)
{
	bool wait;

	pthread_mutex_lock(&j->s->lock);
	wait = !is_ready(j, stream);
	if (wait) {
		j->suspended = true;
		MHD_suspend_connection(j->connection);
	}
	pthread_mutex_unlock(&j->s->lock);
	return wait;
}

static void take_tokens(struct choice *c)
{
	if (!ARRAY_ROOM(c->token, c->cap, c->n + c->n_come)) {
		c->job->failed = true;
		return;
	}
	for (size_t i = 0; i < c->n_come; i++)
		c->token[c->n++] = c->come[i];
	c->n_come = 0;
}

bool job_take(struct job *j)
{
	bool all;

	pthread_mutex_lock(&j->s->lock);
	for (int32_t i = 0; i < j->n_all; i++)
		if (j->choice[i].n_come)
			take_tokens(&j->choice[i]);
	all = !j->n_open && j->settled;
	pthread_mutex_unlock(&j->s->lock);
	return all;
}
