/* Ranks that are processes of MPI. See transport.h.
 *
 * Each engine of rank 0 has a number, the tag of all its messages, so that several can be open at
 * once. Beside them go notices, of tag 0: rank 0 says that an engine begins, that all is over, and
 * asks a rank that is silent whether it is there; the main thread of each other rank listens to
 * these alone and answers, whatever its engines compute.
 *
 * Invariants: 1. Open transports are in the list `open`, under `lock`. 2. After an exchange that
 * failed for another reason than a close, MPI may still write into its memory: the world is lost,
 * and MPI is called no more but to end all. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/ranks/mpi_world.h"

#define MS INT64_C(1000000)
#define SPIN_NS (MS / 16)
#define LOOK_NS (5 * MS)
#define LEAST_NAP_NS (MS / 64)
#define NAP_NS (MS / 4)
#define IDLE_NAP_NS (25 * MS)
#define LISTEN_NAP_NS (50 * MS)
#define ASK_NS (1000 * MS)    /* a rank that is waited for so long is asked, again and again */
#define SILENT_NS (5000 * MS) /* a rank that is waited for so long is asked */
#define LOST_NS (30000 * MS)  /* and is taken as lost after so long */
#define GIVE_UP_NS                                                                                 \
	(1000 * MS) /* what runs may take so long to end where it is not wanted any more */
#define END_NS (10000 * MS)
#define ENDED_NS (500 * MS)

enum { TAGS = 32000, NOTICE_TAG = 0, PAIR_MESSAGES = 8 /* of an exchange, one way */ };
enum notice_kind {
	NOTICE_OPEN,
	NOTICE_PAIR,
	NOTICE_CLOSE,
	NOTICE_ASK,
	NOTICE_HERE,
	NOTICE_END,
	NOTICE_BYE
};

struct notice {
	int32_t kind, tag;
};

struct mpi_rank {
	struct transport t;
	int32_t tag;
	int32_t peer; /* rank 0's of two: the process that is rank 1; 0: all processes are ranks */
	struct mpi_set *set;
	atomic_int ended; /* a rank that closed, + 1; 0: none */
	struct mpi_rank *next;
};

/* The next notice of a rank. */
struct inbox {
	struct mpi_set *set;
	struct notice notice;
	_Atomic int64_t heard_ns;
	bool bye;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mpi_rank *open;
static struct inbox inbox[TRANSPORT_RANKS];
static int32_t last_tag;

static void nap(int64_t ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = (long)ns }, NULL);
}

static int lose(struct err *e, int32_t rank, const char *what)
{
	char name[96];

	atomic_store(&mpi_world.lost, true);
	return err_set(e, ERR_DEVICE, "rank %d%s%s", rank, what, mpi_world_name(rank, name));
}

static int check_ended(struct err *e)
{
	const int32_t rank = mpi_world_ended();

	return rank < 0 ? 0 : lose(e, rank, " has ended");
}

/* MPI failed: mostly since a rank has ended, whose sockets close before the process is gone. */
static int fail(struct err *e, const char *why)
{
	for (int64_t start = now_ns(); now_ns() - start < ENDED_NS; nap(MS))
		if (check_ended(e))
			return -1;
	atomic_store(&mpi_world.lost, true);
	return err_set(e, ERR_DEVICE, "MPI: %s", why);
}

/* ---- notices ---- */

static int expect(struct inbox *b, int32_t from)
{
	char why[MPI_WHY];
	const struct message m = { from, &b->notice, sizeof b->notice };

	if (!b->set && !(b->set = mpi_world.mpi->set_new()))
		return -1;
	return mpi_world.mpi->start(b->set, NOTICE_TAG, NULL, 0, &m, 1, why);
}

/* So short a message is done at once, unless the rank is gone. */
static void say(int32_t to, enum notice_kind kind, int32_t tag)
{
	struct notice n = { kind, tag };
	struct mpi_set *set = mpi_world.mpi->set_new();
	char why[MPI_WHY];
	int done = 0;

	if (!set || mpi_world.mpi->start(
					set, NOTICE_TAG, &(struct message){ to, &n, sizeof n }, 1, NULL, 0, why))
		atomic_store(&mpi_world.lost, true);
	while (!atomic_load(&mpi_world.lost) && !(done = mpi_world.mpi->test(set, why))) {
		nap(MS / 10);
		check_ended(NULL);
	}
	if (done > 0)
		mpi_world.mpi->set_free(set);
	else
		atomic_store(&mpi_world.lost, true);
}

static void say_all(enum notice_kind kind, int32_t tag)
{
	for (int32_t r = 0; r < mpi_world.n && !atomic_load(&mpi_world.lost); r++)
		if (r != mpi_world.rank && (!r || !mpi_world.rank))
			say(r, kind, tag);
}

static void note_close(int32_t from, int32_t tag)
{
	pthread_mutex_lock(&lock);
	for (struct mpi_rank *t = open; t; t = t->next)
		if (t->tag == tag)
			atomic_store(&t->ended, from + 1);
	pthread_mutex_unlock(&lock);
}

/* Takes one, if there is one, and listens for the next. */
static bool take_notice(int32_t from, struct notice *n)
{
	static pthread_mutex_t taking = PTHREAD_MUTEX_INITIALIZER;
	struct inbox *b = &inbox[from];
	char why[MPI_WHY];
	int came;

	pthread_mutex_lock(&taking);
	came = atomic_load(&mpi_world.lost) ? 0 : mpi_world.mpi->test(b->set, why);
	if (came > 0) {
		*n = b->notice;
		atomic_store(&b->heard_ns, now_ns());
		b->bye |= n->kind == NOTICE_BYE;
	}
	if (came < 0 || (came > 0 && n->kind != NOTICE_BYE && n->kind != NOTICE_END && expect(b, from)))
		atomic_store(&mpi_world.lost, true);
	pthread_mutex_unlock(&taking);
	if (came > 0 && n->kind == NOTICE_CLOSE)
		note_close(from, n->tag);
	return came > 0;
}

static void take_notices(void)
{
	struct notice n;

	for (int32_t r = 1; r < mpi_world.n; r++)
		while (!inbox[r].bye && take_notice(r, &n))
			;
}

/* ---- waiting ---- */

struct wait {
	int64_t start, asked, unwanted;
	bool told;
};

static int64_t silence(const struct wait *w, int32_t rank, int64_t now)
{
	const int64_t heard = atomic_load(&inbox[rank].heard_ns);

	return now - (heard > w->start ? heard : w->start);
}

/* A rank that computes for long answers, since another of its threads does; a debugger may have it
 * for as long as it likes. */
static int ask(const struct mpi_rank *t, struct wait *w, int64_t now, struct err *e)
{
	const bool again = now - w->asked > ASK_NS;
	char name[96];

	for (int32_t r = 1; r < mpi_world.n && now - w->start > ASK_NS; r++) {
		const int64_t ns = silence(w, r, now);

		if (!mpi_world.mpi->waits_for(t->set, r))
			continue;
		if (again)
			say(r, NOTICE_ASK, 0);
		if (ns > SILENT_NS && !w->told && transport_note)
			transport_note(
				"rank %d%s does not answer: it or its machine is stopped, or the network "
				"between is; waiting",
				r, mpi_world_name(r, name));
		w->told |= ns > SILENT_NS;
		if (ns > LOST_NS && !mpi_world_is_traced(r))
			return lose(e, r, " did not answer for 30 s");
	}
	w->asked = again ? now : w->asked;
	return 0;
}

/* Whether the wait has to end: -1. */
static int look(struct mpi_rank *t, struct wait *w, int64_t now, struct err *e)
{
	int32_t ended;

	if (check_ended(e))
		return -1;
	if (!mpi_world.rank)
		take_notices();
	if (atomic_load(&mpi_world.lost))
		return fail(e, "a rank is lost");
	ended = atomic_load(&t->ended) - 1;
	if (!ended || (ended > 0 && mpi_world.mpi->waits_for(t->set, ended)))
		return err_set(e, ERR_DEVICE, "rank %d has ended its part", ended);
	if (!w->unwanted && transport_is_unwanted(&t->t))
		w->unwanted = now;
	if (w->unwanted && now - w->unwanted > GIVE_UP_NS) {
		atomic_store(&mpi_world.lost, true);
		return err_set(e, ERR_INTERRUPTED, "interrupted while other ranks were waited for");
	}
	return mpi_world.rank ? 0 : ask(t, w, now, e);
}

/* A wait is mostly for what comes at once. Then this thread leaves its core to others, but by naps
 * and not by yielding, since who has slept comes first when it wakes. */
static void rest(int64_t waited, bool idle)
{
	static _Thread_local bool is_exact;
	const int64_t longest = idle ? IDLE_NAP_NS : NAP_NS;
	int64_t ns = waited / 64;

	if (!is_exact)
		prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); /* else it is 50 us */
	is_exact = true;
	ns = ns > LEAST_NAP_NS ? ns : LEAST_NAP_NS;
	nap(ns < longest ? ns : longest);
}

static int await(struct mpi_rank *t, bool idle, struct err *e)
{
	struct wait w = { .start = now_ns() };
	char why[MPI_WHY];

	for (;;) {
		const int done = mpi_world.mpi->test(t->set, why);
		const int64_t now = now_ns(), waited = now - w.start;

		if (done > 0)
			return 0;
		if (done < 0)
			return fail(e, why);
		if (waited > LOOK_NS && look(t, &w, now, e))
			return -1;
		if (waited > SPIN_NS)
			rest(waited, idle);
	}
}

/* ---- a transport ---- */

/* Messages of rank 0 to and from the only other rank, by its number among all processes. */
static int to_peer(const struct mpi_rank *t, struct message to[PAIR_MESSAGES],
	const struct message **m, int32_t n, struct err *e)
{
	if (n > PAIR_MESSAGES)
		return err_set(e, ERR_DEVICE, "%d messages to a rank at once", n);
	for (int32_t i = 0; i < n; i++)
		to[i] = (struct message){ t->peer, (*m)[i].data, (*m)[i].bytes };
	*m = to;
	return 0;
}

static int mpi_exchange(struct transport *transport, const struct message *out, int32_t n_out,
	const struct message *in, int32_t n_in, bool idle, struct err *e)
{
	struct mpi_rank *t = (struct mpi_rank *)transport;
	struct message there[2][PAIR_MESSAGES];
	char why[MPI_WHY];

	if (atomic_load(&mpi_world.lost))
		return err_set(e, ERR_DEVICE, "a rank is lost: start the program again");
	if (t->peer && (to_peer(t, there[0], &out, n_out, e) || to_peer(t, there[1], &in, n_in, e)))
		return -1;
	if (mpi_world.mpi->start(t->set, t->tag, out, n_out, in, n_in, why))
		return fail(e, why);
	return await(t, idle, e);
}

static void mpi_close(struct transport *transport)
{
	struct mpi_rank *t = (struct mpi_rank *)transport, **at = &open;

	pthread_mutex_lock(&lock);
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	pthread_mutex_unlock(&lock);
	if (!atomic_load(&mpi_world.lost) && mpi_world.mpi->set_free(t->set))
		atomic_store(&mpi_world.lost, true);
	say_all(NOTICE_CLOSE, t->tag);
	free(t);
}

static const struct transport_ops mpi_ops = {
	.name = "mpi", .exchange = mpi_exchange, .close = mpi_close
};

/* pair: of two, rank 0 and one other process, or all. */
static int add(struct transport **out, int32_t tag, bool pair, int32_t peer, struct err *e)
{
	struct mpi_rank *t = calloc(1, sizeof *t);

	*out = NULL;
	if (!t || !(t->set = mpi_world.mpi->set_new())) {
		free(t);
		return err_no_memory(e, "a rank");
	}
	t->t = (struct transport){ .ops = &mpi_ops,
		.rank = pair ? mpi_world.rank != 0 : mpi_world.rank,
		.n = pair ? 2 : mpi_world.n };
	t->tag = tag;
	t->peer = peer;
	pthread_mutex_lock(&lock);
	t->next = open;
	open = t;
	pthread_mutex_unlock(&lock);
	*out = &t->t;
	return 0;
}

int transport_mpi_begin(int32_t n, int32_t *rank, int32_t *size, struct err *e)
{
	if (!mpi_world.mpi && mpi_world_begin(n, e))
		return -1;
	*rank = mpi_world.rank;
	*size = mpi_world.n;
	for (int32_t r = 0; r < mpi_world.n; r++)
		if (r != mpi_world.rank && (!r || !mpi_world.rank) && !inbox[r].set && expect(&inbox[r], r))
			return err_set(e, ERR_MEMORY, "no memory to hear of rank %d", r);
	return 0;
}

/* peer: see struct mpi_rank. */
static int open_world(struct transport **t, int32_t n, int32_t peer, struct err *e)
{
	int32_t rank, size;

	if (transport_mpi_begin(n, &rank, &size, e))
		return -1;
	if (atomic_load(&mpi_world.lost))
		return err_set(e, ERR_DEVICE, "a rank is lost: start the program again");
	if (n != size)
		return err_set(
			e, ERR_USAGE, "%d ranks are asked for, and %d processes of MPI are here", n, size);
	return add(t, last_tag = last_tag % TAGS + 1, peer > 0, peer, e);
}

int transport_mpi(struct transport **t, int32_t n, struct err *e)
{
	if (open_world(t, n, 0, e))
		return -1;
	say_all(NOTICE_OPEN, last_tag);
	return 0;
}

int transport_mpi_pair(struct transport **t, int32_t n, int32_t process, struct err *e)
{
	if (open_world(t, n, process, e))
		return -1;
	say(process, NOTICE_PAIR, last_tag);
	return 0;
}

int transport_mpi_next(struct transport **t, struct err *e)
{
	const int64_t start = now_ns();
	struct notice n = { 0 };

	*t = NULL;
	while (!check_ended(e)) {
		const int64_t waited = now_ns() - start;

		if (!take_notice(0, &n)) {
			nap(waited / 64 < LISTEN_NAP_NS ? waited / 64 : LISTEN_NAP_NS);
			continue;
		}
		if (n.kind == NOTICE_ASK)
			say(0, NOTICE_HERE, 0);
		if (n.kind == NOTICE_OPEN || n.kind == NOTICE_PAIR)
			return add(t, n.tag, n.kind == NOTICE_PAIR, 0, e);
		if (n.kind == NOTICE_END)
			return 0;
	}
	return -1;
}

/* ---- the end ---- */

/* Rank 0: whether all others are about to end, too. */
static bool part(void)
{
	const int64_t start = now_ns();
	int32_t left = 1;

	say_all(NOTICE_END, 0);
	while (left && !atomic_load(&mpi_world.lost) && now_ns() - start < END_NS) {
		take_notices();
		left = 0;
		for (int32_t r = 1; r < mpi_world.n; r++)
			left += !inbox[r].bye;
		if (left && !check_ended(NULL))
			nap(MS / 2);
	}
	return !left;
}

static volatile sig_atomic_t last_status;

static void on_alarm(int signal)
{
	(void)signal;
	_exit(last_status);
}

/* Those that are stopped, too. mpirun would say that one was killed, so there MPI ends all, with
 * this status; where it cannot, this process ends alone, and mpirun sees to the others. */
static void end_all(int status)
{
	if (!mpi_world.starter) {
		last_status = status;
		signal(SIGALRM, on_alarm);
		alarm(5);
		mpi_world.mpi->abort(status);
		return;
	}
	for (int32_t r = 1; r < mpi_world.n; r++)
		if (mpi_world.peer[r].fd >= 0)
			syscall(SYS_pidfd_send_signal, mpi_world.peer[r].fd, SIGKILL, NULL, 0);
}

void transport_mpi_end(int status)
{
	if (!mpi_world.mpi)
		return;
	if (mpi_world.rank)
		say_all(NOTICE_BYE, 0);
	else if (!part())
		atomic_store(&mpi_world.lost, true);
	for (int32_t r = 0; r < mpi_world.n && !atomic_load(&mpi_world.lost); r++)
		if (inbox[r].set)
			mpi_world.mpi->set_free(inbox[r].set);
	if (!atomic_load(&mpi_world.lost))
		mpi_world.mpi->end();
	else if (!mpi_world.rank)
		end_all(status);
}
