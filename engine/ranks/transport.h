/* How ranks send each other bytes. A rank is one of the parts that a model is split over: a thread
 * of this process, or a process of MPI, maybe on another machine.
 *
 * There is one operation: an exchange, a set of messages to others and from others, that ends when
 * all are done (as MPI_Waitall and ncclGroupEnd do). Gathering, broadcasting, sending on and
 * meeting are exchanges. Messages from one rank to another arrive in the order in which they were
 * sent, and both sides know their lengths.
 *
 * Errors: ERR_DEVICE, with the rank that ended, hangs or failed; after one nothing can be exchanged
 * any more. Ownership: who opens closes. Thread: a rank's exchanges are all from one thread. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/link.h"

enum { TRANSPORT_RANKS = 64 }; /* most */

/* Bytes to or from a rank. */
struct message {
	int32_t rank;
	void *data; /* not changed where it is sent */
	size_t bytes;
};

struct transport;
struct transport_ops {
	const char *name;
	/* idle: nothing may come for a long time, so that waiting should cost no processor time. */
	int (*exchange)(struct transport *t, const struct message *out, int32_t n_out,
		const struct message *in, int32_t n_in, bool idle, struct err *e);
	/* The others' exchanges with this rank fail from now on. */
	void (*close)(struct transport *t);
};

/* What a rank sent and received since it was opened. */
struct transport_count {
	uint64_t exchanges, sent, received; /* bytes */
	uint64_t control;                   /* bytes, both ways, of other messages than these */
	uint64_t ns;                        /* in exchanges: waiting, and moving bytes */
	uint64_t link_ns;                   /* of these, what a slowed link added */
};

struct transport {
	const struct transport_ops *ops;
	int32_t rank, n;
	/* for teaching: an exchange takes at least latency + bytes / rate, where bytes are the most
	 * that the rank sends to one other or receives from it */
	struct link_speed link;
	struct transport_count count;
	/* set by any thread: the engine is to end, so a wait for a rank that hangs ends, too */
	atomic_bool unwanted;
	const atomic_bool *abandon; /* or NULL; likewise */
};
bool transport_is_unwanted(struct transport *t);

/* Counted, and as slow as the link. */
int transport_exchange(struct transport *t, const struct message *out, int32_t n_out,
	const struct message *in, int32_t n_in, struct err *e);
/* The same for messages that are no part of a step's computation: counted as control, and never
 * slowed. */
int transport_control(struct transport *t, const struct message *out, int32_t n_out,
	const struct message *in, int32_t n_in, bool idle, struct err *e);
/* Such a message from rank 0 to all others. */
int transport_broadcast(struct transport *t, void *data, size_t bytes, bool idle, struct err *e);

/* threads.c: n ranks in this process, all at once; t[r] is for the thread of rank r, and each is
 * closed by its own. */
int transport_threads(struct transport **t, int32_t n, struct err *e);

/* mpi.c: ranks that are processes. A process that is not rank 0 calls transport_mpi_next() again
 * and again, has each transport used by a thread of its own, and ends with rank 0. A process of the
 * same machine that ends is missed at once; one elsewhere that does not answer for 30 s, or whose
 * end MPI tells of. */

/* Whether mpirun, or --ranks of another process, started this one as one of several. */
bool transport_mpi_started(void);
/* Joins those; else starts n - 1 others on this machine, that run this program. Once, by main.
 * ERR_USAGE says what to install where there is no MPI. */
int transport_mpi_begin(int32_t n, int32_t *rank, int32_t *size, struct err *e);
/* Rank 0: of all n processes, of which there must be as many; begins if that was not done. */
int transport_mpi(struct transport **t, int32_t n, struct err *e);
/* Rank 0: of two, itself and this process, which is rank 1 of them. */
int transport_mpi_pair(struct transport **t, int32_t n, int32_t process, struct err *e);
/* Others: of the next engine that rank 0 opens; *t NULL: rank 0 is about to end. */
int transport_mpi_next(struct transport **t, struct err *e);
/* All transports are closed; waits for the others, and where that is in vain ends them. status: of
 * the program, where mpirun is to know it. */
void transport_mpi_end(int status);
/* Told that a rank is waited for; NULL: nobody is. */
extern void (*transport_note)(const char *format, ...) __attribute__((format(printf, 1, 2)));
