/* The life of a job: handed to the engines, filled by their events (events.c), taken by its
 * connection; and those that wait for their turn or whose clients have left. See serve_impl.h. */
#include "serve/serve_impl.h"

#include <time.h>

#include "base/array.h"
#include "engine/lossy.h"

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
	free(c->vector.v);
	free(c->held.text);
	parts_free(&c->parts);
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
	routes_free(j);
	query_free(&j->query);
	free(j->asked);
	free(j->body);
	free(j->out);
	free(j->lead);
	free(j);
}

/* Under the lock: its connection has something to do, and is resumed by jobs_unlock(), since its
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
void jobs_unlock(struct serve *s)
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
	jobs_unlock(j->s);
}

/* Likewise, unless a replica has yet to say what becomes of it. */
static void wake_settled(struct job *j)
{
	if (j->settled && (!j->n_open || j->query.stream))
		wake(j);
}

void choice_end(struct choice *c, enum ev_code_finish reason)
{
	struct replica *r = c->replica;

	c->finished = true;
	c->reason = reason;
	c->job->s->n_open--;
	for (size_t i = 0; i < r->n_live; i++)
		if (r->live[i] == c)
			r->live[i] = r->live[--r->n_live];
	replica_ended(r, c);
	c->job->n_open--;
	wake_settled(c->job);
}

/* ---- calls that run on the engine's thread ---- */

static int submit_choice(struct engine *engine, struct choice *c, struct err *e)
{
	const struct job *j = c->job;
	const struct query *a = &j->query;
	const struct query_prompt *p = choice_prompt(c);
	struct engine_request q = engine_answer_request(&a->set);

	q.kind = a->kind == QUERY_SCORE || c->scores ? EV_REQUEST_KIND_score
			 : a->kind == QUERY_EMBED            ? EV_REQUEST_KIND_embed
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

/* Under the lock but for the engine's calls, whose events come back here. */
static bool submit_next(struct engine *engine, struct choice *c, struct err *e)
{
	const struct fit_left *left = &c->job->query.left;
	struct replica *r = c->replica;
	struct serve *s = r->s;
	bool ok;

	r->live[r->n_live++] = r->submitting = c;
	jobs_unlock(s);
	ok = !submit_choice(engine, c, e);
	if (ok)
		replica_note(engine, c);
	if (ok && left->turns)
		engine_note_trim(engine, c->request, (int64_t)left->tokens, (int64_t)left->turns);
	pthread_mutex_lock(&s->lock);
	r->submitting = NULL;
	return ok;
}

void job_settle(struct job *j)
{
	j->settled = !--j->unsettled;
	wake_settled(j);
	jobs_unlock(j->s);
}

/* Those of its choices that are of this engine. */
static void submit(struct engine *engine, void *arg)
{
	const struct job_call *call = arg;
	struct job *j = call->job;
	struct replica *r = call->replica;
	struct serve *s = j->s;
	const struct lossy_settings lossy = lossy_of(engine);
	struct err e = { 0 };

	pthread_mutex_lock(&s->lock);
	lossy_print(&lossy, j->lossy, sizeof j->lossy);
	if (r->failed)
		err_set(&e, ERR_INTERRUPTED, "replica %d has stopped; ask again", r->index);
	for (int32_t i = 0; i < j->n_all; i++) {
		struct choice *c = &j->choice[i];
		bool ok;

		if (c->replica != r)
			continue;
		ok = !e.code && !j->gone && ARRAY_ROOM(r->live, r->cap_live, r->n_live + 1);
		if (ok && computes_nothing(c))
			choice_end(c, EV_FINISH_length);
		else if (ok)
			ok = submit_next(engine, c, &e);
		if (!ok && !c->finished)
			choice_end(c, j->gone ? EV_FINISH_cancelled : EV_FINISH_failed);
	}
	if (e.code)
		j->error = e;
	job_settle(j);
	job_unref(j);
}

static void cancel(struct engine *engine, void *arg)
{
	const struct job_call *call = arg;
	struct job *j = call->job;

	for (int32_t i = 0; i < j->n_all; i++) { /* this thread alone finishes choices of this replica
											  */
		const struct choice *c = &j->choice[i];

		if (c->replica == call->replica && !c->finished && c->request)
			engine_cancel(engine, c->request);
	}
	job_unref(j);
}

bool job_post(struct job *j, struct replica *r, void (*fn)(struct engine *e, void *arg))
{
	const struct job_call call = { j, r };

	pthread_mutex_lock(&j->s->lock);
	j->refs++;
	pthread_mutex_unlock(&j->s->lock);
	if (actor_post(r->session->actor, fn, NULL, &call, sizeof call))
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
	const struct chat_template *t = j->s->info->chat;
	const struct parts parts = { .thought = t->thought,
		.together = !a->apart,
		.calls = a->calls ? t->calls : NULL,
		.tools = a->tools,
		.begun = a->begun };

	j->choice = calloc((size_t)n, sizeof *j->choice);
	for (int32_t i = 0; j->choice && i < n; i++)
		j->choice[i] = (struct choice){ .job = j,
			.index = i < answers ? i : (i - answers) * a->best_of,
			.scores = i >= answers,
			.parts = parts };
	j->n_choices = j->choice ? answers : 0;
	j->n_all = j->choice ? n : 0;
	return j->choice;
}

bool jobs_room(struct serve *s, int32_t n, int32_t before)
{
	bool room;

	pthread_mutex_lock(&s->lock);
	room = s->n_open + before + n <= s->info->slots * replicas_live(s) + s->o.queue ||
		   (!s->n_open && !before && n <= 2 * QUERY_CHOICES);
	s->http.refused += !room;
	pthread_mutex_unlock(&s->lock);
	return room;
}

/* Nothing of it runs. */
static void fail(struct job *j, const struct replica *of, const struct err *e)
{
	struct serve *s = j->s;

	pthread_mutex_lock(&s->lock);
	for (int32_t i = 0; i < j->n_all; i++)
		if (!j->choice[i].finished && (!of || j->choice[i].replica == of))
			choice_end(&j->choice[i], EV_FINISH_failed);
	j->error = *e;
	j->settled = !of || !--j->unsettled;
	jobs_unlock(s);
}

static void post_submits(struct job *j)
{
	struct serve *s = j->s;
	const struct err stopped = { ERR_DEVICE, "the engine has stopped" };

	for (int32_t i = 0; i < s->n_replicas; i++)
		if (job_uses(j, &s->replica[i]) && !job_post(j, &s->replica[i], submit))
			fail(j, &s->replica[i], &stopped);
}

bool job_submit(struct job *j)
{
	struct serve *s = j->s;
	const int32_t n = count_choices(&j->query);
	struct err e = { 0 };

	if (!jobs_room(s, n, 0))
		return false;
	j->submitted = true;
	atomic_store(&s->used, true);
	if (!open_choices(j) || job_route(j, &e)) {
		err_set(&e, ERR_MEMORY, "out of memory for %d answers", n);
		j->n_all = j->n_choices = 0;
		fail(j, NULL, &e);
		return true;
	}
	post_submits(j);
	return true;
}

void job_leave(struct job *j)
{
	struct serve *s = j->s;
	bool runs;

	pthread_mutex_lock(&s->lock);
	runs = !j->gone && j->n_open;
	j->gone = true;
	pthread_mutex_unlock(&s->lock);
	for (int32_t i = 0; runs && i < s->n_replicas; i++)
		if (job_uses(j, &s->replica[i]))
			job_post(j, &s->replica[i], cancel);
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

/* ---- between two turns of the HTTP thread's loop ---- */

/* Jobs whose bodies take long to read wait: a megabyte is a third of a second of tokens, and one
 * thread reads for all. They are read one in a turn, the least first, so that a short request waits
 * for one of them and not for all. */
enum { LARGE = 32 << 10 }; /* bytes: some milliseconds */

bool job_defer(struct job *j)
{
	const bool held = atomic_load(&j->s->held) && !j->route->at_once;

	if (!held && (j->due || j->n_body < LARGE))
		return false;
	pthread_mutex_lock(&j->s->lock);
	j->deferred = j->suspended = true;
	j->s->n_deferred++;
	MHD_suspend_connection(j->connection);
	pthread_mutex_unlock(&j->s->lock);
	return true;
}

/* Under the lock: one whose client left, else the one of the least body, the oldest of equals (the
 * list has the newest first). */
static struct job *next_deferred(struct serve *s, bool (*left)(const struct job *j))
{
	struct job *j, *least = NULL;

	LIST_FOREACH(j, &s->jobs, link)
	{
		if (!j->deferred)
			continue;
		j->gone = j->gone || left(j);
		if (j->gone)
			return j;
		if (!least || j->n_body <= least->n_body)
			least = j;
	}
	return least;
}

void jobs_turn(struct serve *s, bool (*left)(const struct job *j))
{
	bool more = true;

	while (more && s->n_deferred) {
		struct job *j;

		pthread_mutex_lock(&s->lock);
		j = next_deferred(s, left);
		more = j->gone;
		if (!more && atomic_load(&s->held)) {
			pthread_mutex_unlock(&s->lock);
			return;
		}
		s->n_deferred--;
		j->deferred = false;
		j->due = true;
		job_resume(j);
	}
}

void jobs_leave(struct serve *s, bool (*which)(const struct job *j))
{
	struct job *left[64], *j;
	size_t n = 0;

	pthread_mutex_lock(&s->lock);
	LIST_FOREACH(j, &s->jobs, link)
	{
		if (j->gone || n == sizeof left / sizeof *left || !which(j))
			continue;
		j->refs++;
		left[n++] = j;
	}
	pthread_mutex_unlock(&s->lock);
	for (size_t i = 0; i < n; i++) {
		job_leave(left[i]);
		job_unref(left[i]);
	}
}
