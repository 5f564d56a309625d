/* A process of MPI that is not rank 0: a thread for each engine that rank 0 has open, since a chat
 * opens a model before it closes the one before. */
#include <pthread.h>
#include <string.h>

#include "engine/core/engine_follow.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static int n_engines;

static void *follow(void *transport)
{
	struct err ignored = { 0 }; /* rank 0 heard of it */

	engine_follow(transport, &ignored);
	pthread_mutex_lock(&lock);
	n_engines--;
	pthread_cond_signal(&ended);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static int begin(struct transport *t, struct err *err)
{
	pthread_t thread;
	int rc;

	pthread_mutex_lock(&lock);
	rc = pthread_create(&thread, NULL, follow, t);
	n_engines += !rc;
	pthread_mutex_unlock(&lock);
	if (!rc) {
		pthread_detach(thread);
		return 0;
	}
	t->ops->close(t);
	return err_set(err, ERR_MEMORY, "no thread for an engine: %s", strerror(rc));
}

int engine_follow_all(struct err *err)
{
	struct transport *t;

	while (!transport_mpi_next(&t, err) && t)
		if (begin(t, err))
			break;
	pthread_mutex_lock(&lock);
	while (n_engines && !err->code)
		pthread_cond_wait(&ended, &lock);
	pthread_mutex_unlock(&lock);
	return err->code ? -1 : 0;
}
