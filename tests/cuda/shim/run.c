/* A launch: blocks in slots, a fiber for each thread of a block in a slot, handing over to one
 * another wherever they wait. The schedule is drawn from a seed: which lane of a warp, which warp,
 * and now and then another one although this could go on.
 *
 * Invariants: 1. A thread is in exactly one of: running (shim_self), warp->ready, warp->relaxed,
 * waiting (AT_SYNC, AT_WARP), LEFT. 2. A warp is queued if it has ready lanes and is not the
 * current one. 3. A slot is given a new block by the host's own stack alone, since fibers begin
 * anew there. */
#include <fenv.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/cuda/shim/check.h"
#include "tests/cuda/shim/device.h"

struct launch shim_launch_now;
struct thread *shim_self;

static struct {
	struct fiber host;
	struct thread *thread; /* [resident * n_threads] */
	struct warp **queue;   /* [cap] ring of warps with ready lanes */
	int head, n_queued, cap;
	struct warp *current;
	int next_block; /* to be put into a slot */
	bool stopped;
	uint64_t random;   /* 0: in order */
	uint64_t progress; /* what may free a thread that relaxes */
	uint64_t progress_before;
	int idle_rounds;
} run;

/* ---- what is said ---- */

static char report[16 << 10];
static size_t report_bytes;

const char *shim_report(void)
{
	return report;
}

static void say(const char *format, va_list list)
{
	const int n = vsnprintf(report + report_bytes, sizeof report - report_bytes, format, list);

	if (n > 0)
		report_bytes += (size_t)n;
	if (report_bytes >= sizeof report)
		report_bytes = sizeof report - 1;
}

void shim_say(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	say(format, list);
	va_end(list);
}

void shim_say_anew(const char *format, ...)
{
	va_list list;

	report_bytes = 0;
	va_start(list, format);
	say(format, list);
	va_end(list);
}

void shim_stop(void)
{
	run.stopped = true;
	fiber_switch(&shim_self->fiber, &run.host);
	abort(); /* nobody comes back to a stopped fiber */
}

static void say_here(struct shim_site *at, const char *what)
{
	const struct thread *t = shim_self;
	char name[64];

	shim_say("%s: kernel %s, block %d, thread %d, %s\n", what, shim_launch_now.kernel->name,
		t->block->index, t->index, shim_site_name(at, name));
}

/* ---- places ---- */

static struct shim_site *sites;
static char left_out[64];

static const char *const kinds[SHIM_N_KINDS] = {
	[SHIM_SYNC] = "CU_SYNC",
	[SHIM_SYNC_WARP] = "CU_SYNC_WARP",
	[SHIM_SHUFFLE] = "shuffle",
	[SHIM_MMA] = "cu_mma",
	[SHIM_COPY] = "cu_copy16",
	[SHIM_COPY_WAIT] = "cu_copy_wait",
	[SHIM_ARRIVE] = "cu_arrive",
	[SHIM_ACQUIRE] = "cu_acquire",
	[SHIM_ATOMIC] = "atomic",
	[SHIM_RELAX] = "cu_relax",
	[SHIM_STREAM_READ] = "cu_stream",
};

const char *shim_site_name(const struct shim_site *at, char out[64])
{
	const char *slash = strrchr(at->file, '/');

	snprintf(out, 64, "%s:%d", slash ? slash + 1 : at->file, at->line);
	return out;
}

/* For scripts (tests/cuda/test_cuda_barriers.py): CUTAWAY_SHIM_LEAVE_OUT names a place, and the
 * file CUTAWAY_SHIM_PLACES is given a line for each place that orders, when the library goes. */
__attribute__((constructor)) static void ask_environment(void)
{
	const char *name = getenv("CUTAWAY_SHIM_LEAVE_OUT");

	snprintf(left_out, sizeof left_out, "%s", name ? name : "");
}

__attribute__((destructor)) static void tell_places(void)
{
	static struct shim_place places[1024];
	const char *path = getenv("CUTAWAY_SHIM_PLACES");
	const int n = path ? shim_places(places, 1024) : 0;
	FILE *f = n ? fopen(path, "a") : NULL;

	for (int i = 0; f && i < n && i < 1024; i++)
		if (places[i].orders)
			fprintf(f, "%s %s %llu\n", places[i].name, places[i].kind,
				(unsigned long long)places[i].visits);
	if (f)
		fclose(f);
}

void shim_visit(struct shim_site *at)
{
	char name[64];

	if (at->visits++)
		return;
	at->next = sites;
	sites = at;
	at->left_out = *left_out && !strcmp(shim_site_name(at, name), left_out);
}

int shim_places(struct shim_place *out, int cap)
{
	int n = 0;

	for (const struct shim_site *at = sites; at; at = at->next, n++) {
		if (n >= cap)
			continue;
		shim_site_name(at, out[n].name);
		out[n].kind = kinds[at->kind];
		out[n].orders = at->kind == SHIM_SYNC || at->kind == SHIM_SYNC_WARP ||
						at->kind == SHIM_COPY_WAIT || at->kind == SHIM_ARRIVE ||
						at->kind == SHIM_ACQUIRE;
		out[n].visits = at->visits;
	}
	return n;
}

bool shim_leave_out(const char *name)
{
	bool found = !name;
	char buffer[64];

	snprintf(left_out, sizeof left_out, "%s", name ? name : "");
	for (struct shim_site *at = sites; at; at = at->next) {
		at->left_out = name && !strcmp(shim_site_name(at, buffer), name);
		found |= at->left_out != 0;
	}
	return found;
}

/* ---- the schedule ---- */

static uint32_t draw(void)
{
	/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators" */
	run.random ^= run.random >> 12;
	run.random ^= run.random << 25;
	run.random ^= run.random >> 27;
	return (uint32_t)(run.random * 0x2545f4914f6cdd1dull >> 32);
}

static void enqueue(struct warp *w)
{
	if (w->queued || !w->ready)
		return;
	w->queued = true;
	run.queue[(run.head + run.n_queued++) % run.cap] = w;
}

static struct warp *dequeue(void)
{
	struct warp **first = &run.queue[run.head], *w;

	if (run.random) {
		struct warp **other =
			&run.queue[(run.head + (int)(draw() % (uint32_t)run.n_queued)) % run.cap];

		w = *other;
		*other = *first;
		*first = w;
	}
	w = *first;
	run.head = (run.head + 1) % run.cap;
	run.n_queued--;
	w->queued = false;
	return w;
}

/* When all that could run waits for something to change, they look again; how often in vain is
 * counted, since then nothing ever will. */
static bool wake_relaxed(void)
{
	bool any = false;

	run.idle_rounds = run.progress == run.progress_before ? run.idle_rounds + 1 : 0;
	run.progress_before = run.progress;
	if (run.idle_rounds > 1000)
		return false;
	for (int b = 0; b < shim_launch_now.resident; b++) {
		struct block *block = &shim_launch_now.block[b];

		for (int i = 0; i < block->n_warps; i++) {
			struct warp *w = &block->warp[i];

			w->ready |= w->relaxed;
			w->relaxed = 0;
			enqueue(w);
			any |= w->ready != 0;
		}
	}
	return any;
}

/* The next to run, no longer marked ready; NULL: nobody can. */
static struct thread *pick(void)
{
	struct warp *w = run.current;
	int lane;

	if (w && w->ready && run.random && run.n_queued && draw() % 8 == 0) {
		enqueue(w);
		w = NULL;
	}
	if (!w || !w->ready) {
		if (!run.n_queued && !wake_relaxed())
			return NULL;
		w = run.current = dequeue();
	}
	if (run.random) {
		const int turn = (int)(draw() % SHIM_WARP);
		const uint32_t turned = w->ready >> turn | w->ready << (SHIM_WARP - turn) % SHIM_WARP;

		lane = (__builtin_ctz(turned) + turn) % SHIM_WARP;
	} else {
		lane = __builtin_ctz(w->ready);
	}
	w->ready &= ~(1u << lane);
	return &w->thread[lane];
}

/* Gives way: the caller has noted in which state. */
static void give_way(void)
{
	struct thread *self = shim_self, *next = pick();

	if (next == self)
		return;
	shim_self = next;
	fiber_switch(&self->fiber, next ? &next->fiber : &run.host);
	shim_self = self;
}

static void let_go(struct thread *t)
{
	t->state = READY;
	t->at = NULL;
	t->warp->ready |= 1u << t->lane;
}

/* Those of the warp who wait may go on; self too, at once if the order is not drawn. */
static void go_on(struct thread *self)
{
	run.progress++;
	if (run.random) {
		give_way();
		return;
	}
	self->warp->ready &= ~(1u << self->lane);
}

/* ---- meeting ---- */

static void check_same_site(struct shim_site *at, struct shim_site *theirs, const char *who)
{
	char name[64];

	if (at == theirs)
		return;
	say_here(at, "threads meet at different places");
	shim_say("others of the %s wait at %s (%s)\n", who, shim_site_name(theirs, name),
		kinds[theirs->kind]);
	shim_stop();
}

void shim_sync(struct shim_site *at)
{
	struct thread *self = shim_self;
	struct block *b = self->block;

	shim_visit(at);
	if (at->left_out)
		return;
	if (b->n_left) {
		say_here(at, "a barrier that threads of the block have left for good");
		shim_stop();
	}
	if (b->n_arrived)
		check_same_site(at, b->at, "block");
	b->at = self->at = at;
	self->state = AT_SYNC;
	if (++b->n_arrived < shim_launch_now.n_threads) {
		give_way();
		return;
	}
	b->n_arrived = 0;
	check_block_met(b);
	for (int i = 0; i < shim_launch_now.n_threads; i++)
		let_go(&b->thread[i]);
	for (int i = 0; i < b->n_warps; i++)
		if (&b->warp[i] != run.current)
			enqueue(&b->warp[i]);
	go_on(self);
}

/* True for the last lane to come, who does what is to be done and then lets all go on. */
static bool last_of_warp(struct shim_site *at)
{
	struct thread *self = shim_self;
	struct warp *w = self->warp;

	shim_visit(at);
	if (w->n_left || w->n < SHIM_WARP) {
		say_here(at, w->n < SHIM_WARP ? "a warp that is not full meets"
									  : "a warp meets that lanes have left for good");
		shim_stop();
	}
	if (w->n_arrived)
		check_same_site(at, w->at, "warp");
	w->at = self->at = at;
	self->state = AT_WARP;
	return ++w->n_arrived == w->n;
}

static void warp_goes_on(struct warp *w, struct thread *self)
{
	w->n_arrived = 0;
	for (int i = 0; i < w->n; i++)
		let_go(&w->thread[i]);
	go_on(self);
}

void shim_sync_warp(struct shim_site *at)
{
	struct thread *self = shim_self;

	if (at->left_out) {
		shim_visit(at);
		return;
	}
	if (!last_of_warp(at)) {
		give_way();
		return;
	}
	check_warp_met(self->warp);
	warp_goes_on(self->warp, self);
}

uint32_t shim_shuffle(struct shim_site *at, uint32_t v, int lane)
{
	struct thread *self = shim_self;
	struct warp *w = self->warp;
	uint32_t brought[SHIM_WARP];

	if (lane < 0 || lane >= SHIM_WARP) {
		say_here(at, "a shuffle from a lane that does not exist");
		shim_stop();
	}
	self->value = v;
	self->lane_wanted = lane;
	if (!last_of_warp(at)) {
		give_way();
		return self->value;
	}
	for (int i = 0; i < SHIM_WARP; i++)
		brought[i] = w->thread[i].value;
	for (int i = 0; i < SHIM_WARP; i++)
		w->thread[i].value = brought[w->thread[i].lane_wanted];
	warp_goes_on(w, self);
	return self->value;
}

/* PTX ISA 9.7.14.5.10, "Matrix fragments for mma.m16n8k32", and of k16 for 8-bit types: what
 * device.cuh says. Little-endian: byte j of a register is k = 4t + j. */
static void multiply(struct warp *w, int k)
{
	int8_t a[16][32] = { { 0 } }, b[8][32] = { { 0 } }; /* [row][k], [column][k] */

	for (int lane = 0; lane < SHIM_WARP; lane++) {
		const struct shim_fragments *f = w->thread[lane].fragments;
		const int g = lane / 4, at = lane % 4 * 4;

		memcpy(&a[g][at], &f->a[0], 4);
		memcpy(&a[g + 8][at], &f->a[1], 4);
		memcpy(&b[g][at], &f->b[0], 4);
		if (k == 32) {
			memcpy(&a[g][at + 16], &f->a[2], 4);
			memcpy(&a[g + 8][at + 16], &f->a[3], 4);
			memcpy(&b[g][at + 16], &f->b[1], 4);
		}
	}
	for (int lane = 0; lane < SHIM_WARP; lane++) {
		struct shim_fragments *f = w->thread[lane].fragments;

		for (int i = 0; i < 4; i++) {
			const int8_t *row = a[lane / 4 + (i / 2) * 8], *column = b[lane % 4 * 2 + i % 2];
			int32_t sum = 0;

			for (int j = 0; j < 32; j++)
				sum += row[j] * column[j];
			f->c[i] = (int32_t)((uint32_t)f->c[i] + (uint32_t)sum);
		}
	}
}

void shim_mma(struct shim_site *at, struct shim_fragments *f, int k)
{
	struct thread *self = shim_self;

	self->fragments = f;
	if (!last_of_warp(at)) {
		give_way();
		return;
	}
	multiply(self->warp, k);
	warp_goes_on(self->warp, self);
}

/* ---- copies that come later ---- */

void shim_copy16(struct shim_site *at, void *shared, const void *global)
{
	struct thread *self = shim_self;
	struct copy *c;

	shim_visit(at);
	if ((uintptr_t)shared % 16 || (uintptr_t)global % 16) {
		say_here(at, "a copy whose ends are not aligned to 16");
		shim_stop();
	}
	check_copy_asked(at, shared, global);
	if (self->n_copies == self->cap_copies) {
		const int cap = self->cap_copies ? 2 * self->cap_copies : 16;
		struct copy *grown = realloc(self->copies, (size_t)cap * sizeof *grown);

		if (!grown)
			abort();
		self->copies = grown;
		self->cap_copies = cap;
	}
	c = &self->copies[self->n_copies++];
	c->to = shared;
	c->from = global;
	c->group = self->group;
	memcpy(c->value, global, sizeof c->value);
	memset(shared, 0xa5, sizeof c->value); /* whoever looks too early sees neither old nor new */
}

void shim_copy_commit(void)
{
	shim_self->group++;
}

void shim_copy_wait(struct shim_site *at, int left)
{
	struct thread *self = shim_self;
	int kept = 0;

	shim_visit(at);
	if (at->left_out)
		return;
	for (int i = 0; i < self->n_copies; i++) {
		struct copy *c = &self->copies[i];

		if (c->group >= self->group - left) {
			self->copies[kept++] = *c;
			continue;
		}
		if (memcmp(c->value, c->from, sizeof c->value)) {
			say_here(at, "the source of a copy changed while it was under way");
			shim_stop();
		}
		memcpy(c->to, c->value, sizeof c->value);
		check_copy_came(at, c->to);
	}
	self->n_copies = kept;
}

/* ---- between blocks ---- */

uint32_t shim_arrive(struct shim_site *at, uint32_t *p, uint32_t by)
{
	const uint32_t old = (shim_visit(at), check_atomic(at, p, sizeof *p, !at->left_out), *p);

	*p = old + by;
	run.progress++;
	if (run.random && draw() % 2) {
		shim_self->warp->ready |= 1u << shim_self->lane;
		give_way();
	}
	return old;
}

uint32_t shim_acquire(struct shim_site *at, const uint32_t *p)
{
	shim_visit(at);
	check_atomic_read(at, p, sizeof *p);
	return *p;
}

int32_t shim_swap_if(struct shim_site *at, int32_t *p, int32_t was, int32_t is)
{
	int32_t old;

	shim_visit(at);
	check_atomic(at, p, sizeof *p, false);
	old = *p;
	if (old == was)
		*p = is;
	run.progress++;
	return old;
}

void shim_count(struct shim_site *at, int32_t *p)
{
	shim_visit(at);
	check_atomic(at, p, sizeof *p, false);
	++*p;
	run.progress++;
}

void shim_max_int(struct shim_site *at, int32_t *p, int32_t v)
{
	shim_visit(at);
	check_atomic(at, p, sizeof *p, false);
	if (v > *p)
		*p = v;
	run.progress++;
}

void shim_relax(struct shim_site *at)
{
	struct thread *self = shim_self;

	shim_visit(at);
	self->state = RELAXES;
	self->at = at;
	self->warp->relaxed |= 1u << self->lane;
	give_way();
	self->state = READY;
	self->at = NULL;
}

void shim_aligned(struct shim_site *at, const void *p, size_t width)
{
	shim_visit(at);
	if ((uintptr_t)p % width) {
		say_here(at, "a read that is not aligned to its width");
		shim_stop();
	}
}

void shim_anything(void *p, size_t bytes)
{
	check_anything(p, bytes);
}

void shim_follow(void)
{
	check_follow();
}

uint64_t shim_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int shim_thread(void)
{
	return shim_self->index;
}
int shim_block(void)
{
	return shim_self->block->index;
}
int shim_n_blocks(void)
{
	return shim_launch_now.n_blocks;
}
int shim_n_threads(void)
{
	return shim_launch_now.n_threads;
}
unsigned char *shim_shared(void)
{
	return shim_self->block->shared;
}

/* ---- the launch ---- */

static void thread_main(void *arg)
{
	struct thread *t = arg;

	shim_launch_now.kernel->entry(shim_launch_now.args);
	t->state = LEFT;
	t->warp->n_left++;
	run.progress++;
	/* the last one of a block leaves through the host, which has the slot to give away */
	shim_self = ++t->block->n_left < shim_launch_now.n_threads ? pick() : NULL;
	fiber_switch(&t->fiber, shim_self ? &shim_self->fiber : &run.host);
	abort();
}

static void start_block(struct block *b, int index)
{
	struct launch *l = &shim_launch_now;

	b->index = index;
	b->n_arrived = b->n_left = 0;
	b->at = NULL;
	/* shared memory begins undefined: NaN as floats, or anything */
	memset(b->shared, run.random ? (int)(draw() & 0xff) : 0xff, l->shared_bytes);
	check_block_starts(b);
	if (run.current && run.current->block == b) /* or it would be both at work and queued */
		run.current = NULL;
	for (int i = 0; i < b->n_warps; i++) {
		struct warp *w = &b->warp[i];

		w->n_arrived = w->n_left = 0;
		w->at = NULL;
		w->ready = w->relaxed = 0;
	}
	for (int i = 0; i < l->n_threads; i++) {
		struct thread *t = &b->thread[i];

		t->number = index * l->n_threads + i;
		t->n_copies = t->group = 0;
		fiber_start(&t->fiber, thread_main, t);
		let_go(t);
	}
	for (int i = 0; i < b->n_warps; i++)
		enqueue(&b->warp[i]);
	run.current = NULL; /* a warp of the slot's last block, which is queued now */
}

static void lay_out_block(struct block *b, int slot)
{
	struct launch *l = &shim_launch_now;

	b->slot = slot;
	b->thread = run.thread + (size_t)slot * (size_t)l->n_threads;
	b->n_warps = (l->n_threads + SHIM_WARP - 1) / SHIM_WARP;
	b->shared = shim_arena + (size_t)slot * SHIM_SHARED_STRIDE;
	b->n_left = l->n_threads; /* free */
	for (int i = 0; i < b->n_warps; i++) {
		struct warp *w = &b->warp[i];

		memset(w, 0, sizeof *w);
		w->block = b;
		w->number = i;
		w->thread = b->thread + i * SHIM_WARP;
		w->n = l->n_threads - i * SHIM_WARP < SHIM_WARP ? l->n_threads - i * SHIM_WARP : SHIM_WARP;
	}
	for (int i = 0; i < l->n_threads; i++) {
		struct thread *t = &b->thread[i];

		t->block = b;
		t->warp = &b->warp[i / SHIM_WARP];
		t->index = i;
		t->lane = i % SHIM_WARP;
	}
}

/* Room for the fibers; kept from launch to launch. */
static bool make_room(void)
{
	static struct thread *threads;
	static struct block *blocks;
	static struct warp **queue;
	static struct fiber *fibers;
	static int n_threads, n_blocks;
	struct launch *l = &shim_launch_now;
	const int n = l->resident * l->n_threads;

	if (n > n_threads || l->resident > n_blocks) {
		for (int i = 0; i < n_threads; i++)
			free(threads[i].copies);
		free(threads), free(blocks), free(queue), free(fibers);
		n_threads = n, n_blocks = l->resident;
		threads = calloc((size_t)n, sizeof *threads);
		blocks = calloc((size_t)l->resident, sizeof *blocks);
		queue = calloc((size_t)n, sizeof *queue);
		fibers = calloc((size_t)n, sizeof *fibers);
		if (!threads || !blocks || !queue || !fibers || !fiber_stacks(fibers, n)) {
			n_threads = 0;
			shim_say("the shim has no memory for %d fibers\n", n);
			return false;
		}
		for (int i = 0; i < n; i++)
			threads[i].fiber = fibers[i];
	}
	run.thread = threads;
	run.queue = queue;
	run.cap = n;
	l->block = blocks;
	return true;
}

static void say_who_waits(void)
{
	for (int b = 0; b < shim_launch_now.resident; b++) {
		const struct block *block = &shim_launch_now.block[b];
		struct shim_site *seen[8];
		int n_seen = 0;
		char name[64];

		for (int i = 0; i < shim_launch_now.n_threads && n_seen < 8; i++) {
			struct shim_site *at = block->thread[i].at;
			int n = 0, known = 0;

			if (block->thread[i].state == LEFT || !at)
				continue;
			for (int k = 0; k < n_seen; k++)
				known |= seen[k] == at;
			if (known)
				continue;
			seen[n_seen++] = at;
			for (int k = i; k < shim_launch_now.n_threads; k++)
				n += block->thread[k].state != LEFT && block->thread[k].at == at;
			shim_say("block %d: %d threads, the first %d, wait at %s (%s)\n", block->index, n, i,
				shim_site_name(at, name), kinds[at->kind]);
		}
		if (block->n_left && n_seen)
			shim_say("block %d: %d threads have ended\n", block->index, block->n_left);
	}
}

static bool all_done(void)
{
	for (int b = 0; b < shim_launch_now.resident; b++)
		if (shim_launch_now.block[b].n_left < shim_launch_now.n_threads)
			return false;
	return run.next_block == shim_launch_now.n_blocks;
}

static void give_out_slots(void)
{
	for (int b = 0; b < shim_launch_now.resident; b++)
		if (shim_launch_now.block[b].n_left == shim_launch_now.n_threads &&
			run.next_block < shim_launch_now.n_blocks)
			start_block(&shim_launch_now.block[b], run.next_block++);
}

static bool run_blocks(void)
{
	for (;;) {
		give_out_slots();
		shim_self = pick();
		if (!shim_self)
			break;
		fiber_switch(&run.host, &shim_self->fiber);
		if (run.stopped)
			return false;
	}
	if (all_done())
		return true;
	shim_say("a deadlock: kernel %s, nobody can go on\n", shim_launch_now.kernel->name);
	say_who_waits();
	return false;
}

bool shim_run(const struct shim_kernel *k, int n_blocks, int n_threads, size_t shared,
	bool together, void **args, const struct shim_options *o)
{
	static const struct shim_options none;
	struct launch *l = &shim_launch_now;
	fenv_t before;
	bool good;

	report_bytes = 0;
	*report = '\0';
	o = o ? o : &none;
	memset(&run, 0, sizeof run);
	run.random = o->seed;
	*l = (struct launch){ .kernel = k,
		.args = args,
		.n_blocks = n_blocks,
		.n_threads = n_threads,
		.shared_bytes = shared };
	l->resident = together ? n_blocks : o->resident ? o->resident : 4;
	l->resident = l->resident < n_blocks ? l->resident : n_blocks;
	if (n_blocks < 1 || n_threads < 1 || n_threads > SHIM_MAX_THREADS || shared > SHIM_MAX_SHARED ||
		l->resident > SHIM_MAX_RESIDENT || (int64_t)n_blocks * n_threads > 1 << 20) {
		shim_say("a launch that no device takes: %d blocks of %d threads, %zu bytes shared\n",
			n_blocks, n_threads, shared);
		return false;
	}
	if (!make_room())
		return false;
	for (int b = 0; b < l->resident; b++)
		lay_out_block(&l->block[b], b);
	check_launch(o->early);
	fegetenv(&before);
	fesetenv(FE_DFL_ENV); /* docs/arithmetic.md, rule 1 */
	good = run_blocks();
	fesetenv(&before);
	shim_self = NULL;
	return good;
}
