/* See walk.h. An op has n_threads parts; it ends when all parts are done, not when all threads have
 * arrived: a thread that the system suspends on a busy machine delays only the part it was in, and
 * the others take its other parts. Only ops whose threads wait for one another need them all
 * (k_isa.together).
 *
 * Invariants: 1. barrier.value is the op in progress; the thread that ends an op's last part opens
 * the barrier. 2. `claimed` is op * n + parts claimed, or less than op * n if none were: a claim
 * made with an old op fails, since claims of that op are exhausted. 3. Only the thread that ends
 * the op touches `arrived` and `before`, until the barrier opens. 4. barrier.value skips the small
 * ops that were done with the one before; their parts are never claimed. */
#include "kernels/cpu/walk.h"

#include <time.h>

#include "base/clock.h"

struct walk {
	const struct k_isa *isa;
	struct k_program *program;
	_Alignas(64) struct k_barrier barrier;
	_Alignas(64) atomic_ullong claimed;
	_Alignas(64) atomic_uint arrived;
	uint64_t before; /* ticks: when the op in progress began, if timed */
};

static bool claim(struct walk *w, unsigned op, unsigned n, int *part)
{
	const unsigned long long first = (unsigned long long)op * n;
	unsigned long long seen = atomic_load(&w->claimed), mine;

	do {
		mine = seen > first ? seen : first;
		if (mine >= first + n)
			return false;
	} while (!atomic_compare_exchange_weak(&w->claimed, &seen, mine + 1));
	*part = (int)(mine - first);
	return true;
}

/* Ops of about a microsecond cost less than the barrier between them and the next. 0 switches it
 * off, for measuring. */
#ifndef K_SMALL_VALUES
#define K_SMALL_VALUES 4096
#endif
/* No row ends a group: there is nothing to encode. */
static bool ends_none(const struct k_encode *a)
{
	bool none = true;

	for (int32_t r = 0; r < a->n; r++)
		none = none && a->rows[r].pos % K_GROUP != K_GROUP - 1;
	return none;
}

static bool is_small(const struct k_op *op)
{
	switch (op->kind) {
	case K_OP_norm: return op->u.norm.n * op->u.norm.out.dim <= K_SMALL_VALUES;
	case K_OP_glu: return op->u.glu.n * op->u.glu.out.dim <= K_SMALL_VALUES;
	case K_OP_sparse: return op->u.sparse.n * op->u.sparse.a.dim <= K_SMALL_VALUES;
	case K_OP_rope:
		return op->u.rope.n * op->u.rope.n_heads * op->u.rope.kv->head_dim <= K_SMALL_VALUES;
	case K_OP_turn:
		return op->u.turn.n * op->u.turn.n_heads * op->u.turn.head_dim <= K_SMALL_VALUES;
	case K_OP_extent:
		return op->u.extent.n * op->u.extent.kv->n_kv_heads * op->u.extent.kv->head_dim <=
			   K_SMALL_VALUES / K_GROUP;
	case K_OP_encode: return ends_none(&op->u.encode);
	case K_OP_recall:
		return (int64_t)op->u.recall.of.n * op->u.recall.of.n_kv_heads * op->u.recall.of.most <=
			   K_SMALL_VALUES;
	case K_OP_account:
		return (int64_t)op->u.account.of.n * op->u.account.n_heads * op->u.account.of.most <=
			   K_SMALL_VALUES;
	default: return false;
	}
}

static void stop_clock(struct walk *w, struct k_op *op)
{
	uint64_t now;

	if (!w->program->timed)
		return;
	now = now_ticks();
	op->ns = now - w->before; /* ticks until the walk is over */
	w->before = now;
}

/* The thread that ends the last part of an op also does the small ops after it, before the barrier
 * opens: the others wait at one barrier, not at several. */
static void finish(struct walk *w, unsigned at, unsigned n, void *scratch)
{
	struct k_op *op = &w->program->op[at];
	unsigned done = 1;

	if (atomic_fetch_add(&w->arrived, 1) + 1 < n)
		return;
	atomic_store(&w->arrived, 0);
	stop_clock(w, op);
	for (; at + done < (unsigned)w->program->n_ops && is_small(op + done); done++) {
		w->isa->fn[op[done].kind](op + done, 0, 1, scratch);
		stop_clock(w, op + done);
	}
	k_barrier_open(&w->barrier, done);
}

static void walk_thread(void *arg, int tid, int n_threads, void *scratch)
{
	struct walk *w = arg;
	const unsigned n = (unsigned)n_threads, n_ops = (unsigned)w->program->n_ops;
	unsigned at, joined = n_ops; /* the last op that needed all threads and had this one */

	while ((at = atomic_load(&w->barrier.value)) < n_ops) {
		struct k_op *op = &w->program->op[at];
		int part = tid;

		if (w->isa->together[op->kind] ? joined == at : !claim(w, at, n, &part)) {
			k_barrier_wait(&w->barrier, at);
			continue;
		}
		joined = w->isa->together[op->kind] ? at : joined;
		w->isa->fn[op->kind](op, part, n_threads, k_scratch_of(scratch, tid, part));
		finish(w, at, n, scratch);
	}
}

/* Converts the times of ops from ticks to ns, by the whole walk's count of both. Impossible values,
 * where processors' counters differ, become 0. */
static void convert_times(struct k_program *program, uint64_t ticks, int64_t ns)
{
	double scale = ticks ? (double)ns / (double)ticks : 0;

	for (int32_t i = 0; i < program->n_ops; i++)
		program->op[i].ns =
			program->op[i].ns <= ticks ? (uint64_t)((double)program->op[i].ns * scale) : 0;
}

void k_walk(struct k_pool *pool, const struct k_isa *isa, struct k_program *program)
{
	struct walk w = { .isa = isa, .program = program, .barrier = { .spins = k_pool_spins(pool) } };

	for (int32_t i = 0; i < program->n_ops; i++)
		atomic_store_explicit(&program->op[i].ticket, 0, memory_order_relaxed);
	int64_t began_ns = program->timed ? now_ns() : 0;
	uint64_t began = program->timed ? now_ticks() : 0;
	w.before = began;
	k_pool_run(pool, walk_thread, &w);
	if (program->timed)
		convert_times(program, now_ticks() - began, now_ns() - began_ns);
}
