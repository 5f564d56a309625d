/* See serve.h. */
#include "serve/serve_impl.h"

#include <malloc.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"

enum { LOOK_MS = 50, TRIES = 100, LARGE = 1 << 19 };

static void pause_ms(int ms)
{
	const struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

	nanosleep(&t, NULL);
}

int serve_open(struct serve **out, const struct serve_options *o, struct err *e)
{
	struct serve *s = calloc(1, sizeof *s);

	*out = NULL;
	if (!s)
		return err_no_memory(e, "the server");
	mallopt(M_MMAP_THRESHOLD, LARGE); /* what large bodies took goes back to the system */
	s->o = *o;
	s->replica = calloc((size_t)o->replicas, sizeof *s->replica);
	if (!s->replica) {
		free(s);
		return err_no_memory(e, "%d replicas", o->replicas);
	}
	for (; s->n_replicas < o->replicas; s->n_replicas++)
		s->replica[s->n_replicas] = (struct replica){ .s = s, .index = s->n_replicas };
	s->started = (int64_t)time(NULL);
	snprintf(
		s->session_id, sizeof s->session_id, "%08llx", (unsigned long long)now_ns() & 0xffffffff);
	s->name = o->name;
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->turn, NULL);
	*out = s;
	return 0;
}

static void renew_replica(struct replica *r, struct session *session)
{
	r->session = session;
	r->failed = false;
	r->n_pins = 0;
	metrics_renew(&r->metrics);
}

/* These sessions are asked from now on. The arithmetic and the model: with them a seed gives one
 * text. */
static int use(struct serve *s, struct session *session, struct err *e)
{
	const struct engine_info *info = engine_info(session->engine);
	struct router router = { 0 };

	if ((!*session->sha256 && engine_hash_model(session->engine, NULL, session->sha256, e)) ||
		(s->n_replicas > 1 && router_open(&router, s->o.router, s->n_replicas, info->slots,
								  s->o.answer->params.seed, e)))
		return -1;
	for (int32_t i = 0; i < s->n_replicas && s->info; i++) {
		actor_stop(s->replica[i].session->actor);
		s->replica[i].session->actor = NULL;
	}
	pthread_mutex_lock(&s->lock);
	for (int32_t i = 0; i < s->n_replicas; i++)
		renew_replica(&s->replica[i], &session[i]);
	router_close(&s->router);
	s->router = router;
	pthread_mutex_unlock(&s->lock);
	atomic_store(&s->used, false);
	s->info = info;
	s->name = s->o.name ? s->o.name : info->name;
	s->tokenizer = engine_tokenizer(session->engine);
	snprintf(s->fingerprint, sizeof s->fingerprint, "cutaway-%d-%.16s", K_ARITH_VERSION,
		session->sha256);
	return 0;
}

int serve_start(struct serve *s, struct session *session, struct err *e)
{
	return use(s, session, e) || http_start(s, e) ? -1 : 0;
}

int32_t serve_port(const struct serve *s)
{
	const union MHD_DaemonInfo *i =
		s->daemon ? MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT) : NULL;

	return i ? i->port : s->o.port;
}

/* An engine has it, or its reply is still made of what that told. */
static bool engaged(const struct job *j)
{
	return j->submitted;
}

static bool is_open(const struct job *j)
{
	return j->deferred || (j->submitted && (j->n_open || !j->gone));
}

static bool runs(const struct job *j)
{
	return j->submitted && j->n_open;
}

/* Its connection is suspended, or may yet be: the library cannot be stopped then. */
static bool waits(const struct job *j)
{
	return j->suspended || (j->submitted && (j->n_open || !j->settled));
}

/* And connections that are being resumed. */
static int32_t count_jobs(struct serve *s, bool (*which)(const struct job *j))
{
	const struct job *j;
	int32_t n;

	pthread_mutex_lock(&s->lock);
	n = atomic_load(&s->resuming);
	LIST_FOREACH(j, &s->jobs, link)
	{
		n += which(j);
	}
	pthread_mutex_unlock(&s->lock);
	return n;
}

/* Until no such job is left, or that long; true: none is. */
static bool await_jobs(struct serve *s, bool (*which)(const struct job *j), int64_t ms)
{
	const int64_t until = now_ns() + ms * 1000000;

	while (count_jobs(s, which) && now_ns() < until)
		pause_ms(LOOK_MS);
	return !count_jobs(s, which);
}

/* ---- other sessions ---- */

bool serve_idle(struct serve *s)
{
	return !count_jobs(s, is_open);
}

bool serve_used(struct serve *s)
{
	return atomic_load(&s->used);
}

bool serve_hold(struct serve *s, int32_t ms)
{
	atomic_store(&s->held, true);
	return await_jobs(s, engaged, ms);
}

void serve_release(struct serve *s)
{
	atomic_store(&s->held, false);
	http_wake(s);
}

void serve_cancel(struct serve *s)
{
	const struct job *j;

	jobs_leave(s, runs);
	pthread_mutex_lock(&s->turn);
	pthread_mutex_lock(&s->lock);
	LIST_FOREACH(j, &s->jobs, link)
	{
		if (engaged(j) && !runs(j) && j->client)
			shutdown(j->client->fd, SHUT_RDWR);
	}
	pthread_mutex_unlock(&s->lock);
	pthread_mutex_unlock(&s->turn);
}

/* A request that was about to begin when others were held may have done so. */
int serve_renew(struct serve *s, struct session *session, struct err *e)
{
	int rc;

	pthread_mutex_lock(&s->turn);
	while (count_jobs(s, engaged)) {
		pthread_mutex_unlock(&s->turn);
		pause_ms(LOOK_MS);
		pthread_mutex_lock(&s->turn);
	}
	rc = use(s, session, e);
	pthread_mutex_unlock(&s->turn);
	return rc;
}

/* Clients have some seconds to take what they have; a step takes as long as it takes, but who is in
 * a hurry waits for no other rank. */
static void cancel_all(struct serve *s, const atomic_bool *hurry)
{
	for (int i = 0; count_jobs(s, i < TRIES ? is_open : waits); i++) {
		jobs_leave(s, runs);
		await_jobs(s, is_open, LOOK_MS);
		for (int32_t k = 0; i >= TRIES && atomic_load(hurry) && k < s->n_replicas; k++)
			engine_abandon(s->replica[k].session->engine);
	}
}

void serve_drain(struct serve *s, int32_t seconds, const atomic_bool *hurry)
{
	const int64_t until = now_ns() + seconds * INT64_C(1000000000);

	if (!s->daemon)
		return;
	pthread_mutex_lock(&s->turn); /* from now on nothing begins */
	atomic_store(&s->draining, true);
	pthread_mutex_unlock(&s->turn);
	serve_release(s);
	while (now_ns() < until && !atomic_load(hurry) && !await_jobs(s, is_open, LOOK_MS))
		;
	cancel_all(s, hurry);
	http_stop(s);
}

void serve_close(struct serve *s)
{
	if (!s)
		return;
	for (int32_t i = 0; i < s->n_replicas; i++)
		free(s->replica[i].live);
	free(s->replica);
	router_close(&s->router);
	pthread_mutex_destroy(&s->lock);
	pthread_mutex_destroy(&s->turn);
	free(s);
}
