/* Ranks that are threads of one process: from each to each other a ring of bytes. See transport.h.
 *
 * Invariants: 1. A ring's `put` is written by its sender alone, `taken` by its receiver alone; both
 * only grow, and put - taken <= RING. 2. Who puts or takes rings the other's bell afterwards; a
 * rank that found nothing to do compares its bell with the value from before it looked, so no ring
 * is missed. 3. A rank that is closed says so in `ended` before it rings all bells; memory is freed
 * by the last one. */
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include "engine/ranks/transport.h"

enum { RING = 1 << 20, LINE = 64, SPINS = 4000, IDLE_SPINS = 400 };

struct ring {
	_Alignas(LINE) atomic_size_t put;
	_Alignas(LINE) atomic_size_t taken;
	_Alignas(LINE) unsigned char data[RING];
};

struct bell {
	_Alignas(LINE) atomic_uint value;
	atomic_uint sleepers;
};

struct thread_rank {
	struct transport t;
	struct world *w;
};

struct world {
	int32_t n;
	struct thread_rank rank[TRANSPORT_RANKS];
	atomic_int users;
	atomic_bool ended[TRANSPORT_RANKS];
	struct bell bell[TRANSPORT_RANKS];
	struct ring *ring; /* [n][n] from, to */
};

static struct ring *ring_of(struct world *w, int32_t from, int32_t to)
{
	return &w->ring[from * w->n + to];
}

static void ring_bell(struct bell *b)
{
	atomic_fetch_add(&b->value, 1);
	if (atomic_load(&b->sleepers))
		syscall(SYS_futex, &b->value, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, NULL, NULL, 0);
}

static void await_bell(struct bell *b, unsigned seen, int spins)
{
	for (int i = 0; i < spins; i++) {
		if (atomic_load_explicit(&b->value, memory_order_acquire) != seen)
			return;
#ifdef __x86_64__
		_mm_pause();
#endif
	}
	atomic_fetch_add(&b->sleepers, 1);
	while (atomic_load(&b->value) == seen)
		syscall(SYS_futex, &b->value, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, seen, NULL, NULL, 0);
	atomic_fetch_sub(&b->sleepers, 1);
}

/* To or from a ring, in at most two pieces. */
static void move(struct ring *r, size_t at, unsigned char *data, size_t n, bool put)
{
	const size_t first = at % RING, whole = RING - first < n ? RING - first : n;

	if (put) {
		memcpy(r->data + first, data, whole);
		memcpy(r->data, data + whole, n - whole);
	} else {
		memcpy(data, r->data + first, whole);
		memcpy(data + whole, r->data, n - whole);
	}
}

/* As much of a message as there is room for, or has come; returns how many bytes. */
static size_t advance(struct thread_rank *t, const struct message *m, size_t done, bool put)
{
	struct ring *r = put ? ring_of(t->w, t->t.rank, m->rank) : ring_of(t->w, m->rank, t->t.rank);
	const size_t has = atomic_load_explicit(&r->put, memory_order_acquire),
				 taken = atomic_load_explicit(&r->taken, memory_order_acquire);
	size_t n = put ? RING - (has - taken) : has - taken;

	n = n < m->bytes - done ? n : m->bytes - done;
	if (!n)
		return 0;
	move(r, put ? has : taken, (unsigned char *)m->data + done, n, put);
	atomic_store_explicit(put ? &r->put : &r->taken, (put ? has : taken) + n, memory_order_release);
	ring_bell(&t->w->bell[m->rank]);
	return n;
}

struct progress {
	size_t done; /* of the first message that is not through */
	int32_t at;  /* which that is */
	bool out;
};

/* Messages to one rank go one after the other; those to several at once would need more state than
 * their lengths are worth: each list goes in its order. */
static bool go_on(struct thread_rank *t, struct progress *p, const struct message *m, int32_t n)
{
	bool moved = false;

	while (p->at < n) {
		const size_t some = advance(t, &m[p->at], p->done, p->out);

		p->done += some;
		moved |= some > 0;
		if (p->done < m[p->at].bytes)
			break;
		p->at++;
		p->done = 0;
		moved = true; /* a message may have no bytes */
	}
	return moved;
}

static int threads_exchange(struct transport *transport, const struct message *out, int32_t n_out,
	const struct message *in, int32_t n_in, bool idle, struct err *e)
{
	struct thread_rank *t = (struct thread_rank *)transport;
	struct bell *bell = &t->w->bell[t->t.rank];
	struct progress to = { .out = true }, from = { 0 };

	while (to.at < n_out || from.at < n_in) {
		const unsigned seen = atomic_load(&bell->value);
		const int32_t other = from.at < n_in ? in[from.at].rank : out[to.at].rank;
		const bool ended = atomic_load(&t->w->ended[other]);
		bool moved = go_on(t, &to, out, n_out);

		moved |= go_on(t, &from, in, n_in);
		if (moved)
			continue;
		if (ended)
			return err_set(e, ERR_DEVICE, "rank %d has ended", other);
		await_bell(bell, seen, idle ? IDLE_SPINS : SPINS);
	}
	return 0;
}

static void threads_close(struct transport *transport)
{
	struct thread_rank *t = (struct thread_rank *)transport;
	struct world *w = t->w;

	atomic_store(&w->ended[t->t.rank], true);
	for (int32_t r = 0; r < w->n; r++)
		ring_bell(&w->bell[r]);
	if (atomic_fetch_sub(&w->users, 1) > 1)
		return;
	free(w->ring);
	free(w);
}

static const struct transport_ops threads_ops = {
	.name = "threads", .exchange = threads_exchange, .close = threads_close
};

static struct world *world_new(int32_t n)
{
	struct world *w = aligned_alloc(LINE, sizeof *w);

	if (!w)
		return NULL;
	memset(w, 0, sizeof *w);
	w->n = n;
	atomic_init(&w->users, n);
	w->ring = aligned_alloc(LINE, (size_t)n * (size_t)n * sizeof *w->ring);
	if (!w->ring) {
		free(w);
		return NULL;
	}
	for (int32_t i = 0; i < n * n; i++) {
		atomic_init(&w->ring[i].put, 0);
		atomic_init(&w->ring[i].taken, 0);
	}
	return w;
}

int transport_threads(struct transport **out, int32_t n, struct err *e)
{
	struct world *w = n <= TRANSPORT_RANKS ? world_new(n) : NULL;

	if (!w)
		return err_no_memory(e, "%d ranks", n);
	for (int32_t r = 0; r < n; r++) {
		w->rank[r] = (struct thread_rank){ { .ops = &threads_ops, .rank = r, .n = n }, w };
		out[r] = &w->rank[r].t;
	}
	return 0;
}
