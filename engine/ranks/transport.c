/* See transport.h. */
#include "engine/ranks/transport.h"

#include <time.h>

#include "base/clock.h"

void (*transport_note)(const char *format, ...);

bool transport_is_unwanted(struct transport *t)
{
	return atomic_load(&t->unwanted) || (t->abandon && atomic_load(t->abandon));
}

static size_t most_bytes(const struct message *m, int32_t n, uint64_t *sum)
{
	size_t most = 0;

	for (int32_t i = 0; i < n; i++) {
		most = m[i].bytes > most ? m[i].bytes : most;
		*sum += m[i].bytes;
	}
	return most;
}

/* Sleeping is too coarse for the last tenths of a millisecond. */
static void wait_until(int64_t end)
{
	int64_t left;

	while ((left = end - now_ns()) > 0)
		if (left > 200000)
			nanosleep(&(struct timespec){ .tv_nsec = (long)(left - 100000) % 1000000000 }, NULL);
}

int transport_exchange(struct transport *t, const struct message *out, int32_t n_out,
	const struct message *in, int32_t n_in, struct err *e)
{
	const int64_t start = now_ns();
	const size_t sent = most_bytes(out, n_out, &t->count.sent);
	const size_t received = most_bytes(in, n_in, &t->count.received);
	int64_t end, due = start + t->link.latency_ns;
	int failed = t->ops->exchange(t, out, n_out, in, n_in, false, e);

	end = now_ns();
	if (t->link.rate > 0)
		due += (int64_t)((double)(sent > received ? sent : received) / t->link.rate * 1e9);
	if (due > end && (n_out || n_in)) {
		wait_until(due);
		t->count.link_ns += (uint64_t)(now_ns() - end);
	}
	t->count.exchanges++;
	t->count.ns += (uint64_t)(now_ns() - start);
	return failed;
}

int transport_control(struct transport *t, const struct message *out, int32_t n_out,
	const struct message *in, int32_t n_in, bool idle, struct err *e)
{
	most_bytes(out, n_out, &t->count.control);
	most_bytes(in, n_in, &t->count.control);
	return t->ops->exchange(t, out, n_out, in, n_in, idle, e);
}

int transport_broadcast(struct transport *t, void *data, size_t bytes, bool idle, struct err *e)
{
	struct message m[TRANSPORT_RANKS];
	int32_t n = 0;

	if (t->rank)
		return transport_control(t, NULL, 0, &(struct message){ 0, data, bytes }, 1, idle, e);
	for (int32_t r = 1; r < t->n; r++)
		m[n++] = (struct message){ r, data, bytes };
	return transport_control(t, m, n, NULL, 0, idle, e);
}
