/* See waits.h. */
#include "engine/observe/waits.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "event/event.h"

/* between two reads where no step is slow, per thread; between steps */
enum { EVERY_NS = 25000000, IDLE_NS = 1000000 };

int waits_open(int thread)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", thread);
	return open(path, O_RDONLY | O_CLOEXEC);
}

int64_t waits_of(int fd)
{
	char text[96], *at = text, *end;
	int64_t value[3]; /* ns on a processor, ns waiting for one, times that it was given one */
	ssize_t size = pread(fd, text, sizeof text - 1, 0);

	if (size <= 0)
		return -1;
	text[size] = '\0';
	for (int i = 0; i < 3; i++, at = end) {
		value[i] = strtoll(at, &end, 10);
		if (end == at)
			return -1;
	}
	/* the thread runs, so all zero means that the system does not count */
	return value[2] > 0 && value[1] >= 0 ? value[1] : -1;
}

void waits_close(struct waits *w)
{
	for (int i = 0; i < w->n; i++)
		close(w->fd[i]);
	w->n = 0;
}

/* The longest delay since the last call; -1: one file cannot be read, so all are closed. */
static int64_t waits_since(struct waits *w)
{
	int64_t longest = 0;

	for (int i = 0; i < w->n; i++) {
		int64_t now = waits_of(w->fd[i]), more = now - w->had[i];

		if (now < 0) {
			waits_close(w);
			return -1;
		}
		w->had[i] = now;
		longest = more > longest ? more : longest;
	}
	w->asked_ns = now_ns();
	return longest;
}

/* The pool's threads have their thread IDs once it has run. */
static void open_all(struct waits *w, const struct k_ctx *kernels)
{
	int n = k_n_threads(kernels);

	waits_close(w);
	w->opened = true;
	w->by = pthread_self();
	for (int i = 0; i < n && n <= WAITS_MOST; i++) {
		w->fd[w->n] = waits_open(i ? k_thread_id(kernels, i) : (int)gettid());
		if (w->fd[w->n] < 0) {
			waits_close(w);
			return;
		}
		w->n++;
	}
	waits_since(w);
}

void waits_begin(struct waits *w)
{
	w->begun_ns = now_ns();
	if (w->n && w->begun_ns - w->left_ns > IDLE_NS)
		waits_since(w);
}

/* Whether a step took an eighth longer than those before it, of which slow ones count little. */
static bool is_slow(struct waits *w, int64_t took)
{
	bool slow;

	w->usual_ns = w->usual_ns ? w->usual_ns : took;
	slow = took > w->usual_ns + w->usual_ns / 8;
	w->usual_ns += slow ? w->usual_ns / 32 + 1 : (took - w->usual_ns) / 8;
	return slow;
}

int64_t waits_ask(struct waits *w, const struct k_ctx *kernels)
{
	int64_t longest = EV_NULL_I;

	if (!w->opened || !pthread_equal(w->by, pthread_self()))
		open_all(w, kernels);
	else if (w->n && (is_slow(w, now_ns() - w->begun_ns) ||
						 now_ns() - w->asked_ns >= (int64_t)w->n * EVERY_NS))
		longest = waits_since(w);
	w->left_ns = now_ns();
	return longest < 0 ? EV_NULL_I : longest;
}
