/* The checker: what every load and store of a kernel is held against. Of each byte of device and of
 * shared memory it knows: is it allocated, was it written, by whom last, and who read it since.
 *
 * Two accesses by different threads, one of them a write, must be ordered, whatever the schedule of
 * this run was. Order comes from: a barrier of the block; CU_SYNC_WARP (not from a shuffle or a
 * matrix product, which on a GPU order no memory); cu_arrive, then cu_acquire or cu_arrive of the
 * same word; the end of a launch. Kept as times: each thread has its own, which goes on at each of
 * these, and each thread knows up to which time the others' accesses came before it: its warp's and
 * block's as of their last barrier, other blocks' by vectors of times that travel through the words
 * that are released and acquired (Lamport; vector clocks as in FastTrack, Flanagan and Freund 2009,
 * section 3; of a byte's readers that are not ordered four are kept). Atomics do not race with
 * atomics.
 *
 * What the launch in front wrote may be read, and what it read be written, once a thread called
 * cu_follow(): a kernel may begin before the one in front of it has ended, and then only the
 * launches before that one have.
 *
 * How it is called: GCC's -fsanitize=thread puts a call in front of each access, as for the Linux
 * kernel's KCSAN, and check.c is what is called. cp.async writes when it is waited for, and until
 * then nobody may look. */
#pragma once

#include "tests/cuda/shim/device.h"

#ifdef SHIM_CHECKED
bool check_open(void);
void check_alloc(void *p, size_t bytes); /* allocated, not written */
void check_free(void *p, size_t bytes);
void check_host_wrote(void *p, size_t bytes); /* p may be the host's own */
void check_launch(bool early);
void check_follow(void);
void check_block_starts(struct block *b);
void check_block_met(struct block *b);
void check_warp_met(struct warp *w);
void check_copy_asked(struct shim_site *at, void *to, const void *from);
void check_copy_came(struct shim_site *at, void *to);
void check_atomic(struct shim_site *at, void *p, size_t bytes, bool orders);
void check_atomic_read(struct shim_site *at, const void *p, size_t bytes);
void check_anything(void *p, size_t bytes);
#else
#define check_anything(p, bytes) ((void)(p), (void)(bytes))
#define check_open() true
#define check_alloc(p, bytes) ((void)(p), (void)(bytes))
#define check_free(p, bytes) ((void)(p), (void)(bytes))
#define check_host_wrote(p, bytes) ((void)(p), (void)(bytes))
#define check_launch(early) ((void)(early))
#define check_follow() ((void)0)
#define check_block_starts(b) ((void)(b))
#define check_block_met(b) ((void)(b))
#define check_warp_met(w) ((void)(w))
#define check_copy_asked(at, to, from) ((void)(at), (void)(to), (void)(from))
#define check_copy_came(at, to) ((void)(at), (void)(to))
#define check_atomic(at, p, bytes, orders) ((void)(at), (void)(p), (void)(bytes), (void)(orders))
#define check_atomic_read(at, p, bytes) ((void)(at), (void)(p), (void)(bytes))
#endif
