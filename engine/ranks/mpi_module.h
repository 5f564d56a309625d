/* What cutaway-mpi.so has: MPI, as far as ranks need it. engine/ranks/mpi_module.c alone is
 * compiled by mpicc and sees MPI's header; mpi_world.c opens it when it is asked for.
 *
 * Errors: -1, with MPI's own words in `why`. Thread: any; calls lock each other out, and none but
 * begin, gather, end and abort waits for others. */
#pragma once

#include "engine/ranks/transport.h"

enum { MPI_MODULE_VERSION = 1, MPI_WHY = 256 };

struct mpi_set; /* the messages of an exchange */

struct mpi_module {
	uint32_t version;
	/* Joins those that mpirun started; if it started this one alone and n is more than 1, starts
	 * n - 1 others that run `program` in `folder`. */
	int (*begin)(int32_t n, const char *program, const char *folder, char *why);
	int32_t (*rank)(void);
	int32_t (*size)(void);
	/* all: [size][bytes], on each rank */
	int (*gather)(const void *own, void *all, size_t bytes, char *why);

	struct mpi_set *(*set_new)(void); /* NULL: no memory */
	/* Begins messages that carry this number; what s had is done. */
	int (*start)(struct mpi_set *s, int32_t tag, const struct message *out, int32_t n_out,
		const struct message *in, int32_t n_in, char *why);
	/* 1: all are done; 0: not yet. */
	int (*test)(struct mpi_set *s, char *why);
	/* Whether a message to or from this rank is not done. */
	bool (*waits_for)(const struct mpi_set *s, int32_t rank);
	/* Frees s. -1: some message may still be written to where it was to go. */
	int (*set_free)(struct mpi_set *s);

	void (*end)(void); /* all ranks */
	/* Ends all processes with this status; may return. */
	void (*abort)(int status);
};

extern const struct mpi_module cutaway_mpi;
