/* The threads of a back end: all of them run the same function at once, and meet at barriers.
 * Private to kernels/. One thread, the engine's, owns a pool and is its thread 0. */
#pragma once

#include <stdatomic.h>

#include "base/err.h"

/* A number that only grows, and that threads wait for: spinning briefly, then asleep on a futex. */
struct k_barrier {
	atomic_uint value, sleepers;
	int spins;
};
void k_barrier_wait(struct k_barrier *g, unsigned seen); /* until value is not `seen` */
void k_barrier_open(struct k_barrier *g, unsigned by);   /* value += by */

struct k_pool;
typedef void k_pool_fn(void *arg, int tid, int n_threads, void *scratch);

/* n_threads >= 1, the caller's own included. Scratch is K_SCRATCH_BYTES a thread (isa.h). */
int k_pool_open(struct k_pool **pool, int n_threads, struct err *e);
void k_pool_close(struct k_pool *pool); /* NULL is fine */
int k_pool_size(const struct k_pool *pool);
/* the system's ID of thread i >= 1, after a run */
int k_pool_thread(const struct k_pool *pool, int i);
int k_pool_spins(const struct k_pool *pool); /* at a barrier; 0 if there are too few processors */

/* Calls fn on every thread, rule 1's floating-point environment set, and returns when all have. */
void k_pool_run(struct k_pool *pool, k_pool_fn *fn, void *arg);
