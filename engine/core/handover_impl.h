/* What files of prompts on ranks of their own share (docs/parallel.md, "Disaggregated prefill").
 *
 * A prefill rank has the whole model and pools of the same pages. Rank 0 plans and takes the pages
 * of a prompt as for itself, and gives the rank a job: token ids, block tables, and those pages of
 * what the prefix cache gave that the rank has not. The rank computes the rows in chunks; what each
 * layer stored goes back at once, and rank 0 puts it into its own pages.
 *
 * Invariants: (1) a job belongs to the engine's thread but for what says `lock`; (2) a worker reads
 * and writes pages of a job under `lock`, and only while it is not dropped; so from the moment a
 * request was called back its pages are nobody's; (3) `has` marks pages that the prefix cache has
 * kept since the rank got them, which are never written. Threads: the engine's; a worker for each
 * rank, which alone uses its transport. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "engine/core/engine_ranks_impl.h"
#include "engine/ranks/stored.h"

/* A message of a job, in either direction: this, then its bytes. */
enum piece_kind {
	PIECE_PAGE,   /* to the rank: a whole page */
	PIECE_STORED, /* from it: what an op stored */
	PIECE_CHUNK,  /* from it: rows up to s.end are done; it waits for a word */
	PIECE_STOP,   /* the job ends here: called back, or, with a text, failed */
};

struct piece {
	int32_t kind, group, page;
	int32_t nan_row; /* of a chunk */
	struct stored s;
	uint64_t bytes, hash; /* XXH64 */
};

/* handover_piece.c. The hash is put in, and not compared. */
int piece_send(struct transport *t, struct piece *p, void *data, struct err *err);
/* Bytes into *data, which grows. */
int piece_receive(
	struct transport *t, struct piece *p, uint8_t **data, size_t *cap, struct err *err);
bool piece_is_whole(const struct piece *p, const uint8_t *data);
/* The head of a job, ids, block tables by group: one function for both directions. */
struct job_wire {
	int32_t first, n, n_blocks, n_give, chunk;
	const int32_t *ids, *page[MEMORY_GROUPS]; /* a reader's lie in the message */
};
void job_wire(struct wire *w, struct job_wire *j, int32_t n_groups);

enum job_state { JOB_WAITS, JOB_RUNS, JOB_DONE, JOB_FAILED };

struct handover_job {
	TAILQ_ENTRY(handover_job) link;
	char *setting; /* no prompt, but a setting and its value, one after the other; else NULL */
	size_t setting_bytes;
	int32_t n_pages[MEMORY_GROUPS]; /* of the setting: afterwards */

	struct request *r;
	int64_t request;
	struct job_wire has;
	int32_t *room; /* ids and block tables */
	int32_t n_groups;
	struct job_page {
		int32_t group, page;
		size_t bytes;
	} * give;      /* [has.n_give] */
	int32_t taken; /* rows that the request got */

	/* lock */
	enum job_state state;
	bool dropped; /* called back: the worker frees it if it runs */
	int32_t done; /* rows whose keys and values are in the pages */
	int32_t nan_row;
	int64_t there, back;                          /* bytes */
	int64_t asked_ns, start_ns, first_ns, end_ns; /* by now_ns(); 0: not yet */
	bool differs; /* bytes that came do not have the hash that came with them */
	char why[sizeof((struct err *)0)->text]; /* it failed */
};

struct prefill_rank {
	struct handover *h;
	struct engine_ranks r; /* its messages and its thread; this side is rank 0 of two */
	int32_t number;        /* from 1 */
	pthread_t worker;
	bool works;
	uint8_t *room; /* the worker's, of what comes */
	size_t cap;
	bool *has[MEMORY_GROUPS]; /* [n_pages] of the pool; NULL: none */

	TAILQ_HEAD(, handover_job) jobs; /* lock: in their order, the one that runs first */
	bool quits, lost;                /* lock */
};

struct handover {
	struct engine *e;
	pthread_mutex_t lock;
	pthread_cond_t wake, moved; /* for workers; for the engine */
	int32_t n;
	struct prefill_rank *rank; /* [n] */
};

/* handover.c: functions of the scheduler and of the hook. */
bool handover_take(void *handover, struct request *r, int32_t n);
void handover_recall(void *handover, struct request *r);
void handover_begin(struct engine *e, void *state);
void handover_wait(struct engine *e, void *state);

/* handover_worker.c: the thread of a prefill rank on rank 0's side. */
void *handover_work(void *prefill_rank);
void handover_free_job(struct handover_job *j);

/* handover_follow.c: a prefill rank computes the job in r->wire. */
int handover_follow(struct engine *e, struct engine_ranks *r, struct err *err);
