/* Jobs that the HTTP thread looks after between two turns: those whose clients have left, and those
 * whose bodies take long to read. A megabyte is a third of a second of tokens, and one thread reads
 * for all: they are read one in a turn of the loop, the least first, so that a short request waits
 * for one of them and not for all. See serve_impl.h. Thread: HTTP's. */
#include "serve/serve_impl.h"

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
