/* The processes of MPI that this one is among: how it joins them, who they are, whether they are
 * still there, how all end. Part of mpi.c. Thread: any, but begin and end, which are main's. */
#pragma once

#include <stdatomic.h>

#include "engine/ranks/mpi_module.h"

/* In the environment: the mark of a process that another one had started. */
#define MPI_SPAWNED "CUTAWAY_RANK_OF"

struct mpi_peer {
	int64_t process;
	char host[64];
	int fd;    /* of a process of this machine, readable once it has ended; -1: it is elsewhere */
	bool gone; /* it is, and had ended when this one looked for it */
};

struct mpi_world {
	const struct mpi_module *mpi; /* NULL: not begun */
	int32_t rank, n;
	bool starter; /* this process had the others started */
	struct mpi_peer peer[TRANSPORT_RANKS];
	atomic_bool lost; /* MPI must not be called any more, but to abort */
};

extern struct mpi_world mpi_world;

/* See transport_mpi_begin(). */
int mpi_world_begin(int32_t n, struct err *e);
/* mpi_start.c: begins with n - 1 others on this machine. Until mpi_world_met() this process ends
 * with a word if one of them does. */
int mpi_world_spawn(int32_t n, struct err *e);
void mpi_world_met(void);
/* Of those that this rank cannot do without (rank 0 all, others rank 0), one that has ended; -1:
 * none. */
int32_t mpi_world_ended(void);
/* Whether a debugger has stopped it: then it is waited for. */
bool mpi_world_is_traced(int32_t rank);
/* " (process 1234 on host)" */
const char *mpi_world_name(int32_t rank, char text[static 96]);
