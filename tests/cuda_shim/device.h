/* Inside tests/cuda_shim/: a launch on fibers, device memory, and the seam to the checker.
 *
 * Thread: all under the lock of whoever calls (client: one thread; driver.c: its own lock). */
#ifndef CUTAWAY_TESTS_CUDA_SHIM_DEVICE_H
#define CUTAWAY_TESTS_CUDA_SHIM_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/cuda_shim/fiber.h"
#include "tests/cuda_shim/shim.h"
#include "tests/cuda_shim/site.h"

enum { SHIM_WARP = 32, SHIM_MAX_THREADS = 1024, SHIM_MAX_WARPS = SHIM_MAX_THREADS / SHIM_WARP };
enum { SHIM_MAX_SHARED = 228 << 10, SHIM_SHARED_STRIDE = 256 << 10, SHIM_MAX_RESIDENT = 64 };

/* The arena: shared memory of the resident blocks, one every SHIM_SHARED_STRIDE, then global memory. */
#define SHIM_ARENA_BYTES ((size_t)16 << 30)
#define SHIM_SHARED_AREA ((size_t)SHIM_MAX_RESIDENT * SHIM_SHARED_STRIDE)

enum state { READY, AT_SYNC, AT_WARP, RELAXES, LEFT };

struct copy { /* cp.async under way */
	unsigned char *to;
	const unsigned char *from;
	unsigned char value[16]; /* as read when it was asked for */
	int group;
};

struct thread {
	struct fiber fiber;
	struct block *block;
	struct warp *warp;
	int index, lane; /* in the block, in the warp */
	int number;		 /* in the launch: block, then index */
	enum state state;
	struct shim_site *at; /* where it waits */
	struct copy *copies;
	int n_copies, cap_copies, group; /* group: commits so far */
	uint32_t value;					 /* shuffles: brought */
	int lane_wanted;
	struct shim_fragments *fragments;
};

struct warp {
	struct thread *thread; /* [n] */
	struct block *block;
	int n, number; /* number: in the block */
	int n_arrived, n_left;
	struct shim_site *at;	 /* of those who arrived */
	uint32_t ready, relaxed; /* lanes */
	bool queued;
};

struct block {
	struct thread *thread;
	struct warp warp[SHIM_MAX_WARPS];
	int slot, index, n_warps;
	int n_arrived, n_left;
	struct shim_site *at; /* of those who arrived */
	unsigned char *shared;
};

struct launch {
	const struct shim_kernel *kernel;
	void **args;
	int n_blocks, n_threads, resident;
	size_t shared_bytes;
	struct block *block; /* [resident] */
};

extern struct launch shim_launch_now;
extern struct thread *shim_self;

/* memory.c */
extern unsigned char *shim_arena;
void *shim_alloc(size_t bytes); /* NULL: none left */
bool shim_free(void *p);		/* false: not an allocation */
size_t shim_allocated(void);	/* bytes in use */
/* The allocation that holds p, for a report: how many bytes it has and where p is in it. */
bool shim_find(const void *p, size_t *bytes, ptrdiff_t *at);
void shim_put(void *to, const void *from, size_t bytes);

/* kernels.cpp: kernels by name */
typedef void shim_entry(void **args);
struct shim_kernel {
	const char *name;
	shim_entry *entry;
	int n_args;
	size_t arg_bytes[8];
};
const struct shim_kernel *shim_kernel(const char *name); /* NULL: no such */

/* run.c */
bool shim_run(const struct shim_kernel *k, int n_blocks, int n_threads, size_t shared, bool together,
			  void **args, const struct shim_options *o);
const char *shim_report(void);
void shim_say(const char *format, ...) __attribute__((format(printf, 1, 2))); /* adds to the report */
void shim_say_anew(const char *format, ...) __attribute__((format(printf, 1, 2))); /* forgets the old */
/* From inside a kernel: ends the launch with what was said. */
__attribute__((noreturn)) void shim_stop(void);
void shim_visit(struct shim_site *at);
int shim_places(struct shim_place *out, int cap);
bool shim_leave_out(const char *name);
const char *shim_site_name(const struct shim_site *at, char out[64]);

/* check.c; in the fast build they do nothing. */
#ifdef SHIM_CHECKED
bool check_open(void);
void check_alloc(void *p, size_t bytes); /* allocated, not written */
void check_free(void *p, size_t bytes);
void check_host_wrote(void *p, size_t bytes);
void check_host_read(const void *p, size_t bytes);
void check_launch(void);
void check_block_starts(struct block *b);
void check_block_met(struct block *b);
void check_warp_met(struct warp *w);
void check_copy_asked(struct shim_site *at, void *to, const void *from);
void check_copy_came(struct shim_site *at, void *to);
void check_atomic(struct shim_site *at, void *p, size_t bytes, bool acquires, bool releases);
void check_atomic_read(struct shim_site *at, const void *p, size_t bytes);
void check_aligned(struct shim_site *at, const void *p, size_t width);
#else
static inline bool check_open(void)
{
	return true;
}
static inline void check_alloc(void *p, size_t bytes)
{
	(void)p, (void)bytes;
}
static inline void check_free(void *p, size_t bytes)
{
	(void)p, (void)bytes;
}
static inline void check_host_wrote(void *p, size_t bytes)
{
	(void)p, (void)bytes;
}
static inline void check_launch(void)
{
}
static inline void check_block_starts(struct block *b)
{
	(void)b;
}
static inline void check_block_met(struct block *b)
{
	(void)b;
}
static inline void check_warp_met(struct warp *w)
{
	(void)w;
}
static inline void check_copy_asked(struct shim_site *at, void *to, const void *from)
{
	(void)at, (void)to, (void)from;
}
static inline void check_copy_came(struct shim_site *at, void *to)
{
	(void)at, (void)to;
}
static inline void check_atomic(struct shim_site *at, void *p, size_t bytes, bool acquires,
								bool releases)
{
	(void)at, (void)p, (void)bytes, (void)acquires, (void)releases;
}
static inline void check_atomic_read(struct shim_site *at, const void *p, size_t bytes)
{
	(void)at, (void)p, (void)bytes;
}
static inline void check_aligned(struct shim_site *at, const void *p, size_t width)
{
	(void)at, (void)p, (void)width;
}
#endif

#endif
