/* See mpi_module.h.
 *
 * Invariants: 1. No call but those that all ranks make at once waits for another rank: messages are
 * begun and tested. So one lock around each is enough, MPI need only be safe for calls that come
 * one at a time (MPI_THREAD_SERIALIZED), and its own locks are not paid for. 2. Messages of more
 * than PIECE bytes are several, since MPI counts in int; those between two ranks stay in order. */
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/ranks/mpi_module.h"

enum { PIECE = 1 << 30, PATIENCE_MS = 1000 };

struct piece {
	int rank;
	int bytes; /* to be received; -1: sent */
};

struct mpi_set {
	int n, left, cap;
	MPI_Request *request;
	struct piece *piece;
	MPI_Status *status; /* of those that a test found done */
	int *done;          /* which these are */
};

static MPI_Comm all = MPI_COMM_NULL;
static int own_rank, n_ranks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int failed(int code, char *why)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int n = 0;

	if (code == MPI_SUCCESS)
		return 0;
	MPI_Error_string(code, text, &n);
	snprintf(why, MPI_WHY, "%.*s", MPI_WHY - 1, text);
	return -1;
}

/* ---- beginning ---- */

struct word {
	const char *name, *value;
};

/* What is set where the user has set nothing else. */
static void set(const struct word *w)
{
	for (; w->name; w++)
		setenv(w->name, w->value, 0);
}

/* Open MPI looks at sockets every 10 ms unless it is told otherwise, and gives up its core while it
 * tests, which the caller does better. UCX would catch the signals of crashes, which are the
 * program's; and ends the program where the other side of a remote write by TCP was killed. */
static const struct word always[] = { { "OMPI_MCA_mpi_event_tick_rate", "1" },
	{ "OMPI_MCA_mpi_yield_when_idle", "0" }, { "UCX_HANDLE_ERRORS", "none" },
	{ "UCX_ERROR_SIGNALS", "" }, { "UCX_TCP_PUT_ENABLE", "n" }, { NULL, NULL } };

/* What a user of --ranks cannot be expected to know. Open MPI starts no more processes than there
 * are cores, none as root, and binds each to a core, whatever its threads. Its own shared memory is
 * for processes that mpirun started, so UCX's is taken, where there is UCX: Debian's Open MPI has
 * it and leaves it out, unless other parts are named to be left out (v, which logs messages).
 * Containers often forbid one process to read another's memory. */
static const struct word of_spawned[] = { { "OMPI_MCA_rmaps_base_oversubscribe", "1" },
	{ "OMPI_ALLOW_RUN_AS_ROOT", "1" }, { "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1" },
	{ "OMPI_MCA_hwloc_base_binding_policy", "none" }, { "OMPI_MCA_pml", "^v" },
	{ "OMPI_MCA_opal_common_ucx_tls", "any" }, { "OMPI_MCA_opal_common_ucx_devices", "any" },
	{ "UCX_TLS", "posix,sysv,self,tcp" }, { NULL, NULL } };

/* mpirun binds a process to a core unless it is told otherwise, and a rank has more threads. */
static void unbind(void)
{
	cpu_set_t cpus;

	if (!getenv("OMPI_MCA_orte_bound_at_launch") || getenv("OMPI_MCA_hwloc_base_binding_policy"))
		return;
	memset(&cpus, 0xff, sizeof cpus);
	sched_setaffinity(0, sizeof cpus, &cpus);
}

static int spawn(int32_t n, const char *program, const char *folder, char *why)
{
	MPI_Comm others;
	MPI_Info info;
	int code;

	MPI_Info_create(&info);
	MPI_Info_set(info, "wdir", folder);
	code = MPI_Comm_spawn(
		program, MPI_ARGV_NULL, n - 1, info, 0, MPI_COMM_SELF, &others, MPI_ERRCODES_IGNORE);
	MPI_Info_free(&info);
	return failed(code, why) || failed(MPI_Intercomm_merge(others, 0, &all), why) ? -1 : 0;
}

static int join(int32_t n, const char *program, const char *folder, char *why)
{
	MPI_Comm parent;
	int started;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	MPI_Comm_get_parent(&parent);
	MPI_Comm_size(MPI_COMM_WORLD, &started);
	if (parent != MPI_COMM_NULL)
		return failed(MPI_Intercomm_merge(parent, 1, &all), why);
	if (started == 1 && n > 1)
		return spawn(n, program, folder, why);
	return failed(MPI_Comm_dup(MPI_COMM_WORLD, &all), why);
}

static int module_begin(int32_t n, const char *program, const char *folder, char *why)
{
	int provided = 0;

	set(always);
	if (n > 1)
		set(of_spawned);
	unbind();
	if (failed(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided), why))
		return -1;
	if (provided < MPI_THREAD_SERIALIZED) {
		snprintf(why, MPI_WHY, "this MPI is for programs of one thread");
		return -1;
	}
	if (join(n, program, folder, why))
		return -1;
	MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
	MPI_Comm_rank(all, &own_rank);
	MPI_Comm_size(all, &n_ranks);
	return 0;
}

static int32_t module_rank(void)
{
	return own_rank;
}

static int32_t module_size(void)
{
	return n_ranks;
}

static int module_gather(const void *own, void *of_all, size_t bytes, char *why)
{
	return failed(MPI_Allgather(own, (int)bytes, MPI_BYTE, of_all, (int)bytes, MPI_BYTE, all), why);
}

/* ---- exchanges ---- */

static struct mpi_set *set_new(void)
{
	return calloc(1, sizeof(struct mpi_set));
}

static int grow(struct mpi_set *s, int cap, char *why)
{
	MPI_Request *request = realloc(s->request, (size_t)cap * sizeof *request);
	struct piece *piece = realloc(s->piece, (size_t)cap * sizeof *piece);
	MPI_Status *status = realloc(s->status, (size_t)cap * sizeof *status);
	int *done = realloc(s->done, (size_t)cap * sizeof *done);

	s->request = request ? request : s->request;
	s->piece = piece ? piece : s->piece;
	s->status = status ? status : s->status;
	s->done = done ? done : s->done;
	if (request && piece && status && done) {
		s->cap = cap;
		return 0;
	}
	snprintf(why, MPI_WHY, "no memory for %d messages", cap);
	return -1;
}

static int start_one(
	struct mpi_set *s, int32_t tag, const struct message *m, bool receives, char *why)
{
	size_t at = 0;

	while (at < m->bytes) {
		const size_t left = m->bytes - at;
		const int n = (int)(left < PIECE ? left : PIECE);
		char *data = (char *)m->data + at;

		if (s->n == s->cap && grow(s, 2 * s->cap + 64, why))
			return -1;
		if (failed(receives ? MPI_Irecv(data, n, MPI_BYTE, m->rank, tag, all, &s->request[s->n])
							: MPI_Isend(data, n, MPI_BYTE, m->rank, tag, all, &s->request[s->n]),
				why))
			return -1;
		s->piece[s->n++] = (struct piece){ m->rank, receives ? n : -1 };
		at += (size_t)n;
	}
	return 0;
}

static int set_start(struct mpi_set *s, int32_t tag, const struct message *out, int32_t n_out,
	const struct message *in, int32_t n_in, char *why)
{
	int rc = 0;

	pthread_mutex_lock(&lock);
	s->n = 0;
	for (int32_t i = 0; i < n_in && !rc; i++)
		rc = start_one(s, tag, &in[i], true, why);
	for (int32_t i = 0; i < n_out && !rc; i++)
		rc = start_one(s, tag, &out[i], false, why);
	s->left = s->n;
	pthread_mutex_unlock(&lock);
	return rc;
}

static int check_lengths(const struct mpi_set *s, int n_done, char *why)
{
	for (int i = 0; i < n_done; i++) {
		const struct piece *p = &s->piece[s->done[i]];
		int n = 0;

		if (p->bytes >= 0)
			MPI_Get_count(&s->status[i], MPI_BYTE, &n);
		if (p->bytes < 0 || n == p->bytes)
			continue;
		snprintf(
			why, MPI_WHY, "rank %d sent %d bytes where %d were expected", p->rank, n, p->bytes);
		return -1;
	}
	return 0;
}

static int first_error(const struct mpi_set *s, int code, int n_done)
{
	for (int i = 0; code == MPI_ERR_IN_STATUS && i < n_done; i++)
		if (s->status[i].MPI_ERROR != MPI_SUCCESS && s->status[i].MPI_ERROR != MPI_ERR_PENDING)
			return s->status[i].MPI_ERROR;
	return code;
}

static int set_test(struct mpi_set *s, char *why)
{
	int n = 0, code;

	if (!s->left)
		return 1;
	pthread_mutex_lock(&lock);
	code = MPI_Testsome(s->n, s->request, &n, s->done, s->status);
	pthread_mutex_unlock(&lock);
	n = n == MPI_UNDEFINED ? 0 : n;
	if (code != MPI_SUCCESS)
		return failed(first_error(s, code, n), why);
	if (check_lengths(s, n, why))
		return -1;
	s->left -= n;
	return !s->left;
}

/* MPI sets a request that is done to this. */
static bool set_waits_for(const struct mpi_set *s, int32_t rank)
{
	for (int i = 0; s->left && i < s->n; i++)
		if (s->piece[i].rank == rank && s->request[i] != MPI_REQUEST_NULL)
			return true;
	return false;
}

/* What was not sent yet is forgotten: nobody receives it. What is being received has to come to an
 * end before its memory is another's. */
static int abandon(struct mpi_set *s)
{
	const struct timespec tick = { .tv_nsec = 1000000 };
	int done = 0;

	for (int i = 0; s->left && i < s->n; i++) {
		if (s->request[i] == MPI_REQUEST_NULL)
			continue;
		if (s->piece[i].bytes >= 0)
			MPI_Cancel(&s->request[i]);
		else
			MPI_Request_free(&s->request[i]);
	}
	for (int ms = 0; s->left && !done && ms < PATIENCE_MS; ms++) {
		if (MPI_Testall(s->n, s->request, &done, s->status) != MPI_SUCCESS)
			return -1;
		if (!done)
			nanosleep(&tick, NULL);
	}
	return !s->left || done ? 0 : -1;
}

static int set_free(struct mpi_set *s)
{
	int rc;

	pthread_mutex_lock(&lock);
	rc = abandon(s);
	pthread_mutex_unlock(&lock);
	if (rc)
		return -1; /* MPI may still write to the requests, too */
	free(s->request);
	free(s->piece);
	free(s->status);
	free(s->done);
	free(s);
	return 0;
}

/* ---- the end ---- */

static void module_end(void)
{
	MPI_Barrier(all); /* else one may still send to another that is gone */
	MPI_Finalize();
}

static void module_abort(int status)
{
	MPI_Abort(all == MPI_COMM_NULL ? MPI_COMM_WORLD : all, status);
}

const struct mpi_module cutaway_mpi = { .version = MPI_MODULE_VERSION,
	.begin = module_begin,
	.rank = module_rank,
	.size = module_size,
	.gather = module_gather,
	.set_new = set_new,
	.start = set_start,
	.test = set_test,
	.waits_for = set_waits_for,
	.set_free = set_free,
	.end = module_end,
	.abort = module_abort };
