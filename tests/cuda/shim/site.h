/* What kernels call, and from where: a place in a kernel's source where threads wait for one
 * another, or could, told apart by file and line. cuda_shim.h gives these the names of device.cuh.
 * C and C++. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum shim_kind {
	SHIM_SYNC,
	SHIM_SYNC_WARP,
	SHIM_SHUFFLE,
	SHIM_MMA,
	SHIM_COPY,
	SHIM_COPY_WAIT,
	SHIM_ARRIVE,
	SHIM_ACQUIRE,
	SHIM_ATOMIC,
	SHIM_RELAX,
	SHIM_STREAM_READ,
	SHIM_N_KINDS
};

struct shim_site {
	const char *file;
	int line;
	enum shim_kind kind;
	int left_out;           /* a test asked for the order that it gives to be left out */
	uint64_t visits;        /* 0: not in the list yet */
	struct shim_site *next; /* of all that were visited */
};

/* What a lane brings to a matrix product and takes away: device.cuh has the layout. */
struct shim_fragments {
	int32_t c[4];
	uint32_t a[4], b[2];
};

#define SHIM_HERE(kind)                                                                            \
	(__extension__({                                                                               \
		static struct shim_site here_ = { __FILE__, __LINE__, (kind), 0, 0, 0 };                   \
		&here_;                                                                                    \
	}))

#ifdef __cplusplus
extern "C" {
#endif
/* Here a fiber's place in the launch never changes while it runs. */
__attribute__((const)) int shim_thread(void);
__attribute__((const)) int shim_block(void);
__attribute__((const)) int shim_n_blocks(void);
__attribute__((const)) int shim_n_threads(void);
__attribute__((const)) unsigned char *shim_shared(void);
void shim_sync(struct shim_site *at);
void shim_sync_warp(struct shim_site *at);
uint32_t shim_shuffle(struct shim_site *at, uint32_t v, int lane);
void shim_mma(struct shim_site *at, struct shim_fragments *f, int k);
void shim_copy16(struct shim_site *at, void *shared, const void *global);
void shim_copy_commit(void);
void shim_copy_wait(struct shim_site *at, int left);
uint32_t shim_arrive(struct shim_site *at, uint32_t *p, uint32_t by);
uint32_t shim_acquire(struct shim_site *at, const uint32_t *p);
int32_t shim_swap_if(struct shim_site *at, int32_t *p, int32_t was, int32_t is);
void shim_count(struct shim_site *at, int32_t *p);
void shim_max_int(struct shim_site *at, int32_t *p, int32_t v);
void shim_anything(void *p, size_t bytes);
void shim_relax(struct shim_site *at);
void shim_aligned(struct shim_site *at, const void *p, size_t width);
uint64_t shim_now(void);
void shim_follow(void);
#ifdef __cplusplus
}
#endif
