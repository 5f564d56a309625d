/* See serve.h. */
#include "serve/serve_impl.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "kernels/arith.h"

enum { LOOK_MS = 50, LARGE = 1 << 19 };

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
		return err_set(e, ERR_MEMORY, "no memory for the server");
	mallopt(M_MMAP_THRESHOLD, LARGE); /* what large bodies took goes back to the system */
	s->o = *o;
	s->replica = calloc((size_t)o->replicas, sizeof *s->replica);
	if (!s->replica) {
		free(s);
		return err_set(e, ERR_MEMORY, "no memory for %d replicas", o->replicas);
	}
	for (; s->n_replicas < o->replicas; s->n_replicas++)
		s->replica[s->n_replicas] = (struct replica){ .s = s, .index = s->n_replicas };
	s->started = (int64_t)time(NULL);
	snprintf(
		s->session_id, sizeof s->session_id, "%08llx", (unsigned long long)now_ns() & 0xffffffff);
	pthread_mutex_init(&s->lock, NULL);
	*out = s;
	return 0;
}

/* The arithmetic and the model: with them a seed gives one text. */
static int name_session(struct serve *s, struct err *e)
{
	struct session *first = s->replica[0].session;
	char *hash = first->sha256;

	if (!*hash && engine_hash_model(first->engine, NULL, hash, e))
		return -1;
	snprintf(s->fingerprint, sizeof s->fingerprint, "cutaway-%d-%.16s", K_ARITH_VERSION, hash);
	return 0;
}

int serve_start(struct serve *s, struct session *session, struct err *e)
{
	for (int32_t i = 0; i < s->n_replicas; i++)
		s->replica[i].session = &session[i];
	s->info = engine_info(session->engine);
	s->o.name = s->o.name ? s->o.name : s->info->name;
	s->tokenizer = engine_tokenizer(session->engine);
	if (s->n_replicas > 1 && router_open(&s->router, s->o.router, s->n_replicas, s->info->slots,
								 s->o.answer->params.seed, e))
		return -1;
	return name_session(s, e) ? -1 : http_start(s, e);
}

int32_t serve_port(const struct serve *s)
{
	const union MHD_DaemonInfo *i =
		s->daemon ? MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT) : NULL;

	return i ? i->port : s->o.port;
}

/* And connections that are being resumed. */
static int32_t open_jobs(struct serve *s)
{
	const struct job *j;
	int32_t n;

	pthread_mutex_lock(&s->lock);
	n = atomic_load(&s->resuming);
	LIST_FOREACH(j, &s->jobs, link)
	{
		n += j->deferred || (j->submitted && (j->n_open || !j->gone));
	}
	pthread_mutex_unlock(&s->lock);
	return n;
}

/* Until no job is left, or that long. */
static void await_jobs(struct serve *s, int64_t ms)
{
	const int64_t until = now_ns() + ms * 1000000;

	while (open_jobs(s) && now_ns() < until)
		pause_ms(LOOK_MS);
}

static bool runs(const struct job *j)
{
	return j->submitted && j->n_open;
}

void serve_drain(struct serve *s, int32_t seconds)
{
	if (!s->daemon)
		return;
	atomic_store(&s->draining, true);
	await_jobs(s, (int64_t)seconds * 1000);
	for (int i = 0; i < 100 && open_jobs(s); i++) {
		jobs_leave(s, runs);
		await_jobs(s, LOOK_MS);
	}
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
	free(s);
}
