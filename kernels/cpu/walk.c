/* See walk.h. An op has n_threads parts, a product several times as many; it ends when all parts
 * are done, not when all threads have arrived: a thread that the system suspends on a busy machine
 * delays only the part it was in, and others take its other parts. Only ops whose threads wait for
 * one another need them all (k_isa.together).
 *
 * A thread takes its own parts first, its home. So the same thread reads the same weights in each
 * walk, and of many rows the same ones in each op: they may still be in its caches, and where two
 * processors share none, a line that goes from one to the other takes some 300 ns.
 *
 * Invariants: 1. barrier.value is the op in progress; the thread that ends an op's last part opens
 * the barrier. 2. A home's `claimed` is op * SLICES + parts claimed, or less than op * SLICES
 * if none were: a claim made with an old op fails, since claims of that op are exhausted. 3. Only
 * the thread that ends the op touches `arrived` and `before`, until the barrier opens. 4.
 * barrier.value skips the small ops that were done with the one before; their parts are never
 * claimed. */
#include "kernels/cpu/walk.h"

#include <time.h>

#include "base/clock.h"

/* Parts of a product in a home: of its outputs; or of rows of activations, if there are MANY_ROWS
 * for each thread or its inputs are narrow: then two, long enough for what is done once a part
 * (tiles.h). How many threads' homes a thread looks into that has none left: looking costs. */
enum { SLICES = 8, ROW_SLICES = 2, MANY_ROWS = 32, SLICE_ROWS = 8, NEIGHBOURS = 7 };

struct partition {
	_Alignas(64) atomic_ullong claimed;
};

/* By rows each thread reads all weights, 0.6 bytes or so for each column of an output; by outputs
 * 4 bytes for each row of one are handed over, which costs some 15 times as much a byte. */
static bool goes_by_rows(const struct k_op *op, int n_threads)
{
	const int32_t n = op->kind == K_OP_matmul && n_threads > 1 ? op->u.matmul.n : 0;

	return n >= MANY_ROWS * n_threads ||
		   (n >= SLICE_ROWS * n_threads && 100 * n >= op->u.matmul.in.dim * (n_threads - 1));
}

static int slices_of(const struct k_op *op, int n_threads)
{
	if (op->kind != K_OP_matmul || n_threads == 1)
		return 1;
	return op->by_rows ? ROW_SLICES : SLICES;
}

struct walk {
	const struct k_isa *isa;
	struct k_program *program;
	_Alignas(64) struct k_barrier barrier;
	struct partition *partition; /* [n_threads] */
	_Alignas(64) atomic_uint arrived;
	uint64_t before; /* ticks: when the op in progress began, if timed */
};

/* Which of a home's `slices` parts of the op is this thread's to do; -1: none is left. */
static int claim_of(struct partition *h, unsigned op, int slices)
{
	const unsigned long long first = (unsigned long long)op * SLICES;
	unsigned long long seen = atomic_load(&h->claimed), mine;

	do {
		mine = seen > first ? seen : first;
		if (mine >= first + (unsigned)slices)
			return -1;
	} while (!atomic_compare_exchange_weak(&h->claimed, &seen, mine + 1));
	return (int)(mine - first);
}

static bool claim(struct walk *w, unsigned op, int slices, int tid, int n_threads, int *part)
{
	for (int i = 0; i < n_threads && i <= NEIGHBOURS; i++) {
		const int partition = (tid + i) % n_threads,
				  slice = claim_of(&w->partition[partition], op, slices);

		*part = partition * slices + slice;
		if (slice >= 0)
			return true;
	}
	return false;
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

/* What an op's time grows with; an op that is never small has no such number. */
static int64_t values_of(const struct k_op *op)
{
	const struct k_key_range *r = &op->u.key_range;
	const struct k_sparse *s = &op->u.sparse;
	const struct k_heavy *h =
		op->kind == K_OP_h2o_lookup ? &op->u.h2o_lookup.of : &op->u.attn_score.of;

	switch (op->kind) {
	case K_OP_norm: return (int64_t)op->u.norm.n * op->u.norm.out.dim;
	case K_OP_glu: return (int64_t)op->u.glu.n * op->u.glu.out.dim;
	case K_OP_sparse: return (int64_t)s->n * s->layers * s->a.dim;
	case K_OP_rope: return (int64_t)op->u.rope.n * op->u.rope.n_heads * op->u.rope.kv->head_dim;
	case K_OP_turn: return (int64_t)op->u.turn.n * op->u.turn.n_heads * op->u.turn.head_dim;
	case K_OP_key_range: return (int64_t)r->n * r->kv->n_kv_heads * r->kv->head_dim * K_GROUP;
	case K_OP_encode: return ends_none(&op->u.encode) ? 0 : INT64_MAX;
	case K_OP_h2o_lookup: return (int64_t)h->n * h->n_kv_heads * h->most;
	case K_OP_attn_score: return (int64_t)h->n * op->u.attn_score.n_heads * h->most;
	default: return INT64_MAX;
	}
}

static bool is_small(const struct k_op *op)
{
	return values_of(op) <= K_SMALL_VALUES;
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
static void finish(struct walk *w, unsigned at, unsigned parts, unsigned n, void *scratch)
{
	struct k_op *op = &w->program->op[at];
	unsigned done = 1;

	if (atomic_fetch_add(&w->arrived, parts) + parts < n)
		return;
	atomic_store(&w->arrived, 0);
	stop_clock(w, op);
	for (; at + done < (unsigned)w->program->n_ops && is_small(op + done); done++) {
		w->isa->fn[op[done].kind](op + done, 0, 1, scratch);
		stop_clock(w, op + done);
	}
	k_barrier_open(&w->barrier, done);
}

/* Does what parts of the op there are to do; returns how many. Where a home has one part alone, its
 * scratch goes with it: what parts leave for the last one lies where that looks for it. */
static unsigned do_parts(struct walk *w, unsigned at, int tid, int n_threads, void *scratch)
{
	struct k_op *op = &w->program->op[at];
	const int slices = slices_of(op, n_threads);
	unsigned done = 0;
	int part;

	for (; claim(w, at, slices, tid, n_threads, &part); done++)
		w->isa->fn[op->kind](
			op, part, n_threads * slices, slices == 1 ? k_scratch_of(scratch, tid, part) : scratch);
	return done;
}

static void walk_thread(void *arg, int tid, int n_threads, void *scratch)
{
	struct walk *w = arg;
	const unsigned n_ops = (unsigned)w->program->n_ops;
	unsigned at, joined = n_ops; /* the last op that needed all threads and had this one */

	while ((at = atomic_load(&w->barrier.value)) < n_ops) {
		struct k_op *op = &w->program->op[at];
		unsigned done;

		if (!w->isa->together || !w->isa->together(op)) {
			done = do_parts(w, at, tid, n_threads, scratch);
		} else if ((done = joined != at)) {
			joined = at;
			w->isa->fn[op->kind](op, tid, n_threads, scratch);
		}
		if (done)
			finish(w, at, done, (unsigned)(n_threads * slices_of(op, n_threads)), scratch);
		else
			k_barrier_wait(&w->barrier, at);
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

static atomic_ullong n_walks;

void k_walk(struct k_pool *pool, const struct k_isa *isa, struct k_program *program)
{
	const int n_threads = k_pool_size(pool);
	struct partition partition[n_threads];
	struct walk w = { .isa = isa,
		.program = program,
		.partition = partition,
		.barrier = { .spins = k_pool_spins(pool) } };

	for (int i = 0; i < n_threads; i++)
		atomic_init(&partition[i].claimed, 0);
	const uint64_t number = atomic_fetch_add(&n_walks, 1) + 1;

	for (int32_t i = 0; i < program->n_ops; i++) {
		struct k_op *op = &program->op[i];

		op->walk = number;
		atomic_store_explicit(&op->ticket, 0, memory_order_relaxed);
		op->by_rows = goes_by_rows(op, n_threads);
	}
	int64_t began_ns = program->timed ? now_ns() : 0;
	uint64_t began = program->timed ? now_ticks() : 0;
	w.before = began;
	k_pool_run(pool, walk_thread, &w);
	if (program->timed)
		convert_times(program, now_ticks() - began, now_ns() - began_ns);
}
