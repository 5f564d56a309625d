/* See writer.h. The thread: wait for an event, sleep a tick, write all that has come in one
 * transaction. So the rows of a tick are written together while the caches are warm, many steps
 * share a commit (which rewrites the last page of every table), and the engine's threads are
 * disturbed a dozen times a second instead of at every event.
 *
 * Commits are synced, so that they survive a loss of power; on a slow disk syncs take at most a
 * tenth of the time, so that the ring does not fill up meanwhile. */
#include "trace/writer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/signals.h"
#include "trace/recording.h"

enum { TICK_MS = 95, IDLE_MS = 1000, ROWS_PER_CLOCK = 64, SYNC_SHARE = 10 };

struct writer {
	char *path;
	struct ring *ring;
	struct ring_cursor *cursor;
	struct recording *recording;
	void *buf; /* [RING_EVENT_MAX] */
	pthread_t thread;
	int64_t sync_after_ms; /* time of the next sync, at the earliest */

	pthread_mutex_t lock;
	pthread_cond_t progress;
	/* Under lock. */
	struct writer_status status;
	uint64_t committed, asked; /* positions in the ring: written up to; a flush waits for */
	bool stop;
};

static int64_t now_ms(void)
{
	return now_ns() / 1000000;
}

static void publish(struct writer *w)
{
	struct recording_size size = recording_size(w->recording);

	pthread_mutex_lock(&w->lock);
	w->status.seq = size.seq;
	w->status.synced_seq = size.synced_seq;
	w->status.rows = size.rows;
	w->status.bytes = size.bytes;
	w->committed = ring_cursor_at(w->cursor);
	pthread_cond_broadcast(&w->progress);
	pthread_mutex_unlock(&w->lock);
}

static int commit(struct writer *w, struct err *e)
{
	if (recording_commit(w->recording, e))
		return -1;
	publish(w);
	return 0;
}

static int sync_when_due(struct writer *w, struct err *e)
{
	int64_t began = now_ms();

	if (began < w->sync_after_ms)
		return 0;
	if (recording_sync(w->recording, e))
		return -1;
	w->sync_after_ms = now_ms() + SYNC_SHARE * (now_ms() - began);
	publish(w);
	return 0;
}

/* Writes all that is in the ring. When events come faster than they are written, a transaction
 * still ends after a tick. */
static int drain(struct writer *w, struct err *e)
{
	int64_t lost, began = now_ms();
	struct event ev;

	for (unsigned n = 1; ring_next(w->cursor, &ev, w->buf, RING_EVENT_MAX, &lost) > 0; n++) {
		if (recording_add(w->recording, &ev, e))
			return -1;
		if (n % ROWS_PER_CLOCK == 0 && now_ms() - began >= TICK_MS) {
			if (commit(w, e))
				return -1;
			began = now_ms();
		}
	}
	return commit(w, e);
}

static bool hurried(struct writer *w, bool *stop)
{
	bool hurry;

	pthread_mutex_lock(&w->lock);
	*stop = w->stop;
	hurry = w->stop || w->asked > w->committed;
	pthread_mutex_unlock(&w->lock);
	return hurry;
}

static void *writer_main(void *arg)
{
	struct writer *w = arg;
	struct ring_stats stats;
	struct err e = { 0 };
	bool stop = false, moved = false;
	int rc = 0;

	while (!rc && !moved && !stop) {
		ring_wait(w->cursor, 1, IDLE_MS);
		if (!hurried(w, &stop)) {
			/* Many events end the sleep early, so that the ring does not fill up. */
			ring_stats(w->ring, &stats);
			ring_wait(w->cursor, stats.capacity / 4, TICK_MS);
			hurried(w, &stop);
		}
		rc = drain(w, &e) || sync_when_due(w, &e);
		moved = !rc && recording_check(w->recording, &e);
	}
	ring_cursor_release(w->cursor);
	recording_close(w->recording, rc != 0);
	pthread_mutex_lock(&w->lock);
	w->status.recording = false;
	w->status.err = e;
	pthread_cond_broadcast(&w->progress);
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* Signals are blocked: the user interface handles them, and SIGXFSZ (a file over its limit) would
 * end the program where a failed write only ends the recording. */
static int start_thread(struct writer *w)
{
	sigset_t before;
	int rc;

	signals_block(&before);
	rc = pthread_create(&w->thread, NULL, writer_main, w);
	signals_restore(&before);
	if (!rc)
		pthread_setname_np(w->thread, "log writer");
	return rc;
}

static void free_writer(struct writer *w)
{
	ring_cursor_close(w->cursor);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->progress);
	free(w->buf);
	free(w->path);
	free(w);
}

int writer_open(struct writer **out, const char *path, struct ring *r, struct err *e)
{
	struct writer *w = calloc(1, sizeof *w);

	*out = NULL;
	if (!w)
		return err_set(e, ERR_MEMORY, "out of memory for the writer of the recording");
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->progress, NULL);
	w->ring = r;
	w->path = strdup(path);
	w->buf = malloc(RING_EVENT_MAX);
	w->status.recording = true;
	if (!w->path || !w->buf) {
		err_set(e, ERR_MEMORY, "out of memory for the writer of the recording");
		goto fail;
	}
	if (recording_create(&w->recording, path, e))
		goto fail;
	if (ring_cursor_open(&w->cursor, r, true, e))
		goto fail_recording;
	w->committed = ring_cursor_at(w->cursor);
	w->status.bytes = recording_size(w->recording).bytes;
	if (start_thread(w)) {
		err_set(e, ERR_IO, "no thread for the writer of the recording");
		goto fail_recording;
	}
	*out = w;
	return 0;
fail_recording:
	recording_close(w->recording, true);
fail:
	free_writer(w);
	return -1;
}

int writer_close(struct writer *w, struct err *e)
{
	int rc = 0;

	if (!w)
		return 0;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_mutex_unlock(&w->lock);
	ring_cursor_wake(w->cursor);
	pthread_join(w->thread, NULL);
	if (w->status.err.code)
		rc = err_set(e, w->status.err.code, "%s", w->status.err.text);
	free_writer(w);
	return rc;
}

void writer_status(struct writer *w, struct writer_status *out)
{
	pthread_mutex_lock(&w->lock);
	*out = w->status;
	pthread_mutex_unlock(&w->lock);
}

int64_t writer_processor_ns(struct writer *w)
{
	struct timespec t;
	clockid_t clock;

	if (pthread_getcpuclockid(w->thread, &clock) || clock_gettime(clock, &t))
		return 0;
	return timespec_ns(t);
}

int writer_flush(struct writer *w)
{
	uint64_t until = ring_head(w->ring);
	int rc;

	pthread_mutex_lock(&w->lock);
	if (w->asked < until)
		w->asked = until;
	pthread_mutex_unlock(&w->lock);
	ring_cursor_wake(w->cursor);
	pthread_mutex_lock(&w->lock);
	while (w->status.recording && w->committed < until)
		pthread_cond_wait(&w->progress, &w->lock);
	rc = w->committed >= until ? 0 : -1;
	pthread_mutex_unlock(&w->lock);
	return rc;
}

const char *writer_path(const struct writer *w)
{
	return w->path;
}
