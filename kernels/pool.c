/* See pool.h. Work starts and ends at a barrier, a counter of generations (the sense of Hensgen,
 * Finkel and Manber 1988, with more than two values). A waiting thread spins briefly, then sleeps
 * on a futex, so that more threads than processors, or a busy machine, cost sleeps but no stalls.
 *
 * Invariants: 1. fn, arg and quit are written by thread 0 alone, while the others are inside the
 * barrier. 2. A barrier's value only grows. 3. A waiter counts itself in `sleepers` before the
 * kernel compares the value, and out after it; the thread that opens the barrier reads `sleepers`
 * after it has added one: no wake-up is lost. (A flag that the opener clears would lose one:
 * between its two operations a thread may have passed and be marked at the next barrier already.)
 */
#include "kernels/pool.h"

#include <linux/futex.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include "base/signals.h"
#include "kernels/cpu/isa.h"

enum { SPINS = 2000, YIELDS = 50, LINE = 64 };

struct worker {
	struct k_pool *pool;
	pthread_t thread;
	int tid;
	atomic_int id; /* the system's ID; 0: it has not begun */
};

struct k_pool {
	_Alignas(LINE) struct k_barrier barrier; /* generations of the barrier */
	_Alignas(LINE) atomic_uint arrived;
	_Alignas(LINE) unsigned n_threads;
	k_pool_fn *fn;
	void *arg;
	bool quit, failed;
	unsigned char *scratch;
	struct worker *worker; /* [n_threads], of which 0 is unused */
	int n_started;
	pthread_mutex_t starting; /* held while the pool may still fail to open */
};

/* Rule 1: round to nearest, subnormals kept, no traps: a thread inherits whatever a library
 * left. */
static void set_environment(void)
{
#if defined(__x86_64__)
	_mm_setcsr(0x1F80);
#elif defined(__aarch64__)
	uint64_t zero = 0;
	__asm__ volatile("msr fpcr, %0" : : "r"(zero));
#endif
}

static void relax(void)
{
#if defined(__x86_64__)
	_mm_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static void futex(atomic_uint *word, int op, unsigned value)
{
	syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

void k_barrier_wait(struct k_barrier *g, unsigned seen)
{
	for (int i = 0; i < g->spins; i++) {
		if (atomic_load_explicit(&g->value, memory_order_acquire) != seen)
			return;
		relax();
	}
	atomic_fetch_add(&g->sleepers, 1);
	while (atomic_load(&g->value) == seen)
		futex(&g->value, FUTEX_WAIT, seen);
	atomic_fetch_sub(&g->sleepers, 1);
}

void k_barrier_open(struct k_barrier *g, unsigned by)
{
	atomic_fetch_add(&g->value, by);
	if (atomic_load(&g->sleepers))
		futex(&g->value, FUTEX_WAKE, INT_MAX);
}

static void barrier(struct k_pool *p)
{
	unsigned now = atomic_load(&p->barrier.value);

	if (atomic_fetch_add(&p->arrived, 1) + 1 < p->n_threads) {
		k_barrier_wait(&p->barrier, now);
	} else {
		atomic_store(&p->arrived, 0);
		k_barrier_open(&p->barrier, 1);
	}
}

/* Who takes a ticket wakes nobody: where threads are more than processors, those that wait must not
 * keep the ones they wait for from running, as yields alone do. */
void k_await(atomic_int *ticket, int count)
{
	const struct timespec nap = { .tv_nsec = 20000 };

	for (int i = 0; atomic_load_explicit(ticket, memory_order_acquire) < count; i++) {
		if (i < SPINS)
			relax();
		else if (i < SPINS + YIELDS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
	}
}

static void work(struct k_pool *p, int tid)
{
	set_environment();
	p->fn(p->arg, tid, (int)p->n_threads, p->scratch + (size_t)tid * K_SCRATCH_BYTES);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct k_pool *p = w->pool;

	atomic_store(&w->id, (int)gettid());
	pthread_mutex_lock(&p->starting);
	pthread_mutex_unlock(&p->starting);
	if (p->failed)
		return NULL;
	for (;;) {
		barrier(p);
		if (p->quit)
			return NULL;
		work(p, w->tid);
		barrier(p);
	}
}

void k_pool_run(struct k_pool *p, k_pool_fn *fn, void *arg)
{
	p->fn = fn;
	p->arg = arg;
	barrier(p);
	work(p, 0);
	barrier(p);
}

/* Workers block signals, which the program's other threads take. After a failure the started ones
 * leave before their first barrier. */
static int start_workers(struct k_pool *p, struct err *e)
{
	sigset_t before;
	int status = 0;

	signals_block(&before);
	pthread_mutex_lock(&p->starting);
	for (unsigned i = 1; i < p->n_threads && !status; i++) {
		p->worker[i].pool = p;
		p->worker[i].tid = (int)i;
		status = pthread_create(&p->worker[i].thread, NULL, worker_main, &p->worker[i]);
		p->n_started += !status;
	}
	p->failed = status != 0;
	pthread_mutex_unlock(&p->starting);
	signals_restore(&before);
	if (!status)
		return 0;
	return err_set(e, ERR_MEMORY, "cannot start %u compute threads (%s): ask for fewer",
		p->n_threads, strerror(status));
}

static int available_processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

int k_pool_open(struct k_pool **pool, int n_threads, struct err *e)
{
	struct k_pool *p = aligned_alloc(LINE, sizeof *p);
	void *scratch = mmap(NULL, (size_t)n_threads * K_SCRATCH_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct worker *worker = calloc((size_t)n_threads, sizeof *worker);

	*pool = NULL;
	if (!p || !worker || scratch == MAP_FAILED) {
		free(p);
		free(worker);
		if (scratch != MAP_FAILED)
			munmap(scratch, (size_t)n_threads * K_SCRATCH_BYTES);
		return err_no_memory(e, "%d compute threads", n_threads);
	}
	memset(p, 0, sizeof *p);
	p->n_threads = (unsigned)n_threads;
	p->barrier.spins = n_threads > available_processors() ? 0 : SPINS;
	p->scratch = scratch;
	p->worker = worker;
	pthread_mutex_init(&p->starting, NULL);
	if (start_workers(p, e)) {
		k_pool_close(p);
		return -1;
	}
	*pool = p;
	return 0;
}

void k_pool_close(struct k_pool *p)
{
	if (!p)
		return;
	if (!p->failed) { /* all workers wait at the barrier that starts a run */
		p->quit = true;
		barrier(p);
	}
	for (int i = 1; i <= p->n_started; i++)
		pthread_join(p->worker[i].thread, NULL);
	pthread_mutex_destroy(&p->starting);
	munmap(p->scratch, (size_t)p->n_threads * K_SCRATCH_BYTES);
	free(p->worker);
	free(p);
}

int k_pool_size(const struct k_pool *p)
{
	return (int)p->n_threads;
}

int k_pool_thread(const struct k_pool *p, int i)
{
	return atomic_load(&p->worker[i].id);
}

int k_pool_spins(const struct k_pool *p)
{
	return p->barrier.spins;
}
