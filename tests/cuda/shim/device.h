/* Inside tests/cuda/shim/: a launch on fibers, device memory, and the seam to the checker.
 *
 * Thread: all under the lock of whoever calls (client: one thread; driver.c: its own lock). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/cuda/shim/fiber.h"
#include "tests/cuda/shim/shim.h"
#include "tests/cuda/shim/site.h"

enum { SHIM_WARP = 32, SHIM_MAX_THREADS = 1024, SHIM_MAX_WARPS = SHIM_MAX_THREADS / SHIM_WARP };
enum { SHIM_MAX_SHARED = 228 << 10, SHIM_SHARED_STRIDE = 256 << 10, SHIM_MAX_RESIDENT = 64 };

/* The arena: shared memory of the resident blocks, one every SHIM_SHARED_STRIDE, then global
 * memory. */
#ifdef SHIM_CHECKED /* which keeps 65 bytes for each */
#define SHIM_ARENA_BYTES ((size_t)2 << 30)
#else
#define SHIM_ARENA_BYTES ((size_t)16 << 30)
#endif
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
	int number;      /* in the launch: block, then index */
	enum state state;
	struct shim_site *at; /* where it waits */
	struct copy *copies;
	int n_copies, cap_copies, group; /* group: commits so far */
	uint32_t value;                  /* shuffles: brought */
	int lane_wanted;
	struct shim_fragments *fragments;
};

struct warp {
	struct thread *thread; /* [n] */
	struct block *block;
	int n, number; /* number: in the block */
	int n_arrived, n_left;
	struct shim_site *at;    /* of those who arrived */
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
bool shim_free(void *p);        /* false: not an allocation */
/* The allocation that holds p, or the nearest: how many bytes it has, and where in it, before or
 * behind it p is. False: there is none. */
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
bool shim_run(const struct shim_kernel *k, int n_blocks, int n_threads, size_t shared,
	bool together, void **args, const struct shim_options *o);
const char *shim_report(void);
/* adds to the report */
void shim_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* forgets the old */
void shim_say_anew(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* From inside a kernel: ends the launch with what was said. */
__attribute__((noreturn)) void shim_stop(void);
void shim_visit(struct shim_site *at);
int shim_places(struct shim_place *out, int cap);
bool shim_leave_out(const char *name);
const char *shim_site_name(const struct shim_site *at, char out[64]);

/* driver.c */
bool shim_fail(const char *plan);
int shim_n_open(void);
int shim_calls(const char *name);
